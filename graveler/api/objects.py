"""Operations that read objects: entries, listings, content."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, field, structs

from graveler.api import answers, shapes
from graveler.api.answers import Integer, MediaType, Pagination, Shape
from graveler.api.operation import BRANCH, REF, REPO, Conditional, Query, RequestHeaders, Resource
from graveler.api.shapes import (
    Delimiter,
    ObjectStats,
    ObjectStatsList,
    Paging,
    PathQuery,
    Presign,
    StorageURI,
)
from graveler.auth.permissions import Permission
from graveler.block.adapter import PresignedUrl, PutTerms
from graveler.core import limits
from graveler.core.errors import Gone, PreconditionFailed, RangeUnsatisfiable, Refused, Unsupported
from graveler.core.records import ABSENT, Absent, Entry, Record, Repository
from graveler.engine.commits import adopt, diff
from graveler.engine.commits.diff import SummaryLine, SummaryPage, SummaryQuery
from graveler.engine.objects import read
from graveler.engine.objects.read import ListQuery
from graveler.http import conditions, reads
from graveler.http.answers import Answer, RenderedLines, StreamedBody, crc32c_headers, text_header
from graveler.http.answers import Headers as HeaderPairs
from graveler.http.conditions import Validators, Window
from graveler.http.dispatch import Runs
from graveler.http.permissions import ARN, OBJECT_ARN, REPO_ARN
from graveler.http.service import Call

_objects: Final = Resource("objects")
_metadata: Final = Resource("metadata")
_graveler: Final = Resource("graveler")
_internal: Final = Resource("internal")

# ---- entries -------------------------------------------------------------------------------------

_OBJECTS: Final = REF + "/objects"
_READ: Final = Permission("fs:ReadObject", OBJECT_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)


class StatQuery(PathQuery, frozen=True):
    """Which object, and what of it."""

    user_metadata: bool = True
    presign: Presign = False


@_objects.get("statObject", _OBJECTS + "/stat", ObjectStats, _READ, errors=(Gone,), runs=Runs.POINT)
def stat_object(call: Call, query: StatQuery) -> Answer:
    """Get the entry of a path."""
    entry = read.stat(call.repo, call.arguments["ref"], query.path)
    metadata = dict(entry.metadata) if query.user_metadata else {}
    shape = shapes.stats(call.repo.record, query.path, entry, metadata)
    return answers.json(_signed(call, entry, shape) if query.presign else shape)


class UnderlyingObjectProperties(Shape, frozen=True):
    """What the storage says of an object."""

    storage_class: str | None


@_objects.get(
    "getUnderlyingProperties",
    _OBJECTS + "/underlyingProperties",
    UnderlyingObjectProperties,
    _READ,
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


@_objects.get(
    "listObjects",
    _OBJECTS + "/ls",
    ObjectStatsList,
    _LIST,
    conditional=(
        Conditional(
            "`presign` is given",
            Permission("fs:ReadObject", REPO_ARN + "/object/<each object of the page>"),
        ),
    ),
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


# ---- content -------------------------------------------------------------------------------------

# Types that a browser may show inline: none of them can run a script on the service's origin.
_SHOWN: Final = frozenset(
    ("text/plain", "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp")
)
_FRESHNESS: Final[HeaderPairs] = (
    (b"cache-control", b"no-store, must-revalidate"),
    (b"expires", b"0"),
)
_SHIELD: Final[HeaderPairs] = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)


class _ObjectView(NamedTuple):
    """An object and what identifies this version of it."""

    entry: Entry
    present: Validators

    @property
    def described(self) -> HeaderPairs:
        """Headers that describe the object, with its whole body, a part of it, or no body."""
        return (
            text_header(b"etag", f'"{self.present.etag}"'),
            text_header(b"last-modified", conditions.http_date(self.present.modified_ns)),
            *_FRESHNESS,
        )

    @property
    def content_type(self) -> tuple[bytes, bytes]:
        return text_header(b"content-type", self.entry.content_type or reads.DEFAULT_TYPE)

    @property
    def headers(self) -> HeaderPairs:
        """Headers of an answer with a body.  They keep a browser from running the content."""
        kind = self.entry.content_type.partition(";")[0].strip().lower()
        how = b"inline" if kind in _SHOWN else b"attachment"
        guards = ((b"content-disposition", how), *_SHIELD)
        return (self.content_type, *self.described, *guards, *reads.ACCEPT_RANGES)

    def window(self, call: Call) -> Window | Answer:
        """The bytes that a request asks for, or the answer 304.  Errors: as for `selected`."""
        window = conditions.selected(call.headers, self.entry.size, self.present)
        return window if isinstance(window, Window) else Answer(304, self.described)


def _view(call: Call, path: str) -> _ObjectView:
    entry = read.stat(call.repo, call.arguments["ref"], path)
    return _ObjectView(entry, conditions.validators_of(entry))


class ObjectQuery(PathQuery, frozen=True):
    """Which object, and how to answer."""

    presign: Presign = False


class ReadConditions(RequestHeaders, frozen=True):
    """Which bytes of an object, and when.  graveler/http/ reads the headers."""

    range: str | UnsetType = field(default=UNSET, name="Range")
    if_range: str | UnsetType = field(default=UNSET, name="If-Range")
    if_match: str | UnsetType = field(default=UNSET, name="If-Match")
    if_none_match: str | UnsetType = field(default=UNSET, name="If-None-Match")
    if_modified_since: str | UnsetType = field(default=UNSET, name="If-Modified-Since")
    if_unmodified_since: str | UnsetType = field(default=UNSET, name="If-Unmodified-Since")


@_objects.get(
    "getObject",
    _OBJECTS,
    {200: MediaType.BYTES, 206: MediaType.BYTES, 302: MediaType.NOTHING, 304: MediaType.NOTHING},
    _READ,
    errors=(Gone, PreconditionFailed, RangeUnsatisfiable),
    runs=Runs.STREAM,
)
async def get_object(call: Call, query: ObjectQuery, headers: ReadConditions) -> Answer:
    """The bytes of an object.

    A small body inside the repository's folder is read with the look-up.  A pool thread reads any
    other body while it is sent.  The answer redirects to a presigned URL if the request asks for
    one, or if the body is larger than `inline_bytes_max`.
    """

    def at_once(call: Call) -> Answer | tuple[_ObjectView, Window]:
        """The answer, or what it sends if that takes another step."""
        view = _view(call, query.path)
        if query.presign:
            return _elsewhere(call, view)
        entry, window = view.entry, view.window(call)
        if isinstance(window, Answer):
            return window
        if 0 < call.service.settings.inline_bytes_max < window.length:
            return _elsewhere(call, view)
        if window.partial or call.walks or not reads.is_small(call, entry, window):
            return view, window
        return Answer(200, view.headers, read.read_body(call.repo, entry))

    answer = await call.found(at_once)
    if isinstance(answer, Answer):
        return answer
    view, window = answer
    body, content = await reads.body_of(call, view.entry, window)
    sent = (*view.headers, *reads.encryption_of(view.entry, body.head))
    checksum = crc32c_headers(body.head.crc32c)
    return reads.ranged(window, view.entry.size, sent, content, checksum)


def _elsewhere(call: Call, view: _ObjectView) -> Answer:
    url = call.absolute(presigned(call, view.entry).url)
    return Answer(302, (text_header(b"location", url), *_FRESHNESS))


@_objects.head(
    "headObject",
    _OBJECTS,
    {200: MediaType.NOTHING, 206: MediaType.NOTHING, 304: MediaType.NOTHING},
    _READ,
    errors=(Gone, PreconditionFailed, RangeUnsatisfiable),
    runs=Runs.POINT,
)
def head_object(call: Call, query: PathQuery, headers: ReadConditions) -> Answer:
    """The headers of an object.

    They are those of `get_object` for the object and a range, without its browser restrictions and
    its encryption.  The object's bytes are not read.
    """
    view = _view(call, query.path)
    window = view.window(call)
    if isinstance(window, Answer):
        return window
    sent = (view.content_type, *view.described, *reads.ACCEPT_RANGES)
    return reads.head(window, view.entry.size, sent)


class FileQuery(Query, frozen=True):
    """How to answer with a file."""

    presign: Presign = False


@_metadata.get(
    "getMetadataObject",
    REPO + "/metadata/object/{type}/{object_id}",
    {200: MediaType.BYTES, 302: MediaType.NOTHING},
    ("fs:ReadRepository", REPO_ARN),
    _LIST,
    errors=(Gone,),
    runs=Runs.STREAM,
)
async def get_metadata_object(call: Call, query: FileQuery) -> Answer:
    """The bytes of a range or metarange.

    The answer redirects to a presigned URL if the request asks for one, or if the file is larger
    than `inline_bytes_max`.
    """
    return await call.service.pools.streams.start(_metadata_object, call, query)


def _metadata_object(call: Call, query: FileQuery) -> Answer:
    kind, settings = call.arguments["type"], call.service.settings
    try:
        file = adopt.locate_file(call.repo, kind, call.arguments["object_id"])
    except Gone:
        return Answer(410, (answers.JSON[0], *_SHIELD), answers.message(410, "No data").body)
    if query.presign or 0 < settings.inline_bytes_max < file.size:
        seconds = limits.presign_seconds_max
        url = call.ports.blocks.presign(file.address, "GET", seconds, "").url
        return Answer(302, (text_header(b"location", call.absolute(url)), *_FRESHNESS))
    body = adopt.open_file(call.ports, file)
    headers = (text_header(b"content-type", reads.DEFAULT_TYPE), *_SHIELD)
    return Answer(200, headers, StreamedBody(body.chunks, body.head.size))


# ---- summaries -----------------------------------------------------------------------------------

_MAY_LIST: Final = (Permission("fs:ListObjects", REPO_ARN),)


class SummaryPaging(Paging, frozen=True):
    """Which page of a summary, and what of each line."""

    delimiter: Annotated[
        str, Meta(description="paths that share a stem up to this become one line")
    ] = "/"
    sizes: Annotated[
        bool, Meta(description="sum up bytes too; without, ranges below one child are not read")
    ] = True

    @property
    def lines(self) -> SummaryQuery:
        return SummaryQuery(self.prefix, self.delimiter, self.after, self.count, self.sizes)


class RefsSummaryPaging(SummaryPaging, frozen=True):
    """Which page of a summary of the differences of two refs."""

    type: Literal["two_dot", "three_dot"] = "three_dot"


class ObjectSummary(Shape, frozen=True):
    """The objects below a path."""

    path: str
    objects: Integer
    size_bytes: Integer | UnsetType = UNSET


class ObjectSummaryPage(Shape, frozen=True):
    """A page of a summary of objects."""

    commit_id: str
    complete: bool
    results: list[ObjectSummary]
    pagination: Pagination


class DiffSummary(Shape, frozen=True):
    """The differences below a path."""

    path: str
    added: Integer
    changed: Integer
    removed: Integer
    conflict: Integer
    bytes_added: Integer | UnsetType = UNSET
    bytes_removed: Integer | UnsetType = UNSET


class DiffSummaryPage(Shape, frozen=True, kw_only=True):
    """A page of a summary of differences."""

    left_commit_id: str
    right_commit_id: Annotated[str, Meta(description="Absent: what is uncommitted")] | UnsetType = (
        UNSET
    )
    complete: bool
    results: list[DiffSummary]
    pagination: Pagination


@_graveler.get("summarizeObjects", REF + "/objects/summary", ObjectSummaryPage, *_MAY_LIST)
def summarize_objects(call: Call, query: SummaryPaging) -> Answer:
    """Objects and bytes below each child of a prefix."""
    page = diff.sum_objects(call.repo, call.arguments["ref"], query.lines)
    results = [
        ObjectSummary(line.path, line.added, line.bytes_added if query.sizes else UNSET)
        for line in page.lines
    ]
    pagination = answers.pagination(len(results), page.following)
    shape = ObjectSummaryPage(page.right, not page.following, results, pagination)
    return answers.json(shape)


@_graveler.get(
    "summarizeDiff", REPO + "/refs/{leftRef}/diff/{rightRef}/summary", DiffSummaryPage, *_MAY_LIST
)
def summarize_diff(call: Call, query: RefsSummaryPaging) -> Answer:
    """Differences between two refs below each child of a prefix."""
    left, right = call.arguments["leftRef"], call.arguments["rightRef"]
    three_dot = query.type == "three_dot"
    page = diff.sum_differences(call.repo, left, right, query.lines, three_dot=three_dot)
    return _answer(page, query, page.right)


@_graveler.get("summarizeUncommitted", BRANCH + "/diff/summary", DiffSummaryPage, *_MAY_LIST)
def summarize_uncommitted(call: Call, query: SummaryPaging) -> Answer:
    """Uncommitted changes below each child of a prefix."""
    page = diff.sum_uncommitted(call.repo, call.arguments["branch"], query.lines)
    return _answer(page, query, UNSET)


def _answer(page: SummaryPage, query: SummaryPaging, right: str | UnsetType) -> Answer:
    shape = DiffSummaryPage(
        left_commit_id=page.left,
        right_commit_id=right,
        complete=not page.following,
        results=[_difference(line, sizes=query.sizes) for line in page.lines],
        pagination=answers.pagination(len(page.lines), page.following),
    )
    return answers.json(shape)


def _difference(line: SummaryLine, *, sizes: bool) -> DiffSummary:
    return DiffSummary(
        line.path,
        line.added,
        line.changed,
        line.removed,
        line.conflict,
        line.bytes_added if sizes else UNSET,
        line.bytes_removed if sizes else UNSET,
    )


# ---- links for Hive ------------------------------------------------------------------------------


class SymlinkQuery(Query, frozen=True):
    """What to export."""

    location: Annotated[str, Meta(description="only objects whose paths begin with this")] = ""


@_internal.post(
    "createSymlinkFile",
    REPO + "/refs/{branch}/symlink",
    {201: StorageURI},
    ("fs:ListObjects", REPO_ARN),
    ("fs:WriteObject", REPO_ARN + "/object/{branch}"),
    errors=(Refused, Unsupported),
)
def create_symlink_file(call: Call, query: SymlinkQuery) -> Answer:
    """Write the addresses of the objects of each folder into a file, for Hive and the like."""
    place = read.export_symlinks(call.repo, call.arguments["branch"], query.location)
    return answers.json(StorageURI(place), 201)
