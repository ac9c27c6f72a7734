"""Makes and verifies presigned URLs that Graveler's own service serves, for local files.

    <base>/_presigned/<address in base64url>?method=..&expires=..&content_type=..&signature=..

The signature is HMAC-SHA256 over method, address, expiry (seconds since 1970), content type and, in
`size`, the length of the body if it is bound.  Each field has its length before it.  A URL may be
used repeatedly until it expires: the server stores with CREATE, then accepts only the same bytes.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol
from urllib.parse import urlencode

from graveler.block.adapter import PresignedUrl
from graveler.block.address import split
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Invalid, Unauthenticated, Unsupported
from graveler.core.records import ABSENT, Absent

PRESIGNED_PATH = "/_presigned/"
_CONTEXT = b"graveler presigned request 1"
_KEY_LENGTH = 32


class Grant(NamedTuple):
    """The request that a valid URL permits.

    `content_type`: for a PUT, the request has this type (`verify` compared them).  For a GET, the
    answer must have it.  Empty: none is bound.
    `size`: the length that the body of a PUT, or the object of a GET, must have; ABSENT: none is
    bound.
    """

    address: str
    content_type: str
    size: int | Literal[Absent.ABSENT] = ABSENT


class Presigner(Protocol):
    """Makes presigned URLs for a driver."""

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        size: int | Literal[Absent.ABSENT] = ABSENT,
    ) -> PresignedUrl:
        """A URL for one method on one address, for 1 to `limits.presign_seconds_max` seconds.
        `size`: of the body of a PUT, or of the object of a GET; ABSENT: any."""
        ...


class NoPresigner:
    """The presigner of a store without a server: always raises `Unsupported`."""

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        size: int | Literal[Absent.ABSENT] = ABSENT,
    ) -> PresignedUrl:
        raise Unsupported(f"this store cannot presign URLs: {address=}")


class Signer:
    """Makes and verifies URLs below `base_url`.  With an empty one the URLs are relative.

    `before`: the key before its rotation; it verifies, too.  Empty: there was none."""

    def __init__(self, key: bytes, base_url: str, clock: Clock, before: bytes = b"") -> None:
        if len(key) != _KEY_LENGTH:
            raise Invalid(f"signing key must have {_KEY_LENGTH} bytes: {len(key)=}")
        self._keys = (key, before) if before else (key,)
        self._base_url = base_url.rstrip("/")
        self._clock = clock

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        size: int | Literal[Absent.ABSENT] = ABSENT,
    ) -> PresignedUrl:
        if method not in ("GET", "PUT"):
            raise Invalid(f"only GET and PUT can be presigned: {method=}")
        if not 1 <= seconds <= limits.presign_seconds_max:
            raise Invalid(
                f"presigned seconds must be 1 to {limits.presign_seconds_max}: {seconds=}"
            )
        if len(content_type) > limits.content_type_length_bytes_max:
            raise Invalid("content type is too long to presign")
        expires = self._clock.now_ns() // limits.SECOND_NS + seconds
        query = {"method": method, "expires": str(expires)}
        if content_type:
            query["content_type"] = content_type
        bound = () if size is ABSENT else (str(size),)
        if bound:
            query["size"] = bound[0]
        fields = (method, address, str(expires), content_type, *bound)
        query["signature"] = _signature(self._keys[0], *fields)
        name = base64.urlsafe_b64encode(address.encode()).decode().rstrip("=")
        url = f"{self._base_url}{PRESIGNED_PATH}{name}?{urlencode(query)}"
        return PresignedUrl(url, expires * limits.SECOND_NS)

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """The request that a URL permits; `name` is the last segment of its path.

        `content_type`: that of the client's request.  Raises `Unauthenticated` for a URL with a
        wrong signature, after its expiry, or for another method or content type.  The message names
        the reason only if the signature is valid.
        """
        address = _address(name)
        expires, bound = query.get("expires", ""), query.get("content_type", "")
        size = (query["size"],) if "size" in query else ()
        fields = (query.get("method", ""), address, expires, bound, *size)
        signature = query.get("signature", "")
        signed = [_signature(key, *fields) for key in self._keys]
        if not signature.isascii() or not any([hmac.compare_digest(s, signature) for s in signed]):
            raise Unauthenticated("presigned url is not valid")
        if self._clock.now_ns() >= int(expires) * limits.SECOND_NS:
            raise Unauthenticated(f"presigned url has expired: {expires=}")
        if method != query["method"]:
            raise Unauthenticated(f"presigned url is for another method: {method=}")
        if method == "PUT" and bound and content_type != bound:
            raise Unauthenticated(f"presigned url is for another content type: {content_type=}")
        split(address)
        return Grant(address, bound, int(size[0]) if size else ABSENT)


def _signature(key: bytes, *fields: str) -> str:
    digest = hmac.new(key, _CONTEXT, hashlib.sha256)
    for text in fields:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def _address(name: str) -> str:
    try:
        if len(name) > 2 * limits.address_length_bytes_max or not name.isascii():
            raise Unauthenticated("presigned url is not valid")
        return base64.b64decode(name + "=" * (-len(name) % 4), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthenticated("presigned url is not valid") from error
