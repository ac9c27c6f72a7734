"""Condemning for a collection that runs elsewhere: a cluster lists and deletes files by itself, but
what may be used any more is said here.

    cluster   list ─► roots ─► its own list of garbage ──► condemn ─► that list counts
    ...       undo period: new uses of condemned commits are refused; the run can be taken back
    cluster   (list) ─► roots ─► sweep: from now on not ─► delete what stands in both lists

The run is noted before the marks, so that whatever is marked can be taken back; the marks are there
before the cluster's list counts, so that nobody begins to use what stands in a list.  A crash in
between leaves marks: they refuse uses, and delete nothing.  The collection that runs here takes
such a run for one with an empty list.

For delivery.  Basis: docs/protocol.md.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.engine import cluster_turns, collect, collectable, marking, roots
from graveler.engine.content_use import NO_FILE
from graveler.engine.ports import Ports
from graveler.engine.roots import Judged
from graveler.errors import Conflict, Invalid, NotFound
from graveler.ids import MetarangeId
from graveler.records import ABSENT, Repository
from graveler.refs import condemned, runs
from graveler.refs.condemned import Mark
from graveler.refs.runs import Run, RunState

_RUN: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)


class Order(NamedTuple):
    """A run, how many files of how many bytes its list has, and some metaranges that roots told as
    not kept.  `turn`: that of the cluster (cluster_turns.py)."""

    run: str
    files: int
    size: int
    metaranges: Sequence[MetarangeId]
    turn: str


class Condemned(NamedTuple):
    """The metaranges whose content may go once the undo period is over; how many runs had been
    taken back before."""

    metaranges: list[MetarangeId]
    undone: int


def condemn(ports: Ports, repo: Repository, order: Order) -> Condemned:
    """Mark commits with these metaranges, those that retention does not keep; unmark what is kept
    again.  May be repeated, and a run may condemn in several calls.

    Not condemned is what a kept commit shares, what is younger than `collect_min_age_seconds`, what
    no commit has.  Errors: `Invalid`; `Unsupported` where the storage keeps no versions: nothing is
    condemned then; `Conflict` if the run was taken back, its files are being deleted, or the turn
    is not the caller's.  Cost: that of `roots.judged`, 1 KV request for each 1,000 runs, 3 for the
    run, 1 for the turn, 1 for the repository and 1 for each 1,000 marks; a block request, 1 for
    each metarange, and 1 for each commit that is kept again.
    """
    if _RUN.fullmatch(order.run) is None:
        raise Invalid(f"a run must be named by 1 to 64 letters and digits: run={order.run!r:.80}")
    if len(order.metaranges) > limits.collect_condemn_count_max:
        raise Invalid(
            f"too many metaranges for one call: {len(order.metaranges)} > "
            f"{limits.collect_condemn_count_max}"
        )
    cluster_turns.check(ports, repo, order.turn)
    collectable.check_exact(ports, repo)
    states = {seen.run.id: seen.run.state for seen in runs.list_all(ports.kv, repo)}
    now_ns = ports.clock.now_ns()
    if order.run not in states:
        new = Run(order.run, RunState.CONDEMNED, now_ns, order.files, order.size)
        collect.note(ports, repo, new)
    found = roots.judged(ports, repo)
    collect.note_unreached(ports, repo, found.lost, found.found)
    condemned.forget(ports.kv, repo, _revived(ports, repo, found))
    dying = _dying(ports, repo, found, order.metaranges)
    commits = {id for id, commit in found.history.items() if commit.metarange in dying}
    standing = {
        id
        for id, mark in found.marks.items()
        if states.get(mark.run, RunState.UNDONE) is not RunState.UNDONE
    }
    fresh = sorted({*dying, *commits} - standing)
    if fresh:
        collectable.announce(ports, repo)
        condemned.put(ports.kv, repo, fresh, Mark(order.run, now_ns), ports.ids)
    # Whoever took the run back before this look may have missed marks; after it, finds them.
    if runs.get(ports.kv, repo, order.run).run.state is not RunState.CONDEMNED:
        condemned.forget(ports.kv, repo, fresh)
        raise Conflict(f"run was taken back, or its time is over; begin another: run={order.run}")
    undone = sum(state is RunState.UNDONE for state in states.values())
    return Condemned(sorted(dying), undone)


def _dying(
    ports: Ports, repo: Repository, found: Judged, asked: Sequence[MetarangeId]
) -> set[MetarangeId]:
    """Those of `asked` that some commits have, none of them kept, and that were not written lately:
    a commit may be on its way to a branch, whatever its date."""
    known = {commit.metarange for commit in found.history.values()}
    kept = {found.history[id].metarange for id in found.alive}
    maybe = sorted((known & set(asked)) - kept - set(NO_FILE))
    before_ns = ports.clock.now_ns() - limits.collect_min_age_seconds * limits.SECOND_NS

    def is_old(metarange: MetarangeId) -> bool:
        try:
            head = ports.blocks.head(address.range_file(repo.namespace, metarange))
        except NotFound:
            return False
        return head.modified_ns < before_ns

    old = ports.fanout.map(is_old, maybe)
    return {metarange for metarange, is_ in zip(maybe, old, strict=True) if is_}


def _revived(ports: Ports, repo: Repository, found: Judged) -> list[str]:
    """Marked commits and metaranges that are kept again, and whose content is still there: of what
    an older version deleted the metarange is not."""
    named: dict[str, MetarangeId] = {}
    for id in found.alive:
        metarange = found.history[id].metarange
        named |= {each: metarange for each in (id, metarange) if each in found.marks}
    return [
        id
        for id, metarange in sorted(named.items())
        if metarange in NO_FILE or roots.is_stored(ports, repo, metarange)
    ]


def sweep(ports: Ports, repo: Repository, run: str, undone: int, turn: str) -> None:
    """From now on the run cannot be taken back: its files are about to be deleted.  Whatever was
    condemned for the undo period, and is not kept, says from now on that its content is gone.
    To be called before the roots are read that decide what is deleted.

    `turn`: that of the cluster.  `undone`: what the run was answered when it condemned.  Its list
    may name files that another run has condemned before, so it counts no more once any run was
    taken back since; the next run condemns anew what is left.  May be repeated.  Errors:
    `NotFound`, and `Conflict` in such a case and without the turn: nothing of its list may be
    deleted.  Cost: 1 KV request for each 1,000 runs, 3 more; that of `roots.judged`, and 1 for each
    1,000 marks that change.
    """
    cluster_turns.check(ports, repo, turn)
    states = [seen.run.state for seen in runs.list_all(ports.kv, repo)]
    seen = runs.get(ports.kv, repo, run)
    if states.count(RunState.UNDONE) == undone:
        # What is swept was so by the collection that runs here, of an empty list.
        swept = seen.run.state is RunState.SWEPT
        if swept or collect.turn(ports, repo, seen, RunState.SWEEPING) is not ABSENT:
            _spend(ports, repo)
            return
    raise Conflict(f"not to be swept: a run was taken back since it condemned: {run=}")


def _spend(ports: Ports, repo: Repository) -> None:
    """Only marks of runs that cannot be taken back any more say it."""
    found = roots.judged(ports, repo)
    due_ns = ports.clock.now_ns() - limits.collect_undo_seconds * limits.SECOND_NS
    losing = found.due(due_ns) | found.over()
    named = {found.marks[id].run for id in losing}
    final = {
        seen.run.id
        for seen in runs.list_all(ports.kv, repo)
        if seen.run.id in named
        and (
            seen.run.state is RunState.SWEPT
            or collect.turn(ports, repo, seen, RunState.SWEEPING) is not ABSENT
        )
    }
    losing = {id for id in losing if found.marks[id].run in final}
    told = marking.spending(found.history, found.marks, losing, found.held(losing))
    condemned.put_all(ports.kv, repo, told, ports.ids)
