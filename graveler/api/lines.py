"""Lines of listings as answers have them, kept from one answer to the next.

A line follows from a record (a key and its framed value) and from what all lines of its page have
in common (the context).  Both never change, so a line that is kept is never stale.  Used by
object_entries.py and by the S3 gateway.
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from graveler import limits
from graveler.records import Record

C = TypeVar("C", bound=Hashable)
L = TypeVar("L", bound=bytes | str)
_LINE_COST: Final = 160  # bytes of memory: a line's place and its record, without their texts
_CONTEXT_COST: Final = 1_000  # the same for a context
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class _Generation(Generic[C, L]):
    """Lines that were used in one period, by context, and their cost."""

    __slots__ = ("contexts", "spent")

    def __init__(self) -> None:
        self.contexts: dict[C, dict[Record, L]] = {}
        self.spent = 0

    def lines(self, context: C) -> Mapping[Record, L]:
        """The lines of a context."""
        return self.contexts.get(context, _NONE)


class RenderedLines(Generic[C, L]):
    """Rendered lines within a budget of bytes.  When the lines that were used lately take half of
    it, those that were not used since the last time are dropped.  Safe for any number of
    threads."""

    def __init__(
        self,
        render: Callable[[C, Sequence[Record]], Sequence[L]],
        budget: int = limits.rendered_lines_bytes_max,
    ) -> None:
        """`render`: makes the lines of records in a context, one for each.  Pure."""
        self._render = render
        self._half = budget // 2
        self._young: _Generation[C, L] = _Generation()
        self._old: _Generation[C, L] = _Generation()
        self._lock = threading.Lock()

    def of(self, context: C, records: Iterable[Record]) -> Sequence[L]:
        """The lines of some records.  The missing ones are made together, and kept.  Raises what
        `render` raises."""
        page = list(records)
        lines: list[Any] = list(map(self._young.lines(context).get, page))
        if None not in lines:
            return lines
        moved = [at for at, line in enumerate(lines) if line is None]
        old = self._old.lines(context)
        for at in moved:
            lines[at] = old.get(page[at])
        missing = [at for at in moved if lines[at] is None]
        if missing:
            fresh = self._render(context, [page[at] for at in missing])
            for at, line in zip(missing, fresh, strict=True):
                lines[at] = line
        self._keep(context, [(page[at], lines[at]) for at in moved])
        return lines

    @property
    def spent(self) -> int:
        """The approximate memory that all lines take, in bytes; never more than the budget."""
        with self._lock:
            return self._young.spent + self._old.spent

    def _keep(self, context: C, lines: Iterable[tuple[Record, L]]) -> None:
        """Keep lines among the young, but for those that are larger than half of the budget."""
        with self._lock:
            for record, line in lines:
                cost = _LINE_COST + getsizeof(record[0]) + getsizeof(record[1]) + getsizeof(line)
                known = self._young.contexts.get(context)
                if cost + _CONTEXT_COST > self._half or (known is not None and record in known):
                    continue
                if known is None or self._young.spent + cost > self._half:
                    known = self._begin(context, cost)
                known[record] = line
                self._young.spent += cost

    def _begin(self, context: C, cost: int) -> dict[Record, L]:
        """A place for the lines of a context, with room for one of this cost.  Pages that are
        being made at this moment have their own lines, so the old ones may be dropped."""
        if self._young.spent + _CONTEXT_COST + cost > self._half:
            self._old, self._young = self._young, _Generation()
        known = self._young.contexts.get(context)
        if known is None:
            known = self._young.contexts[context] = {}
            self._young.spent += _CONTEXT_COST
        return known
