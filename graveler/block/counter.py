"""A wrapper that counts requests, so that tests can check the cost of an operation.

A request is counted before it is sent, so a failed one counts too.  The chunks of a body do not
count separately, and presigning makes no request.  Answers and errors pass through unchanged.
Tests, benchmarks and assembly may use it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from graveler.block.adapter import (
    ANY_PUT,
    ANY_VERSION,
    OVERWRITE,
    TO_END,
    WHOLE,
    Beat,
    Blocks,
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
from graveler.block.bodies import Spool
from graveler.errors import GravelerError
from graveler.requests import Counts


class _CountedMany:
    """The calls for many: a deletion counts as one request, a creation as one put for each
    object.  And the single deletions."""

    def __init__(self, store: Blocks, counts: Counts) -> None:
        self._store = store
        self._counts = counts

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._counts.add("delete")
        self._store.delete(address, version)

    def delete_all(self, targets: Sequence[Target]) -> None:
        self._counts.add("delete_all")
        self._store.delete_all(targets)

    def create_many(self, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        self._counts.add("put", len(objects))
        return self._store.create_many(objects)

    def check_versions(self, address: str) -> None:
        self._counts.add("check_versions")
        self._store.check_versions(address)


class _CountedParts(_CountedMany):
    """The uploads in parts."""

    def create_upload(self, address: str, storage_class: str = "") -> str:
        self._counts.add("create_upload")
        return self._store.create_upload(address, storage_class)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        self._counts.add("put_part")
        return self._store.put_part(address, upload_id, number, body)

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        self._counts.add("copy_part")
        return self._store.copy_part(part, address, source, start, end)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        self._counts.add("list_parts")
        return self._store.list_parts(address, upload_id, after, limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        self._counts.add("complete_upload")
        return self._store.complete_upload(address, upload_id, parts)

    def abort_upload(self, address: str, upload_id: str) -> None:
        self._counts.add("abort_upload")
        self._store.abort_upload(address, upload_id)


class ObservedBlocks(_CountedParts):
    """`Blocks` that counts each call and forwards it."""

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        self._counts.add("get")
        return self._store.get(address, start, end)

    def read(self, address: str, start: int, length: int) -> bytes:
        self._counts.add("read")
        return self._store.read(address, start, length)

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        self._counts.add("put")
        return self._store.put(address, body, mode, storage_class)

    def spool(self, address: str) -> Spool:
        return self._store.spool(address)

    def head(self, address: str) -> ObjectHead:
        self._counts.add("head")
        return self._store.head(address)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        self._counts.add("list")
        return self._store.list(prefix, after, limit)

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        self._counts.add("copy")
        return self._store.copy(source, destination, beat)

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        return self._store.presign(address, method, seconds, content_type, part, terms)
