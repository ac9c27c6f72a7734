"""Who sent a request, and how its body is framed: the interface of the route to signatures.

    request ──► identify ──► Identity(caller, payload)

Used by route.py and the endpoints that read a body.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from graveler.api.answers import Headers
from graveler.api.service import Service
from graveler.auth.access import Caller
from graveler.gateway.request import S3Request


class Payload(Protocol):
    """The body of one request: its framing, and what its signature and its checksums cover."""

    @property
    def length(self) -> int:
        """The number of bytes of the content, without framing, as the request says.  Raises
        `S3Error` if it does not say, or if a header about the body is malformed."""
        ...

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The content of a body that arrives in `chunks`, without framing.

        Every hash, checksum, chunk signature and length that the request carries has been verified
        when the iterator ends.  So nothing may be visible before that.  Raises `S3Error`.
        """
        ...

    def whole(self, body: bytes) -> Sequence[bytes]:
        """As `content`, of a body that arrived whole."""
        ...

    def echo(self) -> Headers:
        """The checksums that were verified, as headers of the answer.  Only after the end of
        `content`, or after `whole`."""
        ...


class Identity(NamedTuple):
    """The sender of a request, as its signature proves, and its body.

    `hoisted`: the headers for which parameters of a presigned URL stand.
    """

    caller: Caller
    payload: Payload
    hoisted: Headers = ()


Identify = Callable[[Service, S3Request, Callable[[], str]], Identity]
"""Verifies the signature of a request.  The last argument returns the sender's address.  Raises
`S3Error`, `Throttled`; `AccessDenied` for a request without a signature.  It reads no body."""
