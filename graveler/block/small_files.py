"""Places small files without a sync of their own; the journal makes them durable.

    temporary file ──► link under its name ──► record in the journal ──► sync of the journal

If the journal takes no record, or its sync fails, the file is withdrawn and written again with
syncs of its own.  So a journal that fails costs time, never an answer.  For the local driver only.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, Literal

from graveler.block.folders import Folders, closing
from graveler.block.journal import Journal, Segment, SmallFile
from graveler.block.layout import Place
from graveler.block.open_files import OpenFile
from graveler.errors import OutcomeUnknown
from graveler.records import ABSENT, Absent

SMALL_BYTES: Final = 64 * 1024  # a file of this length is synced itself
_FOLDERS_MAX: Final = 8


class SmallFiles:
    """The small files of one folder.  `lock`: the lock of a name."""

    def __init__(
        self, folders: Folders, journal: Journal, lock: Callable[[Place], threading.Lock]
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
                segment.append(file)
            except OSError:
                self._withdraw(segment, file.place)
                return ABSENT
            return status
        finally:
            self._journal.leave(segment)

    def _place(self, segment: Segment, file: SmallFile) -> os.stat_result:
        place = file.place
        with self._folders.temporary.new(place.name) as temporary:
            temporary.write(file.content)
            os.utime(temporary.file, ns=(file.written_ns, file.written_ns))
            status = os.fstat(temporary.file)
            for is_repeated in (False, True):
                folder = self._folder(place.folders)
                try:
                    with self._lock(place):
                        os.link(
                            temporary.name,
                            place.name,
                            src_dir_fd=temporary.folder,
                            dst_dir_fd=folder.descriptor,
                        )
                        segment.places.add(place)
                    break
                except FileNotFoundError:  # the folder was removed: make it again
                    self._open.pop(place.folders, None)
                    if is_repeated:
                        raise
        return status

    def _withdraw(self, segment: Segment, place: Place) -> None:
        try:
            with self._lock(place):
                os.unlink(place.name, dir_fd=self._folder(place.folders).descriptor)
                segment.places.discard(place)
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
        disk has of it may be anything."""
        with (
            closing(self._folders.make(file.place.folders)) as folder,
            self._folders.temporary.new(file.place.name) as temporary,
        ):
            temporary.write(file.content)
            os.utime(temporary.file, ns=(file.written_ns, file.written_ns))
            os.rename(
                temporary.name, file.place.name, src_dir_fd=temporary.folder, dst_dir_fd=folder
            )
