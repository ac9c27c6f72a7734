"""Trying again, and recognising answers that were lost.

A put with a condition can land while its answer is lost; sent again, it fails against its own
result.  What was stored is compared with what was sent, byte by byte (size first):

    the condition failed, nothing was unknown before     the failure stands
    the outcome is unknown, ours is there                ours landed: success
    the outcome is unknown, the old state is there       sent again: both cannot land
    the outcome is unknown, anything else is there       OutcomeUnknown: ours may have landed and
                                                         been replaced.  Never guessed

Two who send the same bytes both succeed, so an object that is to have one winner names its writer
in its content.  Only a body that can be sent twice, a list or tuple of chunks, is sent twice; of a
stream, the size and SHA-256 are kept for the comparison.

What else is repeated, after `Unavailable` and `OutcomeUnknown` alike: reads, lists, copies,
unconditional puts and deletes, parts.  A twin of those may land late, so they are for addresses
that are never given to other bytes (all of ours are fresh).  Completing an upload is repeated only
if it surely was not applied.  Chunks of an open body are not fetched again.  `StorageFull` is not
repeated.  Assembly puts this around drivers whose service can lose answers.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from graveler.block.adapter import (
    ANY_VERSION,
    OVERWRITE,
    TO_END,
    WHOLE,
    Blocks,
    Body,
    Mode,
    ObjectHead,
    ObjectPage,
    Part,
    PartOf,
    Presigned,
)
from graveler.clock import Clock
from graveler.errors import Conflict, NotFound, OutcomeUnknown, StorageFull, Unavailable
from graveler.records import ABSENT, Absent
from graveler.requests import RetryPolicy

T = TypeVar("T")


class RetryingBlocks:
    """`Blocks` that repeats what may be repeated; each attempt is a request of its own."""

    def __init__(self, store: Blocks, clock: Clock, policy: RetryPolicy) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy

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
        sent = _Sent(body)
        if mode is not OVERWRITE:
            return self._put_if(address, sent, mode, storage_class)
        if not sent.replayable:
            return self._store.put(address, body, mode, storage_class)
        return self._repeat(lambda: self._store.put(address, body, mode, storage_class))

    def head(self, address: str) -> ObjectHead:
        return self._repeat(lambda: self._store.head(address))

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        return self._repeat(lambda: self._store.list(prefix, after, limit))

    def copy(self, source: str, destination: str) -> ObjectHead:
        return self._repeat(lambda: self._store.copy(source, destination))

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._repeat(lambda: self._store.delete(address, version))

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
    ) -> Presigned:
        return self._store.presign(address, method, seconds, content_type, part)

    def create_upload(self, address: str) -> str:
        return self._repeat(lambda: self._store.create_upload(address))

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        if not _Sent(body).replayable:
            return self._store.put_part(address, upload_id, number, body)
        return self._repeat(lambda: self._store.put_part(address, upload_id, number, body))

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        attempts = _Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.complete_upload(address, upload_id, parts)
            except Unavailable as error:
                if isinstance(error, OutcomeUnknown) or not attempts.another(error):
                    raise

    def abort_upload(self, address: str, upload_id: str) -> None:
        attempts = _Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.abort_upload(address, upload_id)
            except NotFound:
                if not attempts.unknown:
                    raise
                return None  # an earlier attempt did it
            except Unavailable as error:
                if not attempts.another(error):
                    raise attempts.verdict(error) from error

    def _repeat(self, call: Callable[[], T]) -> T:
        attempts = _Attempts(self._clock, self._policy)
        while True:
            try:
                return call()
            except Unavailable as error:
                if not attempts.another(error):
                    raise attempts.verdict(error) from error

    def _put_if(self, address: str, sent: "_Sent", mode: Mode, storage_class: str) -> ObjectHead:
        """Send a conditional put; find out by its bytes whether it landed."""
        attempts = _Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.put(address, sent, mode, storage_class)
            except Conflict as error:
                if not attempts.unknown:
                    raise
                return self._recognise(address, sent, error)
            except Unavailable as error:
                if not sent.complete:
                    # The stream was not read to its end: there is nothing to send or compare.
                    raise
                if not sent.replayable or not attempts.another(error):
                    if attempts.unknown or isinstance(error, OutcomeUnknown):
                        return self._recognise(address, sent, error)
                    raise

    def _recognise(self, address: str, sent: "_Sent", cause: Exception) -> ObjectHead:
        """The head of what is there, if that is what was sent."""
        try:
            found = self._stored(address, sent)
        except Unavailable:
            found = ABSENT
        if found is ABSENT:
            raise OutcomeUnknown(
                f"conditional put may have landed or may land yet: {address=}"
            ) from cause
        return found

    def _stored(self, address: str, sent: "_Sent") -> ObjectHead | Absent:
        try:
            if self.head(address).size != sent.size:
                return ABSENT
            body = self.get(address)
        except NotFound:
            return ABSENT
        digest = hashlib.sha256()
        for chunk in body.chunks:
            digest.update(chunk)
        return body.head if digest.digest() == sent.digest() else ABSENT


class _Attempts:
    """How often was tried, and whether any outcome is unknown."""

    def __init__(self, clock: Clock, policy: RetryPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._begun = clock.steady_seconds()
        self._made = 0
        self.unknown: list[OutcomeUnknown] = []

    def another(self, error: Unavailable) -> bool:
        """Take note of a failure; wait, if there is to be another attempt."""
        self._made += 1
        if isinstance(error, OutcomeUnknown):
            self.unknown.append(error)
        pause = self._policy.backoff_seconds * 2 ** (self._made - 1)
        spent = self._clock.steady_seconds() - self._begun
        if isinstance(error, StorageFull) or self._made >= self._policy.attempts:
            return False
        if spent + pause >= self._policy.deadline_seconds:
            return False
        self._clock.sleep(pause)
        return True

    def verdict(self, last: Unavailable) -> Unavailable:
        """What to report: an unknown outcome outweighs a later error that says nothing of it."""
        return self.unknown[-1] if self.unknown else last


class _Sent:
    """A body that remembers what it was: chunks that can be sent again, or a stream's digest."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body
        self._digest = hashlib.sha256()
        self.replayable = isinstance(body, Sequence)
        self.complete = self.replayable
        self.size = sum(map(len, body)) if isinstance(body, Sequence) else 0

    def __iter__(self) -> Iterator[bytes]:
        if self.replayable:
            yield from self._body
            return
        for chunk in self._body:
            self._digest.update(chunk)
            self.size += len(chunk)
            yield chunk
        self.complete = True

    def digest(self) -> bytes:
        """SHA-256 of all bytes."""
        if self.replayable:
            return hashlib.sha256(b"".join(self._body)).digest()
        return self._digest.digest()
