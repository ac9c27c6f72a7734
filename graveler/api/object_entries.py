"""Operations that tell what a ref has at a path: entries of objects, and listings."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import structs

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import Answer, Shape
from graveler.api.lines import RenderedLines
from graveler.api.operation import (
    ARN,
    OBJECT_ARN,
    REF,
    REPO_ARN,
    Conditional,
    Runs,
    operation,
)
from graveler.api.queries import Delimiter, Paging, PathQuery, Presign
from graveler.api.service import Call
from graveler.api.shapes import ObjectStats, ObjectStatsList
from graveler.auth.permissions import Permission
from graveler.block.adapter import PresignedUrl, PutTerms
from graveler.engine.objects import read
from graveler.engine.objects.read import ListQuery
from graveler.errors import Gone
from graveler.records import ABSENT, Absent, Entry, Record, Repository

_OBJECTS: Final = REF + "/objects"
_READ: Final = Permission("fs:ReadObject", OBJECT_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)


class StatQuery(PathQuery, frozen=True):
    """Which object, and what of it."""

    user_metadata: bool = True
    presign: Presign = False


@operation(
    "statObject",
    "GET",
    _OBJECTS + "/stat",
    tag="objects",
    permissions=(_READ,),
    answers={200: ObjectStats},
    errors=(Gone,),
    runs=Runs.POINT,
)
def stat_object(call: Call, query: StatQuery) -> Answer:
    """Get the entry of a path."""
    entry = read.stat(call.repo, call.arguments["ref"], query.path)
    metadata = dict(entry.metadata) if query.user_metadata else {}
    shape = shapes.stats(call.repo.record, query.path, entry, metadata)
    return answers.json(_signed(call, entry, shape) if query.presign else shape)


class UnderlyingObjectProperties(Shape, frozen=True):
    """What the storage says of an object."""

    storage_class: str | None


@operation(
    "getUnderlyingProperties",
    "GET",
    _OBJECTS + "/underlyingProperties",
    tag="objects",
    permissions=(_READ,),
    answers={200: UnderlyingObjectProperties},
    errors=(Gone,),
    runs=Runs.POOL,
)
def get_underlying_properties(call: Call, query: PathQuery) -> Answer:
    """The storage class of an object."""
    entry = read.stat(call.repo, call.arguments["ref"], query.path)
    storage_class = read.storage_class(call.repo, entry)
    return answers.json(UnderlyingObjectProperties(storage_class or None))


class ObjectPaging(Paging, frozen=True):
    """Which page of the objects, and what of each."""

    user_metadata: bool = True
    presign: Presign = False
    delimiter: Delimiter = ""


@operation(
    "listObjects",
    "GET",
    _OBJECTS + "/ls",
    tag="objects",
    permissions=(_LIST,),
    conditional=(
        Conditional(
            "`presign` is given",
            Permission("fs:ReadObject", REPO_ARN + "/object/<each object of the page>"),
        ),
    ),
    answers={200: ObjectStatsList},
)
def list_objects(call: Call, query: ObjectPaging) -> Answer:
    """List objects and prefixes.

    With `presign`, the caller must have the right to read each object of the page.
    """
    listing = ListQuery(query.prefix, query.delimiter, query.after, query.count)
    page = read.list_records(call.repo, call.arguments["ref"], listing)
    last = page.lines[-1][0].decode() if page.lines else ""
    context = _ListContext(call.repo.record, query.user_metadata)
    if not query.presign:
        return answers.page_of_lines(_LINES.of(context, page.lines), page.more, last)
    listed = [read.line_of(record) for record in page.lines]
    arn = ARN + f"repository/{call.repo.record.id}/object/"
    objects = [path for path, entry in listed if entry is not ABSENT]
    call.require(*(Permission("fs:ReadObject", arn + path) for path in objects))
    shown = [_listed(context, *line) for line in listed]
    results = [
        shape if entry is ABSENT else _signed(call, entry, shape)
        for (_, entry), shape in zip(listed, shown, strict=True)
    ]
    return answers.page(results, page.more, last)


class _ListContext(NamedTuple):
    """What the lines of a listing have in common."""

    repository: Repository
    user_metadata: bool


def _lines(context: _ListContext, records: Sequence[Record]) -> list[bytes]:
    """Lines of a listing as JSON.  Pure."""
    return answers.lines([_listed(context, *read.line_of(record)) for record in records])


def _listed(context: _ListContext, path: str, entry: Entry | Literal[Absent.ABSENT]) -> ObjectStats:
    if entry is ABSENT:
        return shapes.common_prefix(path)
    if entry.metadata and context.user_metadata:
        return shapes.full_stats(context.repository, path, entry)
    return shapes.stats(context.repository, path, entry)


_LINES: Final = RenderedLines(_lines)


def presigned(call: Call, entry: Entry) -> PresignedUrl:
    """A signed URL that reads an object.  The caller must have the right to read it."""
    address = read.address_of(call.repo, entry)
    seconds = limits.presign_seconds_max
    terms = PutTerms(size=entry.size)
    return call.ports.blocks.presign(address, "GET", seconds, entry.content_type, terms=terms)


def _signed(call: Call, entry: Entry, shape: ObjectStats) -> ObjectStats:
    url = presigned(call, entry)
    return structs.replace(
        shape,
        physical_address=call.absolute(url.url),
        physical_address_expiry=shapes.seconds(url.expires_ns),
    )
