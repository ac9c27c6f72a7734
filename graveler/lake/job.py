"""What the server does in the background: jobs of a repository, imports, collections."""

from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypedDict, TypeVar

from graveler.lake.answers import Record, moment_of, told
from graveler.lake.errors import Raising, TimedOut
from graveler.lake.ref import Commit
from graveler.lake.session import (
    WEEK_SECONDS,
    Session,
    below,
    failure,
    having,
    looks,
    paused,
    with_query,
)
from graveler.lake.turns import Files

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.repository import Repository

_SKIPPED: Final = "graveler.import.skipped"  # metadata of the commit of an import


class _HasEnd(Protocol):
    @property
    def done(self) -> bool: ...


Progress = TypeVar("Progress", bound=_HasEnd)
Result = TypeVar("Result")


class Task(Raising, Generic[Progress, Result]):
    """What was begun on the server, such as an import; it goes on without this process.  Each has
    `progress()` and `wait()`."""

    _session: Session

    @abstractmethod
    def progress(self) -> Progress:
        """How far it is.  One request."""

    @abstractmethod
    def _result(self, progress: Progress) -> Result:
        """What it made, by its last progress."""

    def _looks(
        self, seconds: float, progress: Callable[[Progress], object] | None
    ) -> Generator[float, None, Result]:
        """The pauses between looks, and the result; see `wait`."""

        def look() -> Progress | None:
            seen = self.progress()
            if progress is not None:
                progress(seen)
            return seen if seen.done else None

        seen = yield from looks(self._session.clock, look, seconds)
        if seen is None:
            raise TimedOut(f"{self!r} is not done after {seconds:g} seconds; it goes on")
        return self._result(seen)

    def wait(
        self, seconds: float = WEEK_SECONDS, progress: Callable[[Progress], object] | None = None
    ) -> Result:
        """Wait until it is done, and return what it made.  `progress`: called at each look; what it
        raises ends the waiting.  Raises the error of one that failed, and `TimedOut`; it goes on
        then, as after an interrupt.  A server that cannot be reached is asked again for two
        minutes."""
        return paused(self._session.clock, self._looks(seconds, progress))


@dataclass(frozen=True)
class Job(Record):
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


def job(answer: Any) -> Job:
    """A job from the answer of the API."""
    having(answer, "id", "kind", "state", "create_time", "cancellable")
    progress = answer.get("progress")
    made = Job(
        answer["id"],
        answer["kind"],
        answer["state"],
        answer.get("branch", ""),
        moment_of(answer["create_time"]),
        moment_of(answer.get("update_time")),
        progress["done"] if progress else 0,
        progress["unit"] if progress else "",
        progress["per_second"] if progress else 0.0,
        answer["cancellable"],
        answer.get("commit_id", ""),
        str((answer.get("error") or {}).get("message", "")),
        answer.get("attempts", 0),
    )
    return told(made, answer)


@dataclass(frozen=True)
class ImportProgress(Record):
    """How far an import is.  `commit`: the id of its commit, when it is done.  `skipped`: how many
    names it left out, with `examples`."""

    done: bool
    objects: int
    skipped: int = 0
    examples: tuple[str, ...] = ()
    commit: str = ""


class Import(Task[ImportProgress, Commit]):
    """An import that was begun; it goes on without this process.  `wait` returns its commit."""

    def __init__(self, branch: "Branch", id: str) -> None:
        self.branch, self.id = branch, id
        self._session = branch.repository.lake.session

    def _call(self, method: str) -> Any:
        repository = self.branch.repository
        path = below("repositories", repository.name, "branches", self.branch.name, "import")
        return self._session.call(method, with_query(path, id=self.id))

    def progress(self) -> ImportProgress:
        """How far it is.  Raises the error of an import that failed.  One request."""
        answer = having(self._call("GET"), "completed")
        if "error" in answer:
            raise failure(400, str(having(answer["error"], "message")["message"]))
        commit = answer.get("commit") or {}
        metadata = commit.get("metadata") or {}
        progress = ImportProgress(
            bool(answer["completed"]),
            int(answer.get("ingested_objects", 0)),
            int(metadata.get(_SKIPPED, 0)),
            tuple(str(metadata.get(f"{_SKIPPED}.examples", "")).splitlines()),
            str(commit.get("id", "")),
        )
        return told(progress, answer)

    def _result(self, progress: ImportProgress) -> Commit:
        return Commit(self.branch.repository, progress.commit)

    def cancel(self) -> None:
        """End it; the branch does not change.  Raises `Conflict` if it is done."""
        self._call("DELETE")

    def __repr__(self) -> str:
        return f"import {self.id} into {self.branch.address}"


@dataclass(frozen=True)
class CollectionProgress(Record):
    """How far a collection is.  The numbers are valid once it is `done` without an `error`; in a
    dry run they say what would be condemned and deleted.  `candidates`: the folder of the lists of
    files, if any.  `run`: the id for `undo_collection`, if anything was condemned."""

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


class Collection(Task[CollectionProgress, CollectionProgress]):
    """A garbage collection that was ordered; it goes on without this process.  `wait` returns its
    totals."""

    def __init__(self, repository: "Repository", id: str) -> None:
        self.repository, self.id = repository, id
        self._session = repository.lake.session

    def progress(self) -> CollectionProgress:
        """How far it is, with its totals at the end.  Raises `NotFound` a day after its end.  One
        request."""
        answer = self.repository._call("GET", "gc", "runs", self.id)
        having(answer, "id", "done", "dry_run")
        known = (answer["id"], answer["done"], answer["dry_run"])
        if not answer["done"]:
            return told(CollectionProgress(*known), answer)
        if "error" in answer:
            return told(CollectionProgress(*known, str(answer["error"]["message"])), answer)
        having(answer, "run", "candidates", "commits", "commits_kept", "condemned", "deleted")
        totals = CollectionProgress(
            *known,
            run=answer["run"],
            candidates=answer["candidates"],
            commits=answer["commits"],
            commits_kept=answer["commits_kept"],
            condemned=Files(**answer["condemned"]),
            deleted=Files(**answer["deleted"]),
        )
        return told(totals, answer)

    def _result(self, progress: CollectionProgress) -> CollectionProgress:
        return progress

    def undo(self) -> None:
        """Make what it condemned usable again.  Raises `Conflict` when files were deleted."""
        self.repository.undo_collection(self.progress().run or self.id)

    def __repr__(self) -> str:
        return f"collection {self.id} of {self.repository.name}"


class Manifest(TypedDict):
    """The ids of the tables of a dump."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


@dataclass(frozen=True)
class RefsProgress(Record):
    """How far a dump or a restore is.  `manifest`: of a dump that is done."""

    id: str
    done: bool
    manifest: Manifest | None = None


class RefsTask(Task[RefsProgress, RefsProgress]):
    """A dump or a restore of refs that was begun; it goes on without this process."""

    def __init__(self, repository: "Repository", id: str, kind: Literal["dump", "restore"]) -> None:
        self.repository, self.id, self.kind = repository, id, kind
        self._session = repository.lake.session

    def progress(self) -> RefsProgress:
        """How far it is.  Raises the error of one that failed.  One request."""
        path = with_query(self.repository._path(self.kind), task_id=self.id)
        answer = having(self._session.call("GET", path))
        if answer.get("error"):
            raise failure(400, str(answer["error"]))
        having(answer, "id", "done")
        manifest: Any = None
        if self.kind == "dump" and answer["done"]:
            manifest = having(answer.get("refs"), *Manifest.__annotations__)
        return told(RefsProgress(answer["id"], answer["done"], manifest), answer)

    def _result(self, progress: RefsProgress) -> RefsProgress:
        return progress

    def __repr__(self) -> str:
        return f"{self.kind} {self.id} of {self.repository.name}"
