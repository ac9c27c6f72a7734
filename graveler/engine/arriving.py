"""Staging what notifications tell of a bucket: each event once, the newest of an object last.

    records, open rows  →  row and record in one step, each as it was read  →  branch again
                              └ refused or no answer: look again             └ same token? done

Notifications come late, in any order, and more than once.  The record of an object (refs/arrivals)
names its newest event and the row that this event staged, so an older event is dropped, and so is
the same one again, if its row counted.  The two are written together: the record never speaks of
a row that is not there.  Whether a row counted is known without asking while its token is open;
later its token's other rows and the commit that folded it in tell.  After a reset nothing tells,
and the event is staged again.  Basis: docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed import reader
from graveler.engine.heads import cached, commit_of, fresh
from graveler.engine.ports import Ports, check_writable, keyspace
from graveler.engine.sealing import history_until
from graveler.errors import OutcomeUnknown
from graveler.framing import identity_of
from graveler.ids import StagingToken
from graveler.kv.store import Matches, Place, Row
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    CommitEntry,
    Repository,
    Staged,
    StagedValue,
    Versioned,
)
from graveler.refs import arrivals, commits
from graveler.refs.arrivals import Arrival, StoredArrival
from graveler.refs.event_rules import EventRule
from graveler.staging import area


class Told(NamedTuple):
    """One event: the object's key, its sequencer, and what is to stand at which path."""

    key: bytes
    sequencer: str
    path: bytes
    value: StagedValue


class Taken(Enum):
    """What became of an event."""

    STAGED = "staged"
    KNOWN = "known"  # the same event counted before
    OLD = "old"  # a newer event of the object was taken before


class _Look(NamedTuple):
    """The record of an object and the open token's row at its path."""

    stored: StoredArrival | Literal[Absent.ABSENT]
    row: Staged | Literal[Absent.ABSENT]


class _Verdict(NamedTuple):
    """`open`: true if the row's token is still open when the branch is read again."""

    taken: Taken | Literal[Absent.ABSENT]
    open: bool = False


_AGAIN = _Verdict(ABSENT)


class _Round(NamedTuple):
    """One look at everything; `seen` may be some seconds old unless `is_fresh`."""

    ports: Ports
    repo: Repository
    rule: EventRule
    wid: bytes
    seen: Versioned
    is_fresh: bool


def take_in(
    ports: Ports, repo: Repository, rule: EventRule, events: Sequence[Told]
) -> tuple[Taken, ...]:
    """Stage the events, at most one of each object; what became of them, in their order.

    After it returns, every commit that begins contains them.  Errors: `NotFound` (no such branch;
    nothing happened), `Refused`, `OutcomeUnknown`: deliver all of them again.
    Cost: 1 batch of reads, a conditional write of two rows an event, and 1 request for the branch.
    """
    check_writable(repo, force=False)
    became: dict[int, Taken] = {}
    round_ = _Round(
        ports, repo, rule, ports.ids.stamp(), cached(ports, repo, rule.branch), is_fresh=False
    )
    for _ in range(limits.write_attempt_count_max):
        waiting = [number for number in range(len(events)) if number not in became]
        verdicts = _look_and_step(round_, [events[number] for number in waiting])
        now = fresh(ports, repo, rule.branch)
        counts = now.branch.staging == round_.seen.branch.staging
        for number, verdict in zip(waiting, verdicts, strict=True):
            if verdict.taken is not ABSENT and (counts or not verdict.open):
                became[number] = verdict.taken
        if len(became) == len(events):
            return tuple(became[number] for number in range(len(events)))
        round_ = round_._replace(seen=now, is_fresh=True)
    raise OutcomeUnknown(f"events kept losing against commits: branch={rule.branch}")


def _look_and_step(round_: _Round, events: Sequence[Told]) -> list[_Verdict]:
    token = round_.seen.branch.staging
    places: list[tuple[Place, Place]] = [
        (
            arrivals.place_of(round_.repo, round_.rule.id, event.key),
            area.place_of(token, event.path),
        )
        for event in events
    ]
    rows = round_.ports.kv.get_many([place for both in places for place in both])
    looks = [_look(rows, both) for both in places]

    def step(each: tuple[Told, _Look]) -> _Verdict:
        return _step(round_, *each)

    return round_.ports.fanout.map(step, list(zip(events, looks, strict=True)))


def _look(rows: Mapping[Place, Row], places: tuple[Place, Place]) -> _Look:
    record, row = rows.get(places[0]), rows.get(places[1])
    return _Look(
        ABSENT if record is None else arrivals.decode(record),
        ABSENT if row is None else area.decode(row),
    )


def _step(round_: _Round, event: Told, look: _Look) -> _Verdict:
    """Drop the event, or put row and record over what was looked at."""
    if look.stored is not ABSENT:
        arrival = look.stored.arrival
        if arrival.is_newer_than(event.sequencer):
            return _Verdict(Taken.OLD)
        if not arrival.is_older_than(event.sequencer):
            taken = Taken.STAGED if arrival.wid == round_.wid else Taken.KNOWN
            if arrival.token == round_.seen.branch.staging:
                return _Verdict(taken, open=True)
            if not round_.is_fresh:
                return _AGAIN
            if _counted(round_, event, arrival, look.row):
                return _Verdict(taken)
    return _Verdict(Taken.STAGED, open=True) if _put(round_, event, look) else _AGAIN


def _put(round_: _Round, event: Told, look: _Look) -> bool:
    ports, branch = round_.ports, round_.seen.branch
    stamp = ports.ids.stamp()
    place = arrivals.place_of(round_.repo, round_.rule.id, event.key)
    arrival = Arrival(event.sequencer, branch.staging, round_.wid, branch.commit)
    condition: Matches | Literal[Absent.ABSENT] = ABSENT
    if look.stored is not ABSENT:
        condition = Matches(look.stored.version)
    try:
        return area.stage_if(
            ports.kv,
            branch.staging,
            event.path,
            event.value,
            wid=round_.wid,
            version=stamp,
            seen=look.row,
            order=ports.clock.now_ns() // 1_000,
            beside=(condition, arrivals.write_of(place, arrival, stamp)),
        )
    except OutcomeUnknown:
        return False


def _counted(
    round_: _Round, event: Told, arrival: Arrival, open_row: Staged | Literal[Absent.ABSENT]
) -> bool:
    """Whether the row in a token that is not open any more was committed, or hidden by a later
    change of somebody else; False: stage it again, nothing is lost by it."""
    if open_row is not ABSENT:
        return True
    ports, record = round_.ports, round_.seen.branch
    own = area.lookup(ports.kv, (arrival.token,), event.path)
    if own is ABSENT:
        return _changed_since(round_, event, arrival)
    if own.wid != arrival.wid:
        return True
    if arrival.token in record.sealed:
        # A committer may have scanned the token before the row came.
        return _hidden(round_, event, _behind(arrival.token, record.sealed))
    for entry in history_until(ports, round_.repo, record.commit, arrival.since):
        for fold in commits.folds_of(ports.kv, round_.repo, round_.rule.branch, entry.id):
            if arrival.token in fold.tokens:
                later = _behind(arrival.token, fold.tokens)
                return _hidden(round_, event, later) or _says(round_, entry, event)
    return False


def _behind(
    token: StagingToken, oldest_first: tuple[StagingToken, ...]
) -> tuple[StagingToken, ...]:
    return oldest_first[oldest_first.index(token) + 1 :]


def _hidden(round_: _Round, event: Told, oldest_first: tuple[StagingToken, ...]) -> bool:
    if not oldest_first:
        return False
    return area.lookup(round_.ports.kv, oldest_first[::-1], event.path) is not ABSENT


def _says(round_: _Round, entry: CommitEntry, event: Told) -> bool:
    """Whether a commit says what the event said."""
    wanted = ABSENT if event.value is TOMBSTONE else identity_of(event.value)
    return _identity_at(round_, entry, event) == wanted


def _changed_since(round_: _Round, event: Told, arrival: Arrival) -> bool:
    """For rows that are gone.  A path that is as it was, and never was as the event said, did not
    take it.  Cost: the history since, and a look into each commit."""
    ports, repo = round_.ports, round_.repo
    head, since = round_.seen.branch.commit, arrival.since
    walked = history_until(ports, repo, head, since)
    before = _identity_at(round_, CommitEntry(since, commit_of(ports, repo, since)), event)
    if walked and _identity_at(round_, walked[0], event) != before:
        return True
    return any(_says(round_, entry, event) for entry in walked)


def _identity_at(round_: _Round, entry: CommitEntry, event: Told) -> bytes | Literal[Absent.ABSENT]:
    space = keyspace(round_.ports, round_.repo)
    value = reader.get(space, entry.commit.metarange, event.path)
    return ABSENT if value is ABSENT else identity_of(value)
