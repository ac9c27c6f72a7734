"""Object storage and range files of simulated clients: each call is one step, and may fail.

SimulatedBlocks    the objects of a world, and uploads in parts; requests may be lost or late
SimulatedRanges    range files that exist if their object in those blocks exists
RememberedRanges   ranges in memory that are cached over runs, which write the same files again
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from graveler.block.adapter import ANY_VERSION, Beat, ObjectHead, Part, PartPage, unwatched
from graveler.block.address import range_file
from graveler.block.drivers import OneByOne
from graveler.block.memory import MemoryBlocks
from graveler.committed.columns import Columns
from graveler.committed.memory import MemoryChunk, MemoryRangeStore, MemoryTable
from graveler.committed.ranges import EMPTY_METARANGE, Metarange, Rewrite, Rewriting
from graveler.committed.tiers import StoredFiles
from graveler.core import limits
from graveler.core.errors import Invalid, NotFound, OutcomeUnknown, Unavailable
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef, Record
from graveler.engine.objects.multipart import joined_checksum
from graveler.engine.ports import EngineSettings, Ports
from simulator.ports import Deployment, SimulatedClock, SimulatedStore, client_ports
from simulator.schedule import Fault, World
from tests.support.passing import PassingBlocks

_STEP_ROWS = 3  # in one checkpoint
_READS = frozenset(("get", "read", "head", "list", "list_parts"))
_AT_ONCE = frozenset(("put", "delete"))  # they may get no answer, but do not arrive late
Objects = dict[str, bytes]
Deleted = Callable[[str], None]
Step = Callable[[], None]


class SharedObjects(MemoryBlocks):
    """All objects and uploads of a world, and the callbacks for deletions.

    A part counts as long enough to have a successor, whatever its bytes are."""

    def __init__(self, world: World, objects: Objects) -> None:
        super().__init__(SimulatedClock(world, 0))
        self.world = world
        self.watches: list[Deleted] = []
        self._whole: dict[str, str] = {}  # the etags of objects that were joined of parts
        for address, content in objects.items():
            self.put(address, [content])

    def names(self, below: str) -> list[str]:
        """The addresses of all objects below a prefix."""
        return [line.address for line in self.list(below, "", limits.scan_page_count_max).lines]

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        before = self.names(address)
        super().delete(address, version)
        if self.names(address) != before:
            for watch in self.watches:
                watch(address)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        page = super().list_parts(address, upload_id, after, limit)
        least = limits.multipart_part_bytes_min
        lines = [part._replace(size=least + part.size) for part in page.lines]
        return page._replace(lines=tuple(lines))

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        head = super().complete_upload(address, upload_id, parts)
        self._whole[address] = joined_checksum([part.etag for part in parts])
        return head._replace(etag=self._whole[address])

    def head(self, address: str) -> ObjectHead:
        head = super().head(address)
        return head._replace(etag=self._whole.get(address, head.etag))


class SimulatedBlocks(OneByOne, PassingBlocks):
    """`Blocks` of one client.  `step` is called before each effect, and may raise."""

    def __init__(self, shared: SharedObjects, step: Step) -> None:
        super().__init__(shared)
        self._step = step

    def send(self, verb: str, call: Callable[[], Any]) -> Any:
        """What a request answers, unless it or its answer is lost.  A late one is applied when
        others may have done the same."""
        self._step()
        world: World = self.port.world
        if verb in _READS or world.alone:
            return call()
        fault = world.choices.fault()
        if fault is Fault.NONE:
            return call()
        world.faults += 1

        def unanswered() -> None:
            with suppress(NotFound, Invalid):
                call()

        if fault is Fault.LATE and verb not in _AT_ONCE:
            world.late.append(unanswered)
        elif fault is not Fault.LOST:
            unanswered()
        raise Unavailable("no answer") if verb == "delete" else OutcomeUnknown("no answer")

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        def both() -> None:
            beat()
            self._step()

        self._step()
        made: ObjectHead = self.port.copy(source, destination, both)
        return made


class SimulatedRanges:
    """`RangeStore` of one client.

    `files` keeps everything that any run ever wrote, because a name determines the content.  The
    blocks decide whether a file exists.
    """

    def __init__(self, files: MemoryRangeStore, blocks: SimulatedBlocks) -> None:
        self._files = files
        self._blocks = blocks
        self._stored = StoredFiles(blocks)

    def open_range(self, namespace: str, range_id: RangeId) -> MemoryTable:
        self._blocks.head(range_file(namespace, range_id))
        return self._files.open_range(namespace, range_id)

    def expect(self, namespace: str, refs: Iterable[RangeRef]) -> None:
        """Nothing is far."""

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        if metarange_id != EMPTY_METARANGE:
            self._blocks.head(range_file(namespace, metarange_id))
        return self._files.read_metarange(namespace, metarange_id)

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> RangeRef | Absent:
        return self.read_metarange(namespace, metarange_id).first_from(key)

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        made = self._files.write_range(namespace, records)
        self._stored.put(namespace, made.id, [b"range"])
        return made

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        made = self._files.splice_range(namespace, run)
        self._stored.put(namespace, made.id, [b"range"])
        return made

    def write_behind(self, namespace: str, run: Sequence[Columns]) -> Literal[Absent.ABSENT]:
        return ABSENT

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        return ABSENT

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        made = self._files.write_metarange(namespace, ranges)
        self._stored.put(namespace, made, [b"metarange"])
        return made


class MortalStore(SimulatedStore):
    """The world's rows; `step` is called before each effect, and may raise."""

    def __init__(self, world: World, step: Step) -> None:
        super().__init__(world)
        self._pause = step


def storage_ports(
    world: World, shared: SharedObjects, files: MemoryRangeStore, step: Step, life_seconds: int
) -> Ports:
    """The ports of a client whose every call of a store or of blocks is a `step`.  `life_seconds`:
    how long a commit may run."""
    blocks = SimulatedBlocks(shared, step)
    ranges = SimulatedRanges(files, blocks)
    ports = client_ports(world, Deployment(ranges, blocks, {}))
    grace_seconds = 2 * life_seconds
    settings = EngineSettings(
        bytes(32),
        grace_seconds,
        life_seconds,
        unnamed_token_seconds=grace_seconds,
        step_row_count=_STEP_ROWS,
    )
    return replace(ports, kv=world.port("kv", MortalStore(world, step)), settings=settings)


_FILES_KEPT = 50_000


class RememberedTable(MemoryTable):
    """A range that makes its chunks once."""

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__(records)
        self._chunks = list(super().chunks())

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator[MemoryChunk]:
        return iter([chunk for chunk in self._chunks if chunk.bound >= start])


class RememberedRanges(MemoryRangeStore):
    """Files in memory; a file that an earlier run wrote is not made again."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[Record, ...], RangeRef] = {}
        self._described: dict[tuple[RangeRef, ...], MetarangeId] = {}

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        records = tuple(record for columns in run for record in columns.records)
        known = self._written.get(records)
        if known is None:
            if len(self._written) > _FILES_KEPT:
                self._written.clear()
            known = self._written[records] = super().splice_range(namespace, run)
            self.ranges[namespace, known.id] = RememberedTable(records)
        return known

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        key = tuple(ranges)
        known = self._described.get(key)
        if known is None:
            if len(self._described) > _FILES_KEPT:
                self._described.clear()
            known = self._described[key] = super().write_metarange(namespace, ranges)
        return known
