"""Verifies the signature of a claim (claims.py): AWS Signature Version 4.

    canonical request   method ‖ path ‖ query ‖ headers ‖ their names ‖ payload, by lines
    text to sign        AWS4-HMAC-SHA256 ‖ time ‖ scope ‖ SHA-256 of the canonical request
    scope               day / region / s3 / aws4_request
    key                 HMAC of HMAC …: secret, day, region, s3, aws4_request

The canonical form is made from the bytes as they were sent.  Pure, but for `SigningKeys`, whose
threads only replace whole values.  For authentication.py.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from graveler.gateway.claims import ALGORITHM, Claim, canonical

_PATH_RESERVED: Final = re.compile(rb"[^A-Za-z0-9/_.~-]")
_RESERVED: Final = re.compile(rb"[^A-Za-z0-9_.~-]")
_ENCODED: Final = {bytes((byte,)): b"%%%02X" % byte for byte in range(256)}
_UNRESERVED: Final = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.~-"  # in paths
)
_KEYS_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class ChunkSeal:
    """What the signatures of chunks are made with; `signature`: that of the request."""

    key: bytes = field(repr=False)
    moment: bytes
    scope: bytes
    signature: bytes


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
