"""Endpoints that read objects: content, headers, metadata, listings."""

from typing import Any, Final, Literal, NamedTuple

from graveler import limits
from graveler.api import answers, conditions, shapes
from graveler.api.answers import NO_CONTENT, Answer, Headers, StreamedBody, text_header
from graveler.api.conditions import Unsatisfiable, Window
from graveler.api.service import Call
from graveler.block.adapter import PresignedUrl
from graveler.engine.objects import metadata_files, reachable, read, write
from graveler.engine.objects.read import ListQuery
from graveler.records import ABSENT, Entry

_SMALL_BYTES: Final = 64 * 1024
_DEFAULT_TYPE: Final = "application/octet-stream"
# Types that a browser may show inline: none of them can run a script on the service's origin.
_SHOWN: Final = frozenset(
    ("text/plain", "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp")
)
_FRESHNESS: Final[Headers] = (
    (b"cache-control", b"no-store, must-revalidate"),
    (b"expires", b"0"),
)
_SHIELD: Final[Headers] = (
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)
_ACCEPT_RANGES: Final[Headers] = ((b"accept-ranges", b"bytes"),)
_UNSATISFIABLE: Final = "Requested Range Not Satisfiable"


class _ObjectView(NamedTuple):
    """An object and its requested byte range."""

    entry: Entry
    etag: str
    window: Window | Unsatisfiable

    @property
    def described(self) -> Headers:
        """Headers that describe the object, with its whole body, a part of it, or no body."""
        return (
            text_header(b"etag", self.etag),
            text_header(b"last-modified", conditions.http_date(self.entry.modified_ns)),
            *_FRESHNESS,
        )

    @property
    def content_type(self) -> tuple[bytes, bytes]:
        return text_header(b"content-type", self.entry.content_type or _DEFAULT_TYPE)

    @property
    def guarded(self) -> Headers:
        """Headers that keep a browser from running the content."""
        kind = self.entry.content_type.partition(";")[0].strip().lower()
        how = b"inline" if kind in _SHOWN else b"attachment"
        return ((b"content-disposition", how), *_SHIELD)


def _found(call: Call) -> _ObjectView:
    entry = read.stat(call.repo, call.arguments["ref"], call.query["path"])
    etag = f'"{entry.checksum}"'
    header = call.header(b"range")
    if_range = call.header(b"if-range")
    if if_range and if_range != etag:
        header = ""
    return _ObjectView(entry, etag, conditions.window(header, entry.size))


async def get_object(call: Call) -> Answer:
    """Answer with the content of an object.

    A body of at most `_SMALL_BYTES` inside the repository's folder is read at once.  A pool thread
    reads any other body while it is sent.  The answer redirects to a presigned URL if the request
    asks for one, or if the body is larger than `inline_bytes_max`.
    """
    view = await call.found(_found)
    if call.query["presign"]:
        return _elsewhere(call, view)
    since = call.header(b"if-modified-since")
    modified_ns = view.entry.modified_ns
    if conditions.unchanged(call.header(b"if-none-match"), since, view.etag, modified_ns):
        return Answer(304, view.described)
    if isinstance(view.window, Unsatisfiable):
        return _unsatisfiable(view, view.window)
    window, bytes_max = view.window, call.service.settings.inline_bytes_max
    if 0 < bytes_max < window.end - window.start:
        return _elsewhere(call, view)
    return await _opened(call, view, window)


def _elsewhere(call: Call, view: _ObjectView) -> Answer:
    url = call.absolute(_presign(call, view.entry, "GET").url)
    return Answer(302, (text_header(b"location", url), *_FRESHNESS))


async def _opened(call: Call, view: _ObjectView, window: Window) -> Answer:
    start, end = window.start, window.end
    small = end - start <= _SMALL_BYTES and reachable.lies_inside(call.repo.record, view.entry)
    arguments = (call.repo, view.entry, start, end)
    if small:
        body = await call.service.pools.point(read.open_body, *arguments)
    else:
        body = await call.service.pools.streams.start(read.open_body, *arguments)
    headers = (view.content_type, *view.described, *view.guarded, *_ACCEPT_RANGES)
    status = 200
    if window.partial:
        status = 206
        covered = f"bytes {body.start}-{body.end - 1}/{body.head.size}"
        headers += (text_header(b"content-range", covered),)
    if small:
        return Answer(status, headers, b"".join(body.chunks))
    return Answer(status, headers, StreamedBody(body.chunks, body.end - body.start))


def head_object(call: Call) -> Answer:
    """The headers of `get_object` for an object and a range, without its browser restrictions.

    The object's bytes are not read.  Conditions of the request are ignored.
    """
    view = _found(call)
    if isinstance(view.window, Unsatisfiable):
        return _unsatisfiable(view, view.window)
    start, end, partial = view.window
    headers = (
        view.content_type,
        *view.described,
        *_ACCEPT_RANGES,
        (b"content-length", b"%d" % (end - start)),
    )
    if not partial:
        return Answer(200, headers)
    covered = f"bytes {start}-{end - 1}/{view.entry.size}"
    return Answer(206, (*headers, text_header(b"content-range", covered)))


def _unsatisfiable(view: _ObjectView, why: Unsatisfiable) -> Answer:
    headers = (*view.described, *view.guarded)
    if not why.several:
        headers += (text_header(b"content-range", f"bytes */{view.entry.size}"),)
    # `_SHIELD` has nosniff already, so JSON adds only the content type
    answer = answers.message(416, _UNSATISFIABLE)
    return Answer(416, (answers.JSON[0], *headers), answer.body)


def stat_object(call: Call) -> Answer:
    path = call.query["path"]
    entry = read.stat(call.repo, call.arguments["ref"], path)
    shape = shapes.stats(call.repo.record, path, entry)
    shape["metadata"] = dict(entry.metadata) if call.query["user_metadata"] else {}
    if call.query["presign"]:
        _sign(call, entry, shape)
    return answers.json(shape)


def get_underlying_properties(call: Call) -> Answer:
    entry = read.stat(call.repo, call.arguments["ref"], call.query["path"])
    storage_class = read.storage_class(call.repo, entry)
    return answers.json({"storage_class": storage_class or None})


async def get_metadata_object(call: Call) -> Answer:
    """The bytes of a range or metarange.

    The answer redirects to a presigned URL if the request asks for one, or if the file is larger
    than `inline_bytes_max`.
    """
    return await call.service.pools.streams.start(_metadata_object, call)


def _metadata_object(call: Call) -> Answer:
    kind, settings = call.arguments["type"], call.service.settings
    file = metadata_files.locate(call.repo, kind, call.arguments["object_id"])
    if call.query["presign"] or 0 < settings.inline_bytes_max < file.size:
        seconds = limits.presign_seconds_max
        url = call.ports.blocks.presign(file.address, "GET", seconds, "").url
        return Answer(302, (text_header(b"location", call.absolute(url)), *_FRESHNESS))
    body = metadata_files.open_file(call.ports, file)
    headers = (text_header(b"content-type", _DEFAULT_TYPE), *_SHIELD)
    return Answer(200, headers, StreamedBody(body.chunks, body.head.size))


def list_objects(call: Call) -> Answer:
    query = call.query
    listing = ListQuery(query["prefix"], query["delimiter"], query["after"], call.amount)
    listed = read.list_objects(call.repo, call.arguments["ref"], listing)
    repo, plain = call.repo, not (query["user_metadata"] or query["presign"])
    results = [
        shapes.stats(repo.record, path, entry)
        if plain and entry is not ABSENT
        else _line(call, path, entry)
        for path, entry in listed.lines
    ]
    return answers.page(results, listed.more, listed.lines[-1][0] if listed.lines else "")


def _line(call: Call, path: str, entry: Entry | Any) -> dict[str, Any]:
    if entry is ABSENT:
        return shapes.common_prefix(path)
    shape = shapes.stats(call.repo.record, path, entry)
    if entry.metadata and call.query["user_metadata"]:
        shape["metadata"] = dict(entry.metadata)
    if call.query["presign"]:
        _sign(call, entry, shape)
    return shape


def _presign(call: Call, entry: Entry, method: Literal["GET"]) -> PresignedUrl:
    address = reachable.address_of(call.repo, entry)
    seconds = limits.presign_seconds_max
    return call.ports.blocks.presign(address, method, seconds, entry.content_type)


def _sign(call: Call, entry: Entry, shape: dict[str, Any]) -> None:
    presigned = _presign(call, entry, "GET")
    shape["physical_address"] = call.absolute(presigned.url)
    shape["physical_address_expiry"] = shapes.seconds(presigned.expires_ns)


def upload_object_preflight(call: Call) -> Answer:
    write.check_branch(call.repo, call.arguments["branch"])
    return NO_CONTENT
