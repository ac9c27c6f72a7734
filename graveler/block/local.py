"""Objects as files below one folder, `local://bucket/key`, and, read-only, files of this machine
below import roots, `local:///absolute/path`.

Files are named by `layout.py`, written by `files.py`, checked for imports by `imports.py`.  An
object's etag is made of its time and size; no content is read to name it.  CREATE is exact among
any processes; UPDATE, OVERWRITE beside it, and delete by version are exact within one, and one
process serves a store.  Folders are never removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from graveler.block import bounds, layout, walking
from graveler.block.adapter import (
    ANY_VERSION,
    OVERWRITE,
    TO_END,
    Body,
    ListedObject,
    Mode,
    ObjectHead,
    ObjectPage,
    Part,
    Presigned,
)
from graveler.block.address import Parts, split, split_prefix
from graveler.block.files import Chunks, Files
from graveler.block.folders import translated
from graveler.block.imports import ImportRoots
from graveler.block.local_uploads import LocalUploads
from graveler.block.signing import Signer
from graveler.clock import Clock, Ids
from graveler.errors import Invalid, Unsupported
from graveler.records import ABSENT, Absent

SCHEME = "local"


@dataclass(frozen=True, slots=True)
class ImportRules:
    """Which folders of this machine may be read.

    `closed` are never read though a root hold them: name the folder of the whole store there.
    """

    roots: Sequence[Path] = ()
    closed: Sequence[Path] = ()


class LocalBlocks:
    """`BlockStore` and `Multipart` on a folder.  Without a `signer` nothing can be presigned."""

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        ids: Ids,
        signer: Signer | Absent = ABSENT,
        imports: ImportRules = ImportRules(),
    ) -> None:
        with translated(str(root)):
            self._files = Files(root, clock, ids)
        self._uploads = LocalUploads(str(root), self._files, ids)
        self._imports = ImportRoots(imports.roots, (root, *imports.closed))
        self._signer = signer

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        bounds.check_range(start, end)
        chunks = self._open(address)
        try:
            head = chunks.head()
            chunks.at, chunks.end = bounds.clip_range(head.size, start, end)
        except BaseException:
            chunks.close()
            raise
        return Body(head, chunks.at, chunks.end, chunks)

    def read(self, address: str, start: int, length: int) -> bytes:
        bounds.check_read(length)
        chunks = self._open(address)
        try:
            chunks.at, chunks.end = bounds.clip_read(chunks.head().size, start, length)
            return b"".join(chunks)
        finally:
            chunks.close()

    def put(self, address: str, body: Iterable[bytes], mode: Mode = OVERWRITE) -> ObjectHead:
        parts = _owned(address)
        return self._files.write(layout.place(parts), body, mode, parts.address)

    def head(self, address: str) -> ObjectHead:
        chunks = self._open(address)
        try:
            return chunks.head()
        finally:
            chunks.close()

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        bounds.check_page(limit)
        parts = split_prefix(prefix)
        _check_scheme(parts, prefix)
        stem = Parts(parts.scheme, parts.bucket, "").address
        if after.startswith(stem):
            after = after[len(stem) :]
        elif after > stem:
            return ObjectPage((), False)
        else:
            after = ""
        tree = self._files if parts.bucket else self._imports
        with translated(prefix):
            keys = walking.keys(tree.children, tree.start(parts), parts.key, after)
            found = list(islice(keys, limit + 1))
            heads = list(tree.heads(found[:limit]))
        lines = tuple(ListedObject(stem + key, head) for key, head in heads)
        return ObjectPage(lines, len(found) > limit)

    def copy(self, source: str, destination: str) -> ObjectHead:
        # A true copy: a hard link would carry the old time, by which a sweep tells young from old.
        parts = _owned(destination)
        chunks = self._open(source)
        try:
            chunks.end = chunks.head().size
            return self._files.write(layout.place(parts), chunks, OVERWRITE, parts.address)
        finally:
            chunks.close()

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        parts = _owned(address)
        self._files.remove(layout.place(parts), version, parts.address)

    def presign(
        self, address: str, method: Literal["GET", "PUT"], seconds: int, content_type: str
    ) -> Presigned:
        parts = _owned(address) if method == "PUT" else _served(address)
        if parts.bucket:
            layout.place(parts)
        if self._signer is ABSENT:
            raise Unsupported(f"this store presigns nothing: {address=}")
        return self._signer.presign(parts.address, method, seconds, content_type)

    def create_upload(self, address: str) -> str:
        parts = _owned(address)
        layout.place(parts)
        return self._uploads.create(parts.address)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        return self._uploads.put_part(_owned(address).address, upload_id, number, body)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        owned = _owned(address)
        return self._uploads.complete(owned.address, layout.place(owned), upload_id, parts)

    def abort_upload(self, address: str, upload_id: str) -> None:
        self._uploads.abort(_owned(address).address, upload_id)

    def _open(self, address: str) -> Chunks:
        parts = _served(address)
        with translated(parts.address):
            if parts.bucket:
                return Chunks(self._files.open(layout.place(parts)), parts.address)
            return Chunks(self._imports.open(parts.key), parts.address)


def _served(address: str) -> Parts:
    parts = split(address)
    _check_scheme(parts, address)
    return parts


def _owned(address: str) -> Parts:
    parts = _served(address)
    if not parts.bucket:
        raise Unsupported(f"files outside of the store are only read: {address=}")
    return parts


def _check_scheme(parts: Parts, address: str) -> None:
    if parts.scheme != SCHEME:
        raise Invalid(f"address is not served here: {address=} scheme={SCHEME}")
