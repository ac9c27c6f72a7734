"""Opens and creates folders and files below the local store's root, durably and atomically.

    write     a temporary file of this process, in `%tmp/<token>/`, and sync it
    publish   link (must be new) or rename (replaces) it into its folder: the one atomic step
    sync      the folder, so that the name survives too; concurrent publications share one sync

No link below the root is followed.  Each process locks its folder of temporary files; a process
that opens the store removes the folders of processes that have ended.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from graveler.block.layout import TEMPORARY, FilePath
from graveler.core import limits
from graveler.core.clock import Ids
from graveler.core.errors import (
    AlreadyExists,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    StorageFull,
    Unavailable,
)
from graveler.core.fanout import SyncWaiters
from graveler.core.records import ABSENT, Absent

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DURABLE_COUNT_MAX = 10_000

_KINDS: dict[int, tuple[type[GravelerError], str]] = {
    errno.ENOENT: (NotFound, "object not found"),
    errno.EEXIST: (AlreadyExists, "object is there already"),
    errno.ELOOP: (Invalid, "address passes a link"),
    errno.ENOTDIR: (Invalid, "address passes something that is no folder"),
    errno.EISDIR: (NotFound, "object not found"),
    errno.ENAMETOOLONG: (Invalid, "address is too long for the file system"),
    errno.ENOSPC: (StorageFull, "no room is left on the device"),
    errno.EDQUOT: (StorageFull, "the quota of the device is used up"),
    errno.EFBIG: (StorageFull, "the file system refuses a file of this size"),
    errno.EACCES: (Refused, "the service may not access the file"),
    errno.EPERM: (Refused, "the service may not access the file"),
    errno.EROFS: (Refused, "the file system is read-only"),
}


class translated:
    """Translates errors of the operating system to those of errors.py, with the address.

    A class, because each request enters several, and a generator takes three times as long.
    """

    __slots__ = ("_address",)

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if isinstance(error, OSError):
            raised, text = _KINDS.get(error.errno or 0, (Unavailable, "the file system failed"))
            message = f"{text}: address={self._address} error={error.strerror}"
            raise raised(message) from error


def open_folder(root: str, names: Sequence[str]) -> int:
    """A descriptor of a folder below `root`.  Only the path of `root` itself may contain links."""
    at = _open_at_once(root, names)
    return _open_each(root, names) if at is ABSENT else at


def _open_at_once(root: str, names: Sequence[str]) -> int | Literal[Absent.ABSENT]:
    """As `open_folder`, in two calls of the system: open the whole path, and ask the system for the
    path of what was opened.  `ABSENT` if that is another one, as behind a link, or if either call
    fails: then `_open_each` finds out why."""
    path = "/".join((root, *names))
    try:
        at = os.open(path, _FOLDER)
    except OSError:
        return ABSENT
    try:
        if os.readlink(f"/proc/self/fd/{at}") == path:
            return at
    except OSError:
        pass
    os.close(at)
    return ABSENT


def _open_each(root: str, names: Sequence[str]) -> int:
    """As `open_folder`, one folder at a time."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            below = os.open(name, _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def open_file(root: str, place: FilePath) -> int:
    """A descriptor to read a file.  No component below `root` may be a link."""
    at = open_folder(root, place.folders)
    try:
        return os.open(place.name, _READ, dir_fd=at)
    finally:
        os.close(at)


class closing:
    """Closes a descriptor at the end of the block."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)


class SharedSync:
    """Syncs of one folder or file.  All callers that arrive during a sync share the next one."""

    def __init__(self, sync: Callable[[int], None] | Literal[Absent.ABSENT] = ABSENT) -> None:
        self._sync = sync
        self.users = 0  # guarded by the owner's lock
        self._lock = threading.Lock()
        self._waiters = SyncWaiters(self._lock)
        self._begun = 0
        self._done = 0
        self._running = False

    @property
    def waiting(self) -> int:
        """The number of callers that wait for the next sync."""
        return len(self._waiters)

    def sync(self, descriptor: int) -> None:
        """Return after the end of a sync that began after this call."""
        with self._lock:
            own = self._begun + 1
            while self._done < own:
                if self._running:
                    self._waiters.wait(own)
                else:
                    self._lead(descriptor)

    def _lead(self, descriptor: int) -> None:
        self._running = True
        self._begun += 1
        turn = self._begun
        self._lock.release()
        try:
            if self._sync is ABSENT:
                os.fsync(descriptor)
            else:
                self._sync(descriptor)
        except BaseException:
            turn = 0  # the sync does not count: the next waiter syncs itself
            raise
        finally:
            self._lock.acquire()
            self._running = False
            self._done = max(self._done, turn)
            self._waiters.wake(self._done)


class Folders:
    """The folders below one root.  `synced`: false for data that a loss of power may take.
    `read_only`: nothing is created or removed before the first write."""

    def __init__(
        self, root: Path, ids: Ids, *, synced: bool = True, read_only: bool = False
    ) -> None:
        self.synced = synced
        self._lock = threading.Lock()
        self._durable: set[tuple[str, ...]] = set()
        self._syncs: dict[tuple[str, ...], SharedSync] = {}
        if not read_only:
            make_root(root)
        self.root = os.path.realpath(root)
        if not read_only:
            remove_abandoned(Path(self.root) / TEMPORARY)
        self.temporary = TemporaryFiles(self, ids)

    def make(self, names: tuple[str, ...]) -> int:
        """A descriptor of a folder, created if it does not exist, durable up to the root."""
        if names in self._durable:
            with contextlib.suppress(FileNotFoundError):  # it was removed: create it again
                return open_folder(self.root, names)
            with self._lock:
                self._durable.clear()
        at = open_folder(self.root, ())
        for depth in range(1, len(names) + 1):
            with closing(at):
                # Syncs also a folder that another process made, which may not have synced it yet.
                below = self._open_or_make(at, names[depth - 1], names[:depth] in self._durable)
            at = below
            with self._lock:
                if len(self._durable) >= _DURABLE_COUNT_MAX:
                    self._durable.clear()
                self._durable.add(names[:depth])
        return at

    def sync(self, names: tuple[str, ...], descriptor: int, address: str) -> None:
        """Make links, renames and unlinks in a folder durable.  A failure raises
        `OutcomeUnknown`."""
        if not self.synced:
            return
        with self._lock:
            shared = self._syncs.setdefault(names, SharedSync())
            shared.users += 1
        try:
            shared.sync(descriptor)
        except OSError as error:
            raise OutcomeUnknown(f"folder could not be synced: {address=}") from error
        finally:
            with self._lock:
                shared.users -= 1
                if not shared.users:
                    self._syncs.pop(names, None)

    def _open_or_make(self, at: int, name: str, is_durable: bool) -> int:
        for _ in range(limits.conditional_round_count_max):
            try:
                descriptor = os.open(name, _FOLDER, dir_fd=at)
                break
            except FileNotFoundError:  # perhaps another process removed what was just created
                is_durable = False
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)  # fails if `at` itself was removed
        else:
            raise Unavailable(f"other processes keep removing a folder; try again: {name=}")
        try:
            if self.synced and not is_durable:
                os.fsync(at)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def make_root(root: Path) -> None:
    """Create the root and its missing parents, durably."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        with closing(os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)) as above:
            os.fsync(above)


class Temporary(NamedTuple):
    """A temporary file being written: its descriptor, its folder's descriptor, its name."""

    file: int
    folder: int
    name: str

    def write(self, chunk: bytes) -> None:
        """Append all of `chunk`."""
        write_all(self.file, chunk)


def write_all(descriptor: int, chunk: bytes) -> None:
    """Write all of `chunk`."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


class TemporaryFiles:
    """Temporary files of one process.  They are invisible until published, and are removed after
    the end of the process."""

    def __init__(self, folders: Folders, ids: Ids) -> None:
        self._folders = folders
        self._ids = ids
        self._lock = threading.Lock()
        self._serial = itertools.count()
        self._own = -1  # the first write creates it, so that a read-only store can be opened
        self._path = ""
        self._owner = -1

    @contextlib.contextmanager
    def new(self, address: str) -> Iterator[Temporary]:
        """A fresh file.  At the end of the block it is closed, and deleted unless it was
        renamed."""
        with translated(address):
            own = self._folder()
            name = self._name()
            descriptor = os.open(name, NEW_FILE, 0o600, dir_fd=own)
        try:
            with closing(descriptor):
                yield Temporary(descriptor, own, name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=own)

    def discard(self, folder: str) -> None:
        """Remove a folder with its files.  Its name goes first and in one step, so nobody sees a
        part of it, and what a crash leaves of it is removed with the other temporary files."""
        own = self._folder()
        name = self._name()
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, name, dst_dir_fd=own)
            shutil.rmtree(os.path.join(self._path, name), ignore_errors=True)

    def _name(self) -> str:
        return f"temporary-{next(self._serial)}"

    def _folder(self) -> int:
        if self._owner != os.getpid():
            with self._lock:
                if self._owner != os.getpid():
                    inherited, self._own = self._own, self._claimed()
                    self._owner = os.getpid()
                    if inherited >= 0:  # this is a forked process: the folder is its parent's
                        os.close(inherited)
        return self._own

    def _claimed(self) -> int:
        for _ in range(limits.conditional_round_count_max):
            own = self._claim(self._ids.unique(20))
            if own >= 0:
                return own
        raise Unavailable("other processes keep removing the folder of temporary files; try again")

    def _claim(self, token: str) -> int:
        """A locked folder; -1 if another process takes or removes it before it is locked.  Its name
        is not synced: nobody needs it after a crash."""
        with (
            closing(self._folders.make((TEMPORARY,))) as above,
            contextlib.suppress(FileExistsError, FileNotFoundError),
        ):
            os.mkdir(token, 0o700, dir_fd=above)
            own = os.open(token, _FOLDER, dir_fd=above)
            try:
                if self._is_locked(own, token):
                    return own
            except BaseException:  # of a file system without locks, for example
                os.close(own)
                os.rmdir(token, dir_fd=above)
                raise
            os.close(own)
        return -1

    def _is_locked(self, folder: int, token: str) -> bool:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._path = os.path.join(self._folders.root, TEMPORARY, token)
        return os.path.exists(self._path)

    def __del__(self) -> None:
        if getattr(self, "_own", -1) >= 0:
            if self._owner == os.getpid():  # else it is the parent's
                with contextlib.suppress(OSError):
                    os.rmdir(self._path)
            os.close(self._own)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of processes that have ended, as far as permissions allow."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError), closing(os.open(entry.path, _FOLDER)) as owned:
                fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path)
