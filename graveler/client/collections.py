"""Garbage collections over the API: ordered on the server, or executed by a cluster.

    order ──► id ──► get … get ──► done: an error, or totals and the folder of the lists

A collection on a cluster finds and deletes the files itself.  It asks the server which files are in
use, and reports its steps:

    begin ──► (its list) ──► condemn ──► sweep what an earlier run condemned ──► (deletes) ──► end
          beat … beat

`beat` is the heartbeat of the cluster's lease.  The code calls the lease `turn`.  Each call is one
request (`condemn`: one per page) and raises the errors of `Session.ask`.  Part of the public Python
client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graveler import limits
from graveler.client.session import Session, below
from graveler.errors import Internal


@dataclass(frozen=True, slots=True)
class Files:
    """A number of files and their total size in bytes."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """The progress of a collection.

    The numbers are valid once the collection is `done` without an `error`.  In a dry run they say
    what would be condemned and deleted.  `candidates`: the folder of the lists of files, if any.
    `run`: the id for `undo`, if anything was condemned.
    """

    id: str
    done: bool
    dry_run: bool
    error: str = ""
    run: str = ""
    candidates: str = ""
    commits: int = 0
    commits_kept: int = 0
    condemned: Files = field(default_factory=Files)
    deleted: Files = field(default_factory=Files)


def order(session: Session, repository: str, *, dry_run: bool = True) -> str:
    """Order a garbage collection and return its id.  If one is running, return its id.

    `NotFound`: the repository does not exist.  After `OutcomeUnknown`, order again: the answer is
    the same collection."""
    answer = session.ask("POST", _runs(repository), {"dry_run": dry_run})
    return str(_checked(answer, "id")["id"])


def get(session: Session, repository: str, id: str) -> Collection:
    """The progress of a collection.  `NotFound`: the repository or collection does not exist; the
    record of a collection is deleted a day after its end."""
    answer = _checked(session.ask("GET", _runs(repository, id)), "id", "done", "dry_run")
    known = Collection(answer["id"], answer["done"], answer["dry_run"])
    if not known.done:
        return known
    if "error" in answer:
        return Collection(known.id, True, known.dry_run, str(answer["error"]["message"]))
    _checked(answer, "run", "candidates", "commits", "commits_kept", "condemned", "deleted")
    return Collection(
        *(known.id, True, known.dry_run, "", answer["run"], answer["candidates"]),
        *(answer["commits"], answer["commits_kept"]),
        *(Files(**answer["condemned"]), Files(**answer["deleted"])),
    )


def undo(session: Session, repository: str, run: str) -> None:
    """Undo a run: what it condemned becomes usable again.  Idempotent.

    `NotFound`: the run does not exist.  `Conflict`: its files are being deleted, or are gone."""
    session.ask("DELETE", _runs(repository, run))


# ---- a collection that a cluster executes --------------------------------------------------------


def begin(session: Session, repository: str, turn: str) -> None:
    """Acquire the repository's collection lease under a fresh name `turn`, 1 to 64 letters and
    digits.  Idempotent.  `Conflict`: a collection is running, on the server or on a cluster."""
    session.ask("POST", _turns(repository), {"id": turn})


def beat(session: Session, repository: str, turn: str) -> None:
    """Send a heartbeat: extend the lease to `limits.collect_turn_seconds` from now.  `Conflict`:
    the lease is lost; delete nothing more."""
    session.ask("PUT", _turns(repository, turn))


def end(session: Session, repository: str, turn: str) -> None:
    """Release the lease, so that another collection can begin.  Idempotent."""
    session.ask("DELETE", _turns(repository, turn))


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
    first = answer = _checked(session.ask("POST", where, body), "undone", "following")
    while answer["following"]:
        page = session.ask("POST", where, {**body, "after": answer["following"]})
        answer = _checked(page, "undone", "following")
    for at in range(0, len(metaranges), limits.collect_condemn_count_max):
        some = metaranges[at : at + limits.collect_condemn_count_max]
        _checked(session.ask("POST", where, {**body, "metaranges": list(some)}), "undone")
    return int(first["undone"])


def sweep(session: Session, repository: str, run: str, undone: int, *, turn: str) -> None:
    """Announce that the files which a run listed are about to be deleted.  From then on the run
    cannot be undone.  Idempotent.

    `undone`: the number that `condemn` returned.  Errors: `Conflict` if this run or, since then,
    another run was undone, or if the lease is lost; `NotFound` if the run never condemned.  After
    an error, delete nothing of its list."""
    session.ask("PUT", _runs(repository, run, "sweeping"), {"undone": undone, "turn": turn})


def _turns(repository: str, *turn: str) -> str:
    return below("repositories", repository, "gc", "turns", *turn)


def _runs(repository: str, *run: str) -> str:
    return below("repositories", repository, "gc", "runs", *run)


def _checked(answer: Any, *names: str) -> dict[str, Any]:
    if not isinstance(answer, dict) or not answer.keys() >= set(names):
        raise Internal("the server's answer has no run: it is not Graveler, or is another version")
    return answer
