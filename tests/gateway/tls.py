"""TLS in front of a server: a certificate of its own, and a relay of bytes."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HERE = "127.0.0.1"
_CHUNK_BYTES = 1 << 16
_DAYS = range(-1, 1)


class Secured(NamedTuple):
    """Where the server is reached by TLS, and the certificate that clients must trust."""

    url: str
    certificate: Path


@contextmanager
def secured(port: int, folder: Path, days: range = _DAYS) -> Iterator[Secured]:
    """Relay connections with TLS to `port` of this machine until the block ends.  `days`: when the
    certificate is valid, from today."""
    certificate, key = _certificate(folder, days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(_HERE, port)
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))
        finally:
            for each in (writer, behind_writer):
                each.transport.abort()
                with suppress(OSError):
                    await each.wait_closed()

    server = loop.run_until_complete(asyncio.start_server(relay, _HERE, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, name="tls")
    thread.start()
    try:
        yield Secured(f"https://{_HERE}:{server.sockets[0].getsockname()[1]}", certificate)
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def _ended(server: asyncio.Server) -> None:
    """Stop the server, and every relay that still waits for its client."""
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _certificate(folder: Path, days: range) -> tuple[Path, Path]:
    """Files with a certificate for this machine, which signs itself, and with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "graveler tests")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(_HERE))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days.start))
        .not_valid_after(now + timedelta(days=days.stop))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return public, private
