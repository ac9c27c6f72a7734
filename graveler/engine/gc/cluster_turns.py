"""The turn of a collection on a cluster: a lease, so that no other collection runs beside it.

    begin ──► heartbeat … heartbeat ──► end        if the cluster dies, its lease runs out

The turn is stored in the record in which the service swaps its own turns (refs/jobs/turn.py).  It
is held for `limits.collect_turn_seconds` from the last heartbeat (`beat`) on.  While it is held,
neither the service nor another cluster begins a collection.  A cluster does not begin either while
a collection of the service is on record or about to begin.

A turn does not lock files.  The safety of collections does not depend on it
(docs/explanation/protocol.md).

Used by delivery and jobs.
"""

import re
from typing import Final

from graveler import limits
from graveler.engine.ports import OpenRepository
from graveler.errors import Conflict, Contended, Invalid
from graveler.ids import JobId
from graveler.records import ABSENT
from graveler.refs.jobs import record
from graveler.refs.jobs import turn as turns
from graveler.refs.jobs.turn import Turn

_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)  # no job of the service has such an id
_LEASE_NS: Final = limits.collect_turn_seconds * limits.SECOND_NS
_FORGOTTEN_NS: Final = limits.job_record_keep_seconds * limits.SECOND_NS


def begin(repo: OpenRepository, id: str) -> Turn:
    """Take the turn under a fresh `id`, or keep it.  Idempotent until the turn has ended.

    Errors: `Conflict` if another collector has the turn, or if this turn has ended; `Invalid`;
    `Contended`.  Cost: 2 KV requests, 1 more if the service had the last turn.
    """
    if _ID.fullmatch(id) is None:
        raise Invalid(f"turn id must be 1 to 64 letters and digits: turn={id!r:.80}")
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(repo.kv, repo.record)
        now_ns = repo.clock.now_ns()
        new = Turn(JobId(id), now_ns, now_ns + _LEASE_NS)
        if seen is not ABSENT:
            if seen.turn.job == id:
                new = _kept(seen.turn, now_ns)
            else:
                _check_free(repo, seen.turn, now_ns)
        if turns.swap(repo.kv, repo.record, new, seen, repo.ids.stamp()):
            return new
    raise _contended(id)


def beat(repo: OpenRepository, id: str) -> Turn:
    """Extend the lease.  If it has run out and nobody has taken the turn since, the turn continues.

    Errors: `Conflict` if the turn is lost; `Contended`.  Cost: 2 KV requests.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(repo.kv, repo.record)
        if seen is ABSENT or seen.turn.job != id:
            raise _lost(id)
        renewed = _kept(seen.turn, repo.clock.now_ns())
        if turns.swap(repo.kv, repo.record, renewed, seen, repo.ids.stamp()):
            return renewed
    raise _contended(id)


def end(repo: OpenRepository, id: str) -> None:
    """End the turn, so that other collectors can begin.  Does nothing if it is lost or has ended.

    Errors: `Contended`.  Cost: 2 KV requests.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(repo.kv, repo.record)
        if seen is ABSENT or seen.turn.job != id or seen.turn.ended:
            return
        ended = seen.turn._replace(until_ns=seen.turn.ordered_ns)
        if turns.swap(repo.kv, repo.record, ended, seen, repo.ids.stamp()):
            return
    raise _contended(id)


def check(repo: OpenRepository, id: str) -> None:
    """Raises `Conflict` unless this cluster holds the turn.

    Cost: 1 KV request, none if the id is empty.
    """
    if not id:
        raise Conflict(
            "a collection on a cluster needs a turn, and this call names none; begin one with "
            "POST gc/turns, as graveler.spark.collect of this version does"
        )
    seen = turns.find(repo.kv, repo.record)
    if seen is ABSENT or seen.turn.job != id or not seen.turn.is_held(repo.clock.now_ns()):
        raise _lost(id)


def check_none(repo: OpenRepository) -> None:
    """Raises `Conflict` while a cluster holds the turn.  For a collection by the service.

    Cost: 1 KV request.
    """
    seen = turns.find(repo.kv, repo.record)
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
    known = record.find(repo.kv, repo.record, last.job)
    if known is not ABSENT and not known.job.ended:
        raise Conflict(f"the service collects this repository; wait for its job: job={last.job}")
    if known is ABSENT and now_ns - last.ordered_ns < _FORGOTTEN_NS:
        raise Conflict(
            "a collection of the service is about to begin; if it does not, its orderer died: "
            f"order one (graveler gc --server), which goes on with it: job={last.job}"
        )


def _kept(turn: Turn, now_ns: int) -> Turn:
    if turn.ended:
        raise _lost(turn.job)
    return turn._replace(until_ns=max(turn.until_ns, now_ns + _LEASE_NS))


def _lost(id: str) -> Conflict:
    return Conflict(
        "the turn to collect is not this cluster's: it is over, ended, or another's; delete "
        f"nothing, and begin another run: turn={id}"
    )


def _contended(id: str) -> Contended:
    return Contended(f"turn not settled: others keep changing it: turn={id}")
