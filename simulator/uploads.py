"""Uploads in parts at a simulated object store: each call is one step, and may fail.

A part counts as long enough to have a successor, whatever its bytes are.  For tests only.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import md5
from typing import NamedTuple, TypeVar

from graveler import limits
from graveler.block import address as addresses
from graveler.block import bounds
from graveler.block.adapter import ObjectHead, Part, PartOf, PartPage, StoredPart
from graveler.engine.objects.multipart import joined_checksum
from graveler.errors import Invalid, NotFound, OutcomeUnknown
from simulator.blocks import SharedObjects, SimulatedBlocks
from simulator.schedule import Fault, World
from simulator.stage import Stage

SOURCE_KEY = "m1"  # the path whose bytes are copied into parts
T = TypeVar("T")


class _StoredPart(NamedTuple):
    part: StoredPart
    content: bytes


@dataclass
class _Upload:
    address: str
    parts: dict[int, _StoredPart] = field(default_factory=dict)


class SharedUploads(SharedObjects):
    """All objects and all uploads of a world.  The bytes of `SOURCE_KEY` are there."""

    def __init__(self, world: World, stage: Stage) -> None:
        super().__init__(world, {})
        self.uploads: dict[str, _Upload] = {}
        value = stage.start[SOURCE_KEY]
        assert value is not None, "the source of copies exists"
        self.put(addresses.join(stage.opened.namespace, f"data/{value}"), value.encode())

    def found(self, address: str, upload_id: str) -> _Upload:
        upload = self.uploads.get(upload_id)
        if upload is None or upload.address != address:
            raise NotFound(f"upload not found: {upload_id=}")
        return upload


class SimulatedUploads(SimulatedBlocks):
    """`Blocks` of one client, with uploads in parts."""

    def __init__(self, shared: SharedUploads) -> None:
        super().__init__(shared, shared.world.pause)
        self._held = shared

    def create_upload(self, address: str, storage_class: str = "") -> str:
        world = self._held.world
        world.serial += 1
        id = f"u{world.serial}"

        def apply() -> str:
            self._held.uploads[id] = _Upload(address)
            return id

        return self._applied(apply)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        content = b"".join(body)
        return self._applied(lambda: self._store(address, PartOf(upload_id, number), content))

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        def apply() -> Part:
            _, content = self._found(source)
            bounds.check_part_range(len(content), start, end)
            return self._store(address, part, content[start:end])

        return self._applied(apply)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        self._step()
        parts = sorted(self._held.found(address, upload_id).parts.items())
        lines = [stored.part for number, stored in parts if number > after]
        return PartPage(tuple(lines[:limit]), len(lines) > limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        bounds.check_parts(parts)

        def apply() -> ObjectHead:
            held = self._held.found(address, upload_id).parts
            for part in parts:
                if part.number not in held or held[part.number].part.etag != part.etag:
                    raise Invalid(f"part was not uploaded with this etag: {part=}")
            del self._held.uploads[upload_id]
            content = b"".join(held[part.number].content for part in parts)
            etag = joined_checksum([part.etag for part in parts])
            head = self._held.put(address, content)._replace(etag=etag)
            self._held.held[address] = head, content
            return head

        return self._applied(apply)

    def abort_upload(self, address: str, upload_id: str) -> None:
        def apply() -> None:
            self._held.found(address, upload_id)
            del self._held.uploads[upload_id]

        self._applied(apply)

    def _store(self, address: str, part: PartOf, content: bytes) -> Part:
        etag = md5(content, usedforsecurity=False).hexdigest()
        size = limits.multipart_part_bytes_min + len(content)
        stored = StoredPart(part.number, etag, size, 0)
        self._held.found(address, part.upload_id).parts[part.number] = _StoredPart(stored, content)
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
            self._held.world.late.append(unanswered)
        elif fault is not Fault.LOST:
            unanswered()
        raise OutcomeUnknown("no answer")
