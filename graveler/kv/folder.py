"""Exclusive ownership of a folder by one process, for drivers that keep files.

The owner holds a lock on the file `OWNER`, which also contains its process id.  The kernel releases
the lock when the process ends, in whatever way, so no stale lock can remain.  Drivers of `kv/` may
use it.
"""

import errno
import fcntl
import os
from contextlib import suppress

from graveler.core.errors import Conflict, StorageFull, Unavailable

_OWNER_FILE = "OWNER"
_TRIAL_FILE = "ROOM"
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def own(path: str) -> int:
    """Create the folder `path` if absent, and own it until the returned descriptor is closed.  The
    caller calls `sign` when it has opened its files.

    Raises `Conflict` if the folder has an owner already, this process included; `Unavailable` if it
    cannot be written; `StorageFull` if there is no room.
    """
    try:
        os.makedirs(path, exist_ok=True)
        _sync_folder(os.path.dirname(path))
        owner = os.open(
            os.path.join(path, _OWNER_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        _lock(owner, path)
    except BaseException:
        os.close(owner)
        raise
    return owner


def sign(path: str) -> None:
    """Write the id of this process, which owns the folder, for others that are refused."""
    with suppress(OSError), open(os.path.join(path, _OWNER_FILE), "r+b", buffering=0) as owner:
        owner.truncate(0)
        owner.write(str(os.getpid()).encode())


def share(path: str) -> int:
    """Keep other processes from owning the folder until the returned descriptor is closed, and
    change nothing.  Others may share it.  Raises `Conflict`, `Unavailable` as `own`."""
    try:
        owner = os.open(os.path.join(path, _OWNER_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # a copy without it
        owner = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(owner)
        raise Conflict(
            f"open kv store: another process uses the folder; stop that process: {path=}"
        ) from error
    return owner


def try_room(path: str, size: int) -> None:
    """Raises `StorageFull` if a file of `size` bytes cannot be allocated in the folder, and
    `Unavailable` if no file can be created.  The trial file is removed."""
    trial = os.path.join(path, _TRIAL_FILE)
    try:
        file = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)
    except OSError as error:
        raise _refusal(path, error) from error
    finally:
        with suppress(OSError):
            os.unlink(trial)


def _lock(owner: int, path: str) -> None:
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        process_id = os.pread(owner, 20, 0).decode("ascii", "replace")
        raise Conflict(
            "open kv store: another process uses the folder; stop that process or choose another "
            f"folder: {path=} {process_id=}"
        ) from error
    except OSError as error:
        raise _refusal(path, error) from error


def _refusal(path: str, error: OSError) -> Unavailable:
    if error.errno in _NO_ROOM:
        return StorageFull(f"kv store: no room is left in the folder: {path=}")
    return Unavailable(
        "kv store: the folder cannot be written; make it writable or choose another folder:"
        f" {path=} reason={error.strerror}"
    )


def _sync_folder(path: str) -> None:
    """Sync the folder `path`.  A new folder survives a power cut only after its parent is
    synced."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
