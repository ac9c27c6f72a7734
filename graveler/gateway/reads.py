"""Operations that read one object."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from graveler.block.adapter import Body
from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.records import ABSENT, Entry
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository
from graveler.gateway.errors import S3Error
from graveler.gateway.metadata import headers_of
from graveler.gateway.operation import READ_OBJECT, S3Call, operation
from graveler.gateway.request import Address, Level
from graveler.gateway.xml import NAMESPACE, Template, document, joined
from graveler.http import conditions, reads
from graveler.http.answers import (
    Answer,
    Headers,
    StreamedBody,
    crc32c_headers,
    is_header_value,
    text_header,
)
from graveler.http.conditions import Window
from graveler.http.dispatch import Runs
from graveler.http.service import Call
from graveler.refs.resolve import parse

READ_CONDITIONS: Final = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
_ATTRIBUTES: Final = Template(
    f'<GetObjectAttributesResponse xmlns="{NAMESPACE}">{{}}</GetObjectAttributesResponse>'
)
_ATTRIBUTE: Final = {
    "ETag": Template("<ETag>{}</ETag>"),
    "Checksum": Template(""),  # none is kept
    "ObjectParts": Template("<ObjectParts><PartsCount>{}</PartsCount></ObjectParts>"),
    "StorageClass": Template("<StorageClass>{}</StorageClass>"),
    "ObjectSize": Template("<ObjectSize>{}</ObjectSize>"),
}
_MD5_LENGTH: Final = 32  # hexadecimal digits
_TAGGING: Final = Template(f'<Tagging xmlns="{NAMESPACE}"><TagSet></TagSet></Tagging>')
# The content comes from a client; a browser must run none of it on the origin of the service, and
# must load nothing for it: a page could tell another host who reads it.
_SHIELD: Final[Headers] = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
_WHOLE_CHECKSUM: Final = (b"x-amz-checksum-type", b"FULL_OBJECT")
# The parameters by which a request chooses headers of its answer.
_OVERRIDES: Final[Mapping[str, bytes]] = {
    "response-cache-control": b"cache-control",
    "response-content-disposition": b"content-disposition",
    "response-content-encoding": b"content-encoding",
    "response-content-language": b"content-language",
    "response-content-type": b"content-type",
    "response-expires": b"expires",
}
_READ_ERRORS: Final = (
    *("InvalidArgument", "InvalidPartNumber", "InvalidRange", "InvalidRequest", "NoSuchKey"),
    "PreconditionFailed",
)


class _ObjectView(NamedTuple):
    """An object, and the bytes that the request asks for."""

    entry: Entry
    window: Window

    def headers(self, parameters: Mapping[str, str]) -> Headers:
        """All headers of the object, with those that the request overrides."""
        content_type = text_header(b"content-type", self.entry.content_type or reads.DEFAULT_TYPE)
        described: Headers = (content_type, *headers_of(self.entry))
        if parameters:
            described = _overridden(described, parameters)
        return (*described, *_validators(self.entry), *reads.ACCEPT_RANGES, *_SHIELD)


def _validators(entry: Entry) -> Headers:
    """The headers by which a client recognises this version of an object."""
    date = conditions.http_date(entry.modified_ns)
    etag = text_header(b"etag", f'"{entry.checksum}"')
    return (etag, (b"last-modified", date.encode("ascii")))


def _overridden(headers: Headers, parameters: Mapping[str, str]) -> Headers:
    """Headers of an object, with those that a request chooses in their place.  Raises `S3Error`."""
    chosen: dict[bytes, bytes] = {}
    for name, header in _OVERRIDES.items():
        value = parameters.get(name, "")
        if not is_header_value(value):
            reason = "Header value cannot be represented using ISO-8859-1."
            raise S3Error("InvalidArgument", f"{reason} ({name})")
        if value:
            chosen[header] = value.encode("latin-1")
    return tuple((dict(headers) | chosen).items())


def entry_at(repo: OpenRepository, address: Address) -> Entry:
    """The entry at an address.  Raises `S3Error`, and as `read.stat`."""
    if not address.path:
        raise S3Error("NoSuchKey")
    try:
        parse(address.ref)
    except Invalid as error:
        raise S3Error("NoSuchKey") from error
    try:
        return read.stat(repo, address.ref, address.path)
    except NotFound as error:
        if error.code is Code.BRANCH_NOT_FOUND:  # of a write this would be NoSuchBucket
            raise S3Error("NoSuchKey") from error
        raise


def _view(call: S3Call) -> _ObjectView | Answer:
    """What a read asks for, or the answer 304."""
    entry = entry_at(call.repo, call.address)
    part = call.parameters.get("partNumber", "")
    headers = call.headers
    if part:
        headers = {name: value for name, value in headers.items() if name != b"range"}
    window = conditions.selected(headers, entry.size, conditions.validators_of(entry))
    if not isinstance(window, Window):
        return Answer(304, _validators(entry))
    return _ObjectView(entry, _part(call, entry, part) if part else window)


def _part(call: S3Call, entry: Entry, number: str) -> Window:
    """The first part is the whole object; there are no others."""
    if call.header(b"range"):
        raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber")
    is_number = number.isascii() and number.isdigit() and len(number) <= len("10000")
    if not is_number or not 1 <= int(number) <= limits.multipart_parts_count_max:
        raise S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000")
    if int(number) != 1:
        raise S3Error("InvalidPartNumber")
    return Window(0, entry.size, entry.size > 0)


@operation(
    "GetObject",
    "GET",
    Level.KEY,
    permissions=(READ_OBJECT,),
    errors=(*_READ_ERRORS, "NoSuchVersion"),
    conditions=READ_CONDITIONS,
    runs=Runs.STREAM,
)
async def get_object(call: S3Call) -> Answer:
    """The bytes of an object, or a range of them."""
    view = await call.found(_at_once)
    if isinstance(view, Answer):
        return view
    return _opened(call, view, *await reads.body_of(call, view.entry, view.window))


def _at_once(call: Call) -> Answer | _ObjectView:
    """The answer, or what it sends if that takes another step: a long body, or one whose ref is
    resolved by walking the history."""
    assert isinstance(call, S3Call), "an operation of S3 gets its call"
    view = _view(call)
    if isinstance(view, Answer) or call.walks or not reads.is_small(call, *view):
        return view
    return _opened(call, view, *reads.whole_body(call.repo, *view))


def _opened(call: S3Call, view: _ObjectView, body: Body, content: bytes | StreamedBody) -> Answer:
    headers = (*view.headers(call.parameters), *reads.encryption_of(view.entry, body.head))
    checks: Headers = ()
    if call.header(b"x-amz-checksum-mode").upper() == "ENABLED" and body.head.crc32c is not ABSENT:
        checks = (*crc32c_headers(body.head.crc32c), _WHOLE_CHECKSUM)
    return reads.ranged(view.window, view.entry.size, headers, content, checks)


@operation(
    "HeadObject",
    "HEAD",
    Level.KEY,
    permissions=(READ_OBJECT,),
    errors=_READ_ERRORS,
    conditions=READ_CONDITIONS,
    runs=Runs.POINT,
)
def head_object(call: S3Call) -> Answer:
    """The headers of an object.  Its bytes are not read."""
    view = _view(call)
    if isinstance(view, Answer):
        return view
    return reads.head(view.window, view.entry.size, view.headers(call.parameters))


@operation(
    "GetObjectTagging",
    "GET",
    Level.KEY,
    "tagging",
    permissions=(READ_OBJECT,),
    errors=("NoSuchKey",),
    runs=Runs.POINT,
)
def get_object_tagging(call: S3Call) -> Answer:
    """The tags of an object: none, because tags are not kept."""
    entry_at(call.repo, call.address)
    return document(_TAGGING())


@operation(
    "GetObjectAttributes",
    "GET",
    Level.KEY,
    "attributes",
    permissions=(READ_OBJECT,),
    errors=("InvalidArgument", "NoSuchKey"),
    runs=Runs.POINT,
)
def get_object_attributes(call: S3Call) -> Answer:
    """What is known of an object: etag, size, storage class, and the number of its parts."""
    named = [name.strip() for name in call.header(b"x-amz-object-attributes").split(",")]
    if not _ATTRIBUTE.keys() >= set(named):
        raise S3Error("InvalidArgument", f"Attributes are {', '.join(_ATTRIBUTE)}")
    entry = entry_at(call.repo, call.address)
    md5, _, parts = entry.checksum.partition("-")
    is_in_parts = len(md5) == _MD5_LENGTH and parts.isdigit()  # not the etag of an imported file
    known: dict[str, str | int] = {
        "ETag": entry.checksum,
        "ObjectParts": parts if is_in_parts else "",
        "StorageClass": "STANDARD",
        "ObjectSize": entry.size,
    }
    lines = [template(known[name]) for name, template in _ATTRIBUTE.items()
             if name in named and known.get(name, "") != ""]  # fmt: skip
    answer = document(_ATTRIBUTES(joined(lines)))
    date = conditions.http_date(entry.modified_ns).encode("ascii")
    return answer._replace(headers=(*answer.headers, (b"last-modified", date)))
