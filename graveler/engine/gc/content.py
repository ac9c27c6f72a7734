"""The files and objects that the content of commits uses: metaranges, their ranges, their objects.

What an earlier attempt of the same job has read is not read again: its checkpoints `metaranges-<n>`
and `uses-<n>` have it.  Whether anything uses a range, each attempt determines again.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from graveler.block.address import FILES, is_ours
from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.reader import range_batches
from graveler.core import wire
from graveler.core.errors import Corrupt, NotFound
from graveler.core.ids import NO_METARANGE, MetarangeId, RangeId, is_hex64
from graveler.core.records import ABSENT, RangeRef
from graveler.core.wire import stored_entry
from graveler.engine.gc.listing import Candidates, used_name
from graveler.engine.jobs.checkpoints import NO_STEPS, Step, Steps, add_next
from graveler.engine.ports import OpenRepository, keyspace

_METARANGES: Final = "metaranges-"
_USES: Final = "uses-"
NO_FILE = (NO_METARANGE, EMPTY_METARANGE)  # readable although no file of them is stored


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


class ContentUses:
    """Metaranges and ranges in use.  Each range is read once, however many metaranges name it.

    `add` puts the metarange, its ranges and their objects into use.  `add_files` puts only the
    metarange and its ranges into use, and does not read the ranges.
    """

    def __init__(
        self, repo: OpenRepository, candidates: Candidates, steps: Steps = NO_STEPS
    ) -> None:
        self._space: Keyspace = keyspace(repo)
        self._repo = repo.record
        self.candidates = candidates
        self._known = KnownUses(steps)
        self._metaranges = KnownMetaranges(self._space, steps)
        self._seen: set[MetarangeId] = set()
        self._ranges: dict[RangeId, tuple[RangeRef, bool]] = {}
        self._files: dict[str, bool] = {}
        self.kept: set[MetarangeId] = set()

    def add(self, metarange: MetarangeId, *, is_kept: bool, stays: bool = False) -> None:
        """Record that something uses this metarange.

        `is_kept`: the user stays.  `stays`: the metarange and its ranges stay in any case.  If the
        metarange cannot be read, nothing is recorded.
        """
        if metarange in NO_FILE or metarange in self.kept:
            return
        if not is_kept and metarange in self._seen and self._files.get(metarange, not stays):
            return
        ranges = self._metaranges.ranges(metarange)
        if stays:
            self._note_files(metarange, ranges, is_kept=True)
        if is_kept:
            self.kept.add(metarange)
        self._seen.add(metarange)
        for ref in ranges:
            was_kept = self._ranges.get(ref.id, (ref, False))[1]
            self._ranges[ref.id] = ref, is_kept or was_kept

    def add_files(self, metarange: MetarangeId, *, is_kept: bool) -> None:
        """Record that this metarange and its ranges are in use, but not their objects."""
        is_noted = self._files.get(metarange, not is_kept and metarange in self._seen)
        if metarange in NO_FILE or metarange in self.kept or is_noted:
            return
        self._note_files(metarange, self._metaranges.ranges(metarange), is_kept=is_kept)

    def _note_files(
        self, metarange: MetarangeId, ranges: Iterable[RangeRef], *, is_kept: bool
    ) -> None:
        for id in (metarange, *(ref.id for ref in ranges)):
            self._files[id] = is_kept or self._files.get(id, False)

    def add_orphans(self, known: set[MetarangeId], others: set[str]) -> set[str]:
        """Add metaranges that no commit has: content that a client may still commit."""
        for metarange in known:
            self.candidates.name_metarange(FILES + metarange)
        orphans: set[str] = set()
        files = {name for name in self.candidates.names if name.startswith(FILES)}
        for name in sorted(files - self.candidates.due):
            id = name[len(FILES) :]
            if id in known or id in self._ranges or id in self._files or id in others:
                continue
            if self._metaranges.is_none(id):
                continue
            try:
                self.add(MetarangeId(id), is_kept=not self.candidates.is_old(name))
            except NotFound:
                continue  # gone by now
            except Corrupt:
                self._metaranges.add_none(id)  # it is a range
                continue
            if self.candidates.is_old(name):
                self.candidates.name_metarange(name)
                orphans.add(id)
        return orphans

    def strike(self) -> None:
        """Remove all files and objects in use from the candidates."""
        for metarange in self._seen:
            self.candidates.strike(FILES + metarange, is_kept=metarange in self.kept)
        for id, is_kept in self._files.items():
            self.candidates.strike(FILES + id, is_kept=is_kept)
        for ref, is_kept in self._ranges.values():
            self.candidates.strike(FILES + ref.id, is_kept=is_kept)
        missing = dict(self._ranges)
        for uses in self._known.read():
            if uses.range in missing:
                _, is_kept = missing.pop(uses.range)
                self._strike(uses.names, is_kept=is_kept)
        for ref, is_kept in missing.values():
            if not self._known.are_kept:
                self._strike(self._names(ref), is_kept=is_kept)
                continue
            read = Uses(ref.id, list(filter(is_ours, self._names(ref))))
            self._strike(read.names, is_kept=is_kept)
            self._known.add(read)

    def _strike(self, names: Iterable[str], *, is_kept: bool) -> None:
        for name in names:
            self.candidates.strike(name, is_kept=is_kept)

    def _names(self, ref: RangeRef) -> Iterator[str]:
        if self._space.open(ref).marks:
            return  # a table of dumped refs, which holds no entries
        for records in range_batches(self._space, ref):
            for _, value in records:
                yield used_name(self._repo, stored_entry(value))
