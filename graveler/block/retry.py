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
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from graveler.block import bodies
from graveler.block.adapter import OVERWRITE, Blocks, Mode, NewObject, ObjectHead, Part
from graveler.block.bodies import Rereadable
from graveler.block.drivers import created_one_by_one
from graveler.core.clock import Clock
from graveler.core.errors import Conflict, GravelerError, NotFound, OutcomeUnknown, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.requests import Attempts, RetryPolicy, repeated, wrapped

B = TypeVar("B", bound=Blocks)
Held = Sequence[bytes] | Rereadable
# Of a stream that is put: the store below holds a part of it in memory as well.
_PUT_IN_MEMORY_BYTES: Final = 1024 * 1024
# If one of many deletions fails, all are sent again.  Those already done cost almost nothing.
_REPEATED: Final = (
    *("get", "read", "head", "list", "copy", "delete", "delete_all", "check_versions"),
    *("create_upload", "copy_part", "list_parts"),
)


def retrying_blocks(store: B, clock: Clock, policy: RetryPolicy) -> B:
    """`store`, with failed calls repeated where that is safe.  Each attempt is a request."""
    calls = {name: repeated(getattr(store, name), clock, policy) for name in _REPEATED}
    writes = _Writes(wrapped(store, calls), store, clock, policy)
    own = (writes.put, writes.put_part, writes.complete_upload, writes.abort_upload)
    calls |= {call.__name__: call for call in (*own, writes.create_many)}
    return wrapped(store, calls)


class _Writes:
    """The calls that do more than repeat.  `reads`: the store whose reads are repeated."""

    def __init__(self, reads: Blocks, store: Blocks, clock: Clock, policy: RetryPolicy) -> None:
        self._reads = reads
        self._store = store
        self._clock = clock
        self._policy = policy

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        with bodies.held(body) as sent:
            return self._attempts().run(
                lambda: self._store.put_part(address, upload_id, number, sent)
            )

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        return self._attempts().run(
            lambda: self._store.complete_upload(address, upload_id, parts), after_unknown=False
        )

    def abort_upload(self, address: str, upload_id: str) -> None:
        attempts = self._attempts()
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
            return self._attempts().run(lambda: self._store.put(address, sent, mode, storage_class))

    def create_many(self, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        return created_one_by_one(self.put, objects)

    def _put_if(self, address: str, sent: Held, mode: Mode, storage_class: str) -> ObjectHead:
        """Send a conditional put.  If an answer was lost, compare the stored bytes to find out
        whether it was applied."""
        attempts = self._attempts()
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
            if self._reads.head(address).size != size:
                return ABSENT
            body = self._reads.get(address)
        except NotFound:
            return ABSENT
        return body.head if _digest(body.chunks) == _digest(sent) else ABSENT

    def _attempts(self) -> Attempts:
        return Attempts(self._clock, self._policy)


def _digest(chunks: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
