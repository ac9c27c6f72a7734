"""What the server does in the background: jobs of a repository, imports, collections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from graveler.client import collections, jobs
from graveler.client.collections import Collection as Totals
from graveler.client.session import Session, looks
from graveler.lake import records
from graveler.lake.errors import Raising, TimedOut
from graveler.lake.ref import Commit

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.repository import Repository

_WEEK_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True)
class Job:
    """A job as the server described it.  `done`: how many of `unit`.  `error`: why it failed."""

    id: str
    kind: str
    state: str
    branch: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    done: int = 0
    unit: str = ""
    per_second: float = 0.0
    cancellable: bool = False
    commit: str = ""
    error: str = ""
    attempts: int = field(default=0, repr=False)


def job(answer: jobs.Job) -> Job:
    """A job from the answer of the API."""
    progress = answer.get("progress")
    return Job(
        answer["id"],
        answer["kind"],
        answer["state"],
        answer.get("branch", ""),
        records.moment_of(answer["create_time"]),
        records.moment_of(answer.get("update_time")),
        progress["done"] if progress else 0,
        progress["unit"] if progress else "",
        progress["per_second"] if progress else 0.0,
        answer["cancellable"],
        answer.get("commit_id", ""),
        str((answer.get("error") or {}).get("message", "")),
        answer.get("attempts", 0),
    )


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is.  `skipped`: how many names it left out, with `examples`."""

    done: bool
    objects: int
    skipped: int = 0
    examples: tuple[str, ...] = ()


class Import(Raising):
    """An import that was begun; it goes on without this process."""

    def __init__(self, branch: "Branch", id: str) -> None:
        self.branch, self.id = branch, id

    @property
    def _where(self) -> tuple[Session, str, str]:
        repository = self.branch.repository
        return repository.lake.session, repository.name, self.branch.name

    def progress(self) -> ImportProgress:
        """How far it is.  Raises the error of an import that failed.  One request."""
        status = jobs.import_status(*self._where, self.id)
        return ImportProgress(
            status.completed, status.objects, status.skipped, tuple(status.examples)
        )

    def wait(
        self,
        seconds: float = _WEEK_SECONDS,
        progress: Callable[[ImportProgress], object] | None = None,
    ) -> Commit:
        """Wait until it is done, and return its commit.  `progress`: called at each look.  Raises
        the error of an import that failed, and `TimedOut`; the import goes on then."""

        def look() -> bool:
            seen = self.progress()
            if progress is not None:
                progress(seen)
            return seen.done

        wait(self._where[0], look, seconds, what=f"import {self.id}")
        commit = jobs.import_status(*self._where, self.id).commit
        return Commit(self.branch.repository, commit)

    def cancel(self) -> None:
        """End it; the branch does not change.  Raises `Conflict` if it is done."""
        jobs.cancel_import(*self._where, self.id)

    def __repr__(self) -> str:
        return f"import {self.id} into {self.branch.address}"


class Collection(Raising):
    """A garbage collection that was ordered; it goes on without this process."""

    def __init__(self, repository: "Repository", id: str) -> None:
        self.repository, self.id = repository, id

    def progress(self) -> Totals:
        """How far it is, with its totals at the end.  One request."""
        return collections.get(self.repository.lake.session, self.repository.name, self.id)

    def wait(self, seconds: float = _WEEK_SECONDS) -> Totals:
        """Wait until it is done, and return its totals.  Raises `TimedOut`; it goes on then."""
        session = self.repository.lake.session
        wait(session, lambda: self.progress().done, seconds, what=f"collection {self.id}")
        return self.progress()

    def undo(self) -> None:
        """Make what it condemned usable again.  Raises `Conflict` when files were deleted."""
        run = self.progress().run
        collections.undo(self.repository.lake.session, self.repository.name, run or self.id)

    def __repr__(self) -> str:
        return f"collection {self.id} of {self.repository.name}"


def wait(
    session: Session, until: Callable[[], bool], seconds: float = _WEEK_SECONDS, *, what: str
) -> None:
    """Wait for a condition, with a pause that grows to two seconds.  Raises `TimedOut`."""
    for _ in looks(session.clock, seconds):
        if until():
            return
    raise TimedOut(f"{what} is not done after {seconds:g} seconds; it goes on")
