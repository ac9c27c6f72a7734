"""Signs requests to the S3 gateway, and transfers large bodies with as little work as possible.

Signatures are of version 4 in the header, for plain keys without reserved characters.  A body that
is sent comes from a file by `sendfile`, and one that is received is dropped, so the client takes
little of the processor from the server.  For the benchmarks of the gateway.
"""

import hashlib
import hmac
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.load import Target

UNSIGNED = "UNSIGNED-PAYLOAD"
_OF_NOTHING = hashlib.sha256(b"").hexdigest()
_REGION, _NAMES = "us-east-1", "host;x-amz-content-sha256;x-amz-date"
_BUFFER_BYTES = 1 << 20
_PATIENCE_SECONDS = 600
_keys: dict[tuple[str, str], bytes] = {}


def signed(
    target: Target,
    method: str,
    path: str,
    query: str = "",
    *,
    body: bytes = b"",
    length: int = 0,
    payload: str = "",
) -> bytes:
    """The bytes of a request with its signature, and of its body.

    `query`: encoded and sorted.  `length`: of a body that is sent afterwards.  `payload`: what the
    signature covers of the body; by default its SHA-256.
    """
    now = datetime.now(UTC)
    moment, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    stated = payload or (hashlib.sha256(body).hexdigest() if body else _OF_NOTHING)
    canonical = "\n".join(
        (
            method,
            path,
            query,
            f"host:{target.host}",
            f"x-amz-content-sha256:{stated}",
            f"x-amz-date:{moment}",
            "",
            _NAMES,
            stated,
        )
    )
    scope = f"{day}/{_REGION}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    signature = hmac.digest(_signing_key(target.secret, day), text.encode(), "sha256").hex()
    size = length or len(body)
    lines = [
        f"{method} {path}{'?' if query else ''}{query} HTTP/1.1",
        f"Host: {target.host}",
        f"x-amz-date: {moment}",
        f"x-amz-content-sha256: {stated}",
        f"Authorization: AWS4-HMAC-SHA256 Credential={target.key}/{scope}, "
        f"SignedHeaders={_NAMES}, Signature={signature}",
    ]
    if method == "PUT":
        lines.append(f"Content-Length: {size}")
    return "\r\n".join((*lines, "", "")).encode() + body


def _signing_key(secret: str, day: str) -> bytes:
    key = _keys.get((secret, day))
    if key is None:
        key = b"AWS4" + secret.encode()
        for part in (day, _REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        _keys[secret, day] = key
    return key


def send(target: Target, head: bytes, file: Path) -> float:
    """Send a request with a file as its body.  Returns the seconds until its answer."""
    with file.open("rb") as body, _connected(target) as sock:
        began = time.perf_counter()
        sock.sendall(head)
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer says why
            sock.sendfile(body)
        _answer(sock)
        return time.perf_counter() - began


def receive(target: Target, head: bytes) -> tuple[float, int]:
    """Send a request, and drop the body of its answer.  Returns the seconds and the bytes."""
    with _connected(target) as sock:
        began = time.perf_counter()
        sock.sendall(head)
        length, got = _answer(sock)
        room = bytearray(_BUFFER_BYTES)
        while got < length:
            count = sock.recv_into(room)
            if not count:
                raise RuntimeError(f"the answer ends after {got} of {length} bytes")
            got += count
        return time.perf_counter() - began, got


def _connected(target: Target) -> socket.socket:
    sock = socket.create_connection((target.host, target.port), timeout=_PATIENCE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _answer(sock: socket.socket) -> tuple[int, int]:
    """Read the head of an answer: the length of its body, and how much of it has arrived."""
    text = b""
    while b"\r\n\r\n" not in text:
        received = sock.recv(_BUFFER_BYTES)
        if not received:
            raise RuntimeError(f"the connection ended: {text[:200]!r}")
        text += received
    head, _, body = text.partition(b"\r\n\r\n")
    status = int(head[9:12])
    if status >= 300:
        raise RuntimeError(f"the server answered {status}: {body[:300]!r}")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    return lengths[0] if lengths else 0, len(body)
