"""Collections of garbage, ordered through the API of a server, and what came of them.

    order ──► id ──► get … get ──► done: an error, or totals and the folder of the lists

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


def _runs(repository: str, *id: str) -> str:
    return below("repositories", repository, "gc", "runs", *id)


def _checked(said: Any, *names: str) -> dict[str, Any]:
    if not isinstance(said, dict) or not said.keys() >= set(names):
        raise Internal("the server answers with no run: it is no Graveler, or another version")
    return said
