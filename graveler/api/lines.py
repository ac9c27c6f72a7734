"""Lines of listings as answers have them, kept from one answer to the next.

A line follows from a record (a key and its framed value) and from what all lines of its page have
in common (the context).  Both never change, so a line that is kept is never stale.  Used by
object_reads.py and by the S3 gateway.
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


class RenderedLines(Generic[C, L]):
    """Rendered lines within a budget of bytes.  When the budget is spent, all are dropped.  Safe
    for any number of threads."""

    def __init__(
        self,
        render: Callable[[C, Sequence[Record]], Sequence[L]],
        budget: int = limits.rendered_lines_bytes_max,
    ) -> None:
        """`render`: makes the lines of records in a context, one for each.  Pure."""
        self._render = render
        self._budget = budget
        self._contexts: dict[C, dict[Record, L]] = {}
        self._spent = 0
        self._lock = threading.Lock()

    def of(self, context: C, records: Iterable[Record]) -> Sequence[L]:
        """The lines of some records.  The missing ones are made together, and kept.  Raises what
        `render` raises."""
        page = list(records)
        known = self._contexts.get(context, _NONE)
        lines: list[Any] = list(map(known.get, page))
        if None not in lines:
            return lines
        missing = [at for at, line in enumerate(lines) if line is None]
        records_missing = [page[at] for at in missing]
        fresh = self._render(context, records_missing)
        for at, line in zip(missing, fresh, strict=True):
            lines[at] = line
        self._keep(context, records_missing, fresh)
        return lines

    @property
    def spent(self) -> int:
        """The approximate memory that all lines take, in bytes; never more than the budget."""
        return self._spent

    def _keep(self, context: C, records: Sequence[Record], lines: Sequence[L]) -> None:
        """Keep lines, but for those that are larger than the budget."""
        with self._lock:
            known = self._contexts.get(context)
            for record, line in zip(records, lines, strict=True):
                cost = _LINE_COST + getsizeof(record[0]) + getsizeof(record[1]) + getsizeof(line)
                if cost + _CONTEXT_COST > self._budget or (known is not None and record in known):
                    continue
                if known is None or self._spent + cost > self._budget:
                    known = self._begin(context, cost)
                known[record] = line
                self._spent += cost

    def _begin(self, context: C, cost: int) -> dict[Record, L]:
        """A place for the lines of a context, with room for one of this cost.  Pages that are
        being made at this moment have their own lines, so all may be dropped."""
        if self._spent + _CONTEXT_COST + cost > self._budget:
            self._contexts.clear()
            self._spent = 0
        self._spent += _CONTEXT_COST
        return self._contexts.setdefault(context, {})
