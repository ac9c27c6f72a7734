"""A linked folder, and the shelf where files wait to be placed and displaced files are kept.

    parent/
        data/                        the linked folder
            .lakefs_ref.yaml
        .data.graveler-1a2b3c4d/     the shelf, while an operation works
            new/0 …                  received
            old/0 …                  displaced

The shelf is beside the folder, because lakectl would upload it; it is inside if the parent cannot
be written, or is on another file system.  Names come from the server: every path is checked for
symbolic links on the way each time.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from typing import Final

from graveler.core.errors import Conflict, Invalid
from graveler.lake.transfers import link as links
from graveler.lake.transfers.journal import sync_folder
from graveler.lake.transfers.link import STATE_FILE, Link
from graveler.lake.transfers.paths import (
    EVERYTHING,
    IGNORE_BYTES_MAX,
    IGNORE_FILE,
    OWN_NAMES,
    SHELF_INSIDE,
    Folding,
    Ignore,
    is_inside,
)
from graveler.lake.transfers.records import Entry, File, Fingerprint, Posix, Settings, identity

_PIECE_BYTES: Final = 1 << 18
_SYNC_EACH_MAX: Final = 64  # more files are made durable at once
_MODE_BITS: Final = 0o777  # set-user-id and the like are never taken from a server
_ASIDE_MAX: Final = 1_000
_SHELF_BYTES: Final = 100  # of the name of the folder in that of its shelf
_OTHERS_WRITE: Final = 0o022


class Folder:
    """The folder that its user sees.  No method follows a symbolic link, or leaves the folder.
    `ignore`: what is left alone, as it was when the command began."""

    def __init__(self, root: Path, settings: Settings) -> None:
        """Raises `Invalid` if `.gravelerignore` is wrong."""
        self.root = root
        self._settings = settings
        self.ignore = _ignore(root)

    def link(self) -> Link | None:
        """What the state file says; none without one.  Raises `Invalid` if it cannot be read."""
        return links.read_link(self.root)

    def write_link(self, link: Link | None) -> None:
        """Write the state file, atomically and durably; none removes it."""
        target = self.root / STATE_FILE
        if link is None:
            target.unlink(missing_ok=True)
            return
        place = shelf_place(self.root)
        fresh = place.with_name(f"{place.name}.ref")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            fresh.unlink(missing_ok=True)
            handle = os.open(fresh, flags, 0o644)
        except OSError as error:
            raise Invalid(f"file cannot be written: {fresh}: {error.strerror}") from error
        with os.fdopen(handle, "wb") as file:
            file.write(links.dump(link))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
        sync_folder(self.root)

    def files(self) -> Iterator[File]:
        """All files, in no order, without those of the tools."""
        folders = [("", str(self.root))]
        settings, ignore = self._settings, self.ignore
        while folders:
            prefix, place = folders.pop()
            try:
                items = os.scandir(place)
            except OSError as error:
                raise _failed(prefix or ".", error) from error
            with items:
                for item in items:
                    name, path = item.name, prefix + item.name
                    if name in OWN_NAMES or name.startswith(SHELF_INSIDE):
                        continue
                    is_folder = item.is_dir(follow_symlinks=False)
                    if ignore and ignore.fits(path, is_folder=is_folder):
                        continue
                    if is_folder:
                        folders.append((path + "/", item.path))
                    if not is_folder or settings.posix:
                        file = self._file(path, item.stat(follow_symlinks=False))
                        if file is not None:
                            yield file

    def look(self, path: str) -> File | None:
        """The file at a path, or none."""
        try:
            status = os.lstat(checked(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder and not path.endswith("/"):
            return None
        return self._file(path.rstrip("/"), status)

    def read(self, path: str) -> Iterator[bytes]:
        """The content of a file."""
        flags = os.O_RDONLY | os.O_NOFOLLOW
        try:
            handle = os.open(checked(self.root, path), flags)
        except OSError as error:
            raise _failed(path, error) from error
        with os.fdopen(handle, "rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    def checksum(self, path: str) -> str:
        """The MD5 of a file."""
        digest = md5(usedforsecurity=False)
        for piece in self.read(path):
            digest.update(piece)
        return digest.hexdigest()

    def folding(self) -> Folding:
        """What the file system of the folder ignores in names."""
        return folding(self.root)

    def exists(self, path: str) -> bool:
        """Whether anything is at a path, also if it is ignored."""
        return os.path.lexists(self.root / path)

    def set_aside(self, path: str) -> str:
        """Give a file another name in the same place, and return it: `NAME.mine`."""
        source = checked(self.root, path)
        for number in range(_ASIDE_MAX):
            name = f"{path}.mine" + (f".{number}" if number else "")
            if not os.path.lexists(self.root / name):
                os.rename(source, self.root / name)
                return name
        raise Conflict(f"too many files of the name {path}.mine")

    def _file(self, path: str, status: os.stat_result) -> File | None:
        mode = status.st_mode
        size, link = status.st_size, ""
        if stat.S_ISDIR(mode):
            path, size = path + "/", 0
        elif stat.S_ISLNK(mode) and self._settings.symlinks:
            size, link = 0, os.readlink(self.root / path)
            if not is_inside(path, link):
                raise Invalid(f"symbolic link leads out of the folder: {path}")
        elif not stat.S_ISREG(mode):
            if self._settings.skip_special:
                return None
            kind = "symbolic link" if stat.S_ISLNK(mode) else "special file"
            raise Invalid(
                f"{kind} cannot be compared: {path}: remove it, or set "
                "local.skip_non_regular_files or local.symlink_support in lakectl's file"
            )
        fingerprint = Fingerprint(size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
        posix = None
        if self._settings.posix:
            posix = Posix(stat.S_IFMT(mode) | mode & _MODE_BITS, status.st_uid, status.st_gid)
        return File(path, fingerprint, link, posix)


Fill = Callable[[Path, Callable[[Path], None]], None]


class Shelf:
    """Files in motion, each in a slot.  Every move is a rename, so it happens or does not."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root, self._settings = root, settings
        self._place = shelf_place(root)

    def receive(self, slot: int, path: str, entry: Entry, fill: Fill) -> None:
        """Store new content in a slot, with the time and mode of the entry.  `fill`: puts the
        content of a regular file into a part, and calls the function that it is given then."""
        self._prepare()
        new = self._place / "new" / str(slot)
        part = new.with_name(f"{slot}.part")

        def finish(part: Path) -> None:
            self._describe(part, entry)
            os.replace(part, new)

        if part.is_dir() and not part.is_symlink():
            part.rmdir()
        if entry.link and self._settings.symlinks:
            part.unlink(missing_ok=True)
            os.symlink(entry.link, part)
            finish(part)
        elif path.endswith("/"):
            part.unlink(missing_ok=True)
            part.mkdir()
            finish(part)
        else:
            if os.path.lexists(part) and not os.access(part, os.R_OK | os.W_OK):
                part.unlink()  # it was whole, and had got its mode
            fill(part, finish)

    def slots(self) -> tuple[set[int], set[int]]:
        """The slots with new content, and those with displaced files."""
        self._check()
        return _numbers(self._place / "new"), _numbers(self._place / "old")

    def flush(self) -> None:
        """Make what was received durable."""
        new = self.slots()[0]
        if len(new) > _SYNC_EACH_MAX:
            os.sync()
            return
        for slot in new:
            with suppress(OSError):  # a symbolic link
                handle = os.open(self._place / "new" / str(slot), os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        sync_folder(self._place / "new")

    def displace(self, path: str, slot: int) -> None:
        """Move a file of the folder to the shelf, and remove folders that are empty then."""
        self._take(path, self._place / "old" / str(slot))

    def take_back(self, path: str, slot: int) -> None:
        """Undo `place`."""
        self._take(path, self._place / "new" / str(slot))

    def place(self, slot: int, path: str) -> None:
        """Move new content to its path, which must be free."""
        target, new = checked(self._root, path), self._place / "new" / str(slot)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise Conflict(f"a file is in the way of a folder: {path}") from None
        checked(self._root, path)
        try:
            _move(new, target, path)
        except IsADirectoryError:
            try:
                os.rmdir(target)
            except OSError:
                raise Conflict(f"a folder is in the way: {path}") from None
            os.rename(new, target)

    def restore(self, slot: int, path: str) -> None:
        """Undo `displace`."""
        target = checked(self._root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        _move(self._place / "old" / str(slot), target, path)

    def discard(self) -> None:
        """Remove the shelf and all that is on it."""
        shutil.rmtree(self._place, ignore_errors=True)

    def _take(self, path: str, slot: Path) -> None:
        self._prepare()
        _move(checked(self._root, path), slot, path)
        folder = path.rstrip("/").rpartition("/")[0]
        while folder:
            try:
                os.rmdir(self._root / folder)
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def _prepare(self) -> None:
        for place in (self._place, self._place / "new", self._place / "old"):
            place.mkdir(mode=0o700, exist_ok=True)
            self._check()

    def _check(self) -> None:
        """Raise `Invalid` if somebody else made the shelf, or can write to it."""
        try:
            status = os.lstat(self._place)
        except FileNotFoundError:
            return
        is_safe = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
        if not stat.S_ISDIR(status.st_mode) or not is_safe:
            raise Invalid(
                "what is in the way of the shelf is no folder of this user alone: look at it, and "
                f"remove it: {self._place}"
            )

    def _describe(self, part: Path, entry: Entry) -> None:
        is_link = part.is_symlink()
        if entry.posix is not None and self._settings.posix and not is_link:
            os.chmod(part, entry.posix.mode & _MODE_BITS)
            if self._settings.owners:
                os.chown(part, entry.posix.uid, entry.posix.gid)
        os.utime(part, (entry.mtime, entry.mtime), follow_symlinks=False)


# ---- files ---------------------------------------------------------------------------------------


def shelf_place(root: Path) -> Path:
    """Where the shelf of a folder is."""
    known = os.fsencode(root.name)[:_SHELF_BYTES].decode("utf-8", "ignore")
    name = f".{known}.graveler-{identity(root)[:8]}"
    beside = root.parent / name
    same_device = root.exists() and root.stat().st_dev == root.parent.stat().st_dev
    is_usable = same_device and os.access(root.parent, os.W_OK)
    return beside if is_usable else root / SHELF_INSIDE


def folding(folder: Path) -> Folding:
    """What the file system ignores in names, found by a folder that is made for it; everything, if
    none can be made.  If `folder` does not exist, the folder that it would be in is asked."""
    places = (folder, *folder.absolute().parents)
    folder = next(place for place in places if place.is_dir())
    probe = folder / f"{SHELF_INSIDE}-{os.getpid()}-\u00e9"
    case = probe.with_name(probe.name.upper().replace("\u00c9", "\u00e9"))
    form = probe.with_name(probe.name.replace("\u00e9", "e\u0301"))
    try:
        probe.mkdir()
    except (OSError, UnicodeError):
        return EVERYTHING
    try:
        return Folding(case=os.path.lexists(case), form=os.path.lexists(form))
    finally:
        probe.rmdir()


def checked(root: Path, path: str) -> Path:
    """The place of a path below a folder.  Raises `Invalid` if it leads out of it."""
    parts = path.removesuffix("/").split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Invalid(f"path cannot be a file below {root}: {path!r}")
    place = str(root)
    for part in parts[:-1]:
        place = f"{place}/{part}"
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            break
        if stat.S_ISLNK(mode):
            raise Invalid(f"a symbolic link is in the way: {place}")
    return root.joinpath(*parts)


def _move(source: Path, target: Path, path: str) -> None:
    if path.endswith("/"):
        _move_folder(source, target)
    else:
        os.rename(source, target)


def _move_folder(source: Path, target: Path) -> None:
    """Carry the mode and owner of a folder to another place.  What is in it stays."""
    status = source.stat()
    target.mkdir(parents=True, exist_ok=True)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    current = target.stat()
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid):
        os.chown(target, status.st_uid, status.st_gid)
    try:
        source.rmdir()
    except OSError:  # not empty: what is in it may have to move too
        os.chmod(source, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)


def _numbers(folder: Path) -> set[int]:
    try:
        return {int(name) for name in os.listdir(folder) if name.isdigit()}
    except FileNotFoundError:
        return set()


def _ignore(root: Path) -> Ignore:
    try:
        with (root / IGNORE_FILE).open("rb") as file:
            content = file.read(IGNORE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Ignore()
    except OSError as error:
        raise _failed(IGNORE_FILE, error) from error
    if len(content) > IGNORE_BYTES_MAX:
        raise Invalid(f"{IGNORE_FILE} must have at most {IGNORE_BYTES_MAX} bytes")
    return Ignore(content.decode("utf-8", "replace"))


def _failed(path: str, error: OSError) -> Invalid:
    return Invalid(f"file cannot be read: {path}: {error.strerror}")
