"""The names in ranges, kept between attempts of a job.  A range never changes, so they stay valid.

    uses-00000, …    rows: a range's id, and the names of our shapes in it; whole ranges only

Each attempt determines again whether a range is in use, and by what.  Used by content.py.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from graveler.engine.gc.candidates import is_ours
from graveler.engine.jobs.checkpoints import Step, Steps, add_next
from graveler.ids import RangeId, is_hex64
from graveler.records import ABSENT

_USES: Final = "uses-"


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
