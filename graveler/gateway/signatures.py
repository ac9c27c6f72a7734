"""Verifies AWS Signature Version 4, and Version 2 in the URLs that boto3 makes by default.

text to sign   AWS4-HMAC-SHA256 ‖ time ‖ scope ‖ SHA-256 of the canonical request
version 2      method ‖ Content-MD5 ‖ Content-Type ‖ date ‖ headers x-amz-* ‖ resource
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from graveler.auth.access import Caller
from graveler.auth.proofs import Matches, Proofs
from graveler.core.errors import Code, Unauthenticated
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT
from graveler.gateway import claims
from graveler.gateway.claims import (
    ALGORITHM,
    AMZ,
    CONTENT_SHA256,
    EXPIRES_SECONDS_MAX,
    KEY_ID_LENGTH_MAX,
    Claim,
    Form,
    OpenRequest,
    StatedPayload,
    canonical,
    check_date,
    payload,
    refuse_token,
    refused_form,
    unsupported,
)
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import SUB_RESOURCES
from graveler.gateway.payload import ChunkSeal, Identity, SignedPayload
from graveler.gateway.request import Level, S3Request, address_of, bucket_of_host, domains_of
from graveler.http.service import Service

# ---- version 4 -----------------------------------------------------------------------------------

_PATH_RESERVED: Final = re.compile(rb"[^A-Za-z0-9/_.~-]")
_RESERVED: Final = re.compile(rb"[^A-Za-z0-9_.~-]")
_ENCODED: Final = {bytes((byte,)): b"%%%02X" % byte for byte in range(256)}
_UNRESERVED: Final = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.~-"  # in paths
)
_KEYS_MAX: Final = 4_096


# ---- the canonical form --------------------------------------------------------------------------


def text_to_sign(claim: Claim) -> bytes:
    """The text that the signature of a claim is made of.  Pure."""
    digest = hashlib.sha256(_canonical(claim)).hexdigest().encode()
    return b"\n".join((ALGORITHM, claim.moment, claim.scope, digest))


def _canonical(claim: Claim) -> bytes:
    opened, names = claim.opened, claim.names
    request, headers = opened.request, opened.request.headers
    lines = [
        request.method.encode(),
        _canonical_path(request.raw_path),
        _canonical_query(opened.query) if opened.query else b"",
        *[name + b":" + canonical(headers[name]) for name in names],
        b"",
        b";".join(names),
        claim.stated,
    ]
    return b"\n".join(lines)


def _canonical_query(query: Mapping[bytes, bytes]) -> bytes:
    encoded = [
        (_RESERVED.sub(_encoded, name), _RESERVED.sub(_encoded, value))
        for name, value in query.items()
        if name != b"X-Amz-Signature"
    ]
    return b"&".join([name + b"=" + value for name, value in sorted(encoded)])


def _canonical_path(path: bytes) -> bytes:
    if not path.translate(None, _UNRESERVED):  # nothing to decode, nothing to encode
        return path or b"/"
    decoded = unquote_to_bytes(path) if b"%" in path else path
    return _PATH_RESERVED.sub(_encoded, decoded) or b"/"


def _encoded(match: re.Match[bytes]) -> bytes:
    return _ENCODED[match[0]]


# ---- the signature -------------------------------------------------------------------------------


def signing_key(secret: str, day: bytes, region: bytes) -> bytes:
    """The key of one day and one region.  Pure."""
    key = b"AWS4" + secret.encode()
    for part in (day, region, b"s3", b"aws4_request"):
        key = hmac.digest(key, part, "sha256")
    return key


def is_signed(claim: Claim, key: bytes) -> bool:
    """Whether the signature of a request is that of the signing key; in constant time.  Pure."""
    begun = _begun(key)
    inner, outer = begun[0].copy(), begun[1].copy()
    inner.update(text_to_sign(claim))
    outer.update(inner.digest())
    return hmac.compare_digest(outer.hexdigest().encode(), claim.signature)


@lru_cache(_KEYS_MAX)
def _begun(key: bytes) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    """The inner and the outer hash of an HMAC (RFC 2104) with this key, and no text.

    A copy of the two takes a third of the time that the library takes for a copy of its HMAC."""
    padded = key.ljust(hashlib.sha256().block_size, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in padded) for pad in (0x36, 0x5C))
    return hashlib.sha256(inner), hashlib.sha256(outer)


class SigningKeys:
    """Signing keys that were made lately, by key id, epoch of the key, day and region."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, bytes, bytes], bytes] = {}

    def get(self, claim: Claim, secret: str, epoch: str) -> bytes:
        """The signing key for a claim, if `secret` is the secret of its key."""
        place = (claim.key_id, epoch, claim.day, claim.region)
        key = self._keys.get(place)
        if key is None:
            key = signing_key(secret, claim.day, claim.region)
            if len(self._keys) >= _KEYS_MAX:
                self._keys = {}
            self._keys[place] = key
        return key


# ---- version 2 -----------------------------------------------------------------------------------

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
    payload: StatedPayload


def claim_of_url_v2(opened: OpenRequest, bucket: str, *, has_key: bool, writes: bool) -> ClaimV2:
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
    text = _text_v2(request, expires, _resource(request, bucket))
    key_id = query[b"AWSAccessKeyId"].decode("latin-1")
    return ClaimV2(key_id, text, query[b"Signature"], _payload(headers))


def claim_of_header_v2(opened: OpenRequest, bucket: str, *, allowed: bool) -> ClaimV2:
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
    text = _text_v2(request, date, _resource(request, bucket))
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


def _text_v2(request: S3Request, date: bytes, resource: bytes) -> bytes:
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


def _payload(headers: Mapping[bytes, bytes]) -> StatedPayload:
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


def is_signed_v2(claim: ClaimV2, secret: str) -> bool:
    """Whether the signature is that of the secret; in constant time.  Pure."""
    expected = base64.b64encode(hmac.digest(secret.encode(), claim.text, "sha1"))
    return hmac.compare_digest(expected, claim.signature)


# ---- who sent a request --------------------------------------------------------------------------


class Authentication:
    """Identifies callers by their signatures."""

    def __init__(self, domains: Sequence[str], *, signature_v2: bool = False) -> None:
        """`domains`: those of the route.  `signature_v2`: Signature Version 2 is accepted in
        headers, and in presigned URLs that write a key; else only in those that read one."""
        self._domains = domains_of(domains)
        self._signature_v2 = signature_v2
        self._proofs = Proofs()
        self._keys = SigningKeys()

    def identify(
        self, service: Service, request: S3Request, address: Callable[[], str]
    ) -> Identity:
        """The sender of a request, and its body.

        Raises `S3Error`, `Refused` for a key that verifies no signature yet, `Throttled`.  The KV
        requests of `Proofs.identify`.
        """
        opened = claims.open_request(request, service.ports.clock.now_ns())
        if not opened.how:
            raise S3Error("AccessDenied")
        if opened.how == "query of version 2":
            return self._by_url_of_version_2(service, request, opened, address)
        if opened.how == "header of version 2":
            bucket = bucket_of_host(request.header(b"host"), self._domains)
            claim_v2 = claim_of_header_v2(opened, bucket, allowed=self._signature_v2)
            return self._by_version_2(service, request, claim_v2, address)
        claim = claims.claim(opened)
        proof = _Proof(claim, self._keys)
        caller = self._caller(service, claim.key_id, proof, address)
        seal = proof.seal() if claim.payload.form.has_signed_chunks else ABSENT
        hoisted = tuple(claim.hoisted)
        body = SignedPayload(request.with_headers(hoisted), claim.payload, seal)
        return Identity(caller, body, hoisted)

    def _by_url_of_version_2(
        self, service: Service, request: S3Request, opened: OpenRequest, address: Callable[[], str]
    ) -> Identity:
        host = request.header(b"host")
        place = address_of(host, request.raw_path, self._domains)
        claim = claim_of_url_v2(
            opened,
            bucket_of_host(host, self._domains),
            has_key=place.level is Level.KEY,
            writes=self._signature_v2,
        )
        return self._by_version_2(service, request, claim, address)

    def _by_version_2(
        self, service: Service, request: S3Request, claim: ClaimV2, address: Callable[[], str]
    ) -> Identity:
        def matches(secret: str, _epoch: str) -> bool:
            return is_signed_v2(claim, secret)

        caller = self._caller(service, claim.key_id, matches, address)
        return Identity(caller, SignedPayload(request, claim.payload))

    def _caller(
        self, service: Service, key_id: str, matches: Matches, address: Callable[[], str]
    ) -> Caller:
        try:
            return self._proofs.identify(service.auth, key_id, matches, address)
        except Unauthenticated as error:
            unknown = error.code is Code.KEY_NOT_FOUND
            raise S3Error("InvalidAccessKeyId" if unknown else "SignatureDoesNotMatch") from error


class _Proof:
    """Whether a claim is signed with a secret."""

    def __init__(self, claim: Claim, keys: SigningKeys) -> None:
        self._claim = claim
        self._keys = keys
        self._key = b""

    def __call__(self, secret: str, epoch: str) -> bool:
        claim = self._claim
        if epoch:
            self._key = self._keys.get(claim, secret, epoch)
        else:
            self._key = signing_key(secret, claim.day, claim.region)
        return is_signed(claim, self._key)

    def seal(self) -> ChunkSeal:
        """What the chunks of the body are signed with, after the claim was found right."""
        claim = self._claim
        return ChunkSeal(self._key, claim.moment, claim.scope, claim.signature)
