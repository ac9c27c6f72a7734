"""The interface for fan-out: independent calls that may run concurrently.

Assembly or a simulator passes in an implementation.  Every module may import this.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Fanout(Protocol):
    """Runs independent calls, some of them concurrently."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The results in the order of `items`.  If a call fails, all calls end first; then the
        first error is raised."""
        ...


class Sequential:
    """Runs one call after the other: for simulations, and where concurrency gains nothing."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [function(item) for item in items]


SEQUENTIAL: Final = Sequential()
