"""Stages what the notifications of a bucket report: each event once, the newest of an object wins.

    branch ─► records, open rows ─► row and record in one step ─► branch again ─► confirm ─► done
                   ▲                      └ refused, or no answer     └ another token?
                   └────────────────────────── look again ◄──────────────────┘
A row *counts* if its token was still open when the branch was read again.  A call *confirms* once
all its rows count, before it is acknowledged (docs/explanation/protocol.md).
"""

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.records import ABSENT, Absent, Staged, StagedValue, Versioned
from graveler.engine import protection
from graveler.engine.commits.heads import cached, fresh
from graveler.engine.ports import OpenRepository, check_writable, operation_deadline
from graveler.kv.store import WRITTEN, Matches, Place, Row
from graveler.refs import arrivals, branches
from graveler.refs.arrivals import Arrival, StoredArrival
from graveler.refs.event_rules import EventRule
from graveler.staging import area

_WAITS_MAX: Final = 8
_WAIT_SECONDS: Final = 0.02  # grows by this much each time: 0.6 seconds in total


class ArrivedObject(NamedTuple):
    """One event: the object's key, its sequencer, and the value to stage at which path."""

    key: bytes
    sequencer: str
    path: bytes
    value: StagedValue


class IntakeResult(Enum):
    """What happened to an event."""

    STAGED = "staged"
    KNOWN = "known"  # the same event was staged before
    OLD = "old"  # a newer event of the object was taken before


class _EventState(NamedTuple):
    """An event, the record of its object, and the row at its path in the open token."""

    event: ArrivedObject
    stored: StoredArrival | Literal[Absent.ABSENT]
    row: Staged | Literal[Absent.ABSENT]


class _StepResult(NamedTuple):
    """The result of one step with one event.

    `open`: the verdict holds only if the token is still open when the branch is read again.
    `ours`: if it holds, this call must confirm.  `waits`: nothing can be done until other calls
    have finished.
    """

    taken: IntakeResult | Literal[Absent.ABSENT]
    open: bool = False
    ours: bool = False
    waits: bool = False


_AGAIN = _StepResult(ABSENT)
_WAIT = _StepResult(ABSENT, waits=True)


class _Round(NamedTuple):
    """One round over all events.  `seen` may be some seconds old unless `is_fresh`."""

    repo: OpenRepository
    rule: EventRule
    call: bytes
    seen: Versioned
    is_fresh: bool


def take_in(
    repo: OpenRepository, rule: EventRule, events: Sequence[ArrivedObject]
) -> tuple[IntakeResult, ...]:
    """Stage the events, at most one of each object; returns what happened to each, in order.

    When it returns, every commit that begins later contains the events, and the same events change
    nothing any more.  Errors: `NotFound` (no such branch), `Refused`, `Unavailable`,
    `OutcomeUnknown`: all events must be delivered again.

    Cost: 1 batch of reads, a conditional write of two rows for each event, 1 request for the branch
    and 1 to confirm; events that were delivered before cost 1 batch more.
    """
    check_writable(repo.record, force=False)
    protection.check_staging(repo, rule.branch)
    deadline = operation_deadline(repo)
    became: dict[int, _StepResult] = {}
    waits, call = 0, repo.ids.stamp()
    round_ = _Round(repo, rule, call, cached(repo, rule.branch), is_fresh=False)
    for _ in range(limits.write_attempt_count_max):
        deadline.check("taking events in")
        waiting = [number for number in range(len(events)) if number not in became]
        verdicts = _look_and_step(round_, [events[number] for number in waiting])
        now = fresh(repo, rule.branch)
        counts = now.branch.staging == round_.seen.branch.staging
        for number, verdict in zip(waiting, verdicts, strict=True):
            if verdict.taken is not ABSENT and (counts or not verdict.open):
                became[number] = verdict
        if len(became) == len(events):
            _vouch(round_, became.values())
            return _ended([became[number] for number in range(len(events))])
        round_ = round_._replace(seen=now, is_fresh=True)
        if all(verdict.waits for verdict in verdicts):
            waits += 1
            if waits == _WAITS_MAX:
                _vouch(round_, became.values())
                raise Unavailable(f"newer events are still being processed: branch={rule.branch}")
            repo.clock.sleep(_WAIT_SECONDS * waits)
    raise OutcomeUnknown(f"events kept losing to commits: branch={rule.branch}")


def _vouch(round_: _Round, became: Iterable[_StepResult]) -> None:
    if any(verdict.ours for verdict in became):
        now_ns = round_.repo.clock.now_ns()
        arrivals.vouch(round_.repo.kv, round_.repo.record, round_.rule.id, round_.call, now_ns)


def _ended(verdicts: Sequence[_StepResult]) -> tuple[IntakeResult, ...]:
    return tuple(verdict.taken for verdict in verdicts if verdict.taken is not ABSENT)


def _look_and_step(round_: _Round, events: Sequence[ArrivedObject]) -> list[_StepResult]:
    """Read the records and rows of all events in one batch, then take a step with each event.  The
    branch was read before."""
    repo, token = round_.repo, round_.seen.branch.staging
    records = [_record_place(round_, event) for event in events]
    places = [area.place_of(token, event.path) for event in events]
    rows = repo.kv.get_many([place for pair in zip(records, places, strict=True) for place in pair])
    looks = [
        _look(event, rows.get(record), rows.get(place))
        for event, record, place in zip(events, records, places, strict=True)
    ]
    again = {
        call
        for look in looks
        if look.stored is not ABSENT and not look.stored.arrival.is_older_than(look.event.sequencer)
        for call in look.stored.arrival.calls
        if call != round_.call
    }
    vouched = arrivals.vouched_of(repo.kv, round_.repo.record, round_.rule.id, sorted(again))

    return repo.fanout.map(lambda look: _step(round_, look, vouched), looks)


def _look(event: ArrivedObject, record: Row | None, row: Row | None) -> _EventState:
    return _EventState(
        event,
        ABSENT if record is None else arrivals.decode(record),
        ABSENT if row is None else area.decode(row),
    )


def _step(round_: _Round, look: _EventState, vouched: Collection[bytes]) -> _StepResult:
    """Drop the event, or put row and record over those that were read."""
    event = look.event
    if look.stored is ABSENT or look.stored.arrival.is_older_than(event.sequencer):
        return _staged(_put(round_, look))
    arrival = look.stored.arrival
    is_open = arrival.token == round_.seen.branch.staging
    has_counted = any(call in vouched for call in arrival.calls)
    if arrival.is_newer_than(event.sequencer):
        return (
            _StepResult(IntakeResult.OLD, open=not has_counted) if has_counted or is_open else _WAIT
        )
    if has_counted:
        return _StepResult(IntakeResult.KNOWN)
    if is_open:
        if round_.call in arrival.calls:
            return _staged(True)
        joined = _record(round_, event, look.stored)
        return _StepResult(IntakeResult.KNOWN, open=True, ours=True) if joined else _AGAIN
    return _staged(round_.is_fresh and _put_again(round_, look, look.stored))


def _staged(done: bool) -> _StepResult:
    return _StepResult(IntakeResult.STAGED, open=True, ours=True) if done else _AGAIN


def _put(round_: _Round, look: _EventState) -> bool:
    """Put row and record in one conditional write, for an event that no call has staged before."""
    repo, branch, event = round_.repo, round_.seen.branch, look.event
    stamp = repo.ids.stamp()
    arrival = Arrival(event.sequencer, branch.staging, (round_.call,))
    condition: Matches | Literal[Absent.ABSENT] = ABSENT
    if look.stored is not ABSENT:
        condition = Matches(look.stored.version)
    write = arrivals.write_of(_record_place(round_, event), arrival, stamp)
    try:
        return area.stage_if(
            repo.kv,
            branch.staging,
            event.path,
            event.value,
            wid=round_.call,
            version=stamp,
            seen=look.row,
            order=repo.clock.now_ns() // 1_000,
            other=area.Beside(condition, write),
        )
    except OutcomeUnknown:
        return False


def _put_again(round_: _Round, look: _EventState, stored: StoredArrival) -> bool:
    """Put the row, if the branch has not changed since it was read, which was before the look that
    found no confirmation; then put the record.

    A crash between the two leaves an event that no call has confirmed.
    """
    repo, seen, event = round_.repo, round_.seen, look.event
    try:
        put = area.stage_if(
            repo.kv,
            seen.branch.staging,
            event.path,
            event.value,
            wid=round_.call,
            version=repo.ids.stamp(),
            seen=look.row,
            order=repo.clock.now_ns() // 1_000,
            other=area.Guard(branches.place(round_.repo.record, round_.rule.branch), seen.version),
        )
    except OutcomeUnknown:
        return False
    return put and _record(round_, event, stored)


def _record(round_: _Round, event: ArrivedObject, stored: StoredArrival) -> bool:
    """Add this call to the record of the row in the open token."""
    repo = round_.repo
    stamp = repo.ids.stamp()
    arrival = Arrival(
        stored.arrival.sequencer, round_.seen.branch.staging, stored.arrival.joined(round_.call)
    )
    write = arrivals.write_of(_record_place(round_, event), arrival, stamp)
    try:
        return repo.kv.set_if(*write, Matches(stored.version)) is WRITTEN
    except OutcomeUnknown:
        return False


def _record_place(round_: _Round, event: ArrivedObject) -> Place:
    return arrivals.place_of(round_.repo.record, round_.rule.id, event.key)
