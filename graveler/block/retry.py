"""A wrapper that repeats failed requests and recognises writes whose answer was lost.

After a conditional put without an answer, the stored bytes are compared with the sent bytes:

    the condition failed, no outcome unknown before      the failure stands
    an outcome is unknown, our bytes are stored          our put was applied: success
    an outcome is unknown, the old state is stored       sent again: at most one can be applied
    an outcome is unknown, other bytes are stored        `OutcomeUnknown`: ours may have been
                                                         applied and replaced.  Never guess

Two writers that send the same bytes both succeed.  A duplicate of an unconditional write may be
applied late, so use those only for addresses that are never reused for other bytes.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeVar

from graveler.block import bodies
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
from graveler.block.bodies import Rereadable, Spool
from graveler.block.drivers import CreatesOneByOne
from graveler.core.clock import Clock
from graveler.core.errors import Conflict, NotFound, OutcomeUnknown, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.requests import Attempts, RetryPolicy

T = TypeVar("T")
Held = Sequence[bytes] | Rereadable
# Of a stream that is put: the store below holds a part of it in memory as well.
_PUT_IN_MEMORY_BYTES: Final = 1024 * 1024


class _RetryingDeletes:
    """The deletions, and the repetition of all other calls.

    If one of many deletions fails, all are sent again.  Those already done cost almost nothing.
    """

    def __init__(self, store: Blocks, clock: Clock, policy: RetryPolicy) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._repeat(lambda: self._store.delete(address, version))

    def delete_all(self, targets: Sequence[Target]) -> None:
        self._repeat(lambda: self._store.delete_all(targets))

    def check_versions(self, address: str) -> None:
        self._repeat(lambda: self._store.check_versions(address))

    def _repeat(self, call: Callable[[], T]) -> T:
        return Attempts(self._clock, self._policy).run(call)


class _RetryingParts(_RetryingDeletes):
    """The uploads in parts."""

    def create_upload(self, address: str, storage_class: str = "") -> str:
        return self._repeat(lambda: self._store.create_upload(address, storage_class))

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        with bodies.held(body) as sent:
            return self._repeat(lambda: self._store.put_part(address, upload_id, number, sent))

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        return self._repeat(lambda: self._store.copy_part(part, address, source, start, end))

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        return self._repeat(lambda: self._store.list_parts(address, upload_id, after, limit))

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        return Attempts(self._clock, self._policy).run(
            lambda: self._store.complete_upload(address, upload_id, parts), after_unknown=False
        )

    def abort_upload(self, address: str, upload_id: str) -> None:
        attempts = Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.abort_upload(address, upload_id)
            except NotFound:
                if not attempts.unknown:
                    raise
                return None  # an earlier attempt has aborted the upload
            except Unavailable as error:
                if not attempts.another(error):
                    attempts.give_up(error)


class RetryingBlocks(CreatesOneByOne, _RetryingParts):
    """`Blocks` that repeats failed calls where that is safe.  Each attempt is a request."""

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        return self._repeat(lambda: self._store.get(address, start, end))

    def read(self, address: str, start: int, length: int) -> bytes:
        return self._repeat(lambda: self._store.read(address, start, length))

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        with bodies.held(body, _PUT_IN_MEMORY_BYTES) as sent:
            if mode is not OVERWRITE:
                return self._put_if(address, sent, mode, storage_class)
            return self._repeat(lambda: self._store.put(address, sent, mode, storage_class))

    def spool(self, address: str) -> Spool:
        return self._store.spool(address)

    def head(self, address: str) -> ObjectHead:
        return self._repeat(lambda: self._store.head(address))

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        return self._repeat(lambda: self._store.list(prefix, after, limit))

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        return self._repeat(lambda: self._store.copy(source, destination, beat))

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

    def _put_if(self, address: str, sent: Held, mode: Mode, storage_class: str) -> ObjectHead:
        """Send a conditional put.  If an answer was lost, compare the stored bytes to find out
        whether it was applied."""
        attempts = Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.put(address, sent, mode, storage_class)
            except Conflict as error:
                if not attempts.unknown:
                    raise
                return self._recognise(address, sent, error)
            except Unavailable as error:
                if not attempts.another(error):
                    if attempts.unknown:
                        return self._recognise(address, sent, error)
                    raise

    def _recognise(self, address: str, sent: Held, cause: Exception) -> ObjectHead:
        """The head of the stored object if its bytes are those that were sent; else raises
        `OutcomeUnknown`."""
        try:
            head = self._stored(address, sent)
        except Unavailable:
            head = ABSENT
        if head is ABSENT:
            raise OutcomeUnknown(
                f"conditional put may have landed or may land yet: {address=}"
            ) from cause
        return head

    def _stored(self, address: str, sent: Held) -> ObjectHead | Absent:
        size = sum(map(len, sent))
        try:
            if self.head(address).size != size:
                return ABSENT
            body = self.get(address)
        except NotFound:
            return ABSENT
        return body.head if _digest(body.chunks) == _digest(sent) else ABSENT


def _digest(chunks: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
