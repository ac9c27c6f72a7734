"""What a signed request claims (Signature Version 4): key, date, signed headers, form of the body.

`host` and every header `x-amz-*` are signed.  The date is at most 15 minutes away; a presigned URL
is valid for the time that it names.  No parameter occurs twice.  Pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent
from graveler.gateway.checksums import OF_BODIES
from graveler.gateway.errors import S3Error
from graveler.gateway.request import Pairs, S3Request

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
SKEW_SECONDS_MAX: Final = 15 * 60
EXPIRES_SECONDS_MAX: Final = 7 * 24 * 3600
CONTENT_SHA256: Final = b"x-amz-content-sha256"
AMZ: Final = b"x-amz-"

_EXEMPT_OF_QUERY: Final = OF_BODIES | {CONTENT_SHA256}
_AUTHORIZATION_LENGTH_MAX: Final = 16 * 1024
KEY_ID_LENGTH_MAX: Final = 128
_REGION: Final = re.compile(rb"[!-.0-~]{1,64}")
_MOMENT: Final = re.compile(rb"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)
_MOMENTS_MAX: Final = 1_024
_HEADER_NAME: Final = re.compile(rb"[0-9a-z!#$%&'*+.^_`|~-]+")
# How nearly every client writes the header, up to the signature.
_USUAL_HEAD: Final = re.compile(
    rb"AWS4-HMAC-SHA256 Credential=([^,\s]+), ?SignedHeaders=([^,\s]+), ?Signature="
)
_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_SECONDS: Final = re.compile(rb"[0-9]{1,9}")
_TOKEN: Final = b"x-amz-security-token"
_OWN: Final = frozenset(
    (
        b"x-amz-algorithm",
        b"x-amz-credential",
        b"x-amz-date",
        b"x-amz-expires",
        b"x-amz-signedheaders",
        b"x-amz-signature",
    )
)
# Parameters that make a query a signed one, in version 4 and in version 2.
_V4_MARKS: Final = frozenset((b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Signature"))
_V2_MARKS: Final = frozenset((b"AWSAccessKeyId", b"Signature"))
_V2_SCHEME: Final = b"AWS"
_UNSIGNED: Final = b"UNSIGNED-PAYLOAD"
_HEADER_ERROR: Final = "AuthorizationHeaderMalformed"
_QUERY_ERROR: Final = "AuthorizationQueryParametersError"
_KNOWN_MAX: Final = 1_024
_KNOWN_LENGTH_MAX: Final = 1_024  # of a text that is remembered
_DAY_LENGTH: Final = len("yyyymmdd")
_MOMENT_LENGTH: Final = len("yyyymmddThhmmssZ")
_SIGNATURE_LENGTH: Final = 64
_Credential: TypeAlias = tuple[str, bytes, bytes]  # key id, day, region


class Form(Enum):
    """How the bytes of a body are sent, and what proves them."""

    HASH = "hash"  # a hash of the whole body
    UNSIGNED = "UNSIGNED-PAYLOAD"
    UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"  # chunks, then a checksum
    CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"  # signed chunks
    CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"  # and a signed trailer

    @property
    def is_chunked(self) -> bool:
        return self not in (Form.HASH, Form.UNSIGNED)

    @property
    def has_signed_chunks(self) -> bool:
        return self in (Form.CHUNKS, Form.CHUNKS_TRAILER)

    @property
    def has_trailer(self) -> bool:
        return self in (Form.UNSIGNED_TRAILER, Form.CHUNKS_TRAILER)


class StatedPayload(NamedTuple):
    """What a request says about its body.  `sha256`: hexadecimal, for the form `HASH`."""

    form: Form
    sha256: str = ""


_OF_NOTHING: Final = hashlib.sha256().hexdigest().encode()
_EMPTY: Final = StatedPayload(Form.HASH, _OF_NOTHING.decode())


@lru_cache(_KNOWN_MAX)
def scope(day: bytes, region: bytes) -> bytes:
    """The scope of a signature.  Pure."""
    return b"/".join((day, region, b"s3", b"aws4_request"))


class OpenRequest(NamedTuple):
    """A request, when it arrived, its query, and how it is signed: not at all, or by version 4 or 2
    in the header or in the query."""

    request: S3Request
    now_ns: int
    how: Literal["", "header", "query", "header of version 2", "query of version 2"]
    query: Mapping[bytes, bytes]


class Claim(NamedTuple):
    """What a request claims, and what its signature has to cover.

    `names`: those of the signed headers.  `stated`: the hash or the form of the body, as it is
    signed.  `hoisted`: parameters of a presigned URL that stand for headers, by names in lower
    case.
    """

    opened: OpenRequest
    key_id: str
    day: bytes
    region: bytes
    moment: bytes
    names: Sequence[bytes]
    stated: bytes
    signature: bytes
    payload: StatedPayload
    hoisted: Pairs = ()

    @property
    def scope(self) -> bytes:
        return scope(self.day, self.region)


def open_request(request: S3Request, now_ns: int) -> OpenRequest:
    """How a request is signed.

    Raises `S3Error` for a parameter that occurs twice, for two mechanisms, and for an unknown
    algorithm.  Pure."""
    headers, query = request.headers, _single(request.pairs)
    count = 1 if b"authorization" in headers else 0
    if len(headers) < len(request.lines):
        count = [name for name, _ in request.lines].count(b"authorization")
    is_v4 = is_v2 = False
    if query:
        is_v4, is_v2 = not _V4_MARKS.isdisjoint(query), not _V2_MARKS.isdisjoint(query)
    if count + is_v4 + is_v2 > 1:
        raise S3Error("InvalidRequest", "Only one authentication mechanism is allowed.")
    if count:
        scheme = headers[b"authorization"].split(None, 1)[:1]
        if scheme == [ALGORITHM]:
            return OpenRequest(request, now_ns, "header", query)
        if scheme == [_V2_SCHEME]:
            return OpenRequest(request, now_ns, "header of version 2", query)
        raise unsupported()
    if is_v4:
        return OpenRequest(request, now_ns, "query", query)
    return OpenRequest(request, now_ns, "query of version 2" if is_v2 else "", query)


def _single(pairs: Pairs) -> dict[bytes, bytes]:
    """Parameters by name.  Raises `S3Error` if one occurs twice: also in another case, if it can
    stand for a header."""
    if not pairs:
        return {}
    named = dict(pairs)
    own = [name.lower() for name in named if name[: len(AMZ)].lower() == AMZ]
    if len(named) < len(pairs) or len(set(own)) < len(own):
        raise S3Error("InvalidArgument", "A query parameter occurs twice.")
    return named


def canonical(value: bytes) -> bytes:
    """The value of a header as it is signed: no blanks around it, single ones inside.  Pure."""
    return b" ".join(value.split())


def claim(opened: OpenRequest) -> Claim:
    """What a request that is signed by version 4 claims.  Raises `S3Error`.  Pure."""
    refuse_token(opened)
    return _claim_of_header(opened) if opened.how == "header" else _claim_of_query(opened)


def refuse_token(opened: OpenRequest) -> None:
    """Raises `S3Error` for a request with a token of temporary credentials: there are none."""
    names = [name.lower() for name in opened.query]
    if _TOKEN in opened.request.headers or _TOKEN in names:
        raise S3Error("InvalidToken", "")


def refused_form() -> S3Error:
    """The error for a form of the body that a presigned URL cannot prove."""
    return S3Error("AccessDenied", "A presigned URL does not allow this form of the payload.")


def _claim_of_header(opened: OpenRequest) -> Claim:
    headers, now_ns = opened.request.headers, opened.now_ns
    (key_id, day, region), listed, signature = _fields(headers[b"authorization"])
    moment, seconds = _date(headers)
    if day != moment[:8]:
        raise S3Error(_HEADER_ERROR, "Invalid credential date: it is not the day of the request.")
    _check_skew(seconds, now_ns)
    names = _signed_names(listed, headers, frozenset(), _HEADER_ERROR)
    stated = headers.get(CONTENT_SHA256)
    if stated is None:
        raise S3Error(
            "InvalidRequest", "Missing required header for this request: x-amz-content-sha256"
        )
    body = payload(stated)
    return Claim(opened, key_id, day, region, moment, names, stated, signature, body)


def _claim_of_query(opened: OpenRequest) -> Claim:
    query, headers = opened.query, opened.request.headers
    if query.get(b"X-Amz-Algorithm") != ALGORITHM:
        raise unsupported()
    key_id, day, region = _credential(query.get(b"X-Amz-Credential", b""), _QUERY_ERROR)
    moment = query.get(b"X-Amz-Date", b"")
    seconds = _seconds_of(moment)
    if seconds is ABSENT:
        raise S3Error(_QUERY_ERROR, "X-Amz-Date must have the form yyyyMMdd'T'HHmmss'Z'.")
    if day != moment[:8]:
        raise S3Error(_QUERY_ERROR, "Invalid credential date: it is not the day of X-Amz-Date.")
    _check_life(query.get(b"X-Amz-Expires", b""), seconds, opened.now_ns)
    listed = query.get(b"X-Amz-SignedHeaders", b"")
    names = _signed_names(listed, headers, _EXEMPT_OF_QUERY, _QUERY_ERROR)
    hoisted = _hoisted(query, headers)
    stated = dict(hoisted).get(CONTENT_SHA256, b"")
    if CONTENT_SHA256 in names:
        stated = headers[CONTENT_SHA256]
    body = payload(stated or headers.get(CONTENT_SHA256, _UNSIGNED))
    if body.form.is_chunked and (not stated or body.form.has_signed_chunks):
        raise refused_form()
    signed = stated or _UNSIGNED
    signature = query.get(b"X-Amz-Signature", b"")
    return Claim(opened, key_id, day, region, moment, names, signed, signature, body, hoisted)


def _hoisted(query: Mapping[bytes, bytes], headers: Mapping[bytes, bytes]) -> Pairs:
    """The parameters that stand for headers.  Raises `S3Error` if a header says something else."""
    hoisted = []
    for name, value in query.items():
        lower = name.lower()
        if lower.startswith(AMZ) and lower not in _OWN and lower not in OF_BODIES:
            if headers.get(lower, value) != value:
                raise S3Error("InvalidRequest", "A header contradicts a query parameter.")
            hoisted.append((lower, value))
    return tuple(hoisted)


def payload(stated: bytes) -> StatedPayload:
    """What a value of `x-amz-content-sha256` says about the body.  Raises `S3Error`.  Pure."""
    if stated == _OF_NOTHING:
        return _EMPTY
    if _HASH.fullmatch(stated):
        return StatedPayload(Form.HASH, stated.decode())
    for form in Form:
        if form is not Form.HASH and stated == form.value.encode():
            return StatedPayload(form)
    raise S3Error(
        "InvalidArgument",
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or the "
        "SHA-256 of the body in hexadecimal digits.",
    )


# ---- the parts of a claim ------------------------------------------------------------------------


def _fields(authorization: bytes) -> tuple[_Credential, bytes, bytes]:
    """The three fields of the header: credential, names of the signed headers, signature."""
    if len(authorization) > _AUTHORIZATION_LENGTH_MAX:
        raise S3Error(_HEADER_ERROR, "The header is too long.")
    head, signature = authorization[:-_SIGNATURE_LENGTH], authorization[-_SIGNATURE_LENGTH:]
    if len(head) <= _KNOWN_LENGTH_MAX and signature.isalnum():
        usual = _usual_fields(head)
        if usual is not ABSENT:
            return *usual, signature
    pairs = []
    for part in authorization[len(ALGORITHM) :].split(b","):
        name, _, value = part.strip().partition(b"=")
        pairs.append((name, value))
    fields = dict(pairs)
    if len(pairs) != 3 or set(fields) != {b"Credential", b"SignedHeaders", b"Signature"}:
        raise S3Error(
            _HEADER_ERROR, "It must have Credential, SignedHeaders and Signature, each once."
        )
    credential = _credential(fields[b"Credential"], _HEADER_ERROR)
    return credential, fields[b"SignedHeaders"], fields[b"Signature"]


@lru_cache(_KNOWN_MAX)  # a client sends the same head all day
def _usual_fields(head: bytes) -> tuple[_Credential, bytes] | Literal[Absent.ABSENT]:
    """The fields of a header before the signature; `ABSENT` if it is not the usual one."""
    usual = _USUAL_HEAD.fullmatch(head)
    return ABSENT if usual is None else (_credential(usual[1], _HEADER_ERROR), usual[2])


@lru_cache(_KNOWN_MAX)
def _credential(text: bytes, error: str) -> _Credential:
    """Key id, day and region.  Split from the right, because a key id may contain a slash."""
    parts = text.rsplit(b"/", 4)
    if len(parts) != 5 or not 0 < len(parts[0]) <= KEY_ID_LENGTH_MAX:
        raise S3Error(error, "Credential must be <key id>/<yyyyMMdd>/<region>/s3/aws4_request.")
    key_id, day, region, service, end = parts
    if service != b"s3" or end != b"aws4_request":
        raise S3Error(error, "The scope of the credential must end with /s3/aws4_request.")
    if len(day) != _DAY_LENGTH:
        raise S3Error(error, "Invalid credential date: it must have the form yyyyMMdd.")
    if not _REGION.fullmatch(region):
        raise S3Error(error, "The region is not a name.")
    return key_id.decode("latin-1"), day, region


def _date(headers: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    """The time of a signed request: in the form in which it is signed, and in seconds."""
    moment = headers.get(b"x-amz-date")
    if moment is None:
        moment = _basic_form(headers.get(b"date", b""))
    seconds = _seconds_of(moment)
    if seconds is ABSENT:
        raise S3Error(
            "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header"
        )
    return moment, seconds


def check_date(headers: Mapping[bytes, bytes], now_ns: int) -> None:
    """Raises `S3Error` unless a request has a date, in either form, at most 15 minutes away."""
    date = headers.get(b"x-amz-date", headers.get(b"date", b""))
    _, seconds = _date({b"date": date})
    _check_skew(seconds, now_ns)


def _check_skew(seconds: int, now_ns: int) -> None:
    if abs(now_ns - seconds * SECOND_NS) > SKEW_SECONDS_MAX * SECOND_NS:
        raise S3Error("RequestTimeTooSkewed", "")


def _basic_form(date: bytes) -> bytes:
    """A date of HTTP in the basic form of ISO 8601; any other text as it is."""
    try:
        moment = parsedate_to_datetime(date.decode("latin-1"))
        in_utc = moment.astimezone(UTC) if moment.tzinfo else moment
    except (ValueError, TypeError, IndexError, OverflowError):
        return date
    return in_utc.strftime("%Y%m%dT%H%M%SZ").encode()


def _seconds_of(moment: bytes) -> int | Literal[Absent.ABSENT]:
    return _utc_seconds(moment) if len(moment) == _MOMENT_LENGTH else ABSENT


@lru_cache(_MOMENTS_MAX)  # the requests of one second name the same time
def _utc_seconds(moment: bytes) -> int | Literal[Absent.ABSENT]:
    match = _MOMENT.fullmatch(moment)
    if match is None:
        return ABSENT
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except ValueError:
        return ABSENT


def _check_life(expires: bytes, seconds: int, now_ns: int) -> None:
    """Raises `S3Error` unless a presigned URL is valid now."""
    life = int(expires) if _SECONDS.fullmatch(expires) else 0
    if not 1 <= life <= EXPIRES_SECONDS_MAX:
        raise S3Error(_QUERY_ERROR, f"X-Amz-Expires must be 1 to {EXPIRES_SECONDS_MAX} seconds.")
    if seconds * SECOND_NS > now_ns + SKEW_SECONDS_MAX * SECOND_NS:
        raise S3Error("AccessDenied", "Request is not valid yet")
    if now_ns >= (seconds + life) * SECOND_NS:
        raise S3Error("AccessDenied", "Request has expired")


def _signed_names(
    listed: bytes, headers: Mapping[bytes, bytes], exempt: frozenset[bytes], error: str
) -> Sequence[bytes]:
    """The names of the signed headers.  Raises `S3Error` unless they cover what they have to."""
    present = tuple(headers)
    is_short = len(listed) + sum(map(len, present)) <= _KNOWN_LENGTH_MAX
    read = _known_names if is_short else _read_names
    return read(listed, present, exempt, error)


def _read_names(
    listed: bytes, present: tuple[bytes, ...], exempt: frozenset[bytes], error: str
) -> Sequence[bytes]:
    names = tuple(listed.split(b";"))
    named = frozenset(names)
    if names != tuple(sorted(named)) or not all(map(_HEADER_NAME.fullmatch, names)):
        raise S3Error(error, "SignedHeaders must be names in lower case, in order, each once.")
    if b"host" not in named:
        raise S3Error("AccessDenied", "The header host must be signed.")
    if any(name.startswith(AMZ) for name in frozenset(present) - named - exempt):
        raise S3Error(
            "AccessDenied", "There were headers present in the request which were not signed"
        )
    if not named.issubset(present):
        raise S3Error("SignatureDoesNotMatch", "A signed header is not in the request.")
    return names


_known_names: Final = lru_cache(_KNOWN_MAX)(_read_names)  # a client sends the same ones each time


def unsupported() -> S3Error:
    """The error for a request that is signed in another way."""
    return S3Error(
        "InvalidRequest",
        "The authorization mechanism you have provided is not supported. Please use "
        "AWS4-HMAC-SHA256.",
    )
