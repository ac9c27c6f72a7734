"""Places small files without a sync of their own; the journal makes them durable.

    one     temporary file ──► link under its name ──┐
                                                     ├──► records in the journal ──► one sync
    many    written under their names, one by one ───┘

If the journal takes no record, or its sync fails, the files are withdrawn and written again with
syncs of their own.  A withdrawn file still counts as one of its segment: its name is given again
only after a checkpoint.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeVar

from graveler.block.folders import NEW_FILE, Folders, closing, open_file, write_all
from graveler.block.journal import Journal, Segment, SmallFile, replay, segment_names
from graveler.block.layout import JOURNAL, FilePath
from graveler.block.open_files import OpenFile
from graveler.core.clock import Ids
from graveler.core.errors import OutcomeUnknown
from graveler.core.records import ABSENT, Absent

SMALL_BYTES: Final = 64 * 1024  # a file of this length is synced itself
_FOLDERS_MAX: Final = 8

T = TypeVar("T")
Created = os.stat_result | OSError | OutcomeUnknown | Literal[Absent.ABSENT]


class SmallFiles:
    """The small files of one folder.  `lock`: the lock of a name."""

    def __init__(
        self, folders: Folders, journal: Journal, lock: Callable[[FilePath], threading.Lock]
    ) -> None:
        self._folders = folders
        self._journal = journal
        self._lock = lock
        self._open: dict[tuple[str, ...], OpenFile] = {}

    def create(self, file: SmallFile) -> os.stat_result | Literal[Absent.ABSENT]:
        """Create a file, which must be new, durably.  Returns its attributes; `ABSENT` if the
        journal takes no file, and then nothing is stored.

        Raises `OSError` if the file cannot be written, `OutcomeUnknown` if it may be stored.
        """
        try:
            segment = self._journal.enter()
        except OSError:
            return ABSENT
        try:
            status = self._place(segment, file)
            try:
                segment.append((file,))
            except OSError:
                self._withdraw(file.place)
                return ABSENT
            return status
        finally:
            self._journal.leave(segment)

    def create_many(self, files: Sequence[SmallFile]) -> list[Created]:
        """As `create`, for files whose names are new and known to nobody else, with one sync.
        Returns for each what `create` returns or raises."""
        try:
            segment = self._journal.enter()
        except OSError:
            return [ABSENT for _ in files]
        try:
            results = [self._write(segment, file) for file in files]
            placed = [at for at, each in enumerate(results) if isinstance(each, os.stat_result)]
            if placed:
                try:
                    segment.append([files[at] for at in placed])
                except OSError:
                    for at in placed:
                        results[at] = self._withdrawn(files[at].place)
            return results
        finally:
            self._journal.leave(segment)

    def _place(self, segment: Segment, file: SmallFile) -> os.stat_result:
        place = file.place
        with self._folders.temporary.new(place.name) as temporary:
            _fill(temporary.file, file)
            status = os.fstat(temporary.file)

            def link(folder: int) -> None:
                os.link(temporary.name, place.name, src_dir_fd=temporary.folder, dst_dir_fd=folder)

            self._named(segment, place, link)
        return status

    def _write(self, segment: Segment, file: SmallFile) -> Created:
        """Write a file under its name.  If that fails, nothing of it stays."""
        place = file.place

        def create(folder: int) -> int:
            return os.open(place.name, NEW_FILE, 0o600, dir_fd=folder)

        try:
            descriptor = self._named(segment, place, create)
        except OSError as error:
            return error
        try:
            _fill(descriptor, file)
            return os.fstat(descriptor)
        except OSError as error:
            left = self._withdrawn(place)
            if left is not ABSENT:
                return left
            segment.places.discard(place)  # no record of it was written
            return error
        finally:
            os.close(descriptor)

    def _named(self, segment: Segment, place: FilePath, give: Callable[[int], T]) -> T:
        """Give a file its name in its folder, as one of the segment.  `give` gets the folder."""
        for is_repeated in (False, True):
            folder = self._folder(place.folders)
            try:
                with self._lock(place):
                    named = give(folder.descriptor)
                    segment.places.add(place)
                    return named
            except FileNotFoundError:  # the folder was removed: make it again
                self._open.pop(place.folders, None)
                if is_repeated:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _withdrawn(self, place: FilePath) -> OutcomeUnknown | Literal[Absent.ABSENT]:
        try:
            self._withdraw(place)
        except OutcomeUnknown as unknown:
            return unknown
        return ABSENT

    def _withdraw(self, place: FilePath) -> None:
        try:
            folder = self._folder(place.folders)  # open until the end of this call
            with self._lock(place):
                os.unlink(place.name, dir_fd=folder.descriptor)
        except OSError as error:
            raise OutcomeUnknown(f"file could not be synced or removed: {place.name=}") from error

    def _folder(self, names: tuple[str, ...]) -> OpenFile:
        folder = self._open.get(names)
        if folder is None:
            folder = OpenFile(self._folders.make(names))
            if len(self._open) >= _FOLDERS_MAX:
                self._open.clear()
            self._open[names] = folder
        return folder

    def write_again(self, file: SmallFile) -> None:
        """Write a recorded file anew, without a sync.  Nobody has replaced it since, and what the
        disk has of it may be anything.  A file that is right stays: a full disk has no room for
        another one."""
        if self._is_right(file):
            return
        with (
            closing(self._folders.make(file.place.folders)) as folder,
            self._folders.temporary.new(file.place.name) as temporary,
        ):
            _fill(temporary.file, file)
            os.rename(
                temporary.name, file.place.name, src_dir_fd=temporary.folder, dst_dir_fd=folder
            )

    def _is_right(self, file: SmallFile) -> bool:
        try:
            descriptor = open_file(self._folders.root, file.place)
        except OSError:
            return False
        with closing(descriptor):
            is_recorded = os.fstat(descriptor).st_mtime_ns == file.written_ns
            return is_recorded and os.pread(descriptor, SMALL_BYTES, 0) == file.content


@contextmanager
def replayed(root: str, ids: Ids) -> Iterator[str]:
    """A temporary folder with the files of the journal below `root`, as the next start would write
    them; empty if there are none.  Raises `Corrupt`, `OSError`."""
    journal = Path(root) / JOURNAL
    if not segment_names(journal):
        yield ""
        return
    with tempfile.TemporaryDirectory() as newer:
        folders = Folders(Path(newer), ids, synced=False)
        lock = threading.Lock()
        replay(journal, SmallFiles(folders, Journal(folders), lambda _: lock).write_again)
        yield folders.root


def _fill(descriptor: int, file: SmallFile) -> None:
    """Write the bytes of a file, and set its time."""
    write_all(descriptor, file.content)
    os.utime(descriptor, ns=(file.written_ns, file.written_ns))
