"""Operations that read the content of objects, and its headers."""

from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType, field

from graveler import limits
from graveler.api import answers
from graveler.api.answers import Answer, Content, StreamedBody, text_header
from graveler.api.answers import Headers as HeaderPairs
from graveler.api.object_entries import presigned
from graveler.api.operation import (
    OBJECT_ARN,
    REF,
    REPO,
    REPO_ARN,
    Headers,
    Query,
    Runs,
    operation,
)
from graveler.api.queries import PathQuery, Presign
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.block.adapter import Body, ObjectHead
from graveler.engine.commits import adopt
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository
from graveler.errors import Gone, PreconditionFailed, RangeUnsatisfiable
from graveler.http import conditions, ranges
from graveler.http.conditions import Outcome, Validators
from graveler.http.ranges import Window
from graveler.records import Entry

_OBJECTS: Final = REF + "/objects"
_READ: Final = Permission("fs:ReadObject", OBJECT_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)
_SMALL_BYTES: Final = 64 * 1024
_DEFAULT_TYPE: Final = "application/octet-stream"
# Types that a browser may show inline: none of them can run a script on the service's origin.
_SHOWN: Final = frozenset(
    ("text/plain", "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp")
)
_FRESHNESS: Final[HeaderPairs] = (
    (b"cache-control", b"no-store, must-revalidate"),
    (b"expires", b"0"),
)
_SHIELD: Final[HeaderPairs] = (
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)
_ACCEPT_RANGES: Final[HeaderPairs] = ((b"accept-ranges", b"bytes"),)


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
        return text_header(b"content-type", self.entry.content_type or _DEFAULT_TYPE)

    @property
    def guarded(self) -> HeaderPairs:
        """Headers that keep a browser from running the content."""
        kind = self.entry.content_type.partition(";")[0].strip().lower()
        how = b"inline" if kind in _SHOWN else b"attachment"
        return ((b"content-disposition", how), *_SHIELD)

    @property
    def headers(self) -> HeaderPairs:
        """Headers of an answer with a body."""
        return (self.content_type, *self.described, *self.guarded, *_ACCEPT_RANGES)

    def window(self, call: Call) -> Window | Answer:
        """The bytes that a request asks for, or the answer 304.  Raises `PreconditionFailed`,
        `RangeUnsatisfiable`."""
        outcome = conditions.of_read(call.headers, self.present)
        if outcome is Outcome.FAILED:
            raise PreconditionFailed("object does not satisfy the condition of the request")
        if outcome is Outcome.NOT_MODIFIED:
            return Answer(304, self.described)
        return ranges.window(call.headers, self.entry.size, self.present)


def _view(call: Call, path: str) -> _ObjectView:
    entry = read.stat(call.repo, call.arguments["ref"], path)
    return _ObjectView(entry, conditions.validators_of(entry))


class ObjectQuery(PathQuery, frozen=True):
    """Which object, and how to answer."""

    presign: Presign = False


class ReadConditions(Headers, frozen=True):
    """Which bytes of an object, and when.  graveler/http/ reads the headers."""

    range: str | UnsetType = field(default=UNSET, name="Range")
    if_range: str | UnsetType = field(default=UNSET, name="If-Range")
    if_match: str | UnsetType = field(default=UNSET, name="If-Match")
    if_none_match: str | UnsetType = field(default=UNSET, name="If-None-Match")
    if_modified_since: str | UnsetType = field(default=UNSET, name="If-Modified-Since")
    if_unmodified_since: str | UnsetType = field(default=UNSET, name="If-Unmodified-Since")


@operation(
    "getObject",
    "GET",
    _OBJECTS,
    tag="objects",
    permissions=(_READ,),
    answers={
        200: Content.BYTES,
        206: Content.BYTES,
        302: Content.NOTHING,
        304: Content.NOTHING,
    },
    errors=(Gone, PreconditionFailed, RangeUnsatisfiable),
    runs=Runs.STREAM,
)
async def get_object(call: Call, query: ObjectQuery, headers: ReadConditions) -> Answer:
    """The bytes of an object.

    A body of at most `_SMALL_BYTES` inside the repository's folder is read at once, with the
    look-up if it is whole.  A pool thread reads any other body while it is sent.  The answer
    redirects to a presigned URL if the request asks for one, or if the body is larger than
    `inline_bytes_max`.
    """
    answer = await call.found(lambda call: _at_once(call, query))
    return await _opened(call, *answer) if isinstance(answer, _BodyRequest) else answer


class _BodyRequest(NamedTuple):
    """An object, and the bytes of it that an answer sends."""

    view: _ObjectView
    window: Window


def _at_once(call: Call, query: ObjectQuery) -> Answer | _BodyRequest:
    """The answer, or what it sends if that takes another step."""
    view = _view(call, query.path)
    if query.presign:
        return _elsewhere(call, view)
    entry, window = view.entry, view.window(call)
    if isinstance(window, Answer):
        return window
    bytes_max, length = call.service.settings.inline_bytes_max, window.end - window.start
    if 0 < bytes_max < length:
        return _elsewhere(call, view)
    is_small = length <= _SMALL_BYTES and read.lies_inside(call.repo.record, entry)
    if window.partial or not is_small or call.walks:
        return _BodyRequest(view, window)
    return Answer(200, view.headers, read.read_body(call.repo, entry))


def _elsewhere(call: Call, view: _ObjectView) -> Answer:
    url = call.absolute(presigned(call, view.entry).url)
    return Answer(302, (text_header(b"location", url), *_FRESHNESS))


async def _opened(call: Call, view: _ObjectView, window: Window) -> Answer:
    body, content = await body_of(call, view.entry, window.start, window.end)
    headers = (*view.headers, *encryption_of(view.entry, body.head))
    if not window.partial:
        return Answer(200, (*headers, *answers.crc32c_headers(body.head.crc32c)), content)
    covered = window.content_range(view.entry.size)
    return Answer(206, (*headers, text_header(b"content-range", covered)), content)


def encryption_of(entry: Entry, head: ObjectHead) -> HeaderPairs:
    """The header that tells clients that the ETag of the answer is no MD5, as S3 says it.

    Imports record the etag of an object as its checksum.  That of an object that is encrypted by a
    key of KMS looks like an MD5.  Only answers with bytes that the store describes have the header:
    a HEAD does not read the store, nor does it pay to ask it for each small object.
    """
    is_told = bool(head.encryption) and head.etag == entry.checksum
    return (text_header(b"x-amz-server-side-encryption", head.encryption),) if is_told else ()


async def body_of(
    call: Call, entry: Entry, start: int, end: int
) -> tuple[Body, bytes | StreamedBody]:
    """The bytes of an object from `start` to `end`, as the store describes them and as an answer
    sends them: whole if they are few and inside the repository's folder, else as a stream.
    Errors: as for `read.open_body`."""
    arguments = (call.repo, entry, start, end)
    if is_small(call, entry, start, end):
        return await call.service.pools.point(whole_body, *arguments)
    body = await call.service.pools.streams.start(read.open_body, *arguments)
    return body, StreamedBody(body.chunks, body.end - body.start)


def is_small(call: Call, entry: Entry, start: int, end: int) -> bool:
    """Whether these bytes of an object are few, and inside the repository's folder."""
    return end - start <= _SMALL_BYTES and read.lies_inside(call.repo.record, entry)


def whole_body(repo: OpenRepository, entry: Entry, start: int, end: int) -> tuple[Body, bytes]:
    """A small body, as the store describes it, and its bytes.  Errors: as for
    `read.open_body`."""
    body = read.open_body(repo, entry, start, end)
    return body, b"".join(body.chunks)


@operation(
    "headObject",
    "HEAD",
    _OBJECTS,
    tag="objects",
    permissions=(_READ,),
    answers={200: Content.NOTHING, 206: Content.NOTHING, 304: Content.NOTHING},
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
    sent = (
        view.content_type,
        *view.described,
        *_ACCEPT_RANGES,
        (b"content-length", b"%d" % (window.end - window.start)),
    )
    if not window.partial:
        return Answer(200, sent)
    covered = window.content_range(view.entry.size)
    return Answer(206, (*sent, text_header(b"content-range", covered)))


class FileQuery(Query, frozen=True):
    """How to answer with a file."""

    presign: Presign = False


@operation(
    "getMetadataObject",
    "GET",
    REPO + "/metadata/object/{type}/{object_id}",
    tag="metadata",
    permissions=(Permission("fs:ReadRepository", REPO_ARN), _LIST),
    answers={200: Content.BYTES, 302: Content.NOTHING},
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
    headers = (text_header(b"content-type", _DEFAULT_TYPE), *_SHIELD)
    return Answer(200, headers, StreamedBody(body.chunks, body.head.size))
