"""The public keys of an identity provider, and other documents that it has at its URLs.

    RSA of 2,048 to 8,192 bits ──► RS256        EC on P-256 ──► ES256        others are ignored

Each key verifies one algorithm only, so a token cannot choose how it is verified.  A document
counts for an hour, and is read again before if it lacks what is asked for: at most once in 30
seconds.  If its URL does not answer, the last one counts for a day.  One thread reads; few wait,
because callers need no valid credentials to ask for a document.  Thread-safe.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import GravelerError, Invalid, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.web import Outgoing, Sender
from graveler.kv.store import WouldWait

T = TypeVar("T")


class ProviderDocument(Generic[T]):
    """The newest document that `read` gave."""

    def __init__(self, name: str, read: Callable[[], T], clock: Clock) -> None:
        """`name`: of the document, for errors.  `read` raises `GravelerError`."""
        self._name = name
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(limits.key_set_waiting_max)
        self._document: T | Literal[Absent.ABSENT] = ABSENT
        self._failure = ""
        self._read_at = self._tried_at = float("-inf")

    def must_read(self, has: Callable[[T], bool]) -> bool:
        """Whether `current` reads, or waits for the thread that does."""
        document = self._document
        if document is ABSENT:
            return True
        counts = self._age() < limits.key_set_seconds_max and has(document)
        return not counts and self._is_due()

    def current(self, has: Callable[[T], bool] = lambda _: True) -> T:
        """The document, which need not have what `has` looks for.  Raises `Unavailable` if none
        counts, or if too many threads wait for the first one."""
        if self.must_read(has):
            self._refresh()
        document = self._document
        if document is ABSENT or self._age() >= limits.key_set_stale_seconds_max:
            raise Unavailable(
                f"{self._name} of the identity provider not known; try again: "
                + (self._failure or "another request is reading it")
            )
        return document

    def _refresh(self) -> None:
        """Read the document, or wait for the thread that does if there is no other."""
        if self._lock.acquire(blocking=False):
            try:
                self._read_if_due()
            finally:
                self._lock.release()
        elif self._document is ABSENT and self._waiting.acquire(blocking=False):
            try:
                with self._lock:
                    self._read_if_due()
            finally:
                self._waiting.release()

    def _read_if_due(self) -> None:
        if not self._is_due():  # another thread has tried meanwhile
            return
        self._tried_at = self._clock.steady_seconds()
        try:
            document = self._read()
        except GravelerError as error:
            self._failure = str(error)  # the document that is known counts on
            return
        # In this order: a document that others see has its time.
        self._read_at = self._clock.steady_seconds()
        self._document = document

    def _age(self) -> float:
        return self._clock.steady_seconds() - self._read_at

    def _is_due(self) -> bool:
        return self._clock.steady_seconds() - self._tried_at >= limits.key_set_retry_seconds


# ---- jwks ----------------------------------------------------------------------------------------

_RSA_BITS: Final = range(2_048, 8_193)
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("x", "y")}
_ALGORITHMS: Final = {"RSA": "RS256", "EC": "ES256"}
_ANSWER_SECONDS: Final = 5.0


class VerifyingKey(NamedTuple):
    """A public key, and the one algorithm that it verifies."""

    algorithm: str
    key: Any


KeySet = Mapping[str, VerifyingKey]  # by the id of the key


def parse(raw: bytes) -> KeySet:
    """The usable keys of a set.  Raises `Invalid` for what is none."""
    if len(raw) > limits.key_set_length_bytes_max:
        raise Invalid("key set has too many bytes")
    try:
        document = json.loads(raw)
        entries = document["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid("key set must be a JSON object with keys") from error
    if not isinstance(entries, list) or len(entries) > limits.key_set_keys_count_max:
        raise Invalid(f"key set must be a list of at most {limits.key_set_keys_count_max} keys")
    keys: dict[str, VerifyingKey] = {}
    for entry in entries:
        key = _usable(entry) if isinstance(entry, dict) else ABSENT
        if key is not ABSENT:
            keys.setdefault(str(entry["kid"]), key)
    return keys


class GivenKeys:
    """Keys that the deployment gave."""

    def __init__(self, raw: bytes) -> None:
        self._keys = parse(raw)

    def find(self, id: str) -> VerifyingKey | Literal[Absent.ABSENT]:
        """The key with this id."""
        return self._keys.get(id, ABSENT)


class FetchedKeys:
    """Keys at a URL."""

    def __init__(self, url: str, sender: Sender, clock: Clock) -> None:
        self._document = ProviderDocument("keys", lambda: parse(_fetched(url, sender)), clock)

    def find(self, id: str) -> VerifyingKey | Literal[Absent.ABSENT]:
        """The key with this id.  Raises `WouldWait` on an event loop if the keys must be read;
        `Unavailable` if no keys are known."""

        def has(keys: KeySet) -> bool:
            return id in keys

        if self._document.must_read(has):
            _leave_loop()
        return self._document.current(has).get(id, ABSENT)


def _leave_loop() -> None:
    """Raises `WouldWait` on the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WouldWait("keys: the request would wait on the event loop")


def _fetched(url: str, sender: Sender) -> bytes:
    reply = sender.send(Outgoing("GET", url, {"Accept": "application/json"}, b""), _ANSWER_SECONDS)
    if reply.status != 200:
        raise Unavailable(f"identity provider did not answer: status={reply.status}")
    return reply.body


def _usable(entry: Mapping[str, Any]) -> VerifyingKey | Literal[Absent.ABSENT]:
    """The key of an entry, from its public members alone; `ABSENT` if no token may use it."""
    from jwt import algorithms
    from jwt.exceptions import PyJWTError

    kind, id = entry.get("kty"), entry.get("kid")
    if not isinstance(id, str) or not 0 < len(id) <= limits.name_length_max:
        return ABSENT
    if not isinstance(kind, str) or kind not in _ALGORITHMS or entry.get("use", "sig") != "sig":
        return ABSENT
    if entry.get("alg", _ALGORITHMS[kind]) != _ALGORITHMS[kind]:
        return ABSENT
    public = {"kty": kind, **{name: entry.get(name) for name in _MEMBERS[kind]}}
    if not all(isinstance(value, str) for value in public.values()):
        return ABSENT
    try:
        if kind == "EC":
            if entry.get("crv") != "P-256":
                return ABSENT
            key: Any = algorithms.ECAlgorithm.from_jwk({**public, "crv": "P-256"})
        else:
            key = algorithms.RSAAlgorithm.from_jwk(public)
    except (PyJWTError, ValueError, TypeError):
        return ABSENT
    if kind == "RSA" and key.key_size not in _RSA_BITS:
        return ABSENT
    return VerifyingKey(_ALGORITHMS[kind], key)
