"""Object storage that fails like a remote service: the n-th request is refused, lost, repeated or
late.

Plans and faults are those of `faults.py`.  The body of a request that fails is read whole first, as
a service has read it when its answer is lost.  For tests only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

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
from graveler.block.drivers import CreatesOneByOne
from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable
from tests.support.faults import Fault, FaultPlan

T = TypeVar("T")


class _Faulty:
    """Deletions, and the fate of every request."""

    def __init__(self, store: Blocks, plan: FaultPlan) -> None:
        self.requests = 0
        self.late: list[Callable[[], object]] = []  # a test calls them to apply the late requests
        self._store = store
        self._plan = plan

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._send("delete", lambda: self._store.delete(address, version))

    def delete_all(self, targets: Sequence[Target]) -> None:
        self._send("delete_all", lambda: self._store.delete_all(targets))

    def check_versions(self, address: str) -> None:
        self._send("check_versions", lambda: self._store.check_versions(address))

    def _send(self, verb: str, call: Callable[[], T]) -> T:
        return self._become(self._next(verb), call)

    def _next(self, verb: str) -> Fault:
        self.requests += 1
        return self._plan(self.requests, verb)

    def _become(self, fault: Fault, call: Callable[[], T]) -> T:
        if fault in (Fault.LOST, Fault.REPEATED):
            call()
        if fault in (Fault.NONE, Fault.REPEATED):
            return call()
        if fault is Fault.LATE:
            self.late.append(call)
        raise _error(fault, f"injected: {fault=} request={self.requests}")


class _FaultyParts(_Faulty):
    """The uploads in parts."""

    def create_upload(self, address: str, storage_class: str = "") -> str:
        return self._send(
            "create_upload", lambda: self._store.create_upload(address, storage_class)
        )

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        fault = self._next("put_part")
        content = body if fault is Fault.NONE else list(body)
        return self._become(
            fault, lambda: self._store.put_part(address, upload_id, number, content)
        )

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        return self._send(
            "copy_part", lambda: self._store.copy_part(part, address, source, start, end)
        )

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        return self._send(
            "list_parts", lambda: self._store.list_parts(address, upload_id, after, limit)
        )

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        return self._send(
            "complete_upload", lambda: self._store.complete_upload(address, upload_id, parts)
        )

    def abort_upload(self, address: str, upload_id: str) -> None:
        self._send("abort_upload", lambda: self._store.abort_upload(address, upload_id))


class FaultyBlocks(CreatesOneByOne, _FaultyParts):
    """`Blocks` whose requests fail by plan."""

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        return self._send("get", lambda: self._store.get(address, start, end))

    def read(self, address: str, start: int, length: int) -> bytes:
        return self._send("read", lambda: self._store.read(address, start, length))

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        fault = self._next("put")
        content = body if fault is Fault.NONE else list(body)
        return self._become(fault, lambda: self._store.put(address, content, mode, storage_class))

    def spool(self, address: str) -> Spool:
        return self._store.spool(address)

    def head(self, address: str) -> ObjectHead:
        return self._send("head", lambda: self._store.head(address))

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        return self._send("list", lambda: self._store.list(prefix, after, limit))

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        return self._send("copy", lambda: self._store.copy(source, destination, beat))

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


def _error(fault: Fault, text: str) -> Unavailable:
    if fault is Fault.REFUSED:
        return Unavailable(text)
    return StorageFull(text) if fault is Fault.FULL else OutcomeUnknown(text)
