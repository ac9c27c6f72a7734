"""The turn of a collection that runs on a cluster, so that it never runs beside another.

    begin ──► beat … beat ──► end            a cluster that dies: its turn is over after a while

It stands in the record in which the service swaps its own (refs/jobs/turn.py), and holds for
`limits.collect_turn_seconds` from the last beat on.  While it does, neither the service nor another
cluster begins; nor does a cluster while a collection of the service is on its way.  A turn is no
lock on files: what makes collections safe stands in docs/protocol.md, and holds without it.

For delivery and jobs.
"""

import re
from typing import Final

from graveler import limits
from graveler.engine.ports import Ports
from graveler.errors import Conflict, Contended, Invalid
from graveler.ids import JobId
from graveler.records import ABSENT, Repository
from graveler.refs.jobs import record
from graveler.refs.jobs import turn as turns
from graveler.refs.jobs.turn import Turn

_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)  # no job of ours has such an id
_LEASE_NS: Final = limits.collect_turn_seconds * limits.SECOND_NS
_FORGOTTEN_NS: Final = limits.job_record_keep_seconds * limits.SECOND_NS


def begin(ports: Ports, repo: Repository, id: str) -> Turn:
    """Take the turn under a fresh `id`, or keep it; may be repeated until it has ended.

    Errors: `Conflict` if it is another's, or has ended; `Invalid`; `Contended`.  2 KV requests, 1
    more if the service had the last turn."""
    if _ID.fullmatch(id) is None:
        raise Invalid(f"a turn must be named by 1 to 64 letters and digits: turn={id!r:.80}")
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(ports.kv, repo)
        now_ns = ports.clock.now_ns()
        new = Turn(JobId(id), now_ns, now_ns + _LEASE_NS)
        if seen is not ABSENT:
            if seen.turn.job == id:
                new = _kept(seen.turn, now_ns)
            else:
                _check_free(ports, repo, seen.turn, now_ns)
        if turns.swap(ports.kv, repo, new, seen, ports.ids.stamp()):
            return new
    raise _contended(id)


def beat(ports: Ports, repo: Repository, id: str) -> Turn:
    """Hold it for longer.  One that is over, but was taken by nobody, goes on.

    Errors: `Conflict` if it is lost; `Contended`.  2 KV requests."""
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(ports.kv, repo)
        if seen is ABSENT or seen.turn.job != id:
            raise _lost(id)
        kept = _kept(seen.turn, ports.clock.now_ns())
        if turns.swap(ports.kv, repo, kept, seen, ports.ids.stamp()):
            return kept
    raise _contended(id)


def end(ports: Ports, repo: Repository, id: str) -> None:
    """Let others begin.  Nothing if it is lost, or has ended.  `Contended`.  2 KV requests."""
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find(ports.kv, repo)
        if seen is ABSENT or seen.turn.job != id or seen.turn.ended:
            return
        over = seen.turn._replace(until_ns=seen.turn.ordered_ns)
        if turns.swap(ports.kv, repo, over, seen, ports.ids.stamp()):
            return
    raise _contended(id)


def check(ports: Ports, repo: Repository, id: str) -> None:
    """For what only a cluster whose turn it is may do.  `Conflict`.  1 KV request, none without an
    id."""
    if not id:
        raise Conflict(
            "a collection on a cluster needs a turn, and this call names none: begin one with "
            "POST gc/turns, as graveler.spark.collect of this version does"
        )
    seen = turns.find(ports.kv, repo)
    if seen is ABSENT or seen.turn.job != id or not seen.turn.is_held(ports.clock.now_ns()):
        raise _lost(id)


def check_none(ports: Ports, repo: Repository) -> None:
    """For a collection that runs here.  `Conflict` while a cluster has the turn.  1 KV request."""
    seen = turns.find(ports.kv, repo)
    if seen is not ABSENT:
        refuse_held(seen.turn, ports.clock.now_ns())


def refuse_held(turn: Turn, now_ns: int) -> None:
    """`Conflict` if it is a cluster's, and holds."""
    if turn.is_held(now_ns):
        seconds = (turn.until_ns - now_ns) // limits.SECOND_NS + 1
        raise Conflict(
            "a cluster collects this repository: wait for it; should it have died, its turn is "
            f"over in {seconds} s: turn={turn.job}"
        )


def _check_free(ports: Ports, repo: Repository, last: Turn, now_ns: int) -> None:
    """Whose turn it was last has ended."""
    refuse_held(last, now_ns)
    if last.until_ns:
        return
    known = record.find(ports.kv, repo, last.job)
    if known is not ABSENT and not known.job.ended:
        raise Conflict(f"the service collects this repository: wait for its job: job={last.job}")
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
