"""A wrapper that retries requests, and finds out whether a write with a lost answer was applied.

    result of the write and the row found            reported
    Declined; the row has this write's version       WRITTEN: the write was applied
    OutcomeUnknown; read-back finds its version      WRITTEN: the write was applied
    OutcomeUnknown; read-back finds another row      OutcomeUnknown: it may have been applied and
                                                     overwritten, or may still be applied

Reads, `set`, `set_many` and `delete` are also repeated after `OutcomeUnknown`.  A duplicate of a
`set` or `delete` may be applied late, so these verbs are only for rows where that does no harm:
records that never change, and rows of tokens that are no longer written.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from graveler.core.clock import Clock
from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.records import Absent
from graveler.core.requests import Attempts, RetryPolicy, repeated, wrapped
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Declined,
    Outcome,
    Place,
    Row,
    Store,
    newer_one_by_one,
)

S = TypeVar("S", bound=Store)
_REPEATED: Final = ("get", "get_many", "scan", "set", "set_many", "delete")


def retrying_store(store: S, clock: Clock, policy: RetryPolicy) -> S:
    """`store`, with what may be repeated repeated.  Each repetition is a request of its own."""

    def recognised(write: Callable[..., Outcome]) -> Callable[..., Outcome]:
        def outcome(
            partition: bytes, key: bytes, value: bytes, version: bytes, *rest: Any, **named: Any
        ) -> Outcome:
            def send() -> Outcome:
                return write(partition, key, value, version, *rest, **named)

            return _recognised(store, (partition, key), version, send, Attempts(clock, policy))

        return outcome

    calls = {name: repeated(getattr(store, name), clock, policy) for name in _REPEATED}
    calls |= {"set_if": recognised(store.set_if), "set_newer": recognised(store.set_newer)}
    single = wrapped(store, calls)
    many = {"set_newer_many": lambda rows: newer_one_by_one(single, rows)}
    return wrapped(store, calls | many)


def _recognised(
    store: Store, place: Place, version: bytes, send: Callable[[], Outcome], attempts: Attempts
) -> Outcome:
    """Send a conditional write.  If its outcome is unclear, use its stamp to find out whether it
    was applied."""
    try:
        outcome = attempts.run(send, after_unknown=False)
    except OutcomeUnknown as unknown:
        try:
            if _is_own(attempts.renewed().run(lambda: store.get(*place)), version):
                return WRITTEN
        except Unavailable:
            pass  # nothing was read back
        raise OutcomeUnknown(
            f"kv: conditional write may have landed or may land yet: {place=}"
        ) from unknown
    if isinstance(outcome, Declined) and _is_own(outcome.current, version):
        return WRITTEN
    return outcome


def _is_own(row: Row | Literal[Absent.ABSENT], version: bytes) -> bool:
    return row is not ABSENT and row.version == version
