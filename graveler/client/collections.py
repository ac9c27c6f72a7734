"""Collections of garbage, ordered through the API of a server, and what came of them.

    order ──► id ──► get … get ──► done: an error, or totals and the folder of the lists

One that runs on a cluster finds and deletes files by itself, and asks only what may be used:

    begin ──► (its list) ──► condemn ──► sweep what an earlier run condemned ──► (deletes) ──► end
          beat … beat

Each call is one request, and raises what `Session.ask` does.  For whoever uses the package.
"""

from dataclasses import dataclass, field
from typing import Any

from graveler.client.session import Session, below
from graveler.errors import Internal


@dataclass(frozen=True, slots=True)
class Files:
    """So many, of so many bytes in all."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """How far a collection is.  Numbers count once it is `done` without an `error`; of a dry run
    they say what would be.  `candidates`: the folder of the lists of files, if there are any;
    `run`: what can be taken back, if anything was condemned."""

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
    """Have garbage collected; its id, that of the running one if there is one.

    `NotFound`: no such repository.  `OutcomeUnknown`: order again, and it is the same one."""
    found = session.ask("POST", _runs(repository), {"dry_run": dry_run})
    return str(_checked(found, "id")["id"])


def get(session: Session, repository: str, id: str) -> Collection:
    """How far it is.  `NotFound`: no such repository or collection; a day after its end it is
    forgotten."""
    found = _checked(session.ask("GET", _runs(repository, id)), "id", "done", "dry_run")
    known = Collection(found["id"], found["done"], found["dry_run"])
    if not known.done:
        return known
    if "error" in found:
        return Collection(known.id, True, known.dry_run, str(found["error"]["message"]))
    _checked(found, "run", "candidates", "commits", "commits_kept", "condemned", "deleted")
    return Collection(
        *(known.id, True, known.dry_run, "", found["run"], found["candidates"]),
        *(found["commits"], found["commits_kept"]),
        *(Files(**found["condemned"]), Files(**found["deleted"])),
    )


def undo(session: Session, repository: str, run: str) -> None:
    """Take back what a run condemned.  `NotFound`: no such run; `Conflict`: its files are being
    deleted, or gone.  Once or often."""
    session.ask("DELETE", _runs(repository, run))


# ---- a collection that runs elsewhere ------------------------------------------------------------


def begin(session: Session, repository: str, turn: str) -> None:
    """Take the repository's turn under a fresh name, 1 to 64 letters and digits.  `Conflict`: a
    collection is on its way, here or there.  Once or often."""
    session.ask("POST", _turns(repository), {"id": turn})


def beat(session: Session, repository: str, turn: str) -> None:
    """Hold the turn for `limits.collect_turn_seconds` from now on.  `Conflict`: it is lost; delete
    nothing more."""
    session.ask("PUT", _turns(repository, turn))


def end(session: Session, repository: str, turn: str) -> None:
    """Let others begin.  Once or often."""
    session.ask("DELETE", _turns(repository, turn))


def condemn(session: Session, repository: str, run: str, listed: Files, *, turn: str) -> int:
    """Have commits refused from now on that retention does not keep; how many runs had been taken
    back, which `sweep` is to be told.

    `run`: the caller's, 1 to 64 letters and digits; it can be taken back by `undo`.  To be called
    before a list of `listed` files counts.  `Conflict`: the run was taken back, or the turn is
    lost; `Gone`: it took longer than a day, call again.  Once or often.  One request for each
    4,000 commits and metaranges that no run has condemned before.
    """
    where = _runs(repository, run, "condemned")
    body = {"files": listed.count, "size_bytes": listed.size_bytes, "turn": turn}
    first = said = _checked(session.ask("POST", where, body), "undone", "following")
    while said["following"]:
        page = session.ask("POST", where, {**body, "after": said["following"]})
        said = _checked(page, "undone", "following")
    return int(first["undone"])


def sweep(session: Session, repository: str, run: str, undone: int, *, turn: str) -> None:
    """Say that files which a run listed are about to be deleted: it cannot be taken back any more.

    `Conflict`: it was, or another was since, or the turn is lost; `NotFound`: it never condemned.
    Nothing of its list may be deleted then.  Once or often."""
    session.ask("PUT", _runs(repository, run, "sweeping"), {"undone": undone, "turn": turn})


def _turns(repository: str, *turn: str) -> str:
    return below("repositories", repository, "gc", "turns", *turn)


def _runs(repository: str, *run: str) -> str:
    return below("repositories", repository, "gc", "runs", *run)


def _checked(said: Any, *names: str) -> dict[str, Any]:
    if not isinstance(said, dict) or not said.keys() >= set(names):
        raise Internal("the server answers with no run: it is no Graveler, or another version")
    return said
