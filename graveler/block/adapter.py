"""The contract of object storage, verb by verb: what the system asks of whatever holds bytes that
never change.

An object lives at a physical address, `scheme://bucket/key` (block/address.py), whole or not at
all.

    B1  a put is seen whole or not at all, and survives the death of process and machine once
        answered
    B2  CREATE fails with `AlreadyExists` if the name is taken; OVERWRITE replaces; UPDATE replaces
        only the etag named
    B3  ranges are half-open, in bytes; one that begins at or behind the end raises
        `RangeUnsatisfiable`, one that only
        ends there is shortened; an empty object read from 0 is empty
    B4  lists are in byte order of keys, paged, with an exclusive `after`; a list shows what was
        there when its first page was asked for; its later pages may lack what was added since
    B5  a put whose answer was lost is recognised by reading back (block/retry.py)
    B6  an address that leaves its bucket, or that the driver does not serve, raises `Invalid`
        before anything is touched
    B7  bodies are streamed: memory is bounded by the chunk, not by the object
    B8  deleting what is not there is no error; with a version, only that version goes
    B9  a presigned URL is good for one method, one address, at most `limits.presign_seconds_max`;
        a PUT of the whole object never replaces one if `only_create` was asked for
    B10  deleting many does to each what B8 says, in any order; if one fails, an error says so,
        after the others were tried, and all of it may be repeated
    B11  where the storage cannot tell a version from one that is written later, `check_versions`
        and every deletion by such a version raise `Unsupported`, and nothing is deleted

Errors: `NotFound`, `AlreadyExists`, `PreconditionFailed`, `RangeUnsatisfiable`, `StorageFull`,
`Unavailable`, `Invalid`,
`Unsupported`.  One verb is one request, but for a put of a long body and a deletion of many.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol


class PutMode(Enum):
    """What a put may find at its address."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class Update(NamedTuple):
    """Put mode: only the object that has this etag may be replaced."""

    etag: str


Mode = PutMode | Update
CREATE: Final = PutMode.CREATE
OVERWRITE: Final = PutMode.OVERWRITE

ANY_VERSION = ""  # delete whatever is there
TO_END = -1  # a range that ends with its object


class ObjectHead(NamedTuple):
    """What is known of an object without its bytes; `version` names exactly these bytes to
    `delete`; `storage_class` is empty for the usual one, and in lists."""

    size: int
    etag: str
    modified_ns: int
    version: str = ""
    storage_class: str = ""


class Body(NamedTuple):
    """An object, or a range of it: the whole object's head, the bounds read, and the bytes.
    Iterate to the end or close."""

    head: ObjectHead
    start: int
    end: int
    chunks: Iterator[bytes]


class ListedObject(NamedTuple):
    """One line of a list."""

    address: str
    head: ObjectHead


class ObjectPage(NamedTuple):
    """Lines in byte order; `more`: another page, after the last address, may have lines."""

    lines: tuple[ListedObject, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Presigned:
    """A request that whoever holds the URL may make, once or often, until it expires."""

    url: str
    expires_ns: int


class Part(NamedTuple):
    """A part of a multipart upload, as its upload answered."""

    number: int
    etag: str


class PartOf(NamedTuple):
    """A part of an upload, before it is there."""

    upload_id: str
    number: int


WHOLE: Final = PartOf("", 0)  # no part: the object itself

Beat = Callable[[], object]


def unwatched() -> None:
    """Nobody watches what takes long."""


class Target(NamedTuple):
    """What is to be deleted: an object, or only if it still is the version named."""

    address: str
    version: str = ANY_VERSION


class BlockStore(Protocol):
    """See the module's clauses."""

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        """Open an object or a range of it."""
        ...

    def read(self, address: str, start: int, length: int) -> bytes:
        """`length` bytes from `start` (fewer only at the object's end; negative `start` counts
        from the end)."""
        ...

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        """Store what `body` yields.  If `body` raises, nothing is stored and its error passes on.

        `storage_class`: how it is to be kept, in the storage's own words; empty: as usual.
        `Invalid` for one that the storage does not know; a storage without classes ignores it.
        """
        ...

    def head(self, address: str) -> ObjectHead:
        """Size, etag, time."""
        ...

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        """Objects whose address begins with `prefix` and is greater than `after` (may be empty)."""
        ...

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        """A second object with the same bytes; the destination is overwritten.

        `beat` is called again and again by a copy that takes several requests.  If it raises, its
        error passes on and nothing is stored.
        """
        ...

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        """Remove an object, or only if it still is the version named."""
        ...

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        *,
        only_create: bool = False,
    ) -> Presigned:
        """A URL for `method` on `address`; an empty `content_type` binds none.  No request is made.

        `part`: the URL stores that part, as `put_part` does, whatever its content type; whether the
        upload is known is found out by whoever uses it.  `Unsupported` where parts have no URL.

        `only_create`: whoever uses the URL of a PUT must send `If-None-Match: *` where the storage
        itself answers it; without it some storages (S3) let a PUT replace the object.
        """
        ...


class Multipart(Protocol):
    """Uploads in parts; a driver that lacks it raises `Unsupported`."""

    def create_upload(self, address: str) -> str:
        """An upload id; nothing is seen at `address` until it is completed."""
        ...

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        """Store part `number` (1 … 10,000); again with the same number replaces it."""
        ...

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        """Make the object of `parts`, in their order; a part whose etag differs raises
        `Invalid`."""
        ...

    def abort_upload(self, address: str, upload_id: str) -> None:
        """Forget the upload; unknown ones raise `NotFound`."""
        ...


class BulkDeletes(Protocol):
    """Many deletions at once: each is what `BlockStore.delete` is."""

    def delete_all(self, targets: Sequence[Target]) -> None:
        """Remove up to `limits.block_delete_count_max` objects, in any order; more are `Invalid`.

        What the first that failed would raise alone is raised once all were tried; of those that
        failed, and of those alone, nothing is known.  A request that fails as a whole raises at
        once, and any of them may be gone.
        """
        ...

    def check_versions(self, address: str) -> None:
        """Raises `Unsupported`, whose text names the remedy, where a deletion by version could
        remove what was written after the version was seen.  One request at most."""
        ...


class Blocks(BlockStore, Multipart, BulkDeletes, Protocol):
    """All together: what every driver and wrapper is."""
