"""A request of an S3 client as it was sent, and what it names.  Pure.

    Host: any                      /lake/main/in/x.parquet     path style
    Host: lake.s3.example.org      /main/in/x.parquet          host style, below a configured domain

The path is decoded once, as bytes, and split at its first slashes.  Nothing is normalised.  An XML
body with a document type is refused where it begins.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes
from xml.parsers import expat
from zlib import crc32

from graveler.core import limits
from graveler.gateway.errors import S3Error, Subject
from graveler.http.answers import Headers
from graveler.http.front import host_of

Pairs = Sequence[tuple[bytes, bytes]]

# Headers of nearly every request, which ask for nothing: the signature and the client.
_USUAL: Final = frozenset(
    (
        *(b"host", b"authorization", b"date", b"x-amz-date", b"x-amz-content-sha256"),
        *(b"user-agent", b"accept", b"accept-encoding", b"connection", b"expect"),
        *(b"amz-sdk-invocation-id", b"amz-sdk-request"),
    )
)


class S3Request(NamedTuple):
    """One request.

    `raw_path` and `raw_query`: as sent.  `lines`: the header lines in order, names in lower case.
    `headers`: the same by name, without blanks around a value, which belong to no value; values of
    repeated headers are joined by commas.  `instructions`: those of them that may ask for
    something, or describe the body; they are few, and every check of headers goes through them.
    `pairs`: the names and values of the query, decoded, in their order.  `query`: the same as
    texts, by name; a parameter without a value has the value "".
    """

    method: str
    raw_path: bytes
    raw_query: bytes
    lines: Pairs
    headers: Mapping[bytes, bytes]
    instructions: Mapping[bytes, bytes]
    pairs: Pairs
    query: Mapping[str, str]

    def header(self, name: bytes) -> str:
        """The text of a header; empty if the request does not have it."""
        return self.headers.get(name, b"").decode("latin-1")

    def with_headers(self, further: Headers) -> "S3Request":
        """The request with headers for which its query stands."""
        if not further:
            return self
        headers = {**self.headers, **dict(further)}
        return self._replace(headers=headers, instructions=_instructions(headers))


def request_of(scope: Mapping[str, Any]) -> S3Request:
    """The request of an ASGI scope.  Raises `S3Error`."""
    lines: Pairs = scope["headers"]
    headers = {name: value.strip() for name, value in lines}  # parsers leave those behind
    if len(headers) < len(lines):
        headers = _joined(lines)
    raw: bytes = scope["query_string"]
    pairs = parameters(raw)
    return S3Request(
        scope["method"],
        scope["raw_path"],
        raw,
        lines,
        headers,
        _instructions(headers),
        pairs,
        _query(pairs) if pairs else {},
    )


def _instructions(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in headers.items() if name not in _USUAL}


def _joined(lines: Pairs) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in lines:
        if name == b"host" and name in headers:
            raise S3Error("InvalidRequest", "The request has the header Host twice.")
        value = value.strip()
        headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


def parameters(raw_query: bytes) -> Pairs:
    """The decoded names and values of a query, in their order.  Pure."""
    pairs: list[tuple[bytes, bytes]] = []
    if not raw_query:
        return pairs
    for part in raw_query.replace(b"+", b" ").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            if b"%" in part:
                name, value = unquote_to_bytes(name), unquote_to_bytes(value)
            pairs.append((name, value))
    return pairs


def _query(pairs: Pairs) -> dict[str, str]:
    query: dict[str, str] = {}
    try:
        for name, value in pairs:
            parameter = name.decode("utf-8")
            if parameter in query:
                raise S3Error(
                    "InvalidArgument", f"the query has a parameter twice: {parameter[:80]!r}"
                )
            query[parameter] = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", "The query is not UTF-8.") from error
    return query


# ---- what it names -------------------------------------------------------------------------------

_VERSION: Final = b"?versionId="
NO_VERSION: Final = ("", "null")  # of requests that name none; there are no others


class Level(Enum):
    """What a request is about."""

    SERVICE = "service"
    BUCKET = "bucket"
    KEY = "key"


class Address(NamedTuple):
    """What a request names.  `ref` and `path` are the parts of the key before and behind its first
    slash; `has_slash` tells whether it has one."""

    bucket: str = ""
    key: str = ""
    ref: str = ""
    path: str = ""
    has_slash: bool = False

    @property
    def level(self) -> Level:
        if self.key:
            return Level.KEY
        return Level.BUCKET if self.bucket else Level.SERVICE

    @property
    def subject(self) -> Subject:
        """What an error names."""
        return Subject(self.bucket, self.ref, self.path)


NOWHERE: Final = Address()


def domains_of(names: Sequence[str]) -> tuple[str, ...]:
    """Configured S3 domains in normal form, the longest first."""
    return tuple(sorted((host_of(name).rstrip(".") for name in names), key=len, reverse=True))


def is_of_domain(host: str, domains: Sequence[str]) -> bool:
    """Whether a Host header is a configured domain, or one label below one."""
    return _bucket_of(host, domains) is not None


def bucket_of_host(host: str, domains: Sequence[str]) -> str:
    """The bucket of a request in host style; empty for one in path style."""
    return _bucket_of(host, domains) or ""


def _bucket_of(host: str, domains: Sequence[str]) -> str | None:
    """The label below a configured domain; empty for the domain itself, None for another host."""
    if not domains:
        return None
    name = host_of(host).rstrip(".")
    for domain in domains:
        if name == domain:
            return ""
        label = name.removesuffix("." + domain)
        if label != name and label and "." not in label:
            return label
    return None


def address_of(host: str, raw_path: bytes, domains: Sequence[str]) -> Address:
    """What a request names.  Raises `S3Error`."""
    name = _text(unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path, "InvalidURI")
    if not name.startswith("/"):
        raise S3Error("InvalidURI")
    bucket, key = bucket_of_host(host, domains), name[1:]
    if not bucket:
        bucket, _, key = key.partition("/")
    return address_in(bucket, key)


def address_in(bucket: str, key: str) -> Address:
    """The address of a key.  Raises `S3Error`."""
    ref, slash, path = key.partition("/")
    if len(path.encode()) > limits.path_length_bytes_max or len(ref) > limits.ref_length_max:
        raise S3Error("KeyTooLongError")
    return Address(bucket, key, ref, path, bool(slash))


def source_of(header: bytes) -> Address:
    """What the header `x-amz-copy-source` names: `[/]bucket/key`, percent-encoded, with
    `?versionId=null` behind it or without.  `+` is a space, as in S3.  Raises `S3Error`."""
    if header != b" ".join(header.split()):  # a signature covers several blanks as one
        raise S3Error("InvalidArgument", "Copy Source must be percent-encoded")
    raw, _, version = header.partition(_VERSION)
    if version.decode("latin-1") not in NO_VERSION:
        raise S3Error("NoSuchVersion")
    decoded = unquote_to_bytes(raw.replace(b"+", b" "))
    bucket, _, key = _text(decoded, "InvalidArgument").removeprefix("/").partition("/")
    address = address_in(bucket, key)
    if not address.bucket or not address.path:
        raise S3Error(
            "InvalidArgument", "Copy Source must mention the source bucket and key: bucket/ref/path"
        )
    return address


def _text(raw: bytes, s3_code: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Error(s3_code, "A name must be UTF-8.") from error
    if "\0" in text:
        raise S3Error(s3_code, "A name must have no NUL character.")
    return text


def arguments_of(address: Address) -> dict[str, str]:
    """The names by which permissions of operations refer to an address."""
    return {"repository": address.bucket, "ref": address.ref, "path": address.path}


# ---- query parameters ----------------------------------------------------------------------------

_URL: Final = "url"
_OF_TOKENS: Final = b"page\0"
_SUM_LENGTH: Final = 4
_RESERVED: Final = re.compile(rb"[^A-Za-z0-9_.~/*-]")
_ENCODED: Final = {bytes((byte,)): b"%%%02X" % byte for byte in range(256)} | {b" ": b"+"}


def count_of(parameters: Mapping[str, str], name: str, greatest: int, *, least: int = 0) -> int:
    """A number of items; more than `greatest` means `greatest`, which is also the default.  Raises
    `S3Error` for what is no number, and for one below `least`."""
    text = parameters.get(name, "")
    if not text:
        return greatest
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**31)):
        raise S3Error("InvalidArgument", f"Argument {name} must be an integer from {least} on")
    if int(text) < least:
        raise S3Error("InvalidArgument", f"Argument {name} must be at least {least}")
    return min(int(text), greatest)


def token_of(name: str) -> str:
    """The continuation token of the page behind `name`.  It has a checksum, so that a token that
    another service made, or that was cut, begins no page."""
    raw = name.encode()
    return (
        urlsafe_b64encode(crc32(_OF_TOKENS + raw).to_bytes(_SUM_LENGTH, "big") + raw)
        .decode()
        .rstrip("=")
    )


def name_of_token(token: str) -> str:
    """The name behind which the page of a token begins.  Raises `S3Error` for a text that is no
    token of `token_of`."""
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        name = raw[_SUM_LENGTH:].decode()
    except (Base64Error, ValueError) as error:
        raise _wrong_token() from error
    if token_of(name) != token:
        raise _wrong_token()
    return name


def _wrong_token() -> S3Error:
    return S3Error("InvalidArgument", "The continuation token provided is incorrect")


def shown_as(parameters: Mapping[str, str]) -> tuple[str, Callable[[str], str]]:
    """The encoding of names that a listing asks for, empty if none, and the function that encodes a
    name.  Raises `S3Error`."""
    encoding = parameters.get("encoding-type", "")
    if encoding not in ("", _URL):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return encoding, url_encoded if encoding else str


def url_encoded(name: str) -> str:
    """A name in the encoding `url`.  A listing encodes each of its lines, so only the characters
    that change cost time."""
    return _RESERVED.sub(lambda match: _ENCODED[match[0]], name.encode()).decode("ascii")


# ---- XML bodies ----------------------------------------------------------------------------------

_SEPARATOR: Final = " "
# No tag is long: from each "<" it is at most so far to the next "<" or ">", and that is where a tag
# ends, because values with either are refused.  ("<!" begins no tag.)  Both read a body once.
_LONG_TAG: Final = re.compile(rb"<[^<>]{%d}" % limits.xml_tag_length_max)
_TAG_WITH_MORE: Final = re.compile(rb"""<(?!!|(?:[^<>"']++|"[^<>"]*+"|'[^<>']*+')*+>)""")


class XmlBounds(NamedTuple):
    """How long a body may be, and how many elements it may have."""

    bytes_max: int
    elements_max: int


@dataclass(frozen=True, slots=True)
class Node:
    """An element: its name without a namespace, its own text, its children in order."""

    name: str
    text: str = ""
    children: "tuple[Node, ...]" = ()

    def every(self, name: str) -> "Iterator[Node]":
        """The children with a name."""
        return (child for child in self.children if child.name == name)

    def value(self, name: str, default: str = "") -> str:
        """The text of the one child with a name.  Raises `S3Error` if there are several."""
        values = [child.text for child in self.every(name)]
        if len(values) > 1:
            raise S3Error("MalformedXML")
        return values[0] if values else default


@dataclass(slots=True)
class _Element:
    """An element that is not closed yet."""

    name: str
    pieces: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


class _Builder:
    """Makes nodes of the events of the parser."""

    def __init__(self, elements_max: int) -> None:
        self._open = [_Element("")]
        self._left = elements_max
        self._namespaces_left = limits.xml_namespaces_max

    def start(self, name: str, attributes: object) -> None:
        depth = len(self._open)
        self._left -= 1
        if self._left < 0 or depth > limits.xml_depth_max or (attributes and depth > 1):
            raise S3Error("MalformedXML")
        self._open.append(_Element(name.rpartition(_SEPARATOR)[2]))

    def declare(self, _prefix: str | None, _uri: str | None) -> None:
        self._namespaces_left -= 1
        if self._namespaces_left < 0:
            raise S3Error("MalformedXML")

    def end(self, _name: str) -> None:
        element = self._open.pop()
        node = Node(element.name, "".join(element.pieces), tuple(element.children))
        self._open[-1].children.append(node)

    def text(self, text: str) -> None:
        self._open[-1].pieces.append(text)

    def refuse(self, *_declaration: Any) -> NoReturn:
        raise S3Error("MalformedXML")

    @property
    def root(self) -> Node:
        return self._open[0].children[0]


def parse_xml(body: bytes, root: str, bounds: XmlBounds) -> Node:
    """The document of a body, whose first element must be `root`.

    Raises `S3Error`: MaxMessageLengthExceeded for a body that is too long; MalformedXML for
    anything that is no such document, too deep, or of too many elements, and for tags that are too
    long or have `>` in an attribute.
    """
    if len(body) > bounds.bytes_max:
        raise S3Error("MaxMessageLengthExceeded")
    if _LONG_TAG.search(body) or _TAG_WITH_MORE.search(body):
        raise S3Error("MalformedXML")
    builder = _Builder(bounds.elements_max)
    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.StartNamespaceDeclHandler = builder.declare
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.EntityDeclHandler = builder.refuse
    parser.ProcessingInstructionHandler = builder.refuse
    try:
        body.decode("utf-8")  # otherwise a byte order mark would choose UTF-16
        parser.Parse(body, True)
    except (expat.ExpatError, UnicodeDecodeError) as error:
        raise S3Error("MalformedXML") from error
    node = builder.root
    if node.name != root:
        raise S3Error("MalformedXML")
    return node
