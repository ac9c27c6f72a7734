"""Operations of multipart uploads whose bytes go to the storage by presigned URLs."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer, Content, Shape
from graveler.api.field_types import ByteRange, Pairs
from graveler.api.operation import ARN, BRANCH, OBJECT_ARN, Body, Runs, operation
from graveler.api.queries import PathQuery, WriteConditions
from graveler.api.service import Call
from graveler.api.shapes import ObjectStats
from graveler.auth.permissions import Permission
from graveler.block.adapter import Part
from graveler.engine.objects import multipart, read
from graveler.engine.objects.multipart import PartSource, SignedFinish, SignedUpload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.errors import (
    Conflict,
    Invalid,
    PreconditionFailed,
    RangeUnsatisfiable,
    Refused,
    Unsupported,
)
from graveler.http import conditions, ranges
from graveler.http.ranges import Window

_PARTS: Final = BRANCH + "/staging/pmpu"
_WRITE: Final = Permission("fs:WriteObject", OBJECT_ARN)
_NUMBER_LENGTH_MAX: Final = 9


class PartsQuery(PathQuery, frozen=True):
    """Which object to upload, in how many parts."""

    parts: Annotated[int, Meta(description="the number of URLs")] = 0


class PresignMultipartUpload(Shape, frozen=True):
    """An upload that was begun."""

    upload_id: str
    physical_address: str
    presigned_urls: list[str] | UnsetType = UNSET


class PartsUploadAddress(Body, frozen=True):
    """The address of an upload."""

    physical_address: str


class PresignedPart(Shape, frozen=True):
    """Where a part goes."""

    presigned_url: str


class CopyPartSource(Body, frozen=True):
    """Bytes of an object, of any repository."""

    repository: str
    ref: str
    path: str
    range: ByteRange | UnsetType = UNSET


class UploadPartCopyFrom(Body, frozen=True):
    """The address of an upload, and what to copy into a part."""

    physical_address: str
    copy_source: CopyPartSource


class UploadedPart(Body, frozen=True):
    """A part that was written."""

    part_number: Annotated[int, Meta(ge=1, le=limits.multipart_parts_count_max)]
    etag: Annotated[str, Meta(max_length=limits.checksum_length_bytes_max)]


class CompletePresignMultipartUpload(Body, frozen=True):
    """The parts of an upload, and the object that they become."""

    physical_address: str
    parts: Annotated[tuple[UploadedPart, ...], Meta(max_length=limits.multipart_parts_count_max)]
    content_type: str = ""
    user_metadata: Pairs = field(default_factory=dict)
    force: bool = False


@operation(
    "createPresignMultipartUpload",
    "POST",
    _PARTS,
    tag="staging",
    permissions=(_WRITE,),
    answers={201: PresignMultipartUpload},
    errors=(Unsupported,),
    runs=Runs.POOL,
)
def create_presign_multipart_upload(call: Call, query: PartsQuery) -> Answer:
    """Begin a multipart upload, with presigned URLs for its parts."""
    _check_served(call)
    begun = multipart.begin_signed(call.repo, call.arguments["branch"], query.path, query.parts)
    urls = [call.absolute(url) for url in begun.urls]
    upload = PresignMultipartUpload(begun.upload.id, begun.upload.address, urls or UNSET)
    return answers.json(upload, 201)


@operation(
    "uploadPart",
    "PUT",
    _PARTS + "/{uploadId}/parts/{partNumber}",
    tag="staging",
    permissions=(_WRITE,),
    answers={200: PresignedPart},
    errors=(Unsupported,),
    runs=Runs.POOL,
)
def upload_part(call: Call, query: PathQuery, body: PartsUploadAddress) -> Answer:
    """Get a presigned URL for one part."""
    _check_served(call)
    branch, upload = call.arguments["branch"], _upload(call, body.physical_address)
    url = multipart.signed_part_url(call.repo, branch, query.path, upload, _number(call))
    return answers.json(PresignedPart(call.absolute(url)))


@operation(
    "uploadPartCopy",
    "PUT",
    _PARTS + "/{uploadId}/parts/{partNumber}/copy",
    tag="staging",
    permissions=(
        Permission(
            "fs:ReadObject",
            ARN + "repository/{copy_source.repository}/object/{copy_source.path}",
        ),
        _WRITE,
    ),
    answers={204: Content.NOTHING},
    errors=(RangeUnsatisfiable, Unsupported),
    runs=Runs.COPY,
)
def upload_part_copy(call: Call, query: PathQuery, body: UploadPartCopyFrom) -> Answer:
    """Copy bytes of another object into a part.

    The object may be of any repository.  The answer has the etag of the part.
    """
    _check_served(call)
    copied = body.copy_source
    source_repo = open_repository(call.ports, repository.get(call.ports, copied.repository))
    entry = read.stat(source_repo, copied.ref, copied.path)
    window = Window(0, entry.size, False)
    if copied.range is not UNSET:
        window = ranges.window_of(copied.range, entry.size)
        if not window.partial:
            message = "range invalid: it must be one range of the source"
            raise RangeUnsatisfiable(message, entry.size)
    source = PartSource(source_repo, entry, window.start, window.end)
    branch, upload = call.arguments["branch"], _upload(call, body.physical_address)
    part = multipart.copy_signed_part(call.repo, branch, query.path, upload, _number(call), source)
    return Answer(204, (answers.text_header(b"etag", f'"{part.etag}"'),))


@operation(
    "completePresignMultipartUpload",
    "PUT",
    _PARTS + "/{uploadId}",
    tag="staging",
    permissions=(_WRITE,),
    answers={200: ObjectStats},
    errors=(Conflict, PreconditionFailed, Refused, Unsupported),
    runs=Runs.COPY,
)
def complete_presign_multipart_upload(
    call: Call, query: PathQuery, headers: WriteConditions, body: CompletePresignMultipartUpload
) -> Answer:
    """Join the parts and link the object."""
    _check_served(call)
    finish = SignedFinish(
        _upload(call, body.physical_address),
        tuple(Part(part.part_number, part.etag.strip('"')) for part in body.parts),
        body.content_type,
        body.user_metadata,
        conditions.of_write(call.headers),
    )
    branch, path = call.arguments["branch"], query.path
    entry = multipart.finish_signed(call.repo, branch, path, finish, force=body.force)
    # Clients expect the address relative to the namespace here.
    shape = shapes.full_stats(call.repo.record, path, entry, address=entry.address)
    return answers.json(shape)


@operation(
    "abortPresignMultipartUpload",
    "DELETE",
    _PARTS + "/{uploadId}",
    tag="staging",
    permissions=(_WRITE,),
    answers={204: Content.NOTHING},
    errors=(Unsupported,),
    runs=Runs.POOL,
)
def abort_presign_multipart_upload(
    call: Call, query: PathQuery, body: PartsUploadAddress
) -> Answer:
    """Abort an upload and delete its parts."""
    _check_served(call)
    upload = _upload(call, body.physical_address)
    multipart.abort_signed(call.repo, call.arguments["branch"], query.path, upload)
    return NO_CONTENT


def _number(call: Call) -> int:
    text = call.arguments["partNumber"]
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_LENGTH_MAX):
        raise Invalid('parameter "partNumber" in path has an error: it must be a whole number')
    return int(text)


def _upload(call: Call, address: str) -> SignedUpload:
    return SignedUpload(address, call.arguments["uploadId"])


def _check_served(call: Call) -> None:
    if not call.service.settings.presigns_parts:
        raise Unsupported("presign multipart upload API is not supported")
