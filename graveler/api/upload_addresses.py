"""Operations of uploads that bypass the service: upload addresses, and links to written bytes."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import force_setattr

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import Answer, Shape
from graveler.api.field_types import Checksum, Integer, Pairs, Seconds, Size
from graveler.api.object_writes import hooks_off
from graveler.api.operation import ARN, BRANCH, OBJECT_ARN, Body, Runs, operation
from graveler.api.queries import PathQuery, Presign, WriteConditions
from graveler.api.service import Call
from graveler.api.shapes import ObjectStats
from graveler.auth.permissions import Permission
from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, PutTerms
from graveler.engine.objects import addresses
from graveler.engine.objects.addresses import Link, link_any
from graveler.errors import Conflict, Invalid, PreconditionFailed, Refused, Unsupported
from graveler.http import conditions
from graveler.records import ABSENT, Absent

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


@operation(
    "getPhysicalAddress",
    "GET",
    _BACKING,
    tag="staging",
    permissions=(_WRITE,),
    answers={200: StagingLocation},
    errors=(Unsupported,),
    runs=Runs.POOL,
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


@operation(
    "linkPhysicalAddress",
    "PUT",
    _BACKING,
    tag="staging",
    permissions=(_WRITE,),
    answers={200: ObjectStats},
    errors=(Conflict, PreconditionFailed, Refused, Unsupported),
    runs=Runs.POOL,
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


@operation(
    "stageObject",
    "PUT",
    BRANCH + "/objects",
    tag="objects",
    permissions=(
        _WRITE,
        Permission("fs:ImportFromStorage", ARN + "namespace/{physical_address}"),
    ),
    answers={201: ObjectStats},
    errors=(Refused, Unsupported),
    runs=Runs.POOL,
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
