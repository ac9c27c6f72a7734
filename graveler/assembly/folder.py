"""Prepares the folder of an embedded store, and the secret in it."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from graveler.block.disk import sync_path
from graveler.core import private_files
from graveler.core.clock import Ids
from graveler.core.errors import Corrupt, Invalid, StorageFull, Unavailable
from graveler.core.records import without
from graveler.kv.files import BACK_UP, holds_database

KEY_LENGTH = 32
_DATABASE = "kv"  # the first part that a store gets
_PARTS = (_DATABASE, "objects", "key", "credentials")  # the content of a store's folder
_PROBE = ".probe"
# What a folder may contain in which a store is created: parts that were restored, the audit trail,
# what a first start left that was interrupted, and what systems put into folders by themselves.
_BEFORE = frozenset((*_PARTS, "audit", _PROBE, "lost+found", ".DS_Store"))


def prepared(store: Path) -> Path:
    """The absolute path of the store's folder.  Creates the folder if it does not exist, and makes
    its content accessible to its owner only.

    Raises `Invalid` for a folder that has other files and is no store, and `Corrupt` for a store
    without its database; nothing is changed then.  Raises `StorageFull`, `Unavailable`."""
    folder = Path(os.path.abspath(store))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_kind(folder)
        check_database(folder)
        _close(folder)
        probe = folder / _PROBE
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StorageFull(f"store folder is on a full disk: store={folder}") from error
        raise Unavailable(
            f"store folder is not writable: make it writable or choose another: store={folder} "
            f"reason={error.strerror}"
        ) from error
    return folder


def _check_kind(folder: Path) -> None:
    """Raises `Invalid` if a folder is no store and has files that are not part of one."""
    if (folder / _DATABASE).is_dir():
        return
    foreign = sorted(set(os.listdir(folder)) - _BEFORE)
    if foreign:
        raise Invalid(
            f"this folder has other files and is no store: choose a new or an empty folder: "
            f"store={folder} found={foreign[0]!r}"
        )


def check_database(folder: Path) -> None:
    """Raises `Corrupt` if a folder has other parts of a store and no database: a new database would
    hide what is lost."""
    kv = folder / _DATABASE
    try:
        if kv.is_dir() and holds_database(str(kv)):
            return
    except Corrupt as error:
        raise Corrupt(f"{error} store={folder}") from error
    objects, key = folder / "objects", folder / "key"
    left = [part.name for part in (objects, key) if part.exists()]
    if key.exists() or (objects.is_dir() and set(os.listdir(objects)) - {"lost+found"}):
        raise Corrupt(
            f"the database of this store is lost: store={folder} {left=}; nothing was changed: "
            f"restore the folder {_DATABASE} from a back-up ({BACK_UP})"
        )


def _close(folder: Path) -> None:
    """Remove the rights of other users from a store: modes 0700 and 0600.

    A folder without such rights is not entered, because other users cannot reach its content.
    Links stay unchanged, and so do files that are not part of a store, because the caller may have
    named a wrong folder by mistake.
    """
    if not _narrow(folder, folder.stat().st_mode, 0o700):
        return
    for name in _PARTS:
        part = folder / name
        if part.is_symlink() or not part.exists():
            continue
        if part.is_dir():
            _close_all(part)
        else:
            _narrow(part, part.lstat().st_mode, 0o600)


def _close_all(folder: Path) -> None:
    if not _narrow(folder, folder.stat().st_mode, 0o700):
        return
    for at, folders, files in os.walk(folder):
        for name in files:
            path = Path(at, name)
            _narrow(path, path.lstat().st_mode, 0o600)
        folders[:] = [
            name
            for name in folders
            if _narrow(Path(at, name), Path(at, name).lstat().st_mode, 0o700)
        ]


def close_files(folder: Path) -> None:
    """Remove the rights of other users from the files directly in a folder."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                _narrow(path, mode, 0o600)


def _narrow(path: Path, mode: int, narrow: int) -> bool:
    """Remove the rights of other users.  Returns whether there were any."""
    if stat.S_ISLNK(mode) or not mode & 0o077:
        return False
    with suppress(PermissionError):  # the file has another owner, who gave this user access
        path.chmod(narrow)
    return True


def import_root(root: Path) -> Path:
    """The real path of a folder from which imports are allowed.  Raises `Invalid`."""
    if not root.is_dir():
        raise Invalid(f"import root must be a folder: {root=}")
    return Path(os.path.realpath(root))


class StoreKey(NamedTuple):
    """The store's secret, and the one before its rotation; empty if it was never rotated.

    In the file: the secret, then the one before.  One replacement of the file rotates both."""

    secret: bytes
    before: bytes = b""

    def __repr__(self) -> str:
        return without(self, "secret", "before")


def key_in(path: Path, ids: Ids) -> StoreKey:
    """The key of a store.  The first start creates it atomically.  Raises `Corrupt` for a wrong
    length."""
    if not path.exists():
        _write_key(path, StoreKey(_fresh(ids)))
    key = read_key(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return key


def read_key(path: Path) -> StoreKey:
    """As `key_in`, of a key that exists.  Changes nothing."""
    content = path.read_bytes()
    if len(content) not in (KEY_LENGTH, 2 * KEY_LENGTH):
        raise Corrupt(
            f"key file must have {KEY_LENGTH} bytes, or {2 * KEY_LENGTH} after a rotation; restore "
            f"it: path={path}"
        )
    return StoreKey(content[:KEY_LENGTH], content[KEY_LENGTH:])


def rotate_key(path: Path, ids: Ids) -> None:
    """Replace the secret by a fresh one, and keep the present one as the one before.  Atomic.  No
    other process has the store open.  Raises `Unavailable`; the file is as it was then."""
    known = key_in(path, ids)
    try:
        _write_key(path, StoreKey(_fresh(ids), known.secret))
    except OSError as error:
        raise Unavailable(f"key cannot be replaced: {path=!s} {error.strerror}") from error


def _fresh(ids: Ids) -> bytes:
    return ids.stamp() + ids.stamp()


def _write_key(path: Path, key: StoreKey) -> None:
    private_files.replace(path, key.secret + key.before)
    sync_path(path.parent)
