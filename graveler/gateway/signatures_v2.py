"""Verifies AWS Signature Version 2.

    text to sign   method ‖ Content-MD5 ‖ Content-Type ‖ date ‖ headers x-amz-* ‖ resource
    date           Expires of a URL, else the header Date
    resource       / bucket / key, as it was sent, then sub-resources and response-*, in order
    signature      Base64 of HMAC-SHA1

boto3 makes URLs of version 2 by default for any endpoint but those of AWS.  They are accepted to
read a key, and with a switch of the deployment to write one; with no other parameter but those that
choose headers of the answer, and for at most 7 days.  With this switch, the header `Authorization:
AWS <key id>:<signature>` is accepted too.  It does not cover other parameters, such as the prefix
of a listing.

The text has all headers `x-amz-*` of the request, so all of them are signed.  If one states
the hash of the body, the body has to have it; a body in chunks is refused.  Pure; for
authentication.py.
"""

import base64
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from graveler.gateway.claims import (
    AMZ,
    CONTENT_SHA256,
    EXPIRES_SECONDS_MAX,
    KEY_ID_LENGTH_MAX,
    Form,
    OpenRequest,
    Payload,
    canonical,
    check_date,
    payload,
    refuse_token,
    refused_form,
    unsupported,
)
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import SUB_RESOURCES
from graveler.gateway.request import S3Request
from graveler.limits import SECOND_NS

_PARAMETERS: Final = frozenset((b"AWSAccessKeyId", b"Signature", b"Expires"))
_OF_ANSWER: Final = frozenset(
    b"response-" + name
    for name in (
        *(b"cache-control", b"content-disposition", b"content-encoding", b"content-language"),
        *(b"content-type", b"expires"),
    )
)
_READS: Final = frozenset(("GET", "HEAD"))
# Parameters that are signed.  Clients leave `list-type` out, which is younger.
_COVERED: Final = _OF_ANSWER | {
    name.encode() for name in SUB_RESOURCES - {"list-type"} | {"versionId"}
}
_SECONDS: Final = re.compile(rb"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class ClaimV2:
    """What a presigned URL claims.  `text`: the text to sign."""

    key_id: str
    text: bytes
    signature: bytes
    payload: Payload


def claim(opened: OpenRequest, bucket: str, *, has_key: bool, writes: bool) -> ClaimV2:
    """What a presigned URL claims.

    `bucket`: that of the host, empty in path style.  `has_key`: the URL names a key.  `writes`: PUT
    is accepted.  Raises `S3Error`.
    """
    request, query, headers = opened.request, opened.query, opened.request.headers
    refuse_token(opened)
    allowed = request.method in _READS or (writes and request.method == "PUT")
    if not allowed or not has_key or query.keys() - _OF_ANSWER != _PARAMETERS:
        raise S3Error(
            "InvalidRequest",
            "Signature Version 2 is supported only in URLs that read a key and have no other "
            "parameters but response-*. Please use AWS4-HMAC-SHA256.",
        )
    expires = query[b"Expires"]
    _check_life(expires, opened.now_ns)
    text = _text(request, expires, _resource(request, bucket))
    key_id = query[b"AWSAccessKeyId"].decode("latin-1")
    return ClaimV2(key_id, text, query[b"Signature"], _payload(headers))


def claim_of_header(opened: OpenRequest, bucket: str, *, allowed: bool) -> ClaimV2:
    """What the header of a request claims.  `bucket`: as for `claim`.  `allowed`: the deployment
    accepts it.  Raises `S3Error`."""
    request, headers = opened.request, opened.request.headers
    if not allowed:
        raise unsupported()
    refuse_token(opened)
    key_id, _, signature = headers[b"authorization"].partition(b" ")[2].strip().rpartition(b":")
    if not key_id or len(key_id) > KEY_ID_LENGTH_MAX:
        raise S3Error("AuthorizationHeaderMalformed", "It must be AWS <key id>:<signature>.")
    check_date(headers, opened.now_ns)
    date = b"" if b"x-amz-date" in headers else canonical(headers.get(b"date", b""))
    text = _text(request, date, _resource(request, bucket))
    return ClaimV2(key_id.decode("latin-1"), text, signature, _payload(headers))


def _resource(request: S3Request, bucket: str) -> bytes:
    path = request.raw_path
    resource = b"/" + bucket.encode() + path if bucket else path
    if resource.count(b"/") == 1 and len(resource) > 1:
        resource += b"/"  # a bucket is signed with a slash
    named = [
        name + b"=" + value if value or name in _OF_ANSWER else name
        for name, value in sorted(request.pairs)
        if name in _COVERED
    ]
    return resource + (b"?" + b"&".join(named) if named else b"")


def _text(request: S3Request, date: bytes, resource: bytes) -> bytes:
    headers = request.headers
    amz = sorted(name for name in headers if name.startswith(AMZ))
    lines = [
        request.method.encode(),
        canonical(headers.get(b"content-md5", b"")),
        canonical(headers.get(b"content-type", b"")),
        date,
        *[name + b":" + canonical(headers[name]) for name in amz],
        resource,
    ]
    return b"\n".join(lines)


def _payload(headers: Mapping[bytes, bytes]) -> Payload:
    body = payload(headers.get(CONTENT_SHA256, Form.UNSIGNED.value.encode()))
    if body.form.is_chunked:
        raise refused_form()
    return body


def _check_life(expires: bytes, now_ns: int) -> None:
    """Raises `S3Error` unless the URL is valid now."""
    if not _SECONDS.fullmatch(expires):
        raise S3Error("AccessDenied", "Invalid date (should be seconds since epoch)")
    ends_ns = int(expires) * SECOND_NS
    if now_ns >= ends_ns:
        raise S3Error("AccessDenied", "Request has expired")
    if ends_ns > now_ns + EXPIRES_SECONDS_MAX * SECOND_NS:
        raise S3Error(
            "AuthorizationQueryParametersError",
            f"Expires must be at most {EXPIRES_SECONDS_MAX} seconds ahead.",
        )


def is_signed(claim: ClaimV2, secret: str) -> bool:
    """Whether the signature is that of the secret; in constant time.  Pure."""
    expected = base64.b64encode(hmac.digest(secret.encode(), claim.text, "sha1"))
    return hmac.compare_digest(expected, claim.signature)
