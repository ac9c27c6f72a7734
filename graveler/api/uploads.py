"""Uploads that bypass the service: upload addresses, links to written bytes, presigned parts."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import force_setattr

from graveler.api import answers, shapes
from graveler.api.answers import ByteRange, Checksum, Integer, Pairs, Seconds, Shape, Size
from graveler.api.object_writes import hooks_off
from graveler.api.operation import BRANCH, NOTHING, Body, Resource
from graveler.api.shapes import ObjectStats, PathQuery, Presign, WriteConditions
from graveler.auth.permissions import Permission
from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, Part, PutTerms
from graveler.core import limits
from graveler.core.errors import (
    Conflict,
    Invalid,
    PreconditionFailed,
    RangeUnsatisfiable,
    Refused,
    Unsupported,
)
from graveler.core.records import ABSENT, Absent
from graveler.engine.objects import addresses, multipart, read
from graveler.engine.objects.addresses import Link, link_any
from graveler.engine.objects.multipart import PartSource, SignedFinish, SignedUpload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.http import conditions
from graveler.http.answers import NO_CONTENT, Answer, text_header
from graveler.http.conditions import Window
from graveler.http.dispatch import Runs
from graveler.http.permissions import ARN, OBJECT_ARN
from graveler.http.service import Call

_staging: Final = Resource("staging")
_objects: Final = Resource("objects")

_BACKING: Final = BRANCH + "/staging/backing"
_WRITE: Final = Permission("fs:WriteObject", OBJECT_ARN)
_ANY_SIZE: Final = -1


class AddressQuery(PathQuery, frozen=True):
    """Which object to upload.  lakeFS has no `size_bytes`."""

    presign: Presign = False
    size_bytes: Annotated[
        int,
        Meta(
            ge=_ANY_SIZE,
            le=limits.object_size_bytes_max,
            description="with `presign`: the URL stores exactly so many bytes, and the PUT must "
            "have this Content-Length; -1: any number",
        ),
    ] = _ANY_SIZE


class StagingLocation(Shape, frozen=True):
    """An upload address; with `presign`, a URL to write to it."""

    physical_address: str
    presigned_url: str | None
    presigned_url_expiry: Integer | UnsetType = UNSET


class LinkLocation(Body, frozen=True):
    """An upload address that was handed out."""

    physical_address: str = ""


class StagingMetadata(Body, frozen=True):
    """What was written to an upload address."""

    staging: LinkLocation
    checksum: Checksum
    size_bytes: Size
    content_type: str = ""
    user_metadata: Pairs = field(default_factory=dict)
    mtime: Seconds | UnsetType = UNSET
    force: bool = False

    def __post_init__(self) -> None:
        if not self.staging.physical_address:
            raise Invalid("request body has an error: staging.physical_address is missing")


class ObjectStageCreation(Body, frozen=True):
    """An object that is already in storage."""

    physical_address: str
    checksum: Checksum
    size_bytes: Size
    content_type: str = ""
    mtime: Seconds | UnsetType = UNSET
    metadata: Pairs = field(default_factory=dict)
    force: bool = False

    def __post_init__(self) -> None:
        # One spelling for what is authorized and what is read.
        force_setattr(self, "physical_address", address.split(self.physical_address).address)


@_staging.get(
    "getPhysicalAddress", _BACKING, StagingLocation, _WRITE, errors=(Unsupported,), runs=Runs.POOL
)
def get_physical_address(call: Call, query: AddressQuery, headers: WriteConditions) -> Answer:
    """Get an upload address for one path.

    With `presign` the answer has a URL to write to.  With `If-None-Match: *` the URL can only
    create an object, on every storage.  On S3 the PUT must then carry that header.  With
    `size_bytes` it can only store so many bytes.
    """
    size = ABSENT if query.size_bytes == _ANY_SIZE else query.size_bytes
    condition = conditions.of_write(call.headers)
    if condition not in (CREATE, OVERWRITE):
        raise Unsupported("not implemented: a condition of an address other than If-None-Match: *")
    terms = PutTerms(only_create=condition is CREATE, size=size)
    place = addresses.hand_out(call.repo, call.arguments["branch"], query.path)
    if not query.presign:
        return answers.json(StagingLocation(place, None))
    presigned = call.ports.blocks.presign(place, "PUT", limits.presign_seconds_max, "", terms=terms)
    url, expires = call.absolute(presigned.url), shapes.seconds(presigned.expires_ns)
    return answers.json(StagingLocation(place, url, expires))


@_staging.put(
    "linkPhysicalAddress",
    _BACKING,
    ObjectStats,
    _WRITE,
    errors=(Conflict, PreconditionFailed, Refused, Unsupported),
)
def link_physical_address(
    call: Call, query: PathQuery, headers: WriteConditions, body: StagingMetadata
) -> Answer:
    """Link the object that was written to an upload address."""
    link = Link(
        body.staging.physical_address,
        body.checksum.strip('"'),
        body.size_bytes,
        body.content_type,
        body.user_metadata,
        _modified_ns(body.mtime),
        mode=conditions.of_write(call.headers),
    )
    entry = addresses.link(call.repo, call.arguments["branch"], query.path, link, force=body.force)
    stats = shapes.full_stats(call.repo.record, query.path, entry)
    return answers.json(stats, 200, hooks_off(call, query.path))


@_objects.put(
    "stageObject",
    BRANCH + "/objects",
    {201: ObjectStats},
    _WRITE,
    ("fs:ImportFromStorage", ARN + "namespace/{physical_address}"),
    errors=(Refused, Unsupported),
)
def stage_object(
    call: Call, query: PathQuery, headers: WriteConditions, body: ObjectStageCreation
) -> Answer:
    """Stage an entry for an object that is already in storage."""
    if conditions.of_write(call.headers) is not OVERWRITE:
        raise Unsupported("Not Implemented")
    link = Link(
        body.physical_address,
        body.checksum,
        body.size_bytes,
        body.content_type,
        body.metadata,
        _modified_ns(body.mtime),
    )
    entry = link_any(call.repo, call.arguments["branch"], query.path, link, force=body.force)
    return answers.json(shapes.stats(call.repo.record, query.path, entry), 201)


def _modified_ns(mtime: int | UnsetType) -> int | Literal[Absent.ABSENT]:
    return ABSENT if mtime is UNSET else mtime * limits.SECOND_NS


# ---- in parts ------------------------------------------------------------------------------------

_PARTS: Final = BRANCH + "/staging/pmpu"
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


@_staging.post(
    "createPresignMultipartUpload",
    _PARTS,
    {201: PresignMultipartUpload},
    _WRITE,
    errors=(Unsupported,),
)
def create_presign_multipart_upload(call: Call, query: PartsQuery) -> Answer:
    """Begin a multipart upload, with presigned URLs for its parts."""
    _check_served(call)
    begun = multipart.begin_signed(call.repo, call.arguments["branch"], query.path, query.parts)
    urls = [call.absolute(url) for url in begun.urls]
    upload = PresignMultipartUpload(begun.upload.id, begun.upload.address, urls or UNSET)
    return answers.json(upload, 201)


@_staging.put(
    "uploadPart",
    _PARTS + "/{uploadId}/parts/{partNumber}",
    PresignedPart,
    _WRITE,
    errors=(Unsupported,),
)
def upload_part(call: Call, query: PathQuery, body: PartsUploadAddress) -> Answer:
    """Get a presigned URL for one part."""
    _check_served(call)
    branch, upload = call.arguments["branch"], _upload(call, body.physical_address)
    url = multipart.signed_part_url(call.repo, branch, query.path, upload, _number(call))
    return answers.json(PresignedPart(call.absolute(url)))


@_staging.put(
    "uploadPartCopy",
    _PARTS + "/{uploadId}/parts/{partNumber}/copy",
    NOTHING,
    ("fs:ReadObject", ARN + "repository/{copy_source.repository}/object/{copy_source.path}"),
    _WRITE,
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
        window = conditions.window_of_text(copied.range, entry.size)
        if not window.partial:
            message = "range invalid: it must be one range of the source"
            raise RangeUnsatisfiable(message, entry.size)
    source = PartSource(source_repo, entry, window.start, window.end)
    branch, upload = call.arguments["branch"], _upload(call, body.physical_address)
    part = multipart.copy_signed_part(call.repo, branch, query.path, upload, _number(call), source)
    return Answer(204, (text_header(b"etag", f'"{part.etag}"'),))


@_staging.put(
    "completePresignMultipartUpload",
    _PARTS + "/{uploadId}",
    ObjectStats,
    _WRITE,
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


@_staging.delete(
    "abortPresignMultipartUpload", _PARTS + "/{uploadId}", NOTHING, _WRITE, errors=(Unsupported,)
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
