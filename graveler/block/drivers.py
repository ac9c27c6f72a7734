"""What drivers share: checks of arguments, and many objects one by one."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice, pairwise
from typing import Protocol

from graveler.block.adapter import (
    CREATE,
    TO_END,
    BlockStore,
    BulkDeletes,
    ListedObject,
    NewObject,
    ObjectHead,
    Part,
    PartOf,
    Target,
)
from graveler.core import limits
from graveler.core.errors import GravelerError, Invalid, NotFound, RangeUnsatisfiable, Unsupported

# ---- bounds ----------------------------------------------------------------------------------


def check_range(start: int, end: int) -> None:
    """Raises `Invalid` for a range that no object can have.  A driver calls it before it sends
    anything."""
    if start < 0 or (end != TO_END and end < start):
        raise Invalid(f"range must begin at 0 or later and not end before: {start=} {end=}")


def clip_range(size: int, start: int, end: int) -> tuple[int, int]:
    """The half-open range that `start` and `end` mean for an object of `size` bytes (B3).  Raises
    `RangeUnsatisfiable`."""
    if start >= size and (start or size):
        raise RangeUnsatisfiable(f"range begins after the object's end: {start=} {size=}", size)
    return start, size if end == TO_END else min(end, size)


def clip_read(size: int, start: int, length: int) -> tuple[int, int]:
    """As `clip_range`, for `length` bytes; a negative `start` counts from the end."""
    begin = max(0, size + start) if start < 0 else start
    return clip_range(size, begin, begin + length)


def check_read(length: int) -> None:
    """Raises `Invalid` for a negative length."""
    if length < 0:
        raise Invalid(f"length to read must not be negative: {length=}")


def check_page(limit: int) -> None:
    """Raises `Invalid` for a page size out of bounds."""
    if not 1 <= limit <= limits.scan_page_count_max:
        raise Invalid(f"list limit must be 1 to {limits.scan_page_count_max}: {limit=}")


def check_part_page(limit: int) -> None:
    """Raises `Invalid` for a size out of bounds of a page of parts."""
    if not 1 <= limit <= limits.part_page_count_max:
        raise Invalid(f"list of parts must have 1 to {limits.part_page_count_max}: {limit=}")


def check_part_range(size: int, start: int, end: int) -> None:
    """Raises `Invalid` or `RangeUnsatisfiable` unless an object of `size` bytes has the range."""
    if end < 0:
        raise Invalid(f"range of a part must have an end: {start=} {end=}")
    check_range(start, end)
    if end > size:
        raise RangeUnsatisfiable(f"range ends after the object's end: {end=} {size=}", size)


def check_targets(targets: Sized) -> None:
    """Raises `Invalid` for more deletions than one call may have."""
    if len(targets) > limits.block_delete_count_max:
        raise Invalid(
            f"at most {limits.block_delete_count_max} deletions at once: count={len(targets)}"
        )


def measured(body: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks of a body without empty ones.  Raises `Invalid` if the body exceeds the maximum
    size of an object."""
    size = 0
    for chunk in body:
        size += len(chunk)
        check_size(size)
        if chunk:
            yield chunk


def check_size(size: int) -> None:
    """Raises `Invalid` for more bytes than an object may have."""
    if size > limits.object_size_bytes_max:
        raise Invalid(f"object exceeds {limits.object_size_bytes_max} bytes")


def gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, with small chunks joined, so that each chunk is worth a system call."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= limits.chunk_length_bytes // 2:
            yield b"".join(waiting) if len(waiting) > 1 else chunk
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def check_part_number(number: int) -> None:
    """Raises `Invalid` outside 1 to `limits.multipart_parts_count_max`."""
    if not 1 <= number <= limits.multipart_parts_count_max:
        raise Invalid(f"part number must be 1 to {limits.multipart_parts_count_max}: {number=}")


def check_presigned_part(method: str, part: PartOf) -> None:
    """Raises `Invalid` unless it is a PUT of a part number in bounds; `NotFound` without an upload
    id."""
    if method != "PUT":
        raise Invalid(f"only PUT of a part can be presigned: {method=}")
    check_part_number(part.number)
    if not part.upload_id:
        raise NotFound(f"upload not found: {part=}")


def check_parts(parts: tuple[Part, ...]) -> None:
    """Raises `Invalid` for no parts, too many parts, or numbers that do not increase."""
    if not parts:
        raise Invalid("upload has no parts to complete")
    if len(parts) > limits.multipart_parts_count_max:
        raise Invalid(f"upload has more than {limits.multipart_parts_count_max} parts")
    numbers = [part.number for part in parts]
    if any(left >= right for left, right in pairwise(numbers)):
        raise Invalid("part numbers of an upload must increase")


# ---- listing ---------------------------------------------------------------------------------


def list_all(blocks: BlockStore, prefix: str, after: str = "") -> Iterator[ListedObject]:
    """Objects whose address begins with `prefix` and is greater than `after`, in byte order.

    The next page is requested when the previous one is used up.  Objects that are added or deleted
    meanwhile may be listed or not.  Cost: one request per 1,000 objects, at least one.
    """
    more = True
    while more:
        page = blocks.list(prefix, after, limits.page_count_max)
        yield from page.lines
        more = page.more and bool(page.lines)
        if page.lines:
            after = page.lines[-1].address


# ---- deletion --------------------------------------------------------------------------------


class _Deletes(Protocol):
    def delete(self, address: str, version: str = "") -> None:
        """As `BlockStore.delete`."""
        ...


class OneByOne:
    """`BulkDeletes` for a driver that can delete one object per request."""

    keeps_versions = True

    def delete_all(self: _Deletes, targets: Sequence[Target]) -> None:
        check_targets(targets)
        failed: list[GravelerError] = []
        for target in targets:
            try:
                self.delete(*target)
            except GravelerError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def check_versions(self, address: str) -> None:
        """Sends no request."""
        if not self.keeps_versions:
            raise Unsupported(f"the bucket keeps no versions: enable versioning first: {address=}")


def delete_every(blocks: BulkDeletes, addresses: Iterable[str]) -> int:
    """Delete the objects at these addresses, any version; return the number of addresses.

    Cost: one `delete_all` per 1,000.  Raises after the first batch of 1,000 with a failure.
    """
    rest, count = iter(addresses), 0
    while part := [Target(each) for each in islice(rest, limits.block_delete_count_max)]:
        blocks.delete_all(part)
        count += len(part)
    return count


# ---- creation --------------------------------------------------------------------------------


class CreatesOneByOne:
    """`BulkCreations` by one `put` for each object."""

    def create_many(
        self: BlockStore, objects: Sequence[NewObject]
    ) -> list[ObjectHead | GravelerError]:
        return created_one_by_one(self.put, objects)


def created_one_by_one(
    put: Callable[..., ObjectHead], objects: Sequence[NewObject]
) -> list[ObjectHead | GravelerError]:
    """See `BulkCreations.create_many`: by one `put` for each object."""
    results: list[ObjectHead | GravelerError] = []
    for new in objects:
        try:
            results.append(put(new.address, new.body, CREATE, new.storage_class))
        except GravelerError as error:
            results.append(error)
    return results
