"""The library for asyncio: the same lakes, repositories, branches and refs, awaited.

    async with graveler.aio.connect(url, key, secret) as lake:      # or graveler.aio.open("folder")
        main = lake.repository("shop").branch("main")               # sends nothing: no await
        await main.write_text("raw/orders.csv", "id\\n1\\n")
        await main.commit("load")
        async for entry in main.list("raw/"):
            ...
        async with main.change("correct") as work:
            await work.upload("out/", "raw/")

Each verb is that of `graveler`, with the same arguments, results and errors: see
`help(graveler.Branch)`.  What may send a request is awaited, a property too: `await
shop.namespace`.  What a commit says is there without an await when a verb has returned it, else
after `await commit.pin()`.  A check of `change` may be `async`.

The calls run in at most `threads` threads of the lake; others wait.  A call that is cancelled while
it waits is not made.  One that has begun goes on in its thread: a write may land although its
caller was cancelled.  `change` alone waits for its end, so that it has landed or has not.
"""

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from itertools import islice
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from graveler.core.errors import Invalid
from graveler.lake import (
    admin,
    branch,
    change,
    dataset,
    event_rules,
    extras,
    job,
    pull_requests,
    ref,
    repository,
    show,
)
from graveler.lake import lake as lakes
from graveler.lake.errors import of
from graveler.lake.session import WEEK_SECONDS

T = TypeVar("T")
C = TypeVar("C", bound=type["_Async"])
THREADS: Final = 32
_PAGE: Final = 1_000  # as servers list
# What sends no request, beside what returns a listing.
_AT_ONCE: Final = {
    lakes.Lake: {"repository", "at", "url", "admin"},
    repository.Repository: {"branch", "tag", "commit", "ref", "pull_requests", "events"},
    ref.Ref: {"address"},
}


class _Async:
    """An object of the library, whose verbs are awaited.  `sync`: that object."""

    def __init__(self, sync: Any, pool: ThreadPoolExecutor) -> None:
        self.sync, self._pool = sync, pool

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name):
            """What the object was made of (`name`, `repository`), and of a dataset everything."""
            if name.startswith("_"):
                raise AttributeError(name)
            if name in vars(self.sync):
                return _wrapped(getattr(self.sync, name), self._pool)
            if not isinstance(self.sync, dataset.Dataset):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return _verb(name).__get__(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Async) and bool(self.sync == other.sync)

    def __hash__(self) -> int:
        return hash(self.sync)

    def __str__(self) -> str:
        return str(self.sync)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sync!s}>"  # without a request


# ---- calls ---------------------------------------------------------------------------------------


def _begin(pool: ThreadPoolExecutor | None, call: Callable[[], T]) -> "asyncio.Future[T]":
    """Begin a call in a thread, with the variables of the context; None: in one of the loop."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, context.run, call)


async def _to_its_end(future: "asyncio.Future[T]") -> T:
    """The result of a call; a cancellation waits for the end of the call."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


def _wrapped(value: Any, pool: ThreadPoolExecutor) -> Any:
    """A result as an object of this module, if it is one that sends requests."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_wrapped(each, pool) for each in value)
    for kind in type(value).__mro__:
        if kind in _KINDS:
            return _KINDS[kind](value, pool)
    return value


def _plain(value: Any) -> Any:
    """An argument as the library takes it."""
    return value.sync if isinstance(value, _Async | Change) else value


def _verb(name: str, is_at_once: bool = False) -> Any:
    def begin(self: _Async, *args: Any, **named: Any) -> Any:
        plain = {key: _plain(value) for key, value in named.items()}
        call = partial(getattr(self.sync, name), *map(_plain, args), **plain)
        if is_at_once:
            return _wrapped(call(), self._pool)
        return _finish(self, call)

    return begin


async def _finish(self: _Async, call: Callable[[], Any]) -> Any:
    return _wrapped(await _begin(self._pool, call), self._pool)


def _asked(name: str) -> Any:
    """A property that may send a request: what it returns is awaited."""

    def begin(self: _Async) -> Awaitable[Any]:
        return _finish(self, partial(getattr, self.sync, name))

    return begin


def _known(name: str) -> Any:
    """A property that sends nothing."""

    def read(self: _Async) -> Any:
        return _wrapped(getattr(self.sync, name), self._pool)

    return read


def _of(kind: type) -> Callable[[C], C]:
    """Give a class of this module the verbs of one of the library."""

    def filled(cls: C) -> C:
        for name, value in vars(kind).items():
            if name.startswith("_") or name in vars(cls):
                continue
            is_at_once = name in _AT_ONCE.get(kind, ())
            if inspect.isfunction(value):
                lists = "Listing[" in str(value.__annotations__.get("return"))
                setattr(cls, name, wraps(value)(_verb(name, is_at_once or lists)))
            elif isinstance(value, property) or hasattr(value, "func"):  # or one that is kept
                ask = _known(name) if is_at_once else _asked(name)
                setattr(cls, name, property(ask, doc=value.__doc__))
        return cls

    return filled


# ---- objects -------------------------------------------------------------------------------------


@_of(lakes.Lake)
class Lake(_Async):
    """A server or a store; see `graveler.Lake`."""

    async def close(self) -> None:
        """Close the lake, when the calls that were made have ended.  It cannot be used again."""
        await self._end(self.sync.close)

    async def _end(self, close: Callable[[], object]) -> None:
        def end() -> None:
            self._pool.shutdown()
            close()

        await _to_its_end(_begin(None, end))

    def __getitem__(self, name: str) -> "Repository":
        return Repository(self.sync[name], self._pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end(partial(self.sync.__exit__, None, None, None))


@_of(repository.Repository)
class Repository(_Async):
    """A repository; see `graveler.Repository`."""


@_of(pull_requests.PullRequests)
class PullRequests(_Async):
    """The pull requests of a repository."""


@_of(event_rules.EventRules)
class EventRules(_Async):
    """Which objects that arrive in a bucket are staged."""


@_of(ref.Ref)
class Ref(_Async):
    """What a name means in a repository; see `graveler.Ref`."""

    async def stream(self, path: str, **more: Any) -> AsyncIterator[bytes]:
        """The bytes of an object, piece by piece: `async for piece in main.stream(path)`."""
        pieces = self.sync.stream(path, **more)
        try:
            while piece := await _begin(self._pool, partial(next, pieces, b"")):
                yield piece
        finally:
            with suppress(ValueError, RuntimeError):  # a thread still reads; the lake is closed
                await _begin(self._pool, pieces.close)

    def open(self, path: str, mode: str = "r", **more: Any) -> "File":
        """The object as a file: `async with main.open(path) as file: await file.read()`."""
        return File(partial(self.sync.open, path, mode, **more), self._pool)


@_of(ref.NamedRef)
class NamedRef(Ref):
    """A branch or a tag."""


@_of(branch.Branch)
class Branch(NamedRef):
    """A branch; see `graveler.Branch`."""

    open = Ref.open

    def change(self, message: str, checks: Any = (), **more: Any) -> "Change":
        """A branch of its own for an `async with` block, merged when the block and all checks pass;
        see `graveler.Branch.change`.  A check may be async."""
        return Change(self, message, tuple(checks), more)


@_of(ref.Tag)
class Tag(NamedRef):
    """A tag; see `graveler.Tag`."""


class Commit(Ref):
    """A commit; see `graveler.Commit`."""

    async def pin(self) -> "Commit":
        """Itself, when what it says is known."""
        await _begin(self._pool, lambda: self.sync.message)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if isinstance(getattr(ref.Commit, name, None), property):
                if "_answer" not in vars(self.sync):
                    raise of(Invalid(f"{name} is not known yet: await commit.pin() first"))
                return _known(name)(self)
            return super().__getattr__(name)

    def changes(self, prefix: str = "") -> "Listing[Any]":
        """What this commit changed; see `graveler.Commit.changes`."""

        def fetch() -> Any:
            yield from self.sync.changes(prefix)

        return Listing(show.Listing(fetch, "", (), lambda each: (each,)), self._pool)


@_of(dataset.Dataset)
class Dataset(_Async):
    """The data files below a prefix of a commit; each attribute of `pyarrow.dataset` is awaited."""


class Task(_Async):
    """What was begun on the server; it goes on without this process."""

    async def wait(
        self, seconds: float = WEEK_SECONDS, progress: Callable[[Any], object] | None = None
    ) -> Any:
        """See `graveler.lake.job.Task.wait`.  No thread is held between two looks; a cancellation
        ends the waiting, not the task."""
        steps = self.sync._looks(seconds, progress)

        def step() -> tuple[float, Any]:
            try:
                return next(steps), None
            except StopIteration as end:
                return -1.0, end.value

        while (found := await _begin(self._pool, step))[0] >= 0:
            await asyncio.sleep(found[0])
        return _wrapped(found[1], self._pool)


@_of(job.Import)
class Import(Task):
    """An import that was begun."""


@_of(job.Collection)
class Collection(Task):
    """A garbage collection that was ordered."""


@_of(job.RefsTask)
class RefsTask(Task):
    """A dump or a restore of refs that was begun."""


@_of(admin.Admin)
class Admin(_Async):
    """Who may do what on a server."""


class Listing(_Async, Generic[T]):
    """Items that the server lists in pages: `async for`, `await all()`, `await first()`."""

    async def all(self) -> list[T]:
        """All items."""
        return [each async for each in self]

    async def first(self) -> T | None:
        """The first item, or None.  One request."""
        found: T | None = await _finish(self, self.sync.first)
        return found

    async def __aiter__(self) -> AsyncIterator[T]:
        items = await _begin(self._pool, lambda: iter(self.sync))
        while page := await _begin(self._pool, lambda: list(islice(items, _PAGE))):
            for item in page:
                yield _wrapped(item, self._pool)

    def __bool__(self) -> bool:
        raise TypeError("a listing has to be asked: await listing.first() is not None")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class File:
    """An object as a file; `async with` opens it.  Its methods are awaited."""

    def __init__(self, opening: Callable[[], IO[Any]], pool: ThreadPoolExecutor) -> None:
        self._opening, self._pool = opening, pool
        self._file: IO[Any] | None = None

    async def __aenter__(self) -> Self:
        self._file = await _begin(self._pool, self._opening)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            ending = partial(self._file.__exit__, kind, error, trace)
            await _to_its_end(_begin(self._pool, ending))

    async def _call(self, name: str, *args: Any) -> Any:
        if self._file is None:
            raise ValueError("the file is not open: async with branch.open(…) as file")
        return await _begin(self._pool, partial(getattr(self._file, name), *args))

    async def read(self, size: int = -1) -> Any:
        """Bytes or text: at most `size`, or all."""
        return await self._call("read", size)

    async def readline(self) -> Any:
        """A line; empty at the end."""
        return await self._call("readline")

    async def write(self, data: Any) -> int:
        """Write; the object appears at the end of the block."""
        return int(await self._call("write", data))

    async def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move."""
        return int(await self._call("seek", offset, whence))

    async def __aiter__(self) -> AsyncIterator[Any]:
        while line := await self.readline():
            yield line


class Change:
    """A change that is being made; see `graveler.Branch.change`.  After the block, `commit` and
    `pull_request`.

    It begins and ends in threads of the loop: checks that are async need those of the lake."""

    def __init__(
        self, target: Branch, message: str, checks: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        self._pool = target._pool
        self._loop: asyncio.AbstractEventLoop | None = None
        adapted = [self._check(each) for each in checks]
        self.sync: change.ChangeContext = target.sync.change(message, adapted, **more)

    def _check(self, check: Callable[..., Any]) -> Callable[[branch.Branch], object]:
        if not inspect.iscoroutinefunction(check):
            return check

        @wraps(check)
        def called(work: branch.Branch) -> object:
            assert self._loop is not None
            awaited = check(Branch(work, self._pool))
            return asyncio.run_coroutine_threadsafe(awaited, self._loop).result()

        return called

    @property
    def commit(self) -> Commit | None:
        """The commit on the target, or None."""
        found: Commit | None = _wrapped(self.sync.commit, self._pool)
        return found

    @property
    def pull_request(self) -> Any:
        """The pull request, or None."""
        return self.sync.pull_request

    async def has_landed(self) -> bool:
        """Whether the job of this change has landed."""
        return await _begin(self._pool, self.sync.has_landed)

    async def __aenter__(self) -> Branch:
        self._loop = asyncio.get_running_loop()
        entering = _begin(None, self.sync.__enter__)
        try:
            return Branch(await _to_its_end(entering), self._pool)
        except asyncio.CancelledError:
            if entering.exception() is None:  # nothing is written: this deletes the branch
                await _to_its_end(_begin(None, partial(self._exit, None)))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        await _to_its_end(_begin(None, partial(self._exit, error)))

    def _exit(self, error: BaseException | None) -> None:
        self.sync.__exit__(None if error is None else type(error), error, None)


_KINDS: Final[dict[type, Any]] = {
    lakes.Lake: Lake,
    repository.Repository: Repository,
    pull_requests.PullRequests: PullRequests,
    event_rules.EventRules: EventRules,
    ref.Ref: Ref,
    branch.Branch: Branch,
    ref.Tag: Tag,
    ref.Commit: Commit,
    dataset.Dataset: Dataset,
    job.Import: Import,
    job.Collection: Collection,
    job.RefsTask: RefsTask,
    admin.Admin: Admin,
    show.Listing: Listing,
}


# ---- ways in -------------------------------------------------------------------------------------


def connect(
    url: str = "",
    access_key_id: str = "",
    secret_access_key: str = "",
    *,
    token: str = "",
    profile: str = "",
    threads: int = THREADS,
) -> Lake:
    """As `graveler.connect`.  `threads`: how many calls run at a time."""
    keys = (url, access_key_id, secret_access_key)
    return Lake(lakes.connect(*keys, token=token, profile=profile), _pool(threads))


async def open(
    folder: str | os.PathLike[str],
    *,
    import_roots: Sequence[str | os.PathLike[str]] = (),
    threads: int = THREADS,
) -> Lake:
    """As `graveler.open`, in a thread: `async with await graveler.aio.open("folder") as lake`."""
    pool = _pool(threads)
    opening = partial(extras.open_lake, folder, import_roots=import_roots)
    return Lake(await _begin(pool, opening), pool)


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="graveler-aio")
