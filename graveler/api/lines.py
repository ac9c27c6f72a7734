"""Lines of listings as answers have them, kept from one answer to the next.

A line follows from a record (a key and its framed value) and from what all lines of its page have
in common (the context).  Both never change, so a line that is kept is never stale.  Used by
object_reads.py and by the S3 gateway.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from sys import getsizeof
from typing import Final, Generic, TypeVar

from graveler import limits
from graveler.records import Record

C = TypeVar("C", bound=Hashable)
L = TypeVar("L", bound=bytes | str)
_LINE_COST: Final = 160  # bytes of memory: a line's place and its record, without their texts
_CONTEXT_COST: Final = 1_000  # the same for a context


class RenderedLines(Generic[C, L]):
    """Rendered lines within a budget of bytes.  When the budget is spent, all are dropped.  Safe
    for any number of threads."""

    def __init__(
        self,
        render: Callable[[C, Record], L],
        budget: int = limits.rendered_lines_bytes_max,
    ) -> None:
        """`render`: makes the line of a record in a context.  Pure."""
        self._render = render
        self._budget = budget
        self._contexts: dict[C, _Lines[L]] = {}
        self._spent = 0
        self._lock = threading.Lock()

    def of(self, context: C, records: Iterable[Record]) -> list[L]:
        """The lines of some records.  Raises what `render` raises."""
        lines = self._contexts.get(context)
        if lines is None:
            lines = _Lines(partial(self._render, context), self._keep)
            with self._lock:
                self._charge(_CONTEXT_COST)
                self._contexts[context] = lines
        return list(map(lines.__getitem__, records))

    @property
    def spent(self) -> int:
        """The approximate memory that all lines take, in bytes; never more than the budget."""
        return self._spent

    def _keep(self, lines: "_Lines[L]", record: Record, line: L) -> None:
        cost = _LINE_COST + getsizeof(record[0]) + getsizeof(record[1]) + getsizeof(line)
        if cost + _CONTEXT_COST <= self._budget:
            with self._lock:
                self._charge(cost)
                lines[record] = line

    def _charge(self, cost: int) -> None:
        """Spend `cost`.  Pages that are being made at this moment keep their own lines."""
        if self._spent + cost > self._budget:
            self._contexts.clear()
            self._spent = 0
        self._spent += cost


class _Lines(dict[Record, L]):
    """The lines of one context.  A missing one is made where it is looked up, so that a page of
    known lines costs one look-up each."""

    def __init__(
        self, render: Callable[[Record], L], keep: "Callable[[_Lines[L], Record, L], None]"
    ) -> None:
        super().__init__()
        self._render = render
        self._keep = keep

    def __missing__(self, record: Record) -> L:
        line = self._render(record)
        self._keep(self, record, line)
        return line
