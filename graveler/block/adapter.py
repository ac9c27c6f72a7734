"""The contract of object storage: the operations that every block driver provides.

An object lives at a physical address, `scheme://bucket/key` (block/address.py).  It exists
completely or not at all.

    B1  A put is visible completely or not at all.  Once answered, it survives a crash of the
        process and of the machine.
    B2  CREATE raises `AlreadyExists` if the name is taken.  OVERWRITE replaces.  UPDATE replaces
        only the object that has the given etag.
    B3  Ranges are half-open, in bytes.  A range that begins at or after the end raises
        `RangeUnsatisfiable`.  A range that only ends after the end is shortened.  An empty object
        read from 0 is empty.
    B4  Lists are in byte order of keys, paged, with an exclusive `after`.  A list shows every
        object that existed at the request for its first page; later pages may lack objects that
        were added since.
    B5  A put whose answer was lost is recognised by reading back (block/retry.py).
    B6  An address that leaves its bucket, or that the driver does not serve, raises `Invalid`
        before anything is read or written.
    B7  Bodies are streamed: memory is bounded by the chunk, not by the object.
    B8  Deleting an absent object is no error.  With a version, only that version is deleted.
    B9  A presigned URL is valid for one method, one address, at most `limits.presign_seconds_max`.
        A PUT of the whole object with `PutTerms.only_create` never replaces an object, and with
        `PutTerms.size` stores so many bytes or none.
    B10  A deletion of many does to each what B8 says, in any order.  If one fails, the others are
        still tried, and then an error is raised.  The whole call may be repeated.
    B11  If the storage cannot distinguish a version from one that is written later,
        `check_versions` and every deletion by such a version raise `Unsupported`, and nothing is
        deleted.
    B12  A creation of many does to each what a put with CREATE does, and an error of one concerns
        no other.  Their addresses are new, and nobody else knows them before the answer: until
        then a list may show such an object with fewer bytes, and a crash may leave it so.

Errors: `NotFound`, `AlreadyExists`, `PreconditionFailed`, `RangeUnsatisfiable`, `StorageFull`,
`Unavailable`, `Invalid`, `Unsupported`.  One call is one request, except a put or copy of a long
body and a deletion of many.  A driver's docstring lists its further exceptions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from graveler.block.bodies import Spool
from graveler.core.errors import GravelerError
from graveler.core.records import ABSENT, Absent


class PutMode(Enum):
    """Whether a put may replace an existing object."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class Update(NamedTuple):
    """Put mode: replace only the object that has this etag."""

    etag: str


Mode = PutMode | Update
CREATE: Final = PutMode.CREATE
OVERWRITE: Final = PutMode.OVERWRITE

ANY_VERSION = ""  # delete the object, whatever its version
UNVERSIONED = "null"  # the version of an S3 object that was stored without versioning
TO_END = -1  # the range extends to the end of the object


class ObjectHead(NamedTuple):
    """Attributes of an object, without its bytes.

    `version` identifies exactly these bytes for `delete`.  `storage_class` is empty for the default
    class, and in lists.  `encryption`: in the head of a read, the name of the encryption because of
    which the etag is no MD5, though it may look like one; else empty.  `crc32c`: in the head of a
    read, the checksum of all bytes as they were when they were stored; ABSENT if none is known.
    """

    size: int
    etag: str
    modified_ns: int
    version: str = ""
    storage_class: str = ""
    encryption: str = ""
    crc32c: int | Literal[Absent.ABSENT] = ABSENT


class Socket(Protocol):
    """A socket that does not block.  It stays open while it is in use."""

    descriptor: int


class Body(NamedTuple):
    """An object or a range of it: the head of the whole object, the bounds of the range, and the
    bytes.  The reader must iterate to the end or close `chunks`."""

    head: ObjectHead
    start: int
    end: int
    chunks: Iterator[bytes]


@runtime_checkable
class FileChunks(Protocol):
    """The chunks of a body that is in a file of this machine: the system can send them to a socket,
    without reading them into this process, or read them to where they are needed."""

    def send_to(self, socket: Socket, count_max: int) -> int:
        """Send the next bytes, at most `count_max`; the next chunk begins after them.

        Returns how many were sent; 0 at the end.  Raises `BlockingIOError` if the socket, which
        does not block, takes none now; `ConnectionError` or `TimeoutError` if its connection has
        ended; `Corrupt`, `Unavailable`.
        """
        ...

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes into `buffer`; the next chunk begins after them.  Returns how many; 0
        at the end, and after `close`.  Raises `Corrupt`, `Unavailable`."""
        ...

    def duplicate(self) -> int:
        """A descriptor of the file, which the caller closes.  It reads the file also after the
        name of the file is deleted.  Raises `Unavailable` after `close`."""
        ...

    def close(self) -> None:
        """Let the file go: afterwards nothing is sent or read.

        Idempotent, and safe while another thread sends or reads.  Raises nothing.
        """
        ...


class ListedObject(NamedTuple):
    """One line of a list.

    `problem`: why it is no object; only in a list of files of this machine, of a pipe for example.
    There an address may also have a name that `address.check` refuses.
    """

    address: str
    head: ObjectHead
    problem: str = ""


class ObjectPage(NamedTuple):
    """One page of a list, in byte order.  `more`: a further page, after the last address, may have
    lines."""

    lines: tuple[ListedObject, ...]
    more: bool


class PresignedUrl(NamedTuple):
    """A signed request.  Anyone with the URL may send it, repeatedly, until it expires."""

    url: str
    expires_ns: int


class Part(NamedTuple):
    """An uploaded part of a multipart upload, as `put_part` returned it."""

    number: int
    etag: str


class StoredPart(NamedTuple):
    """An uploaded part in a list of parts."""

    number: int
    etag: str
    size: int
    modified_ns: int


class PartPage(NamedTuple):
    """One page of the parts of an upload, by number.  `more`: further parts follow the last one."""

    lines: tuple[StoredPart, ...]
    more: bool


class PartOf(NamedTuple):
    """A part of a multipart upload that is not uploaded yet."""

    upload_id: str
    number: int


WHOLE: Final = PartOf("", 0)  # not a part: the whole object


class PutTerms(NamedTuple):
    """What the URL of a PUT demands of its request, as the storage that answers it can.  That of a
    GET demands only the `size` of its object, if the service answers it.

    `only_create`: the client must send `If-None-Match: *` if the storage answers the URL directly.
    Without it, some storages (S3) let the PUT replace an object.
    `size`: the length of the body, which the client sends as `Content-Length`; ABSENT: any.
    """

    only_create: bool = False
    size: int | Literal[Absent.ABSENT] = ABSENT


ANY_PUT: Final = PutTerms()

Beat = Callable[[], object]


def unwatched() -> None:
    """The default heartbeat callback: does nothing."""


class Target(NamedTuple):
    """An object to delete.  With a `version`, it is deleted only if it still has that version."""

    address: str
    version: str = ANY_VERSION


class NewObject(NamedTuple):
    """An object to create, as the arguments of `BlockStore.put`."""

    address: str
    body: Sequence[bytes]
    storage_class: str = ""


class BlockStore(Protocol):
    """Reads, writes, lists and deletes objects.  The module's clauses are the contract."""

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        """Open an object or a range of it."""
        ...

    def read(self, address: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer only at the end of the object.  A negative `start`
        counts from the end."""
        ...

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        """Store the bytes that `body` yields.  If `body` raises, nothing is stored and the error
        propagates.

        `storage_class`: a storage class by the name that the storage uses; empty: the default.  A
        storage with classes raises `Invalid` for an unknown one; a storage without classes ignores
        it.
        """
        ...

    def spool(self, address: str) -> Spool:
        """A new spool for a body that is put at `address`, or near it, when it is whole.  No
        request is made."""
        ...

    def head(self, address: str) -> ObjectHead:
        """The size, etag, time, version and storage class of an object."""
        ...

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        """At most `limit` objects whose address begins with `prefix` and is greater than `after`
        (which may be empty)."""
        ...

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        """Copy an object: the same bytes at `destination`, which is overwritten.

        `beat` is a heartbeat callback.  A copy that takes several requests calls it repeatedly.  If
        it raises, nothing is stored and the error propagates.
        """
        ...

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        """Delete an object.  With a `version`, delete it only if it still has that version."""
        ...

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        """A URL for `method` on `address`, valid for `seconds`.  No request is made.

        `content_type`: the client of a PUT must send it, and the answer to a GET has it; empty:
        none is bound.

        `part`: the URL stores that part, as `put_part` does, with any content type.  Only the use
        of the URL shows whether the upload exists.  `Unsupported` if parts have no URL.

        `terms`: what the request of a PUT of the whole object must be, and the size of an object.
        """
        ...


class Multipart(Protocol):
    """Uploads in parts.  A driver without them raises `Unsupported`."""

    def create_upload(self, address: str, storage_class: str = "") -> str:
        """Begin an upload and return its id.  Nothing is visible at `address` until the upload is
        completed.  `storage_class`: as in `BlockStore.put`."""
        ...

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        """Store part `number` (1 to 10,000).  A second call with the same number replaces it."""
        ...

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        """Store the bytes `start` to `end` (excluded) of the object `source` as a part of an
        upload, as `put_part` does.  `address`: that of the upload.

        Raises `RangeUnsatisfiable` if the object is shorter than `end`.
        """
        ...

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        """At most `limit` stored parts (1 to 1,000) with numbers greater than `after`, by number.
        `NotFound` for an unknown upload."""
        ...

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        """Create the object from `parts`, in their order.  A part whose etag differs from the
        uploaded one raises `Invalid`."""
        ...

    def abort_upload(self, address: str, upload_id: str) -> None:
        """Discard the upload.  `NotFound` for an unknown one."""
        ...


class BulkDeletes(Protocol):
    """Deletes many objects per call.  Each deletion follows the contract of `BlockStore.delete`."""

    def delete_all(self, targets: Sequence[Target]) -> None:
        """Delete up to `limits.block_delete_count_max` objects, in any order; more are `Invalid`.

        If single deletions fail, the others are still tried.  Then the error of the first failure
        is raised, as `delete` would raise it.  The outcome of the failed deletions is unknown; all
        others are done.  If a whole request fails, its error is raised immediately, and any of the
        objects may be deleted.
        """
        ...

    def check_versions(self, address: str) -> None:
        """Raises `Unsupported`, with the remedy in its text, if a deletion by version could remove
        bytes that were written after that version was seen.  At most one request."""
        ...


class BulkCreations(Protocol):
    """Creates many objects per call."""

    def create_many(self, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        """Create objects at different addresses, which are new and known to nobody else (B12).

        The result has the head of each object, or the error that `put` would raise for it, at its
        index.  Costs one `put` for each; a driver may share syncs among them.
        """
        ...


class Blocks(BlockStore, Multipart, BulkDeletes, BulkCreations, Protocol):
    """The whole port: every driver and wrapper implements it."""
