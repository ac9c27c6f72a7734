"""Keyrings: keys that are replaced while the service runs.

    auth/rings    secrets     -> Pairs: keys     encrypt the secrets of access keys (credentials.py)
                  sessions    -> Pairs: keys     sign the tokens of logins (sessions.py)

    keys: JSON, oldest first: [[id, created_ns, {id of a wrapper: the wrapped key, Base64}], …]

A key is 32 random bytes, stored only encrypted under a key that is not in the store: one derived
from the store's secret, or a key of KMS.  What a key encrypts or signs names its id.  The newest
encrypts and signs; older ones decrypt and verify, until nothing can name them any more.

    the store's secret is rotated     a process that knows both wraps the keys again, under the new
                                      one; the old wrapping stays, for processes that know only that
    a key can be unwrapped by nobody  it stays on the ring, and a fresh one becomes the newest
    a process meets a key that it     it reads the store's secret again, at most once in
    cannot unwrap                     `limits.secret_again_seconds`, and tries again
    a process uses a key that no      the same; if still none is, it wraps nothing again: the secret
    wrapping of its own is left of    that it knows may be an old one

The row is only ever swapped.  A process reads it again after `limits.access_seconds_max`, and at
once if it meets an id that it does not know.  Thread-safe: threads only replace whole values.
"""

import json
import logging
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, Literal, NamedTuple, Protocol

from graveler.auth import secrets
from graveler.core import limits, wire
from graveler.core.clock import Clock, Ids
from graveler.core.errors import Corrupt, GravelerError, Invalid, Unavailable
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent, without
from graveler.kv.replace import Found, replace_seen
from graveler.kv.store import Store

PARTITION: Final = b"auth/rings"
WRAPPING_PURPOSE: Final = "key wrapping"  # the purpose of the key that wraps keys
_FIELD: Final = "keys"
_ID_LENGTH: Final = 16
_LOG: Final = logging.getLogger("graveler.auth")

Failure = GravelerError | Literal[Absent.ABSENT]
"""Why the store's secret could not be read when that was last tried; `ABSENT` if it was read."""


class Wrapper(Protocol):
    """Encrypts keys under a key that is not in the store."""

    @property
    def id(self) -> str:
        """Names the key that encrypts.  No request."""
        ...

    def wrap(self, key: bytes, ring: str, id: str) -> bytes:
        """The wrapped key.  `ring` and `id` are authenticated.  Raises `Unavailable`."""
        ...

    def unwrap(self, wrapped: bytes, ring: str, id: str) -> bytes:
        """The key.  Raises `Corrupt`, `Unavailable`."""
        ...


class SecretWrapper:
    """Wraps under a key that is derived from a secret of the store."""

    def __init__(self, secret: bytes, ids: Ids) -> None:
        self._key = secrets.derive(secret, WRAPPING_PURPOSE)
        self._ids = ids
        self.id = secrets.check_value(self._key, WRAPPING_PURPOSE)[:_ID_LENGTH]

    def wrap(self, key: bytes, ring: str, id: str) -> bytes:
        return secrets.encrypt(self._key, key, (WRAPPING_PURPOSE, ring, id), self._ids)

    def unwrap(self, wrapped: bytes, ring: str, id: str) -> bytes:
        return secrets.decrypt(self._key, wrapped, (WRAPPING_PURPOSE, ring, id))


def _none() -> Sequence[Wrapper]:
    return ()


class Wrappers:
    """The wrappers of a process: the first one wraps; all of them unwrap.  Its keyrings share them.

    `read`: the wrappers of now, by the store's secret as it is stored now; empty if the process
    cannot read it again.  It may raise `GravelerError`.
    """

    def __init__(
        self,
        clock: Clock,
        known: Sequence[Wrapper],
        read: Callable[[], Sequence[Wrapper]] = _none,
    ) -> None:
        self._clock = clock
        self._read = read
        self._read_at = -inf
        self._failure: Failure = ABSENT
        self._lock = threading.Lock()
        self.known = tuple(known)

    def renew(self) -> Failure:
        """Read the wrappers again, unless that was done in the last `limits.secret_again_seconds`,
        or failed in the last `limits.secret_retry_seconds`.

        A failure is logged and returned: the known wrappers stay.  A caller that comes while
        another thread reads waits for it; after a failure it does not wait, and gets that failure.
        """
        if not self._lock.acquire(blocking=self._failure is ABSENT):
            return self._failure
        try:
            if self.known and self._clock.steady_seconds() - self._read_at >= self._pause_seconds:
                self._failure = self._renewed()
                self._read_at = self._clock.steady_seconds()  # however long the reading took
            return self._failure
        finally:
            self._lock.release()

    def unwraps(self, wrapped: Mapping[str, bytes]) -> bool:
        """Whether one of these wrappings, by the id of the wrapper, is by a known wrapper.  A key
        that a keyring holds in memory opens without."""
        return any(wrapper.id in wrapped for wrapper in self.known)

    def outdated(self, wrapped: Mapping[str, bytes]) -> bool:
        """Whether known wrappers made some of these wrappings, but not the first one."""
        return self.unwraps(wrapped) and self.known[0].id not in wrapped

    @property
    def _pause_seconds(self) -> float:
        if self._failure is ABSENT:
            return limits.secret_again_seconds
        return limits.secret_retry_seconds

    def _renewed(self) -> Failure:
        try:
            self.known = tuple(self._read()) or self.known
        except GravelerError as error:
            _LOG.warning("secret of the store not read again: %s", error)
            return error
        return ABSENT


class RingKey(NamedTuple):
    """A key that can be used."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return without(self, "secret")


class _Entry(NamedTuple):
    id: str
    created_ns: int
    wrapped: Mapping[str, bytes]  # by the id of the wrapper


_Entries = tuple[_Entry, ...]


class Keyring:
    """The keys of one purpose.  Without wrappers there are none, and `is_usable` is false.

    `retired_seconds`: how long something may still name a key after a newer one was made.
    """

    def __init__(
        self,
        name: str,
        wrappers: Wrappers,
        retired_seconds: int,
        *,
        kv: Store,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._kv, self._clock, self._ids = kv, clock, ids
        self._name = name
        self._wrappers = wrappers
        self._retired_ns = retired_seconds * SECOND_NS
        self._place = (PARTITION, name.encode())
        self._entries: _Entries = ()
        self._row: Found = ABSENT
        self._read_at = -inf
        self._secrets: dict[str, bytes] = {}  # unwrapped keys by id

    @property
    def is_usable(self) -> bool:
        """Whether this process can unwrap keys."""
        return bool(self._wrappers.known)

    def current(self, seconds_max: float = inf) -> RingKey:
        """The newest key; a fresh one if there is none, or if it is older than `seconds_max`.

        Raises `Unavailable`, also if a fresh key is needed and the store's secret, which may have
        been rotated, could not be read: others could not unwrap that key.  Raises `OutcomeUnknown`.

        No request if the row was read lately, else one; one more to make a key, or to wrap the keys
        again after a rotation of the store's secret; and those of `Wrappers.renew` if no wrapper of
        this process unwraps the newest key on the ring.
        """
        if self._clock.steady_seconds() - self._read_at >= limits.access_seconds_max:
            self._read()
        failure = self._renewed()
        since = self._clock.now_ns() - seconds_max * SECOND_NS
        newest = self._newest(self._entries)
        if newest is ABSENT or newest.created_ns < since:
            if failure is not ABSENT:
                raise _unread(self._name, failure)
            self._swap(self._with_fresh(since, frozenset()))
        elif self._wrappers.outdated(newest.wrapped):
            self._swap(self._wrapped_again)
        newest = self._newest(self._entries)
        assert newest is not ABSENT, "a swap leaves a key that this process can unwrap"
        return RingKey(newest.id, self._opened(newest))

    def knows(self, id: str) -> bool:
        """Whether the key was on the ring when the row was last read.  No request."""
        return any(entry.id == id for entry in self._entries)

    def find(self, id: str) -> bytes | Literal[Absent.ABSENT]:
        """The key with this id; `ABSENT` if it is not on the ring, or cannot be unwrapped.

        Raises `Unavailable`, also if it cannot be unwrapped while the store's secret, which may be
        rotated, cannot be read.  At most one request; none if the row was read lately and has
        the key.  A key that cannot be unwrapped also costs the requests of `Wrappers.renew`.
        """
        fresh = self._clock.steady_seconds() - self._read_at < limits.access_seconds_max
        if not fresh or not self.knows(id):
            self._read()
        for entry in self._entries:
            if entry.id == id:
                failure: Failure = ABSENT if self._opens(entry) else self._wrappers.renew()
                if self._opens(entry):
                    return self._opened(entry)
                if failure is not ABSENT:
                    raise _unread(self._name, failure)
        return ABSENT

    def rotate(self, used: Iterable[str] = (), *, alone: bool = False) -> RingKey:
        """Make a fresh key the newest, and drop those that are retired and not in `used`, and the
        oldest beyond `limits.ring_keys_count_max`.

        `alone`: drop all others.  Other processes notice within `limits.access_seconds_max`.

        Raises `Invalid` if this process cannot unwrap the newest key, because then it would wrap
        the next one where others cannot unwrap it; `Unavailable`, `OutcomeUnknown`.  Two requests,
        and those of `Wrappers.renew` if no wrapper of this process unwraps the newest key.
        """
        self._read()
        self._renewed()
        unwraps, newest = self._wrappers.unwraps, self._entries[-1:]
        if newest and not (unwraps(newest[0].wrapped) and self._opens(newest[0])):
            raise Invalid(
                "keys are wrapped by a key that is not known here: name the KMS key of the "
                "deployment with --kms-key"
            )
        self._swap(self._with_fresh(inf, frozenset(used), alone=alone))
        return self.current()

    # ---- the row ---------------------------------------------------------------------------------

    def _read(self) -> None:
        now = self._clock.steady_seconds()
        row = self._kv.get(*self._place)
        self._row, self._entries, self._read_at = row, _entries(row), now

    def _swap(self, change: Callable[[_Entries], _Entries]) -> None:
        """Replace the keys by `change` of them, and keep the result in memory."""
        results: list[_Entries] = []

        def swap(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
            known = _entries(row)
            results.append(change(known))
            return ABSENT if results[-1] == known else _encoded(results[-1])

        try:
            replace_seen(self._kv, self._place, self._ids, swap, self._row)
        except BaseException:
            self._read_at = -inf
            raise
        self._entries, self._read_at = results[-1], self._clock.steady_seconds()

    def _with_fresh(
        self, since: float, used: frozenset[str], *, alone: bool = False
    ) -> Callable[[_Entries], _Entries]:
        """Add a fresh key, unless another process has added one since `since` (nanoseconds)."""
        id, now = self._ids.stamp().hex()[:_ID_LENGTH], self._clock.now_ns()
        secret = self._ids.stamp() + self._ids.stamp()
        self._secrets[id] = secret
        entry = self._wrapped(_Entry(id, now, {}), secret)

        def change(entries: _Entries) -> _Entries:
            newest = self._newest(entries)
            if newest is not ABSENT and (newest.id == id or newest.created_ns >= since):
                return entries
            if alone:
                return (entry,)
            live = [each for each in entries if each.id in used or not self._retired(each, entries)]
            return (*self._wrapped_again(tuple(live)), entry)[-limits.ring_keys_count_max :]

        return change

    def _retired(self, entry: _Entry, entries: _Entries) -> bool:
        """Whether a newer key was made so long ago that nothing names this one."""
        later = [each.created_ns for each in entries[entries.index(entry) + 1 :]]
        return bool(later) and later[0] + self._retired_ns < self._clock.now_ns()

    # ---- wrapping --------------------------------------------------------------------------------

    def _newest(self, entries: _Entries) -> _Entry | Literal[Absent.ABSENT]:
        for entry in reversed(entries):
            if self._opens(entry):
                return entry
        return ABSENT

    def _opens(self, entry: _Entry) -> bool:
        try:
            self._opened(entry)
        except Corrupt:
            return False
        return True

    def _renewed(self) -> Failure:
        """Renew the wrappers if none of them unwraps the newest key on the ring."""
        if not self._entries or self._wrappers.unwraps(self._entries[-1].wrapped):
            return ABSENT
        return self._wrappers.renew()

    def _opened(self, entry: _Entry) -> bytes:
        """The key of an entry.  Raises `Corrupt` if this process cannot unwrap it."""
        known = self._secrets.get(entry.id)
        if known is not None:
            return known
        for wrapper in self._wrappers.known:
            if wrapper.id in entry.wrapped:
                secret = wrapper.unwrap(entry.wrapped[wrapper.id], self._name, entry.id)
                self._secrets[entry.id] = secret
                return secret
        raise Corrupt(f"key cannot be unwrapped: ring={self._name} id={entry.id}")

    def _wrapped(self, entry: _Entry, secret: bytes) -> _Entry:
        wrapper = self._wrappers.known[0]
        wrapped = wrapper.wrap(secret, self._name, entry.id)
        return entry._replace(wrapped={**entry.wrapped, wrapper.id: wrapped})

    def _wrapped_again(self, entries: _Entries) -> _Entries:
        """All keys that this process can unwrap, wrapped by the first wrapper too.  Wrappings that
        this process does not know go, unless they are all that there are: they may be newer than
        what it knows."""
        wrappers = self._wrappers.known
        ids = {wrapper.id for wrapper in wrappers}
        renewed = []
        for entry in entries:
            if wrappers[0].id not in entry.wrapped and self._opens(entry):
                usable = {id: raw for id, raw in entry.wrapped.items() if id in ids}
                usable = usable or dict(entry.wrapped)
                entry = self._wrapped(entry._replace(wrapped=usable), self._opened(entry))
            renewed.append(entry)
        return tuple(renewed)


def _unread(ring: str, failure: GravelerError) -> Unavailable:
    unread = Unavailable(f"unwrap key {ring=}: the secret of the store was not read: {failure}")
    unread.__cause__ = failure
    return unread


def _entries(row: Found) -> _Entries:
    if row is ABSENT:
        return ()
    try:
        return tuple(
            _Entry(
                str(id),
                int(ns),
                {str(name): b64decode(raw, validate=True) for name, raw in wrapped.items()},
            )
            for id, ns, wrapped in json.loads(wire.decode_pairs(row.value)[_FIELD])
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Corrupt("keyring does not decode") from error


def _encoded(entries: _Entries) -> bytes:
    keys = [[each.id, each.created_ns, _texts(each.wrapped)] for each in entries]
    return wire.encode_pairs({_FIELD: json.dumps(keys, separators=(",", ":"))})


def _texts(wrapped: Mapping[str, bytes]) -> dict[str, str]:
    return {id: b64encode(raw).decode() for id, raw in wrapped.items()}
