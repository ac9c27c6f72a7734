"""Roots: the metaranges whose content must stay, for a collection on a cluster, which reads them.

The rule is that of mark.py.  Content is *kept* for commits that retention keeps.  It is *needed*
also for every other commit until its mark of condemnation has stood for the whole undo period, and
for the base of a bulk job that may still land.  Metaranges and ranges stay for all ancestors of
refs and of kept commits.  Used by root_pages.py and cluster.py.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from graveler import limits
from graveler.block import address
from graveler.engine.bulk import job as bulk
from graveler.engine.gc import mark as marking
from graveler.engine.gc.content import NO_FILE
from graveler.engine.gc.retention import (
    check_restored,
    get_rule,
    kept,
    list_refs,
    with_ancestors,
)
from graveler.engine.ports import OpenRepository
from graveler.errors import NotFound
from graveler.ids import CommitId, MetarangeId
from graveler.records import Commit
from graveler.refs.gc import marks as condemned
from graveler.refs.gc import unreachable
from graveler.refs.gc.marks import DeletedContent, Mark
from graveler.refs.graph import commits


class Judgement(NamedTuple):
    """The judgement about all commits.

    `history`: all commits.  `alive`: commits whose content is kept.  `stay`: commits whose
    metarange and ranges are kept.  `marks`: every mark of condemnation.  `lost`: commits that no
    ref reaches and that are not recorded as such yet.  `found`: recorded ones that a ref reaches
    again.
    """

    history: Mapping[CommitId, Commit]
    alive: set[CommitId]
    stay: set[CommitId]
    marks: Mapping[str, Mark]
    lost: set[CommitId]
    found: set[CommitId]

    def due(self, due_ns: int) -> set[CommitId]:
        """Commits that are not kept, and whose marks were set not later than `due_ns`."""
        marked = {CommitId(id) for id, mark in self.marks.items() if mark.since_ns <= due_ns}
        return (marked & self.history.keys()) - self.alive

    def over(self) -> set[CommitId]:
        """Commits that are not kept, and whose marks record that their content is given up."""
        spent = {CommitId(id) for id, mark in self.marks.items() if mark.spent}
        return (spent & self.history.keys()) - self.alive

    def held(self, spent: set[CommitId]) -> set[CommitId]:
        """Commits whose metarange and ranges must stay even if that of `spent` is deleted."""
        return with_ancestors(self.history, (self.history.keys() - spent) | self.stay)


class Objects(IntEnum):
    """Whether the objects that a metarange names may be deleted.

    If several commits share a metarange, the greatest value applies.
    """

    GONE = 0  # given up: they may
    DUE = 1  # they may once a run that deletes has recorded it
    EXPIRING = 2  # they may once their commits were condemned for the undo period
    KEPT = 3


class Need(NamedTuple):
    """What of a metarange's content must stay.

    `files`: the metarange and its ranges stay, whatever happens to its objects.
    """

    objects: Objects
    files: bool

    def beside(self, other: "Need") -> "Need":
        """The need of two commits that share a metarange."""
        return Need(max(self.objects, other.objects), self.files or other.files)


def judged(repo: OpenRepository) -> Judgement:
    """The judgement about all commits now, whether or not their content is still stored.

    It reads the refs, then the commits, then the refs again, so that no moving ref is missed.
    Raises `NotFound` if a head has no record.  Cost: 2 KV requests for each 1,000 refs; 1 for each
    1,000 commits, marks, jobs and unreachable commits; 2 for each bulk job that runs.
    """
    first = list_refs(repo)
    check_restored(repo, first)
    history = {entry.id: entry.commit for entry in commits.list_all(repo.kv, repo.record)}
    heads = first.heads.joined(list_refs(repo).heads)
    marking.complete(repo, history, heads.commits)
    marks = dict(condemned.list_all(repo.kv, repo.record))
    since = dict(unreachable.list_all(repo.kv, repo.record))
    alive, led_to = kept(get_rule(repo), history, heads, since, repo.clock.now_ns())
    alive |= history.keys() & {job.base.id for job in bulk.list_alive(repo)}
    alive -= marking.spent(history, marks, alive)
    stay = with_ancestors(history, heads.commits | alive)
    lost = history.keys() - led_to - since.keys()
    return Judgement(history, alive, stay, marks, lost, since.keys() & led_to)


def needed(repo: OpenRepository) -> dict[MetarangeId, Need]:
    """Every metarange of which something must stay.

    Cost: that of `judged`; a block request for each condemned commit that is kept again or may have
    lost its metarange.
    """
    judgement = judged(repo)
    due_ns = repo.clock.now_ns() - limits.collect_undo_seconds * limits.SECOND_NS
    due, spent = judgement.due(due_ns), judgement.over()
    held = judgement.held(spent)
    gone = _gone(repo, judgement, held, due_ns)
    needs: dict[MetarangeId, Need] = {}
    for id in held - gone:
        metarange = judgement.history[id].metarange
        if metarange in NO_FILE:
            continue
        objects = Objects.KEPT if id in judgement.alive else Objects.EXPIRING
        if id in due:
            objects = Objects.DUE
        if id in spent:
            objects = Objects.GONE
        need = Need(objects, id in judgement.stay)
        needs[metarange] = need.beside(needs.get(metarange, need))
    return needs


def _gone(
    repo: OpenRepository, judgement: Judgement, held: Iterable[CommitId], due_ns: int
) -> set[CommitId]:
    """Commits whose metarange is not stored, and whose marks record that or have stood for the
    undo period."""

    def may_be_gone(mark: Mark) -> bool:
        is_due = mark.since_ns <= due_ns and mark.spent is not DeletedContent.OBJECTS
        return is_due or mark.spent is DeletedContent.ALL

    ids = [
        id
        for id in sorted(held)
        if id in judgement.marks
        and may_be_gone(judgement.marks[id])
        and judgement.history[id].metarange not in NO_FILE
    ]
    stored = repo.fanout.map(lambda id: is_stored(repo, judgement.history[id].metarange), ids)
    return {id for id, is_there in zip(ids, stored, strict=True) if not is_there}


def is_stored(repo: OpenRepository, metarange: MetarangeId) -> bool:
    """Whether a metarange is stored.  Of the files of a commit it is deleted first.  One block
    request.
    """
    try:
        repo.blocks.head(address.range_file(repo.namespace, metarange))
    except NotFound:
        return False
    return True
