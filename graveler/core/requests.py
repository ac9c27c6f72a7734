"""What wrappers of ports share: counters of requests, calls before a request, and retries."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar, cast

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable

P = TypeVar("P")
T = TypeVar("T")


class Counts:
    """Counts requests by verb.  Thread-safe; the counts never decrease."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, int] = {}

    def add(self, verb: str, requests: int = 1) -> None:
        """Add `requests` to the count of `verb`."""
        if requests:
            with self._lock:
                self._requests[verb] = self._requests.get(verb, 0) + requests

    def snapshot(self) -> Mapping[str, int]:
        """A copy of the present counts; later requests do not change it."""
        with self._lock:
            return dict(self._requests)

    def since(self, earlier: Mapping[str, int]) -> Mapping[str, int]:
        """The requests since the snapshot `earlier`, without verbs that have none."""
        grown = {verb: n - earlier.get(verb, 0) for verb, n in self.snapshot().items()}
        return {verb: n for verb, n in grown.items() if n}

    def total(self) -> int:
        """Requests of all verbs together."""
        with self._lock:
            return sum(self._requests.values())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff: at most `attempts` attempts, the first included.

    No attempt begins `deadline_seconds` or later after the first.  The pause before the second
    attempt is about `backoff_seconds`; each further pause is twice as long.
    """

    attempts: int = 4
    deadline_seconds: float = 10.0
    backoff_seconds: float = 0.05

    def __post_init__(self) -> None:
        assert self.attempts >= 1, "nothing can be done in no attempt"


# For a store that refuses requests above its capacity.  The pauses add up to 1.5 seconds; within
# that time the capacity units are available again.
THROTTLED_STORE: Final = RetryPolicy(attempts=6)


class _Wrapped:
    """A port with some methods of its own."""

    def __init__(self, port: object, methods: Mapping[str, Callable[..., object]]) -> None:
        self._port = port
        for name, method in methods.items():
            setattr(self, name, method)

    def __getattr__(self, name: str) -> Any:
        if name == "_port" or name.startswith("__"):  # copies ask for these before there is a port
            raise AttributeError(name)
        return getattr(self._port, name)


def wrapped(port: P, methods: Mapping[str, Callable[..., object]]) -> P:
    """`port` as before, but with `methods`, by name, in place of its own."""
    return cast(P, _Wrapped(port, methods))


def preceded(port: P, before: Mapping[str, Callable[..., object]]) -> P:
    """`port` as before, but each method that `before` names first calls the function there, which
    stops the request by raising."""
    return wrapped(
        port, {name: _preceded(first, getattr(port, name)) for name, first in before.items()}
    )


def _preceded(first: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Any, **named: Any) -> Any:
        first(*args, **named)
        return call(*args, **named)

    return both


def batch_requests(rows: int) -> int:
    """The number of requests that a batch of `rows` rows counts as."""
    return -(-rows // limits.kv_batch_count_max)


def counted_store(store: P, counts: Counts) -> P:
    """The key-value store, whose requests `counts` counts by verb.

    A request counts before it is sent, so a failed one counts too.  A batch counts as one request
    for each `limits.kv_batch_count_max` rows, and an empty batch as none.
    """
    return preceded(
        store,
        {
            "get": lambda *_: counts.add("get"),
            "get_many": lambda places: counts.add("get_many", batch_requests(len(places))),
            "scan": lambda *_: counts.add("scan"),
            "set": lambda *_: counts.add("set"),
            "set_many": lambda writes: counts.add("set_many", batch_requests(len(writes))),
            "set_if": lambda *_, **__: counts.add("set_if"),
            "set_newer": lambda *_: counts.add("set_newer"),
            "set_newer_many": lambda rows: counts.add("set_newer", len(rows)),
            "delete": lambda _, keys, versions=(): counts.add(
                "delete", len(versions) or batch_requests(len(keys))
            ),
        },
    )


_BLOCK_CALLS = (
    *("delete", "delete_all", "check_versions", "create_upload", "put_part", "copy_part"),
    *("list_parts", "complete_upload", "abort_upload", "get", "read", "put", "head", "list"),
    "copy",
)


def counted_blocks(blocks: P, counts: Counts) -> P:
    """The storage, whose requests `counts` counts by verb.  The chunks of a body do not count
    separately, a creation of many counts as one put for each, and presigning makes no request."""

    def one(verb: str) -> Callable[..., None]:
        return lambda *_, **__: counts.add(verb)

    before: dict[str, Callable[..., None]] = {verb: one(verb) for verb in _BLOCK_CALLS}
    before["create_many"] = lambda objects: counts.add("put", len(objects))
    return preceded(blocks, before)


class Attempts:
    """The attempts of one call: counts them, pauses between them, and remembers unknown outcomes.

    `StorageFull` ends them: room does not come back within seconds.
    """

    def __init__(self, clock: Clock, policy: RetryPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._begun = clock.steady_seconds()
        self._made = 0
        self.unknown: list[OutcomeUnknown] = []

    def another(self, error: Unavailable) -> bool:
        """Record a failure.  Returns whether to try again, after the pause before that attempt."""
        self._made += 1
        if isinstance(error, OutcomeUnknown):
            self.unknown.append(error)
        if isinstance(error, StorageFull) or self._made >= self._policy.attempts:
            return False
        # Jitter: clients that were refused together must not retry together.  The microseconds of
        # the clocks of many machines are random enough.
        drawn = 0.5 + self._clock.now_ns() // 1_000 % 1_024 / 1_024
        pause = drawn * self._policy.backoff_seconds * 2 ** (self._made - 1)
        spent = self._clock.steady_seconds() - self._begun
        if spent + pause >= self._policy.deadline_seconds:
            return False
        self._clock.sleep(pause)
        return True

    def run(self, call: Callable[[], T], *, after_unknown: bool = True) -> T:
        """The result of `call`, which is repeated after `Unavailable`, and after `OutcomeUnknown`
        if `after_unknown`."""
        while True:
            try:
                return call()
            except Unavailable as error:
                ends = isinstance(error, OutcomeUnknown) and not after_unknown
                if ends or not self.another(error):
                    self.give_up(error)

    def renewed(self) -> "Attempts":
        """As many attempts for another call, in what is left of the time."""
        attempts = Attempts(self._clock, self._policy)
        attempts._begun = self._begun
        return attempts

    def give_up(self, last: Unavailable) -> NoReturn:
        """Raise the error with its own cause.  An unknown outcome takes precedence over a later
        error, which does not show that outcome."""
        raise self.unknown[-1] if self.unknown else last


def repeated(call: Callable[..., Any], clock: Clock, policy: RetryPolicy) -> Callable[..., Any]:
    """`call`, which is repeated after `Unavailable` and `OutcomeUnknown`; each attempt is a
    request."""

    def attempts(*args: Any, **named: Any) -> Any:
        return Attempts(clock, policy).run(lambda: call(*args, **named))

    return attempts
