"""Garbage collections and retention, over the API.

    order ──► id ──► get … get ──► done: an error, or totals and the folder of the lists

Each call is one request (`condemn`: one per page) and raises the errors of `Session.call`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from graveler.client.session import Session, below, checked, having
from graveler.core import limits
from graveler.core.errors import NotFound


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
    answer = session.call("POST", _runs(repository), {"dry_run": dry_run})
    return str(having(answer, "id")["id"])


def get(session: Session, repository: str, id: str) -> Collection:
    """The progress of a collection.  `NotFound`: the repository or collection does not exist; the
    record of a collection is deleted a day after its end."""
    answer = having(session.call("GET", _runs(repository, id)), "id", "done", "dry_run")
    known = Collection(answer["id"], answer["done"], answer["dry_run"])
    if not known.done:
        return known
    if "error" in answer:
        return Collection(known.id, True, known.dry_run, str(answer["error"]["message"]))
    having(answer, "run", "candidates", "commits", "commits_kept", "condemned", "deleted")
    return Collection(
        *(known.id, True, known.dry_run, "", answer["run"], answer["candidates"]),
        *(answer["commits"], answer["commits_kept"]),
        *(Files(**answer["condemned"]), Files(**answer["deleted"])),
    )


def undo(session: Session, repository: str, run: str) -> None:
    """Undo a run: what it condemned becomes usable again.  Idempotent.

    `NotFound`: the run does not exist.  `Conflict`: its files are being deleted, or are gone."""
    session.call("DELETE", _runs(repository, run))


# ---- a collection that a cluster executes --------------------------------------------------------
#
# The cluster finds and deletes the files itself.  It asks the server which files are in use:
#
#     begin ──► (its list) ──► condemn ──► sweep what an earlier run condemned ──► (deletes) ──► end
#           beat … beat
#
# `beat` is the heartbeat of the cluster's lease.  The code calls the lease `turn`.


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


# ---- retention: how many days the content of commits is kept -------------------------------------


class BranchRule(TypedDict):
    """The days of one branch; 0: forever."""

    branch_id: str
    retention_days: int


class RetentionRules(TypedDict):
    """The days of branches, and of all others; 0: forever."""

    branches: list[BranchRule]
    default_retention_days: int


def get_rules(session: Session, repository: str) -> RetentionRules:
    """The rules; if none are set, those that keep all commits forever.  `NotFound`: the repository
    does not exist.  Cost: one request, or two if none are set."""
    try:
        answer = session.call("GET", _rules(repository))
    except NotFound:  # the repository, or its rules
        session.call("GET", below("repositories", repository))
        return {"branches": [], "default_retention_days": 0}
    return checked(RetentionRules, answer)


def replace_rules(session: Session, repository: str, rules: RetentionRules) -> None:
    """Replace the rules.  There is no condition: the last of two writers wins.  `NotFound`: the
    repository does not exist."""
    session.call("PUT", _rules(repository), rules)


def delete_rules(session: Session, repository: str) -> None:
    """Delete the rules, so that all commits are kept forever."""
    session.call("DELETE", _rules(repository))


def _rules(repository: str) -> str:
    return below("repositories", repository, "settings", "gc_rules")
