"""Condemning and sweeping for a collection on a cluster, which lists and deletes the files.

The run is recorded before its marks, and the marks before the cluster's list counts.  The first
page of a condemnation judges all commits; later pages read its snapshot.  A turn is a lease, so
that no other collection runs beside it; safety does not depend on it.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypeVar

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import Conflict, Contended, Invalid, NotFound
from graveler.core.ids import JobId, MetarangeId
from graveler.core.records import ABSENT, Absent
from graveler.engine import dump, namespaces
from graveler.engine.gc import collect, notes, root_pages
from graveler.engine.gc import mark as marking
from graveler.engine.gc import mark as roots
from graveler.engine.gc.content import NO_FILE
from graveler.engine.gc.mark import Judgement
from graveler.engine.gc.retention import list_refs
from graveler.engine.ports import OpenRepository
from graveler.refs import garbage, job_records
from graveler.refs import job_records as turns
from graveler.refs.garbage import Mark, Run, RunState
from graveler.refs.job_records import Turn

_RUN: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_RECORD_LENGTH: Final = len(f"{'0' * 64} {'0' * 64}\n")
_TURN_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)  # no job of the service has such an id
_LEASE_NS: Final = limits.collect_turn_seconds * limits.SECOND_NS
_FORGOTTEN_NS: Final = limits.job_record_keep_seconds * limits.SECOND_NS
_T = TypeVar("_T", bound="Turn | Literal[Absent.ABSENT]")


class DeletionOrder(NamedTuple):
    """A run, and the number of files and bytes in its list.  `turn`: the cluster's turn."""

    run: str
    files: int
    size: int
    turn: str


class CondemnationPage(NamedTuple):
    """The result of a page of condemnation.

    `metaranges`: those whose content may be deleted after the undo period.  `undone`: how many runs
    had been undone before.  `following`: the continuation token of the next page, empty after the
    last.
    """

    metaranges: list[MetarangeId]
    undone: int
    following: str = ""


class _MarkTarget(NamedTuple):
    """A name to mark because its content is let go: the id of a commit, or its metarange."""

    metarange: MetarangeId
    name: str


def condemn(
    repo: OpenRepository, order: DeletionOrder, metaranges: Sequence[MetarangeId]
) -> CondemnationPage:
    """Mark these metaranges and the commits that have them, unless retention keeps them; unmark
    what is kept again.

    A metarange that no commit has is marked, too: from then on no client can commit it.
    Idempotent.  A run may condemn in several calls; each call judges.

    Not condemned is a metarange that a kept commit shares, that a dump of refs names, or that is
    younger than `collect_min_age_seconds`.

    Errors: `Invalid`; `Unsupported` if the storage keeps no versions: nothing is condemned then;
    `Conflict` if the run was undone, if its files are being deleted, or if the caller does not hold
    the turn.

    Cost: that of `roots.judged`; 1 KV request for each 1,000 runs, 3 for the run, 1 for the turn, 1
    for the repository and 1 for each 1,000 marks; a block request, 1 for each metarange, and 1 for
    each commit that is kept again; that of `dump.files_in_use` if one of them has no commit.
    """
    if len(metaranges) > limits.collect_condemn_count_max:
        raise Invalid(
            f"too many metaranges for one call: {len(metaranges)} > "
            f"{limits.collect_condemn_count_max}"
        )
    states = _noted(repo, order)
    judgement = _judged(repo)
    chosen = set(metaranges)
    doomed = [each for each in _let_go(judgement) if each.metarange in chosen]
    doomed += _orphans(repo, judgement, chosen)
    old, standing = _old(repo, doomed), _standing(judgement, states)
    undone = _mark(repo, order, states, [each for each in old if each.name not in standing])
    return CondemnationPage(_metaranges(old), undone)


def condemn_page(
    repo: OpenRepository, order: DeletionOrder, after: str, amount: int
) -> CondemnationPage:
    """Put at most `amount` marks on commits and metaranges that retention lets go and that have
    none.

    The first page also unmarks what is kept again, and metaranges that no commit has and that are
    gone.  `after`: the continuation token of the page before.  A page is idempotent.

    Left out is what `condemn` leaves out, too.  Errors: those of `condemn`; `Gone` if the snapshot
    of the judgement is not stored any more: begin again.  Cost: of the first page that of
    `condemn`, a block request for each mark of a metarange that no commit has, at most
    `collect_mark_count_max`, and a put if there are more pages; of a later page a read, and 2 KV
    requests for each 1,000 refs instead of the judgement.
    """
    place = root_pages.parse_place(after) if after else ABSENT
    limit = max(1, min(amount, limits.collect_mark_count_max))
    states = _noted(repo, order)
    if place is ABSENT:
        judgement = _judged(repo)
        garbage.forget_marks(repo.kv, repo.record, _outlived(repo, judgement, order.run))
        standing = _standing(judgement, states)
        let_go = _let_go(judgement)
        records = [_record(each) for each in let_go if each.name not in standing]
        page = root_pages.first_records(repo, _kind(order), records, limit)
        doomed = [_decoded(each) for each in page.records]
    elif order.run not in states:
        raise Conflict(f"run has judged nothing; begin again without after: run={order.run}")
    else:
        page = root_pages.later_records(repo, _kind(order), place, limit, _RECORD_LENGTH)
        doomed = _still(repo, [_decoded(each) for each in page.records])
    old = _old(repo, doomed)
    undone = _mark(repo, order, states, old)
    return CondemnationPage(_metaranges(old), undone, page.following)


def _noted(repo: OpenRepository, order: DeletionOrder) -> Mapping[str, RunState]:
    """Record the run; returns the states of all runs from before it was recorded."""
    if _RUN.fullmatch(order.run) is None:
        raise Invalid(f"run id must be 1 to 64 letters and digits: run={order.run!r:.80}")
    check_turn(repo, order.turn)
    namespaces.check_exact(repo)
    states = {seen.run.id: seen.run.state for seen in garbage.list_runs(repo.kv, repo.record)}
    if order.run not in states:
        now_ns = repo.clock.now_ns()
        new = Run(order.run, RunState.CONDEMNED, now_ns, order.files, order.size)
        collect.note(repo, new)
    return states


def _judged(repo: OpenRepository) -> Judgement:
    """The judgement now.  Records which commits no ref reaches, and unmarks what is kept again."""
    judgement = roots.judged(repo)
    collect.note_unreached(repo, judgement.lost, judgement.found)
    revived = _revived(repo, judgement)
    notes.note_kept(repo, revived)
    garbage.forget_marks(repo.kv, repo.record, revived)
    return judgement


def _let_go(judgement: Judgement) -> list[_MarkTarget]:
    """Commits whose content no kept commit shares, and their metaranges."""
    kept_ids = {judgement.history[id].metarange for id in judgement.alive}.union(NO_FILE)
    named: set[_MarkTarget] = set()
    for id, commit in judgement.history.items():
        if commit.metarange not in kept_ids:
            named |= {_MarkTarget(commit.metarange, each) for each in (id, commit.metarange)}
    return sorted(named)


def _orphans(
    repo: OpenRepository, judgement: Judgement, chosen: set[MetarangeId]
) -> list[_MarkTarget]:
    """Those of the metaranges `chosen` that neither a commit nor a dump of refs has."""
    unnamed = chosen - {commit.metarange for commit in judgement.history.values()} - set(NO_FILE)
    if unnamed:
        unnamed -= dump.files_in_use(repo)
    return [_MarkTarget(each, each) for each in sorted(unnamed)]


def _standing(judgement: Judgement, states: Mapping[str, RunState]) -> set[str]:
    """Commits and metaranges whose marks need not be made again."""
    return {id for id, mark in judgement.marks.items() if collect.stands(mark, states)}


def _still(repo: OpenRepository, doomed: Sequence[_MarkTarget]) -> list[_MarkTarget]:
    """Without the content of commits that are heads by now."""
    heads = list_refs(repo).heads.commits
    used = {each.metarange for each in doomed if each.name in heads}
    return [each for each in doomed if each.metarange not in used]


def _old(repo: OpenRepository, doomed: Sequence[_MarkTarget]) -> list[_MarkTarget]:
    """The names whose metarange was not written recently."""
    before_ns = repo.clock.now_ns() - limits.collect_min_age_seconds * limits.SECOND_NS

    def is_old(metarange: MetarangeId) -> bool:
        try:
            head = repo.blocks.head(address.range_file(repo.namespace, metarange))
        except NotFound:
            return False
        return head.modified_ns < before_ns

    ids = sorted({each.metarange for each in doomed})
    old = dict(zip(ids, repo.fanout.map(is_old, ids), strict=True))
    return [each for each in doomed if old[each.metarange]]


def _mark(
    repo: OpenRepository,
    order: DeletionOrder,
    states: Mapping[str, RunState],
    doomed: Sequence[_MarkTarget],
) -> int:
    """Mark them, unless the run was undone; returns how many runs had been undone."""
    fresh = sorted(each.name for each in doomed)
    if fresh:
        notes.announce(repo)
        mark = Mark(order.run, repo.clock.now_ns())
        garbage.put_mark(repo.kv, repo.record, fresh, mark, repo.ids)
    # An undo before this look may have missed marks; an undo after it finds them.
    if garbage.get_run(repo.kv, repo.record, order.run).run.state is not RunState.CONDEMNED:
        garbage.forget_marks(repo.kv, repo.record, fresh)
        raise Conflict(f"run was undone or has expired; begin another: run={order.run}")
    return sum(state is RunState.UNDONE for state in states.values())


def _metaranges(doomed: Sequence[_MarkTarget]) -> list[MetarangeId]:
    return sorted({each.metarange for each in doomed})


def _kind(order: DeletionOrder) -> str:
    """Of its snapshot: what one run judged is nothing to another one."""
    return f"condemned-{order.run}"


def _record(doomed: _MarkTarget) -> bytes:
    return f"{doomed.metarange} {doomed.name}\n".encode()


def _decoded(record: bytes) -> _MarkTarget:
    metarange, name = record.decode().split()
    return _MarkTarget(MetarangeId(metarange), name)


def _revived(repo: OpenRepository, judgement: Judgement) -> list[str]:
    """Marked commits and metaranges that are kept again and whose content is still stored.  The
    content that an earlier version deleted has no metarange any more."""
    named: dict[str, MetarangeId] = {}
    for id in judgement.alive:
        metarange = judgement.history[id].metarange
        named |= {each: metarange for each in (id, metarange) if each in judgement.marks}
    return [
        id
        for id, metarange in sorted(named.items())
        if metarange in NO_FILE or roots.is_stored(repo, metarange)
    ]


def _outlived(repo: OpenRepository, judgement: Judgement, run: str) -> list[MetarangeId]:
    """Marked metaranges that no commit has and that are gone.

    One that was written again stays marked: nothing keeps the objects that it names.  A run looks
    at `collect_mark_count_max` of them, beginning at a place of its own.
    """
    known = {commit.metarange for commit in judgement.history.values()}.union(judgement.history)
    unnamed = sorted(judgement.marks.keys() - known)
    begin = bisect_left(unnamed, sha256(run.encode()).hexdigest())
    some = (unnamed[begin:] + unnamed[:begin])[: limits.collect_mark_count_max]
    metaranges = [MetarangeId(id) for id in some]
    stored = repo.fanout.map(lambda id: roots.is_stored(repo, id), metaranges)
    return [id for id, is_there in zip(metaranges, stored, strict=True) if not is_there]


def sweep(repo: OpenRepository, run: str, undone: int, turn: str) -> None:
    """End the undo period of a run: its files are about to be deleted, and it cannot be undone any
    more.

    The marks of all commits that were condemned for the undo period and are not kept record from
    now on that their content is gone.  Must be called before the roots are read that decide what is
    deleted.  Idempotent.

    `turn`: the cluster's turn.  `undone`: what the run's condemnation returned.  The run's list may
    name files that another run has condemned before.  So the list is void if any run was undone
    since; the next run condemns again what is left.

    Errors: `NotFound`; `Conflict` if the list is void or the cluster does not hold the turn:
    nothing of the list may be deleted.  Cost: 1 KV request for each 1,000 runs, 3 more; that of
    `roots.judged`, and 1 for each 1,000 marks that change; a block request if any does.
    """
    check_turn(repo, turn)
    states = [seen.run.state for seen in garbage.list_runs(repo.kv, repo.record)]
    seen = garbage.get_run(repo.kv, repo.record, run)
    if states.count(RunState.UNDONE) == undone:
        # A collection by the service may have swept the run, which has an empty list for it.
        swept = seen.run.state is RunState.SWEPT
        if swept or collect.turn(repo, seen, RunState.SWEEPING) is not ABSENT:
            _spend(repo)
            return
    raise Conflict(f"not swept: the run was undone after it condemned: {run=}")


def _spend(repo: OpenRepository) -> None:
    """Record in marks that content is gone.  Only marks of runs that cannot be undone any more
    record it.
    """
    judgement = roots.judged(repo)
    due_ns = repo.clock.now_ns() - limits.collect_undo_seconds * limits.SECOND_NS
    losing = judgement.due(due_ns) | judgement.over()
    named = {judgement.marks[id].run for id in losing}
    final = {
        seen.run.id
        for seen in garbage.list_runs(repo.kv, repo.record)
        if seen.run.id in named
        and (
            seen.run.state is RunState.SWEPT
            or collect.turn(repo, seen, RunState.SWEEPING) is not ABSENT
        )
    }
    final.add(garbage.RESTORED)
    losing = {id for id in losing if judgement.marks[id].run in final}
    spent = marking.spending(judgement.history, judgement.marks, losing, judgement.held(losing))
    notes.note_lost(repo, spent)
    garbage.put_marks(repo.kv, repo.record, spent, repo.ids)


def begin_turn(repo: OpenRepository, id: str) -> Turn:
    """Take the turn under a fresh `id`, or keep it.  Idempotent until the turn has ended.

    Errors: `Conflict` if another collector has the turn, or if this turn has ended; `Invalid`;
    `Contended`.  Cost: 2 KV requests, 1 more if the service had the last turn.
    """
    if _TURN_ID.fullmatch(id) is None:
        raise Invalid(f"turn id must be 1 to 64 letters and digits: turn={id!r:.80}")

    def begun(seen: Turn | Literal[Absent.ABSENT], now_ns: int) -> Turn:
        if seen is not ABSENT and seen.job == id:
            return _kept_turn(seen, now_ns)
        if seen is not ABSENT:
            _check_free(repo, seen, now_ns)
        return Turn(JobId(id), now_ns, now_ns + _LEASE_NS)

    return _change_turn(repo, id, begun)


def beat_turn(repo: OpenRepository, id: str) -> Turn:
    """Extend the lease.  If it has run out and nobody has taken the turn since, the turn continues.

    Errors: `Conflict` if the turn is lost; `Contended`.  Cost: 2 KV requests.
    """

    def renewed(seen: Turn | Literal[Absent.ABSENT], now_ns: int) -> Turn:
        if seen is ABSENT or seen.job != id:
            raise _lost_turn(id)
        return _kept_turn(seen, now_ns)

    return _change_turn(repo, id, renewed)


def end_turn(repo: OpenRepository, id: str) -> None:
    """End the turn, so that other collectors can begin.  Does nothing if it is lost or has ended.

    Errors: `Contended`.  Cost: 2 KV requests.
    """

    def ended(seen: Turn | Literal[Absent.ABSENT], _now_ns: int) -> Turn | Literal[Absent.ABSENT]:
        if seen is ABSENT or seen.job != id or seen.ended:
            return ABSENT
        return seen._replace(until_ns=seen.ordered_ns)

    _change_turn(repo, id, ended)


def _change_turn(
    repo: OpenRepository, id: str, change: Callable[[Turn | Literal[Absent.ABSENT], int], _T]
) -> _T:
    """Swap the turn to what `change` makes of it and of the time; ABSENT leaves it."""
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find_turn(repo.kv, repo.record)
        new = change(ABSENT if seen is ABSENT else seen.turn, repo.clock.now_ns())
        if new is ABSENT or turns.swap_turn(repo.kv, repo.record, new, seen, repo.ids.stamp()):
            return new
    raise Contended(f"turn not settled: others keep changing it: turn={id}")


def check_turn(repo: OpenRepository, id: str) -> None:
    """Raises `Conflict` unless this cluster holds the turn."""
    if not id:
        raise Conflict(
            "a collection on a cluster needs a turn, and this call names none; begin one with "
            "POST gc/turns, as graveler.spark.collect of this version does"
        )
    seen = turns.find_turn(repo.kv, repo.record)
    if seen is ABSENT or seen.turn.job != id or not seen.turn.is_held(repo.clock.now_ns()):
        raise _lost_turn(id)


def check_no_turn(repo: OpenRepository) -> None:
    """Raises `Conflict` while a cluster holds the turn.  For a collection by the service.

    Cost: 1 KV request.
    """
    seen = turns.find_turn(repo.kv, repo.record)
    if seen is not ABSENT:
        refuse_held(seen.turn, repo.clock.now_ns())


def refuse_held(turn: Turn, now_ns: int) -> None:
    """Raises `Conflict` if a cluster holds this turn."""
    if turn.is_held(now_ns):
        seconds = (turn.until_ns - now_ns) // limits.SECOND_NS + 1
        raise Conflict(
            "a cluster collects this repository; wait for it; if it died, its turn is "
            f"over in {seconds} s: turn={turn.job}"
        )


def _check_free(repo: OpenRepository, last: Turn, now_ns: int) -> None:
    """Raises `Conflict` unless the collector of the last turn has ended."""
    refuse_held(last, now_ns)
    if last.until_ns:
        return
    known = job_records.find(repo.kv, repo.record, last.job)
    if known is not ABSENT and not known.job.ended:
        raise Conflict(f"the service collects this repository; wait for its job: job={last.job}")
    if known is ABSENT and now_ns - last.ordered_ns < _FORGOTTEN_NS:
        raise Conflict(
            "a collection of the service is about to begin; if it does not, its orderer died: "
            f"order one (graveler gc --server), which goes on with it: job={last.job}"
        )


def _kept_turn(turn: Turn, now_ns: int) -> Turn:
    if turn.ended:
        raise _lost_turn(turn.job)
    return turn._replace(until_ns=max(turn.until_ns, now_ns + _LEASE_NS))


def _lost_turn(id: str) -> Conflict:
    return Conflict(
        "the turn to collect is not this cluster's: it is over, ended, or another's; delete "
        f"nothing, and begin another run: turn={id}"
    )
