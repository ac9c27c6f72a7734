"""Trying again, and recognising answers that were lost.

A put with a condition can land while its answer is lost; sent again, it fails against its own
result.  What was stored is compared with what was sent, byte by byte (size first):

    the condition failed, nothing was unknown before     the failure stands
    the outcome is unknown, ours is there                ours landed: success
    the outcome is unknown, the old state is there       sent again: both cannot land
    the outcome is unknown, anything else is there       OutcomeUnknown: ours may have landed and
                                                         been replaced.  Never guessed

Two who send the same bytes both succeed, so an object that is to have one winner names its writer
in its content.  Every body can be sent twice: lists and tuples of chunks, and `Rereadable` ones, as
they are; what was read of any other is kept (bodies.py), up to 8 MiB in memory, more in a temporary
file.

What else is repeated, after `Unavailable` and `OutcomeUnknown` alike: reads, lists, copies,
unconditional puts and deletes, parts.  A twin of those may land late, so they are for addresses
that are never given to other bytes (all of ours are fresh).  Completing an upload is repeated only
if it surely was not applied.  Chunks of an open body are not fetched again.  `StorageFull` is not
repeated.  Assembly puts this around drivers whose service can lose answers.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from graveler.block import bodies
from graveler.block.adapter import (
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
    Presigned,
    Target,
    unwatched,
)
from graveler.block.bodies import Rereadable
from graveler.clock import Clock
from graveler.errors import Conflict, NotFound, OutcomeUnknown, StorageFull, Unavailable
from graveler.records import ABSENT, Absent
from graveler.requests import RetryPolicy

T = TypeVar("T")
Held = Sequence[bytes] | Rereadable


class _Repeating:
    """Deletions, of one and of many, and how they and the rest are repeated.

    Of many deletions all are sent again when one fails: those that are gone cost next to nothing.
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
        return repeated(call, self._clock, self._policy)


class RetryingBlocks(_Repeating):
    """`Blocks` that repeats what may be repeated; each attempt is a request of its own."""

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
        with bodies.held(body) as sent:
            if mode is not OVERWRITE:
                return self._put_if(address, sent, mode, storage_class)
            return self._repeat(lambda: self._store.put(address, sent, mode, storage_class))

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
        *,
        only_create: bool = False,
    ) -> Presigned:
        return self._store.presign(
            address, method, seconds, content_type, part, only_create=only_create
        )

    def create_upload(self, address: str) -> str:
        return self._repeat(lambda: self._store.create_upload(address))

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        with bodies.held(body) as sent:
            return self._repeat(lambda: self._store.put_part(address, upload_id, number, sent))

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        attempts = Attempts(self._clock, self._policy)
        while True:
            try:
                return self._store.complete_upload(address, upload_id, parts)
            except Unavailable as error:
                if isinstance(error, OutcomeUnknown) or not attempts.another(error):
                    raise

    def abort_upload(self, address: str, upload_id: str) -> None:
        attempts = Attempts(self._clock, self._policy)
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

    def _put_if(self, address: str, sent: Held, mode: Mode, storage_class: str) -> ObjectHead:
        """Send a conditional put; find out by its bytes whether it landed."""
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

    def _stored(self, address: str, sent: Held) -> ObjectHead | Absent:
        size = sum(map(len, sent))
        try:
            if self.head(address).size != size:
                return ABSENT
            body = self.get(address)
        except NotFound:
            return ABSENT
        return body.head if _digest(body.chunks) == _digest(sent) else ABSENT


def repeated(call: Callable[[], T], clock: Clock, policy: RetryPolicy) -> T:
    """What `call` returns; it is made again after `Unavailable` and `OutcomeUnknown` alike."""
    attempts = Attempts(clock, policy)
    while True:
        try:
            return call()
        except Unavailable as error:
            if not attempts.another(error):
                raise attempts.verdict(error) from error


class Attempts:
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


def _digest(chunks: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
