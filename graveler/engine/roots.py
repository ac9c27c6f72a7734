"""Metaranges whose content must stay: what a collection that runs elsewhere reads ranges of.

The rule is that of marking.py: content is *kept* for commits that retention keeps; it is *needed*
also for any other commit until its mark of condemnation has stood for the whole undo period, and
for the base of a bulk job that may still land.  For root_pages.py.
"""

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


def needed(ports: Ports, repo: Repository) -> dict[MetarangeId, bool]:
    """Every metarange whose content must stay, and whether it is kept, rather than only needed.

    Begins with the refs, then the commits, then the refs once more: nothing moves past it.  Raises
    `NotFound` if a head has no record.  Cost: 2 KV requests for each 1,000 refs, 1 for each 1,000
    commits, marks and jobs, 2 for each bulk job that runs; a block request for each condemned
    commit that is kept again.
    """
    first = list_refs(ports, repo)
    history = {entry.id: entry.commit for entry in commits.list_all(ports.kv, repo)}
    heads = first.heads.joined(list_refs(ports, repo).heads)
    marking.complete(ports, repo, history, heads.commits)
    now_ns = ports.clock.now_ns()
    alive = kept(get_rule(ports, repo), history, heads, now_ns)
    alive |= history.keys() & {job.base.id for job in bulk.list_alive(ports, repo)}
    due_ns = now_ns - limits.collect_undo_seconds * limits.SECOND_NS
    due = {
        CommitId(id)
        for id, mark in condemned.list_all(ports.kv, repo)
        if id in history and mark.since_ns <= due_ns
    }
    gone = {id for id in due & alive if not _is_stored(ports, repo, history[id])}
    found: dict[MetarangeId, bool] = {}
    for id in history.keys() - gone - (due - alive):
        metarange = history[id].metarange
        if metarange not in NO_FILE:
            found[metarange] = id in alive or found.get(metarange, False)
    return found


def _is_stored(ports: Ports, repo: Repository, commit: Commit) -> bool:
    """Whether its metarange is there: of what is deleted that goes first."""
    try:
        ports.blocks.head(address.range_file(repo.namespace, commit.metarange))
    except NotFound:
        return False
    return True
