"""The driver for local files: objects in one folder, and files of this machine for imports.

    local://bucket/key           a file below the store's folder
    local:///absolute/path       a file of this machine below an import root; read-only

An etag consists of time and size.  CREATE is exact among several processes.  UPDATE, OVERWRITE
beside UPDATE, and delete by version are exact only within one process.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graveler.block import drivers, file_reads, layout, walk
from graveler.block.adapter import (
    ANY_PUT,
    ANY_VERSION,
    CREATE,
    OVERWRITE,
    TO_END,
    WHOLE,
    Beat,
    Body,
    Mode,
    NewObject,
    ObjectHead,
    ObjectPage,
    Part,
    PartOf,
    PartPage,
    PresignedUrl,
    PutTerms,
    Target,
    unwatched,
)
from graveler.block.address import split_prefix
from graveler.block.bodies import Spool
from graveler.block.file_reads import Chunks
from graveler.block.files import DeletionTarget, Files, FileSpool
from graveler.block.folders import translated
from graveler.block.imports import ImportRoots
from graveler.block.journal import check_segments
from graveler.block.local_uploads import LocalUploads
from graveler.block.signature import NoPresigner, Presigner
from graveler.core.clock import Clock, Ids
from graveler.core.errors import GravelerError, Unsupported
from graveler.core.records import ABSENT


@dataclass(frozen=True, slots=True)
class ImportRules:
    """The folders of this machine that may be read.

    `closed` folders are never read, even below a root.  They must include the folder of the whole
    store.
    """

    roots: Sequence[Path] = ()
    closed: Sequence[Path] = ()


_UNSIGNED = NoPresigner()
_NO_IMPORTS = ImportRules()


class LocalBlocks:
    """`Blocks` on a folder.  Without a `signer`, presigning raises `Unsupported`.

    `journaled`: a journal makes small new objects durable (journal.py).  Then no other process
    replaces or deletes objects, and this one calls `close` at its end.  `synced`: if false, nothing
    is synced: a loss of power may take or damage any file that was stored; the end of a process
    takes none.  `read_only`: for callers that only read; nothing below the folder is changed.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        ids: Ids,
        signer: Presigner = _UNSIGNED,
        imports: ImportRules = _NO_IMPORTS,
        journaled: bool = False,
        synced: bool = True,
        read_only: bool = False,
    ) -> None:
        self._files = Files(
            root, clock, ids, journaled=journaled, synced=synced, read_only=read_only
        )
        self._uploads = LocalUploads(self._files, ids, clock)
        self._imports = ImportRoots(imports.roots, (root, *imports.closed))
        self._signer = signer
        self._pages = walk.Pages(clock)

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        drivers.check_range(start, end)
        chunks = self._open(address)
        try:
            head = self._head(chunks, address)
            chunks.at, chunks.end = drivers.clip_range(head.size, start, end)
        except BaseException:
            chunks.close()
            raise
        return Body(head, chunks.at, chunks.end, chunks)

    @staticmethod
    def _head(chunks: Chunks, address: str) -> ObjectHead:
        """The head of an open file, with its checksum if it is large and in the store."""
        head = chunks.head()
        is_large = head.size >= file_reads.CHECKSUM_BYTES_MIN
        return chunks.checked_head() if is_large and layout.is_owned(address) else head

    def read(self, address: str, start: int, length: int) -> bytes:
        drivers.check_read(length)
        known = self._files.reads.read_known(address, start, length)
        if known is not ABSENT:
            return known
        parts = layout.served(address)
        place = layout.place(parts) if parts.bucket else ABSENT
        if place is not ABSENT and layout.is_table(place):
            return self._files.reads.read_table(place, parts.address, start, length)
        chunks = self._open(address)
        try:
            chunks.at, chunks.end = drivers.clip_read(chunks.head().size, start, length)
            return b"".join(chunks)
        finally:
            chunks.close()

    def head(self, address: str) -> ObjectHead:
        chunks = self._open(address)
        try:
            return chunks.head()
        finally:
            chunks.close()

    def create_many(self, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        return self._files.create_many(objects)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        drivers.check_page(limit)
        parts = layout.served(prefix, split_prefix)
        tree = self._files if parts.bucket else self._imports
        return self._pages.page(tree, parts, after, limit)

    def _open(self, address: str) -> Chunks:
        known = self._files.reads.known(address)
        if known is not ABSENT:
            return known
        parts = layout.served(address)
        if not parts.bucket:
            return self._imports.open(parts)
        return self._files.reads.kept_open(layout.place(parts), parts.address)

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        parts = layout.owned(address)
        place = layout.place(parts)
        if mode is CREATE and isinstance(body, Sequence):
            return self._files.create(place, body, parts.address)
        return self._files.write(place, body, mode, parts.address)

    def spool(self, address: str) -> Spool:
        """A file of the store, which a put gives its name."""
        return FileSpool(self._files, address)

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        # A real copy: a hard link would keep the old time, and garbage collection uses the time to
        # tell young files from old ones.
        parts = layout.owned(destination)
        chunks = self._open(source)
        try:
            head = self._head(chunks, source)
            chunks.end = head.size
            place, watched = layout.place(parts), _watched(chunks, beat)
            return self._files.write(place, watched, OVERWRITE, parts.address, head.crc32c)
        finally:
            chunks.close()

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self.delete_all((Target(address, version),))

    def delete_all(self, targets: Sequence[Target]) -> None:
        """Files of one folder are deleted together, so that it is synced once."""
        drivers.check_targets(targets)
        folders: dict[tuple[str, ...], list[DeletionTarget]] = {}
        for target in targets:
            parts = layout.owned(target.address)
            place = layout.place(parts)
            doomed = DeletionTarget(place, target.version, parts.address)
            folders.setdefault(place.folders, []).append(doomed)
        failed: list[GravelerError] = []
        for batch in folders.values():
            try:
                self._files.remove(batch)
            except GravelerError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def check_versions(self, address: str) -> None:
        """Checks only the address: a version of a local file is never used again."""
        layout.owned(address)

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        parts = layout.owned(address) if method == "PUT" else layout.served(address)
        if part != WHOLE:
            raise Unsupported(f"this store cannot presign parts of an upload: {address=}")
        if parts.bucket:
            layout.place(parts)
        else:
            self._imports.check(parts)
        return self._signer.presign(parts.address, method, seconds, content_type, terms.size)

    def close(self) -> None:
        """Sync what the journal holds, so that the next start replays nothing.  Raises
        `Unavailable`, `StorageFull`; then the next start does it."""
        with translated(self._files.root):
            self._files.close()

    def create_upload(self, address: str, storage_class: str = "") -> str:
        parts = layout.owned(address)
        layout.place(parts)
        return self._uploads.create(parts.address)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        return self._uploads.put_part(layout.owned(address).address, upload_id, number, body)

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        chunks = self._open(source)
        try:
            drivers.check_part_range(chunks.head().size, start, end)
            chunks.at, chunks.end = start, end
            return self.put_part(address, part.upload_id, part.number, chunks)
        finally:
            chunks.close()

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        drivers.check_part_page(limit)
        return self._uploads.list_parts(layout.owned(address).address, upload_id, after, limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        owned = layout.owned(address)
        return self._uploads.complete(owned.address, layout.place(owned), upload_id, parts)

    def abort_upload(self, address: str, upload_id: str) -> None:
        self._uploads.abort(layout.owned(address).address, upload_id)


def _watched(chunks: Iterable[bytes], beat: Beat) -> Iterator[bytes]:
    for chunk in chunks:
        beat()
        yield chunk


def check_journal(root: Path) -> None:
    """Raises `Corrupt` if the journal below `root` is damaged.  Changes nothing."""
    with translated(str(root)):
        check_segments(root / layout.JOURNAL)
