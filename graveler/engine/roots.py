"""Metaranges whose content must stay: what a collection that runs elsewhere reads ranges of.

The rule is that of marking.py: content is *kept* for commits that retention keeps; it is *needed*
also for any other commit until its mark of condemnation has stood for the whole undo period, and
for the base of a bulk job that may still land.  For root_pages.py and condemning.py.
"""

from collections.abc import Mapping
from typing import NamedTuple

from graveler import limits
from graveler.block import address
from graveler.engine import bulk, marking
from graveler.engine.content_use import NO_FILE
from graveler.engine.ports import Ports
from graveler.engine.retention import get_rule, kept, list_refs
from graveler.errors import NotFound
from graveler.ids import CommitId, MetarangeId
from graveler.records import Commit, Repository
from graveler.refs import commits, condemned
from graveler.refs.condemned import Mark


class Judged(NamedTuple):
    """All commits, those whose content is kept, and every mark of condemnation."""

    history: Mapping[CommitId, Commit]
    alive: set[CommitId]
    marks: Mapping[str, Mark]


def judged(ports: Ports, repo: Repository) -> Judged:
    """What is kept now, whether or not it is still there.

    Begins with the refs, then the commits, then the refs once more: nothing moves past it.  Raises
    `NotFound` if a head has no record.  Cost: 2 KV requests for each 1,000 refs, 1 for each 1,000
    commits, marks and jobs, 2 for each bulk job that runs.
    """
    first = list_refs(ports, repo)
    history = {entry.id: entry.commit for entry in commits.list_all(ports.kv, repo)}
    heads = first.heads.joined(list_refs(ports, repo).heads)
    marking.complete(ports, repo, history, heads.commits)
    alive = kept(get_rule(ports, repo), history, heads, ports.clock.now_ns())
    alive |= history.keys() & {job.base.id for job in bulk.list_alive(ports, repo)}
    return Judged(history, alive, dict(condemned.list_all(ports.kv, repo)))


def needed(ports: Ports, repo: Repository) -> dict[MetarangeId, bool]:
    """Every metarange whose content must stay, and whether it is kept, rather than only needed.

    Cost: that of `judged`; a block request for each condemned commit that is kept again.
    """
    history, alive, marks = judged(ports, repo)
    due_ns = ports.clock.now_ns() - limits.collect_undo_seconds * limits.SECOND_NS
    due = {CommitId(id) for id, mark in marks.items() if id in history and mark.since_ns <= due_ns}
    gone = {id for id in due & alive if not is_stored(ports, repo, history[id].metarange)}
    found: dict[MetarangeId, bool] = {}
    for id in history.keys() - gone - (due - alive):
        metarange = history[id].metarange
        if metarange not in NO_FILE:
            found[metarange] = id in alive or found.get(metarange, False)
    return found


def is_stored(ports: Ports, repo: Repository, metarange: MetarangeId) -> bool:
    """Whether it is there: of what is deleted that goes first.  One block request."""
    try:
        ports.blocks.head(address.range_file(repo.namespace, metarange))
    except NotFound:
        return False
    return True
