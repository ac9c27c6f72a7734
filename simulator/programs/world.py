"""The state of a random program: ports, repository, model, and the comparison of the two.

Always: after `both` returned, engine and model gave the same answer or the same kind of error.
For `programs.py` and its verbs.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.errors import GravelerError
from graveler.records import Entry, Repository
from simulator.model.model import Blob, Draft, Model

FIRST_COMMIT_NS: Final = 0  # before any other, whatever the system's clock showed
_COMMITS_FROM_NS: Final = 2_000_000_000 * 1_000_000_000

CONTENTS: Final = (b"", b"one", b"two!", b"three", b"four and more", b"five" * 50)
SOURCES: Final = {"x": 1, "b": 2, "b/c": 3, "b/d": 0, "y/1": 4}  # path to import -> content
CONTENT_OF: Final = {hashlib.md5(body).hexdigest(): body for body in CONTENTS}


class Mismatch(AssertionError):
    """Engine and model disagree; `trace` holds the verbs so far."""

    def __init__(self, message: str, trace: tuple[str, ...]) -> None:
        super().__init__(message)
        self.trace = trace


@dataclass
class World:
    """One run of one program."""

    ports: Ports
    repo: Repository
    model: Model
    sources: str = ""  # the folder to import from, if the deployment allows one
    trace: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def draft(self, allow_empty: bool = False) -> Draft:
        """A message and a time that no other commit of the program has."""
        number = len(self.trace)
        return Draft(f"commit {number}", _COMMITS_FROM_NS + number * 700_000_000, allow_empty)

    def both(
        self, title: str, engine: Callable[[], Any], model: Callable[[], Any]
    ) -> tuple[bool, Any, Any]:
        """Run both; return (whether they succeeded, the engine's result, the model's result)."""
        self.trace.append(title)
        got, got_error = attempt(engine)
        wanted, wanted_error = attempt(model)
        verb = title.split(" ", 1)[0]
        outcome = f"{verb}: {type(wanted_error).__name__ if wanted_error else 'done'}"
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if type(got_error) is not type(wanted_error):
            self.fail(f"{title}: {shown(got, got_error)}, model: {shown(wanted, wanted_error)}")
        self.trace[-1] = f"{title} -> {type(got_error).__name__ if got_error else 'done'}"
        if got_error is not None and wanted_error is not None:
            paths, expected = (getattr(e, "paths", None) for e in (got_error, wanted_error))
            self.same(f"{title}: conflict paths", paths, expected)
        return got_error is None, got, wanted

    def same(self, what: str, got: object, wanted: object) -> None:
        """Raise `Mismatch` if they differ."""
        if got != wanted:
            self.fail(f"{what}:\n    engine {got!r}\n    model  {wanted!r}")

    def fail(self, message: str) -> None:
        raise Mismatch(message, tuple(self.trace))


def attempt(call: Callable[[], Any]) -> tuple[Any, GravelerError | None]:
    """Return (result, None), or (None, the error)."""
    try:
        return call(), None
    except GravelerError as error:
        return None, error


def shown(result: object, error: GravelerError | None) -> str:
    """A result or an error as text for people."""
    return f"{type(error).__name__} {error}" if error else f"done {result!r}"


def blob_of(entry: Entry) -> Blob:
    """The model's view of an entry."""
    metadata = tuple(sorted(entry.metadata.items()))
    return Blob(entry.checksum, entry.size, metadata, entry.content_type)


def source_blob(path: str) -> Blob:
    """The blob that an import of the source `path` gives."""
    content = CONTENTS[SOURCES[path]]
    return Blob(hashlib.md5(content).hexdigest(), len(content))
