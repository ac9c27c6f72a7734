"""Garbage collections that a cluster executes.

The cluster finds and deletes the files itself.  It asks the server which files are in use:

    begin ──► (its list) ──► condemn ──► sweep what an earlier run condemned ──► (deletes) ──► end
          beat … beat

`beat` is the heartbeat of the cluster's lease.  The code calls the lease `turn`.  Each call is one
request (`condemn`: one per page) and raises the errors of `Session.call`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from graveler.core import limits
from graveler.lake.session import Session, below, having


@dataclass(frozen=True, slots=True)
class Files:
    """A number of files and their total size in bytes."""

    count: int = 0
    size_bytes: int = 0


def begin(session: Session, repository: str, turn: str) -> None:
    """Acquire the repository's collection lease under a fresh name `turn`, 1 to 64 letters and
    digits.  Idempotent.  `Conflict`: a collection is running, on the server or on a cluster."""
    session.call("POST", _turns(repository), {"id": turn})


def beat(session: Session, repository: str, turn: str) -> None:
    """Send a heartbeat: extend the lease to `limits.collect_turn_seconds` from now.  `Conflict`:
    the lease is lost; delete nothing more."""
    session.call("PUT", _turns(repository, turn))


def end(session: Session, repository: str, turn: str) -> None:
    """Release the lease, so that another collection can begin.  Idempotent."""
    session.call("DELETE", _turns(repository, turn))


def condemn(
    session: Session,
    repository: str,
    run: str,
    listed: Files,
    metaranges: Sequence[str] = (),
    *,
    turn: str,
) -> int:
    """Condemn the commits that retention does not keep: from now on the server refuses their use.
    Returns the number of runs that were undone so far; pass it to `sweep`.

    `run`: the caller's id of the run, 1 to 64 letters and digits; `undo` undoes it.  `metaranges`:
    those in the list; the server then also refuses those that no commit has.  Call this before
    relying on a list of `listed` files.  Idempotent.  Errors: `Conflict` if the run was undone or
    the lease is lost; `Gone` if the calls took longer than a day: call again.  Cost: one request
    per 4,000 commits and metaranges that no run has condemned before, and one per 1,000
    `metaranges`, for each of which the server judges all commits.
    """
    where = _runs(repository, run, "condemned")
    body = {"files": listed.count, "size_bytes": listed.size_bytes, "turn": turn}
    first = answer = having(session.call("POST", where, body), "undone", "following")
    while answer["following"]:
        page = session.call("POST", where, {**body, "after": answer["following"]})
        answer = having(page, "undone", "following")
    for at in range(0, len(metaranges), limits.collect_condemn_count_max):
        some = metaranges[at : at + limits.collect_condemn_count_max]
        having(session.call("POST", where, {**body, "metaranges": list(some)}), "undone")
    return int(first["undone"])


def sweep(session: Session, repository: str, run: str, undone: int, *, turn: str) -> None:
    """Announce that the files which a run listed are about to be deleted.  From then on the run
    cannot be undone.  Idempotent.

    `undone`: the number that `condemn` returned.  Errors: `Conflict` if this run or, since then,
    another run was undone, or if the lease is lost; `NotFound` if the run never condemned.  After
    an error, delete nothing of its list."""
    session.call("PUT", _runs(repository, run, "sweeping"), {"undone": undone, "turn": turn})


def _turns(repository: str, *turn: str) -> str:
    return below("repositories", repository, "gc", "turns", *turn)


def _runs(repository: str, *run: str) -> str:
    return below("repositories", repository, "gc", "runs", *run)
