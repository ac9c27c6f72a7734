"""Condemning for a collection that runs elsewhere: a cluster lists and deletes files by itself, but
what may be used any more is said here.

    cluster   list ─► roots ─► its own list of garbage ──► condemn ─► that list counts
    ...       undo period: new uses of condemned commits are refused; the run can be taken back
    cluster   (list) ─► roots ─► sweep: from now on not ─► delete what stands in both lists

The run is noted before the marks, so that whatever is marked can be taken back; the marks are there
before the cluster's list counts, so that nobody begins to use what stands in a list.  A crash in
between leaves marks: they refuse uses, and delete nothing.  The collection that runs here takes
such a run for one with an empty list.

A cluster has everything condemned that retention lets go, page by page.  The first page judges,
after the run was noted; what is more than a page it stores as a snapshot (judgements.py), which the
later pages read.  That is safe although a commit may be kept again meanwhile, by a longer rule or a
new branch:

- A mark on such a commit refuses its use until the next run takes the mark away.  It deletes
  nothing: `sweep` judges afresh, and so do the roots that are read after it.  A page looks at the
  refs again, and leaves out the content of their commits.
- A commit that is let go after the judgement has no mark.  Its content stays until a later run has
  condemned it.
- The age of each metarange is looked at by the page that condemns it.

For delivery.  Basis: docs/protocol.md.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.engine.gc import cluster_turns, collect, eligible, judgements, roots
from graveler.engine.gc import mark as marking
from graveler.engine.gc.content import NO_FILE
from graveler.engine.gc.retention import list_refs
from graveler.engine.gc.roots import Judged
from graveler.engine.ports import Ports
from graveler.errors import Conflict, Invalid, NotFound
from graveler.ids import MetarangeId
from graveler.records import ABSENT, Repository
from graveler.refs.gc import marks, runs
from graveler.refs.gc.marks import Mark
from graveler.refs.gc.runs import Run, RunState

_RUN: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_RECORD_LENGTH: Final = len(f"{'0' * 64} {'0' * 64}\n")


class Order(NamedTuple):
    """A run, and how many files of how many bytes its list has.  `turn`: that of the cluster
    (cluster_turns.py)."""

    run: str
    files: int
    size: int
    turn: str


class Condemned(NamedTuple):
    """The metaranges whose content may go once the undo period is over; how many runs had been
    taken back before.  `following`: where the next page begins, empty behind the last."""

    metaranges: list[MetarangeId]
    undone: int
    following: str = ""


class _Doomed(NamedTuple):
    """What is to be marked because its content is let go: a commit, or its metarange itself."""

    metarange: MetarangeId
    name: str


def condemn(
    ports: Ports, repo: Repository, order: Order, metaranges: Sequence[MetarangeId]
) -> Condemned:
    """Mark commits with these metaranges, those that retention does not keep; unmark what is kept
    again.  May be repeated, and a run may condemn in several calls, each of which judges.

    Not condemned is what a kept commit shares, what is younger than `collect_min_age_seconds`, what
    no commit has.  Errors: `Invalid`; `Unsupported` where the storage keeps no versions: nothing is
    condemned then; `Conflict` if the run was taken back, its files are being deleted, or the turn
    is not the caller's.  Cost: that of `roots.judged`, 1 KV request for each 1,000 runs, 3 for the
    run, 1 for the turn, 1 for the repository and 1 for each 1,000 marks; a block request, 1 for
    each metarange, and 1 for each commit that is kept again.
    """
    if len(metaranges) > limits.collect_condemn_count_max:
        raise Invalid(
            f"too many metaranges for one call: {len(metaranges)} > "
            f"{limits.collect_condemn_count_max}"
        )
    states = _noted(ports, repo, order)
    found = _judged(ports, repo)
    asked = set(metaranges)
    doomed = [each for each in _let_go(found) if each.metarange in asked]
    old, standing = _old(ports, repo, doomed), _standing(found, states)
    undone = _mark(ports, repo, order, states, [each for each in old if each.name not in standing])
    return Condemned(_metaranges(old), undone)


def condemn_page(
    ports: Ports, repo: Repository, order: Order, after: str, amount: int
) -> Condemned:
    """Put at most `amount` marks on commits and metaranges that retention lets go and that have
    none; the first page also unmarks what is kept again.  `after`: where the page before said.  A
    page may be repeated.

    Not condemned is what `condemn` leaves out too.  Errors: those of `condemn`; `Gone` if what the
    first page judged is not stored any more: begin anew.  Cost: of the first page that of
    `condemn`, and a put if there are more pages; of a later one a read, 2 KV requests for each
    1,000 refs instead of the judgement.
    """
    spot = judgements.parse_spot(after) if after else ABSENT
    limit = max(1, min(amount, limits.collect_mark_count_max))
    states = _noted(ports, repo, order)
    if spot is ABSENT:
        found = _judged(ports, repo)
        standing = _standing(found, states)
        let_go = _let_go(found)
        records = [_record(each) for each in let_go if each.name not in standing]
        stretch = judgements.first(ports, repo, records, limit)
        doomed = [_decoded(each) for each in stretch.records]
    elif order.run not in states:
        raise Conflict(f"run has judged nothing; begin anew, without after: run={order.run}")
    else:
        stretch = judgements.later(ports, repo, spot, limit, _RECORD_LENGTH)
        doomed = _still(ports, repo, [_decoded(each) for each in stretch.records])
    old = _old(ports, repo, doomed)
    undone = _mark(ports, repo, order, states, old)
    return Condemned(_metaranges(old), undone, stretch.following)


def _noted(ports: Ports, repo: Repository, order: Order) -> Mapping[str, RunState]:
    """All runs, as they were before this one was noted."""
    if _RUN.fullmatch(order.run) is None:
        raise Invalid(f"a run must be named by 1 to 64 letters and digits: run={order.run!r:.80}")
    cluster_turns.check(ports, repo, order.turn)
    eligible.check_exact(ports, repo)
    states = {seen.run.id: seen.run.state for seen in runs.list_all(ports.kv, repo)}
    if order.run not in states:
        now_ns = ports.clock.now_ns()
        new = Run(order.run, RunState.CONDEMNED, now_ns, order.files, order.size)
        collect.note(ports, repo, new)
    return states


def _judged(ports: Ports, repo: Repository) -> Judged:
    """What is kept now.  Notes which commits no ref leads to; unmarks what is kept again."""
    found = roots.judged(ports, repo)
    collect.note_unreached(ports, repo, found.lost, found.found)
    marks.forget(ports.kv, repo, _revived(ports, repo, found))
    return found


def _let_go(found: Judged) -> list[_Doomed]:
    """Commits whose content no kept commit has, and their metaranges."""
    kept = {found.history[id].metarange for id in found.alive}.union(NO_FILE)
    named: set[_Doomed] = set()
    for id, commit in found.history.items():
        if commit.metarange not in kept:
            named |= {_Doomed(commit.metarange, each) for each in (id, commit.metarange)}
    return sorted(named)


def _standing(found: Judged, states: Mapping[str, RunState]) -> set[str]:
    """Commits and metaranges that are marked by a run which was not taken back."""
    undone = RunState.UNDONE
    return {id for id, mark in found.marks.items() if states.get(mark.run, undone) is not undone}


def _still(ports: Ports, repo: Repository, doomed: Sequence[_Doomed]) -> list[_Doomed]:
    """Without the content of what is a head by now."""
    heads = list_refs(ports, repo).heads.commits
    used = {each.metarange for each in doomed if each.name in heads}
    return [each for each in doomed if each.metarange not in used]


def _old(ports: Ports, repo: Repository, doomed: Sequence[_Doomed]) -> list[_Doomed]:
    """Those whose metarange was not written lately: a commit of it may be on its way to a branch,
    whatever the dates of others."""
    before_ns = ports.clock.now_ns() - limits.collect_min_age_seconds * limits.SECOND_NS

    def is_old(metarange: MetarangeId) -> bool:
        try:
            head = ports.blocks.head(address.range_file(repo.namespace, metarange))
        except NotFound:
            return False
        return head.modified_ns < before_ns

    asked = sorted({each.metarange for each in doomed})
    old = dict(zip(asked, ports.fanout.map(is_old, asked), strict=True))
    return [each for each in doomed if old[each.metarange]]


def _mark(
    ports: Ports,
    repo: Repository,
    order: Order,
    states: Mapping[str, RunState],
    doomed: Sequence[_Doomed],
) -> int:
    """Mark them, unless the run was taken back; how many runs were before."""
    fresh = sorted(each.name for each in doomed)
    if fresh:
        eligible.announce(ports, repo)
        mark = Mark(order.run, ports.clock.now_ns())
        marks.put(ports.kv, repo, fresh, mark, ports.ids)
    # Whoever took the run back before this look may have missed marks; after it, finds them.
    if runs.get(ports.kv, repo, order.run).run.state is not RunState.CONDEMNED:
        marks.forget(ports.kv, repo, fresh)
        raise Conflict(f"run was taken back, or its time is over; begin another: run={order.run}")
    return sum(state is RunState.UNDONE for state in states.values())


def _metaranges(doomed: Sequence[_Doomed]) -> list[MetarangeId]:
    return sorted({each.metarange for each in doomed})


def _record(doomed: _Doomed) -> bytes:
    return f"{doomed.metarange} {doomed.name}\n".encode()


def _decoded(record: bytes) -> _Doomed:
    metarange, name = record.decode().split()
    return _Doomed(MetarangeId(metarange), name)


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
    marks.put_all(ports.kv, repo, told, ports.ids)
