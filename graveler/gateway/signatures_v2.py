"""Verifies AWS Signature Version 2 in the query of a presigned URL, and nowhere else.

    text to sign   method ‖ Content-MD5 ‖ Content-Type ‖ Expires ‖ headers x-amz-* ‖ resource
    resource       / bucket / key, as it was sent, then the parameters response-*, decoded, in order
    signature      Base64 of HMAC-SHA1

boto3 makes such URLs by default for any endpoint but those of AWS.  They are accepted to read a
key, and with a switch of the deployment to write one; with no other parameter but those that choose
headers of the answer, and for at most 7 days.  The text has all headers `x-amz-*` of the request,
so all of them are signed.  If one states the hash of the body, the body has to have it; a body in
chunks is refused.  Pure; for authentication.py.
"""

import base64
import hmac
import re
from dataclasses import dataclass
from typing import Final

from graveler.gateway.claims import (
    AMZ,
    CONTENT_SHA256,
    EXPIRES_SECONDS_MAX,
    Form,
    OpenRequest,
    Payload,
    canonical,
    payload,
    refuse_token,
    refused_form,
)
from graveler.gateway.errors import S3Error
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
    path = request.raw_path
    resource = b"/" + bucket.encode() + path if bucket else path
    of_answer = [name + b"=" + query[name] for name in sorted(query.keys() & _OF_ANSWER)]
    if of_answer:
        resource += b"?" + b"&".join(of_answer)
    amz = sorted(name for name in headers if name.startswith(AMZ))
    lines = [
        request.method.encode(),
        canonical(headers.get(b"content-md5", b"")),
        canonical(headers.get(b"content-type", b"")),
        expires,
        *[name + b":" + canonical(headers[name]) for name in amz],
        resource,
    ]
    body = payload(headers.get(CONTENT_SHA256, Form.UNSIGNED.value.encode()))
    if body.form.is_chunked:
        raise refused_form()
    key_id = query[b"AWSAccessKeyId"].decode("latin-1")
    return ClaimV2(key_id, b"\n".join(lines), query[b"Signature"], body)


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
