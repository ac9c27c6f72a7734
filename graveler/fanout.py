"""Independent calls at the same time: what does it is given, by assembly or a simulator.

Everybody may import this.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Fanout(Protocol):
    """Runs independent calls, some of them at the same time."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The results in the order of `items`; the first error is raised after all have ended."""
        ...


class Sequential:
    """One call after the other: for simulations, and where there is nothing to win."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [function(item) for item in items]


SEQUENTIAL: Final = Sequential()
