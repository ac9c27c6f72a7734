"""What attempts of a job have read of ranges and metaranges, which never change.

    metaranges-00000, …    `ranges`: encoded as in a metarange
                           rows: a metarange's id, and the numbers of its ranges in that list;
                           or the id of a file that is not a metarange, and null
    uses-00000, …          rows: a range's id, and the names of our shapes in it; whole ranges only

Each attempt determines again whether a range is in use, and by what.  Used by content.py.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from graveler import wire
from graveler.block.address import is_ours
from graveler.committed.ranges import Keyspace
from graveler.engine.jobs.checkpoints import Step, Steps, add_next
from graveler.errors import Corrupt
from graveler.ids import MetarangeId, RangeId, is_hex64
from graveler.records import ABSENT, RangeRef

_METARANGES: Final = "metaranges-"
_USES: Final = "uses-"


class KnownMetaranges:
    """The metaranges of a repository; those in checkpoints are not read again.

    Memory: 4 bytes for each range of each metarange in the checkpoints.
    """

    def __init__(self, space: Keyspace, steps: Steps) -> None:
        """Cost: a get for each checkpoint."""
        self._space = space
        self._steps = steps
        self._ranges: list[RangeRef] = []
        self._numbers: dict[RangeRef, int] = {}
        self._known: dict[str, array[int]] = {}
        self._none: set[str] = set()
        self._held: list[tuple[str, Sequence[RangeRef] | None]] = []
        self._count = 0
        for name in steps.names(_METARANGES):
            step = steps.read(name)
            if step is not ABSENT:
                self._take(step)

    def ranges(self, metarange: MetarangeId) -> Sequence[RangeRef]:
        """All ranges of a metarange.

        Raises `Gone`, `Corrupt`.  Cost: a read, none if the metarange is known; a put once a
        checkpoint is full.
        """
        known = self._known.get(metarange)
        if known is not None:
            return [self._ranges[number] for number in known]
        refs = self._space.metarange(metarange).ranges
        self._keep(metarange, refs)
        return refs

    def is_none(self, id: str) -> bool:
        """Whether an earlier attempt has found that this file is not a metarange."""
        return id in self._none

    def add_none(self, id: str) -> None:
        """Record that this file is not a metarange.  Cost: a put once a checkpoint is full."""
        self._keep(id, None)

    def _keep(self, id: str, ranges: Sequence[RangeRef] | None) -> None:
        if not self._steps.row_count:
            return
        self._held.append((id, ranges))
        self._count += 1 + len(ranges or ())
        if self._count >= self._steps.row_count:
            add_next(self._steps, _METARANGES, _step_of(self._held))
            self._held, self._count = [], 0

    def _take(self, step: Step) -> None:
        """Load a checkpoint, if it is valid."""
        try:
            ranges = [wire.decode_range(bytes.fromhex(each)) for each in step.said["ranges"]]
            rows = [_numbers_of(row, len(ranges)) for row in step.rows]
        except (KeyError, TypeError, ValueError, Corrupt):
            return
        if not all(is_hex64(ref.id) for ref in ranges):
            return
        here = [self._number(ref) for ref in ranges]
        for id, numbers in rows:
            if numbers is None:
                self._none.add(id)
            else:
                self._known[id] = array("I", [here[number] for number in numbers])

    def _number(self, ref: RangeRef) -> int:
        number = self._numbers.setdefault(ref, len(self._ranges))
        if number == len(self._ranges):
            self._ranges.append(ref)
        return number


def _step_of(held: Sequence[tuple[str, Sequence[RangeRef] | None]]) -> Step:
    numbers: dict[RangeRef, int] = {}
    rows: list[tuple[str, list[int] | None]] = []
    for id, ranges in held:
        if ranges is None:
            rows.append((id, None))
        else:
            rows.append((id, [numbers.setdefault(ref, len(numbers)) for ref in ranges]))
    return Step({"ranges": [wire.encode_range(ref)[1].hex() for ref in numbers]}, rows)


def _numbers_of(row: Any, count: int) -> tuple[str, list[int] | None]:
    """A row of a checkpoint.  Raises `TypeError` or `ValueError` if it is invalid."""
    id, numbers = row
    if not is_hex64(id) or not isinstance(numbers, list | None):
        raise ValueError("not a metarange")
    if not all(0 <= number < count for number in numbers or ()):
        raise ValueError("not a range")
    return id, numbers


# ---- uses ----------------------------------------------------------------------------------------


class Uses(NamedTuple):
    """The names in one range; a name appears as often as the range has it."""

    range: RangeId
    names: Sequence[str]


class KnownUses:
    """The uses that a job has read."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._held: list[Uses] = []
        self._count = 0

    @property
    def are_kept(self) -> bool:
        """Whether a later attempt can continue from them."""
        return self._steps.row_count > 0

    def read(self) -> Iterator[Uses]:
        """The uses in checkpoints; a range may appear twice.  Cost: a get for each checkpoint."""
        for name in self._steps.names(_USES):
            step = self._steps.read(name)
            if step is not ABSENT and all(map(_is_uses, step.rows)):
                for id, names in step.rows:
                    yield Uses(RangeId(id), names)

    def add(self, uses: Uses) -> None:
        """Record the uses of a range that was read to its end.  Cost: a put once a checkpoint is
        full.
        """
        self._held.append(uses)
        self._count += 1 + len(uses.names)
        if self._count >= self._steps.row_count:
            add_next(self._steps, _USES, Step({}, self._held))
            self._held, self._count = [], 0


def _is_uses(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 2:
        return False
    id, names = row
    if not isinstance(id, str) or not is_hex64(id) or not isinstance(names, list):
        return False
    return all(isinstance(name, str) and is_ours(name) for name in names)
