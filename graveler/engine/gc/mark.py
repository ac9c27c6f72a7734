"""Marking: what is in use, or may be in use before an operation ends.

The order matters: staged rows are read before commits, because an entry moves from a token into a
commit, never back; and refs are read again after the commits, because a commit has its record
before a ref moves to it.  Content is *kept* for commits that retention keeps, and *needed* for
every other one until its mark of condemnation has stood for the whole undo period.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from graveler.block import address
from graveler.block.address import FILES
from graveler.core import limits
from graveler.core.errors import Corrupt, NotFound
from graveler.core.ids import CommitId, MetarangeId, StagingToken
from graveler.core.records import TOMBSTONE, Commit, Repository
from graveler.core.wire import decode_entry
from graveler.engine import dump
from graveler.engine.bulk import job as bulk
from graveler.engine.gc.content import NO_FILE, ContentUses
from graveler.engine.gc.listing import Candidates, used_name
from graveler.engine.gc.retention import (
    check_restored,
    get_rule,
    kept,
    list_refs,
    with_ancestors,
)
from graveler.engine.ports import OpenRepository
from graveler.refs import cleanups, commits, garbage, uploads
from graveler.refs import garbage as condemned
from graveler.refs.garbage import DeletedContent, Mark
from graveler.staging import area

_USES_COUNT_MIN = 100  # from this many uses on, a list that lacks most of them is rejected


@dataclass(slots=True)
class MarkResult:
    """The result of marking.

    `condemn`, `revive`: ids of commits and metaranges to condemn, and to condemn no longer.
    `spend`: new marks of the commits that lose content once anything that is due is deleted; the
    marks must record the loss by then.  `lost`: commits that no ref reaches and that are not
    recorded as such yet.  `found`: recorded ones that a ref reaches again.  `commits`, `kept`:
    counts of commits.
    """

    condemn: set[str] = field(default_factory=set)
    revive: set[str] = field(default_factory=set)
    spend: dict[str, Mark] = field(default_factory=dict)
    lost: set[CommitId] = field(default_factory=set)
    found: set[CommitId] = field(default_factory=set)
    commits: int = 0
    kept: int = 0


class StandingMarks(NamedTuple):
    """Marks have stood long enough if one of the `runs` set them, not later than `since_ns`."""

    since_ns: int
    runs: frozenset[str]

    def has(self, mark: Mark) -> bool:
        """Whether this mark has stood long enough."""
        return mark.since_ns <= self.since_ns and mark.run in self.runs


def mark(repo: OpenRepository, content: ContentUses, ripe: StandingMarks) -> MarkResult:
    """Remove from the candidates of `content`, which is new, everything that is in use.

    `ripe`: which marks have stood long enough.

    Raises `Gone` or `Corrupt` if anything needed cannot be read, or if most of it was not listed:
    nothing may be deleted then.  Cost: rows, commits, metaranges and ranges are read once each,
    except ranges that an earlier attempt of the job has read.
    """
    candidates = content.candidates
    first = list_refs(repo)
    check_restored(repo, first)
    _strike_staged(repo, candidates, first.tokens)
    for name, _ in uploads.list_addresses(repo.kv, repo.record):
        candidates.strike(name, is_kept=True)
    in_dumps = dump.files_in_use(repo)
    for id in in_dumps:
        candidates.strike(FILES + id, is_kept=True)
    history = {entry.id: entry.commit for entry in commits.list_all(repo.kv, repo.record)}
    heads = first.heads.joined(list_refs(repo).heads)
    _complete(repo, history, heads.commits)
    marks = dict(condemned.list_marks(repo.kv, repo.record))
    gone = _gone_by_list(history, marks, candidates)
    since = dict(garbage.list_unreachable(repo.kv, repo.record))
    alive, led_to = kept(get_rule(repo), history, heads, since, repo.clock.now_ns())
    alive -= gone
    alive |= {id for id in history.keys() - gone if _is_young(history[id], candidates)}
    alive -= _spent(history, marks, alive)
    due = {id for id, set_ in marks.items() if ripe.has(set_)}
    spent_ids = {id for id, set_ in marks.items() if set_.spent} - alive
    # Sorted, because it leads to requests: a simulation must not depend on the hash of strings.
    needed = history.keys() - gone - spent_ids - (due - alive)
    stay = with_ancestors(history, heads.commits | alive) - gone
    held = with_ancestors(history, needed | stay) - gone
    for id in sorted(needed):
        content.add(history[id].metarange, is_kept=id in alive, stays=id in stay)
    for id in sorted(held - needed):
        content.add_files(history[id].metarange, is_kept=id in stay)
    dead = history.keys() - alive - gone - spent_ids
    verdict = MarkResult(set(dead), commits=len(history), kept=len(alive))
    losing = {id for id in map(CommitId, due | spent_ids) if id in history} - alive - gone
    verdict.spend = spending(history, marks, losing, held)
    verdict.lost = history.keys() - led_to - gone - since.keys()
    verdict.found = since.keys() & led_to
    named = {commit.metarange for commit in history.values()}
    verdict.condemn |= content.add_orphans(named, in_dumps | due)
    verdict.condemn |= {history[id].metarange for id in dead} - content.kept - set(NO_FILE)
    content.strike()
    verdict.revive = marks.keys() & (alive | content.kept | in_dumps)
    _check_listed(repo.record, candidates)
    return verdict


def _spent(
    history: Mapping[CommitId, Commit], marks: Mapping[str, Mark], alive: set[CommitId]
) -> set[CommitId]:
    """Commits of `alive` whose content is gone, at least in part: their marks record the loss, and
    no commit with complete content shares their metarange.  Pure."""
    spent_ids = {id for id in alive if id in marks and marks[id].spent}
    whole = {history[id].metarange for id in alive - spent_ids}
    return {id for id in spent_ids if history[id].metarange not in whole.union(NO_FILE)}


def spending(
    history: Mapping[CommitId, Commit],
    marks: Mapping[str, Mark],
    losing: Iterable[CommitId],
    held: set[CommitId],
) -> dict[str, Mark]:
    """New marks of the commits `losing`, which record that they lose their content.

    Left out are commits whose marks record it already, and commits without content.  Commits of
    `held` keep metarange and ranges.  Pure.
    """
    new_marks: dict[str, Mark] = {}
    for id in losing:
        new = marks[id]._replace(spent=DeletedContent.OBJECTS if id in held else DeletedContent.ALL)
        if new != marks[id] and history[id].metarange not in NO_FILE:
            new_marks[id] = new
    return new_marks


def _strike_staged(
    repo: OpenRepository, candidates: Candidates, tokens: Iterable[StagingToken]
) -> None:
    dropped = {pending.token for pending in cleanups.list_cleanups(repo.kv, repo.record)}
    for token in sorted(dropped.union(tokens)):
        for _, row in area.scan(repo.kv, token):
            if row.value is not TOMBSTONE:
                candidates.strike(used_name(repo.record, decode_entry(row.value)), is_kept=True)


# ---- commits -------------------------------------------------------------------------------------


def _complete(
    repo: OpenRepository, history: dict[CommitId, Commit], heads: Iterable[CommitId]
) -> None:
    """Add the commits that were made after the list was read, as far as refs reach them.  1 KV
    request for each."""
    todo = sorted(id for id in heads if id not in history)
    while todo:
        id = todo.pop()
        if id not in history:
            history[id] = commits.get(repo.kv, repo.record, id)
            todo.extend(history[id].parents)


def _gone_by_list(
    history: Mapping[CommitId, Commit], marks: Mapping[str, Mark], candidates: Candidates
) -> set[CommitId]:
    """Condemned commits whose metarange was deleted.  A metarange is deleted before the other
    files."""

    def is_gone(metarange: MetarangeId) -> bool:
        return metarange not in NO_FILE and FILES + metarange not in candidates.names

    return {id for id in map(CommitId, marks) if id in history and is_gone(history[id].metarange)}


def _is_young(commit: Commit, candidates: Candidates) -> bool:
    """Whether its metarange was written recently.  Such a commit may not have landed yet, whatever
    its date."""
    return commit.metarange not in NO_FILE and not candidates.is_old(FILES + commit.metarange)


def _check_listed(repo: Repository, candidates: Candidates) -> None:
    """Raises `Corrupt` if most uses were not listed: if the listing spelled addresses differently,
    everything would be condemned.
    """
    if candidates.uses >= _USES_COUNT_MIN and 2 * candidates.misses > candidates.uses:
        raise Corrupt(
            "most files in use were not found in storage; nothing is collected: "
            f"repository={repo.id} uses={candidates.uses} misses={candidates.misses}"
        )


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
    _complete(repo, history, heads.commits)
    marks = dict(condemned.list_marks(repo.kv, repo.record))
    since = dict(garbage.list_unreachable(repo.kv, repo.record))
    alive, led_to = kept(get_rule(repo), history, heads, since, repo.clock.now_ns())
    alive |= history.keys() & {job.base.id for job in bulk.list_alive(repo)}
    alive -= _spent(history, marks, alive)
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
