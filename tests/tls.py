"""Certificates of tests, and TLS at a second port of a running server."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from graveler.core.settings import TlsFiles
from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.protocol import Connection
from graveler.http.server import Certificate, Listener, Server

_HERE = "127.0.0.1"
_DAYS = range(-1, 1)


class Secured(NamedTuple):
    """Where the server is reached by TLS, and the certificate that clients must trust."""

    url: str
    certificate: Path


@contextmanager
def secured(
    server: Server, folder: Path, days: range = _DAYS, kind: type[socket.socket] = socket.socket
) -> Iterator[Secured]:
    """Serve what `server` serves by TLS too, at another port, until the block ends.

    `days`: when the certificate is valid, from today.  `kind`: of the socket that listens.
    """
    files = certified(folder, days)
    certificate, admission = Certificate(files), Admission(ConnectionLimits())
    loop = server.servers[0].get_loop()

    def connection() -> Connection:
        return Connection(server.config, server.server_state, {}, admission=admission)

    async def begin() -> Listener:
        return Listener(listening, certificate, connection)

    async def end() -> None:
        listener.close()

    with kind() as listening:
        listening.bind((_HERE, 0))
        listening.listen()
        listener = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        try:
            url = f"https://{_HERE}:{listening.getsockname()[1]}"
            yield Secured(url, files.certificate)
        finally:
            asyncio.run_coroutine_threadsafe(end(), loop).result()


def certified(folder: Path, days: range = _DAYS) -> TlsFiles:
    """Files with a certificate for this machine, which signs itself, and with its key.

    `days`: when it is valid, from today.
    """
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
    return TlsFiles(public, private)
