"""Multipart uploads on the local store: each part is a file until all parts are joined.

    %uploads/<id>/address    the target address of the upload
    %uploads/<id>/<number>   a part; its etag is the MD5 of its bytes in hex

The join compares each part with its etag, so a failed join stores nothing at the address.  After a
crash right after the join the parts still exist, and the join can be repeated.  For the local
driver only.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator

from graveler.block import bounds
from graveler.block.adapter import OVERWRITE, ObjectHead, Part
from graveler.block.files import Files
from graveler.block.layout import UPLOADS, Place
from graveler.clock import Ids
from graveler.errors import Invalid, NotFound
from graveler.streams import MeasuredBody

_ID = re.compile(r"[0-9a-v]{20}", re.ASCII)


class LocalUploads:
    """`Multipart` for addresses that the driver has checked and made canonical."""

    def __init__(self, root: str, files: Files, ids: Ids) -> None:
        self._root = root
        self._files = files
        self._ids = ids

    def create(self, address: str) -> str:
        """See `Multipart.create_upload`."""
        upload_id = self._ids.unique(20)
        self._files.write(_place(upload_id, "address"), [address.encode()], OVERWRITE, address)
        return upload_id

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        """See `Multipart.put_part`."""
        bounds.check_part_number(number)
        self._check(address, upload_id)
        measured = MeasuredBody(body)
        self._files.write(_place(upload_id, str(number)), measured, OVERWRITE, address)
        return Part(number, measured.checksum)

    def complete(
        self, address: str, place: Place, upload_id: str, parts: tuple[Part, ...]
    ) -> ObjectHead:
        """See `Multipart.complete_upload`."""
        bounds.check_parts(parts)
        self._check(address, upload_id)
        head = self._files.write(place, self._joined(address, upload_id, parts), OVERWRITE, address)
        self._forget(upload_id)
        return head

    def abort(self, address: str, upload_id: str) -> None:
        """See `Multipart.abort_upload`."""
        self._check(address, upload_id)
        self._forget(upload_id)

    def _joined(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> Iterator[bytes]:
        for part in parts:
            digest = hashlib.md5(usedforsecurity=False)
            try:
                for chunk in self._stored(_place(upload_id, str(part.number)), address):
                    digest.update(chunk)
                    yield chunk
            except NotFound as error:
                raise Invalid(f"part was not uploaded: number={part.number}") from error
            if digest.hexdigest() != part.etag:
                raise Invalid(f"part was not uploaded with this etag: number={part.number}")

    def _check(self, address: str, upload_id: str) -> None:
        """Raises `NotFound` for an unknown upload id, or one of another address."""
        known = _ID.fullmatch(upload_id) is not None
        try:
            stored = b"".join(self._stored(_place(upload_id, "address"), address)) if known else b""
        except NotFound:
            stored = b""
        if stored != address.encode():
            raise NotFound(f"upload not found: {upload_id=} {address=}")

    def _stored(self, place: Place, address: str) -> Iterator[bytes]:
        chunks = self._files.open(place, address)
        chunks.end = chunks.head().size
        yield from chunks

    def _forget(self, upload_id: str) -> None:
        shutil.rmtree(os.path.join(self._root, UPLOADS, upload_id), ignore_errors=True)


def _place(upload_id: str, name: str) -> Place:
    return Place((UPLOADS, upload_id), name)
