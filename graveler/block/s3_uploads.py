"""Writes to S3: one request for a short body, a multipart upload for a long one, and copies.

A body of up to 8 MiB is one put.  Parts of a longer one are invisible until the last call makes
them one object, under the same condition as a put; if they fail for good, the upload is aborted.
The first 2,000 parts have 8 MiB; then the size doubles every 2,000 parts (484 GiB at most).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Any, NamedTuple, TypeVar

from graveler.block import drivers
from graveler.block.adapter import (
    CREATE,
    OVERWRITE,
    UNVERSIONED,
    Beat,
    Mode,
    ObjectHead,
    Part,
    PartOf,
    PartPage,
    StoredPart,
    Update,
    unwatched,
)
from graveler.block.address import Parts
from graveler.block.ranged_get import parsed_date
from graveler.block.s3_calls import Call, NoSuchUpload, S3Calls
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import AlreadyExists, GravelerError, Invalid, NotFound, PreconditionFailed
from graveler.core.requests import Attempts, RetryPolicy

T = TypeVar("T")

PART_LENGTH = 8 * 1024 * 1024
_DOUBLED_COUNT = 2_000
_SHORT_LENGTH = 1024 * 1024  # a longer body gets room for a whole part

Body = bytes | bytearray | IO[bytes]


class Lengths(NamedTuple):
    """Sizes for copies, in bytes: the largest object copied in one request, and the size of each
    part of a larger one."""

    at_once: int
    part: int


# S3 could copy 5 GiB in one request, but would send no answer until it is done.
COPIED = Lengths(limits.copy_in_request_bytes_max, 512 * 1024**2)
_COPIED_AT_ONCE = 16  # parts: half of the connections of a client


class Resending(NamedTuple):
    """The retry policy for requests that are invisible until their upload is completed."""

    clock: Clock
    policy: RetryPolicy

    def __call__(self, send: Callable[[], T]) -> T:
        return Attempts(self.clock, self.policy).run(send)


def put(
    calls: S3Calls,
    parts: Parts,
    body: Iterable[bytes],
    mode: Mode,
    storage_class: str,
    resending: Resending,
) -> ObjectHead:
    """See `BlockStore.put`.  Cost: one request; for more than 8 MiB, one per part and two more."""
    how = {**_condition(mode, parts), **_kept(storage_class)}
    pieces = _pieces(drivers.measured(body))
    begun = [next(pieces)]
    if begun[0].is_last:
        first = begun[0].body
        call = Call("put_object", "put an object", parts.bucket, parts.key)
        answer = _conditionally(mode, parts, lambda: calls.send(call, Body=first, **how))
        return _head(answer, len(first), storage_class)
    long = _resumed(begun, pieces)
    return _put_long(calls, parts, long, mode, storage_class, resending)


def _put_long(
    calls: S3Calls,
    parts: Parts,
    pieces: Iterator["_Piece"],
    mode: Mode,
    storage_class: str,
    resending: Resending,
) -> ObjectHead:
    upload_id = resending(lambda: create(calls, parts, storage_class))
    try:
        stored: list[Part] = []
        size = 0
        for piece, _ in pieces:
            send = partial(put_part, calls, parts, upload_id, len(stored) + 1, piece)
            stored.append(resending(send))
            size += len(piece)
        head = complete(calls, parts, upload_id, tuple(stored), mode, size)
        return head._replace(storage_class=storage_class)
    except BaseException:
        with suppress(GravelerError):  # the bucket's lifecycle rule deletes upload remains
            abort(calls, parts, upload_id)
        raise


def create(calls: S3Calls, parts: Parts, storage_class: str) -> str:
    """Begin an upload and return its id."""
    call = Call("create_multipart_upload", "create an upload", parts.bucket, parts.key)
    answer = calls.send(call, **_kept(storage_class))
    return str(answer["UploadId"])


def put_part(calls: S3Calls, parts: Parts, upload_id: str, number: int, body: Body) -> Part:
    """Store one part."""
    call = Call("upload_part", "put a part", parts.bucket, parts.key)
    answer = calls.send(call, UploadId=upload_id, PartNumber=number, Body=body)
    return Part(number, str(answer["ETag"]).strip('"'))


def copy_part(
    calls: S3Calls, source: Parts, head: ObjectHead, target: Parts, part: PartOf, span: str
) -> Part:
    """Store the range `span` of the source, in the version that `head` names, as a part."""
    call = Call("upload_part_copy", "copy a part", target.bucket, target.key)
    answer = calls.send(
        call,
        UploadId=part.upload_id,
        PartNumber=part.number,
        CopySource=_origin(source, head),
        CopySourceRange=span,
    )
    return Part(part.number, str(answer["CopyPartResult"]["ETag"]).strip('"'))


def list_parts(calls: S3Calls, parts: Parts, upload_id: str, after: int, limit: int) -> PartPage:
    """See `Multipart.list_parts`."""
    call = Call("list_parts", "list parts", parts.bucket, parts.key, is_write=False)
    answer = calls.send(call, UploadId=upload_id, PartNumberMarker=after, MaxParts=limit)
    lines = tuple(
        StoredPart(
            int(part["PartNumber"]),
            str(part["ETag"]).strip('"'),
            int(part["Size"]),
            int(part["LastModified"].timestamp()) * limits.SECOND_NS,
        )
        for part in answer.get("Parts", ())
    )
    return PartPage(lines, bool(answer.get("IsTruncated")))


def _origin(source: Parts, head: ObjectHead) -> dict[str, str]:
    """The version of the source that `head` names, as a copy names it."""
    origin = {"Bucket": source.bucket, "Key": source.key}
    if head.version != UNVERSIONED:
        origin["VersionId"] = head.version
    return origin


def complete(
    calls: S3Calls, parts: Parts, upload_id: str, stored: tuple[Part, ...], mode: Mode, size: int
) -> ObjectHead:
    """Make the parts one object of `size` bytes, under the condition of `mode`."""
    call = Call("complete_multipart_upload", "complete an upload", parts.bucket, parts.key)
    listed = [{"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in stored]
    condition = _condition(mode, parts)
    answer = _conditionally(
        mode,
        parts,
        lambda: calls.send(
            call, UploadId=upload_id, MultipartUpload={"Parts": listed}, **condition
        ),
    )
    return _head(answer, size)


def abort(calls: S3Calls, parts: Parts, upload_id: str) -> None:
    """Discard an upload and its parts; `NotFound` if it is unknown."""
    call = Call("abort_multipart_upload", "abort an upload", parts.bucket, parts.key)
    calls.send(call, UploadId=upload_id)


def copy(
    calls: S3Calls,
    source: Parts,
    head: ObjectHead,
    target: Parts,
    resending: Resending,
    lengths: Lengths = COPIED,
    *,
    beat: Beat = unwatched,
) -> ObjectHead:
    """Copy the version of the source that `head` names.  Source and target may be the same.

    Cost: one request; for more than 1 GiB, one per part and two more.  Sixteen parts are copied
    concurrently, and `beat`, the heartbeat callback, is called after each part."""
    origin = _origin(source, head)
    if head.size > lengths.at_once:
        return _copy_long(calls, origin, head, target, resending, lengths.part, beat)
    call = Call("copy_object", "copy an object", target.bucket, target.key)
    # Without the tagging directive S3 reads the tags of the source, which needs a further right.
    directives = {"MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE"}
    answer = calls.send(call, CopySource=origin, **directives)
    copied = answer["CopyObjectResult"]
    return ObjectHead(
        head.size,
        str(copied["ETag"]).strip('"'),
        int(copied["LastModified"].timestamp()) * limits.SECOND_NS,
        str(answer.get("VersionId", UNVERSIONED)),
    )


def _copy_long(
    calls: S3Calls,
    origin: dict[str, str],
    head: ObjectHead,
    target: Parts,
    resending: Resending,
    part: int,
    beat: Beat,
) -> ObjectHead:
    upload_id = resending(lambda: create(calls, target, ""))
    call = Call("upload_part_copy", "copy a part", target.bucket, target.key)
    step = max(part, -(-head.size // limits.multipart_parts_count_max))

    def copied(start: int) -> Part:
        last, number = min(start + step, head.size) - 1, start // step + 1
        answer = resending(
            lambda: calls.send(
                call,
                UploadId=upload_id,
                PartNumber=number,
                CopySource=origin,
                CopySourceRange=f"bytes={start}-{last}",
            )
        )
        return Part(number, str(answer["CopyPartResult"]["ETag"]).strip('"'))

    try:
        with ThreadPoolExecutor(_COPIED_AT_ONCE, "copy") as threads:
            begun = [threads.submit(copied, start) for start in range(0, head.size, step)]
            try:
                stored = []
                for each in begun:
                    stored.append(each.result())
                    beat()
            finally:
                for each in begun:
                    each.cancel()  # parts not begun, if a part failed or `beat` raised
        return complete(calls, target, upload_id, tuple(stored), OVERWRITE, head.size)
    except BaseException:
        with suppress(GravelerError):
            abort(calls, target, upload_id)
        raise


def _kept(storage_class: str) -> dict[str, str]:
    return {"StorageClass": storage_class} if storage_class else {}


def _condition(mode: Mode, parts: Parts) -> dict[str, str]:
    if mode is CREATE:
        return {"IfNoneMatch": "*"}
    if isinstance(mode, Update):
        if not mode.etag:
            raise PreconditionFailed(f"object has another etag: address={parts.address}")
        return {"IfMatch": f'"{mode.etag}"'}
    return {}


def _conditionally(mode: Mode, parts: Parts, send: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return send()
    except PreconditionFailed as error:
        if mode is CREATE:
            raise AlreadyExists(f"object already exists: address={parts.address}") from error
        raise
    except NotFound as error:
        if isinstance(mode, Update) and not isinstance(error, NoSuchUpload):
            message = f"object has another etag: address={parts.address}"
            raise PreconditionFailed(message) from error
        raise


def _head(answer: dict[str, Any], size: int, storage_class: str = "") -> ObjectHead:
    """The head from the answer to a put.  The time is that of the answer, because S3 does not
    return the object's time."""
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return ObjectHead(
        size,
        str(answer["ETag"]).strip('"'),
        parsed_date(headers.get("date", "")),
        str(answer.get("VersionId", UNVERSIONED)),
        storage_class,
    )


class _Piece(NamedTuple):
    """The bytes of one part."""

    body: bytes | bytearray
    is_last: bool


def _pieces(chunks: Iterator[bytes]) -> Iterator[_Piece]:
    """The same bytes in pieces of the size of parts; only the last one may be shorter.

    All pieces of one size are in the same buffer, so a piece is valid until the next one is asked
    for.  A buffer that grew part by part would be copied to another place, and be there twice.
    """
    buffer = bytearray()
    number, length, filled = 1, PART_LENGTH, 0
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            if filled == length:
                yield _Piece(buffer, is_last=False)
                filled, number = 0, number + 1
                if number > limits.multipart_parts_count_max:
                    raise Invalid("object is too long to be stored as a stream")
                length = PART_LENGTH << (number - 1) // _DOUBLED_COUNT
            if filled >= _SHORT_LENGTH and len(buffer) < length:
                buffer = _moved(buffer, filled, length)
            piece, rest = rest[: length - filled], rest[length - filled :]
            _write(buffer, filled, piece)
            filled += len(piece)
    del buffer[filled:]
    yield _Piece(buffer, is_last=True)


def _moved(buffer: bytearray, filled: int, length: int) -> bytearray:
    """A longer buffer with the first bytes of this one."""
    longer = bytearray(length)
    with memoryview(buffer) as view:
        _write(longer, 0, view[:filled])
    return longer


def _write(buffer: bytearray, at: int, piece: memoryview) -> None:
    """Put bytes into a buffer, which grows if it is too short.  No byte is copied twice."""
    here = len(buffer) - at
    with memoryview(buffer) as view:
        view[at : at + len(piece)] = piece[:here]
    buffer += piece[here:]


def _resumed(begun: list[_Piece], rest: Iterator[_Piece]) -> Iterator[_Piece]:
    """The pieces in `begun`, which are taken out of it, and then the rest."""
    while begun:
        yield begun.pop(0)
    yield from rest
