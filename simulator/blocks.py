"""Object storage and range files of simulated clients: each call is one step, and may fail.

SimulatedBlocks    the objects of a world; a put or a deletion may be lost, or get no answer
SimulatedUploads   the same, with uploads in parts
SimulatedRanges    range files that exist if their object in those blocks exists
RememberedRanges   ranges in memory that are cached over runs, which write the same files again
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Literal, NamedTuple, TypeVar

from graveler.block import bodies, drivers
from graveler.block.adapter import (
    ANY_PUT,
    ANY_VERSION,
    CREATE,
    OVERWRITE,
    TO_END,
    WHOLE,
    Beat,
    Body,
    ListedObject,
    Mode,
    ObjectHead,
    ObjectPage,
    Part,
    PartOf,
    PartPage,
    PresignedUrl,
    PutTerms,
    StoredPart,
    unwatched,
)
from graveler.block.address import range_file
from graveler.block.bodies import Spool
from graveler.block.drivers import CreatesOneByOne, OneByOne
from graveler.committed.columns import Columns
from graveler.committed.memory import MemoryChunk, MemoryRangeStore, MemoryTable
from graveler.committed.ranges import EMPTY_METARANGE, Metarange, Rewrite, Rewriting
from graveler.committed.tiers import StoredFiles
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef, Record
from graveler.engine.objects.multipart import joined_checksum
from graveler.engine.ports import EngineSettings, Ports
from simulator.ports import Deployment, SimulatedClock, SimulatedStore, client_ports
from simulator.schedule import Fault, World

_STEP_ROWS = 3  # in one checkpoint
Objects = dict[str, tuple[ObjectHead, bytes]]
Deleted = Callable[[str], None]
Step = Callable[[], None]
T = TypeVar("T")


class _StoredPart(NamedTuple):
    part: StoredPart
    content: bytes


@dataclass
class _Upload:
    address: str
    parts: dict[int, _StoredPart] = field(default_factory=dict)


class SharedObjects:
    """All objects and uploads of a world, and the callbacks for deletions."""

    def __init__(self, world: World, objects: Objects) -> None:
        self.world = world
        self.held = dict(objects)
        self.uploads: dict[str, _Upload] = {}
        self.watches: list[Deleted] = []
        self._clock = SimulatedClock(world, 0)
        self._serial = len(objects)

    def put(self, address: str, content: bytes) -> ObjectHead:
        self._serial += 1
        now_ns = self._clock.now_ns()
        head = ObjectHead(len(content), f"e{self._serial}", now_ns, f"w{self._serial}")
        self.held[address] = head, content
        return head

    def upload(self, address: str, upload_id: str) -> _Upload:
        upload = self.uploads.get(upload_id)
        if upload is None or upload.address != address:
            raise NotFound(f"upload not found: {upload_id=}")
        return upload

    def drop(self, address: str, version: str) -> None:
        held = self.held.get(address)
        if held is None or version not in (ANY_VERSION, held[0].version):
            return
        del self.held[address]
        for watch in self.watches:
            watch(address)


class SimulatedBlocks(CreatesOneByOne, OneByOne):
    """`Blocks` of one client.  `step` is called before each effect, and may raise.

    A part counts as long enough to have a successor, whatever its bytes are."""

    def __init__(self, shared: SharedObjects, step: Step) -> None:
        self._shared = shared
        self._step = step

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        self._step()
        head, content = self._found(address)
        stop = len(content) if end == TO_END else min(end, len(content))
        return Body(head, start, stop, iter([content[start:stop]]))

    def read(self, address: str, start: int, length: int) -> bytes:
        self._step()
        return self._found(address)[1][start : start + length]

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        content = b"".join(body)
        fault = self._fault()
        if mode is CREATE and address in self._shared.held:
            raise AlreadyExists(f"object already exists: {address=}")
        head = ObjectHead(0, "", 0)
        if fault is not Fault.LOST:
            head = self._shared.put(address, content)
        if fault is not Fault.NONE:
            raise OutcomeUnknown("no answer")
        return head

    def spool(self, address: str) -> Spool:
        return bodies.spool()

    def head(self, address: str) -> ObjectHead:
        self._step()
        return self._found(address)[0]

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        self._step()
        names = sorted(name for name in self._shared.held if name.startswith(prefix))
        rest = names[bisect_right(names, after) :]
        lines = [ListedObject(name, self._shared.held[name][0]) for name in rest[:limit]]
        return ObjectPage(tuple(lines), len(rest) > limit)

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        self._step()
        content = self._found(source)[1]
        beat()
        self._step()
        return self._shared.put(destination, content)

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        fault = self._fault()
        if fault is not Fault.LOST:
            self._shared.drop(address, version)
        if fault is not Fault.NONE:
            raise Unavailable("no answer")

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        raise Unsupported("simulated objects have no URL")

    def create_upload(self, address: str, storage_class: str = "") -> str:
        world = self._shared.world
        world.serial += 1
        id = f"u{world.serial}"

        def apply() -> str:
            self._shared.uploads[id] = _Upload(address)
            return id

        return self._applied(apply)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        content = b"".join(body)
        return self._applied(lambda: self._store(address, PartOf(upload_id, number), content))

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        def apply() -> Part:
            _, content = self._found(source)
            drivers.check_part_range(len(content), start, end)
            return self._store(address, part, content[start:end])

        return self._applied(apply)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        self._step()
        parts = sorted(self._shared.upload(address, upload_id).parts.items())
        lines = [stored.part for number, stored in parts if number > after]
        return PartPage(tuple(lines[:limit]), len(lines) > limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        drivers.check_parts(parts)

        def apply() -> ObjectHead:
            held = self._shared.upload(address, upload_id).parts
            for part in parts:
                if part.number not in held or held[part.number].part.etag != part.etag:
                    raise Invalid(f"part was not uploaded with this etag: {part=}")
            del self._shared.uploads[upload_id]
            content = b"".join(held[part.number].content for part in parts)
            etag = joined_checksum([part.etag for part in parts])
            head = self._shared.put(address, content)._replace(etag=etag)
            self._shared.held[address] = head, content
            return head

        return self._applied(apply)

    def abort_upload(self, address: str, upload_id: str) -> None:
        def apply() -> None:
            self._shared.upload(address, upload_id)
            del self._shared.uploads[upload_id]

        self._applied(apply)

    def _store(self, address: str, part: PartOf, content: bytes) -> Part:
        etag = md5(content, usedforsecurity=False).hexdigest()
        size = limits.multipart_part_bytes_min + len(content)
        stored = StoredPart(part.number, etag, size, 0)
        parts = self._shared.upload(address, part.upload_id).parts
        parts[part.number] = _StoredPart(stored, content)
        return Part(part.number, etag)

    def _applied(self, apply: Callable[[], T]) -> T:
        """What a request does, unless it or its answer is lost.  A late one is applied when others
        may have done the same."""
        fault = self._fault()
        if fault is Fault.NONE:
            return apply()

        def unanswered() -> None:
            with suppress(NotFound, Invalid):
                apply()

        if fault is Fault.LATE:
            self._shared.world.late.append(unanswered)
        elif fault is not Fault.LOST:
            unanswered()
        raise OutcomeUnknown("no answer")

    def _found(self, address: str) -> tuple[ObjectHead, bytes]:
        found = self._shared.held.get(address)
        if found is None:
            raise NotFound(f"object not found: {address=}")
        return found

    def _fault(self) -> Fault:
        self._step()
        world = self._shared.world
        if world.alone:
            return Fault.NONE
        fault = world.choices.fault()
        world.faults += fault is not Fault.NONE
        return fault


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
