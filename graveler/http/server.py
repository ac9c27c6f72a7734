"""The HTTP/1.1 server: one process that serves an ASGI application until SIGINT or SIGTERM, and its
TLS.  A stop finishes requests in flight.

    accepted ──► counted ──► first byte ──► handshake ──► HTTP (protocol.py)
                                 └─ plain HTTP ──► 400

With TLS, a connection counts from its first moment, and has `head_seconds` for its handshake.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import uvicorn

from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import TlsFiles
from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.dispatch import Application
from graveler.http.front import DIRECT, Front
from graveler.http.protocol import Connection

_LOG = logging.getLogger("graveler.api")
_HANDSHAKE: Final = b"\x16"  # the first byte of each TLS connection: the type of its first record
_ACCEPTED_MAX: Final = 100  # in one turn of the loop
_PAUSE_SECONDS: Final = 1.0

# ---- the certificate -----------------------------------------------------------------------------


class Certificate:
    """The certificate of a server and its key.  Files that change are read again."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises `Invalid`, which names the file and the remedy."""
        self._files = files
        self._stamps = self._stamped()
        self._context = _context(files)

    def context(self) -> ssl.SSLContext:
        """The settings of a new connection.  Files that cannot be used change nothing: the log
        says why."""
        stamps = self._stamped()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = _context(self._files)
            except Invalid as error:
                _LOG.error("new certificate not used; the one before stays: %s", error)
        return self._context

    def lapse(self, now: datetime) -> str:
        """Why clients refuse the certificate at `now`; empty if its time is right."""
        from cryptography.x509 import load_pem_x509_certificates

        own = load_pem_x509_certificates(self._files.certificate.read_bytes())[0]
        if now > own.not_valid_after_utc:
            return f"it expired at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        if now < own.not_valid_before_utc:
            return f"it is not valid before {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return ""

    def _stamped(self) -> tuple[tuple[int, int, int], ...]:
        """What changes with the files; as before while one of them is away."""
        try:
            found = [path.stat() for path in self._files]
        except OSError:
            return getattr(self, "_stamps", ())
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


def _context(files: TlsFiles) -> ssl.SSLContext:
    certificate, key = _read("certificate", files.certificate), _read("key", files.key)
    if b"-----BEGIN CERTIFICATE-----" not in certificate:
        raise _bad("it has no certificate in PEM form", "certificate", files.certificate)
    if b"PRIVATE KEY-----" not in key:
        raise _bad("it has no private key in PEM form", "key", files.key)
    if b"ENCRYPTED" in key:
        remedy = "decrypt it: openssl pkey -in FILE -out NEW (mode 0600)"
        raise _bad(f"the key needs a password; {remedy}", "key", files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(*files, password="")  # the library must not ask at the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = f"the key is not that of the first certificate of {files.certificate}"
            raise _bad(reason, "key", files.key) from error
        reason = f"not usable: {error.reason or error}: --tls-key={files.key}"
        raise _bad(reason, "certificate", files.certificate) from error
    return context


def _read(kind: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _bad(f"not read: {error.strerror}", kind, path) from error


def _bad(reason: str, kind: str, path: Path) -> Invalid:
    return Invalid(f"TLS {kind} invalid: {reason}: --tls-{kind}={path}")


# ---- connections ---------------------------------------------------------------------------------


class Listener:
    """Accepts connections at a socket that listens.  For the event loop."""

    def __init__(
        self,
        listening: socket.socket,
        certificate: Certificate,
        make_connection: Callable[[], Connection],
    ) -> None:
        self.sockets = (listening,)
        self._listening = listening
        self._certificate = certificate
        self._make_connection = make_connection
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more.  The socket stays open."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_MAX):
            try:
                raw, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files: more would fail at once
                _LOG.error("connections not accepted for a moment: %s", error)
                self._loop.remove_reader(self._listening)
                self._pause = self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            connection = self._make_connection()
            if connection.admit(address[0]):
                Handshake(connection, raw).start(self._certificate)
            else:
                raw.close()


class Handshake:
    """A connection that was accepted, until TLS protects it."""

    def __init__(self, connection: Connection, raw: socket.socket) -> None:
        self._connection = connection
        self._raw = raw
        self._task: asyncio.Task[None] | None = None

    def start(self, certificate: Certificate) -> None:
        """Let the connection begin when its client does."""
        self._raw.setblocking(False)
        self._connection.open_connections.add(self)
        self._task = self._connection.loop.create_task(self._shake(certificate))

    def shutdown(self) -> None:
        """The server stops."""
        if self._task is not None:
            self._task.cancel()

    async def _shake(self, certificate: Certificate) -> None:
        connection = self._connection
        bounds, loop = connection.bounds, connection.loop
        protection: dict[str, Any] = {}
        try:
            async with asyncio.timeout(bounds.head_seconds):
                if await _first_byte(loop, self._raw) == _HANDSHAKE:
                    protection["ssl"] = certificate.context()
                    protection["ssl_handshake_timeout"] = bounds.head_seconds
                    protection["ssl_shutdown_timeout"] = bounds.linger_seconds
                await loop.connect_accepted_socket(lambda: connection, self._raw, **protection)
        except ssl.SSLError as error:
            connection.warn(f"TLS handshake failed: {error.reason or error}")
        except OSError:
            pass  # the client is too slow, or has gone
        finally:
            connection.open_connections.discard(self)
            if not connection.is_made:
                self._raw.close()
                connection.release()


async def _first_byte(loop: asyncio.AbstractEventLoop, raw: socket.socket) -> bytes:
    """The first byte that the client sends, which stays where it is.  Raises `OSError` if the
    client goes before."""
    arrived = asyncio.Event()
    loop.add_reader(raw, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(raw)
    first = raw.recv(1, socket.MSG_PEEK)
    if not first:
        raise ConnectionAbortedError
    return first


# ---- the server ----------------------------------------------------------------------------------


_STOP_SECONDS: Final = 20
_BACKLOG: Final = 1_024
BOUNDS: Final = ConnectionLimits()


class Server(uvicorn.Server):
    """A server that calls `on_ready` with its port when it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[int], None],
        certificate: Certificate | Literal[Absent.ABSENT],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._certificate = certificate

    async def startup(self, sockets: Any = None) -> None:
        if self._certificate is ABSENT:
            await super().startup(sockets)
        else:
            await super().startup([])
            config = self.config
            protocol: Any = config.http_protocol_class
            make_connection = partial(
                protocol,
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            self.servers = [
                cast("Any", Listener(each, self._certificate, make_connection))
                for each in sockets or [socket.create_server((config.host, config.port))]
            ]
        if self.started and not self.should_exit:
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])


def make_server(
    application: Application,
    host: str,
    port: int,
    on_ready: Callable[[int], None],
    *,
    bounds: ConnectionLimits = BOUNDS,
    front: Front = DIRECT,
    certificate: Certificate | Literal[Absent.ABSENT] = ABSENT,
) -> Server:
    """A server for `application`.

    `run()` blocks until SIGINT or SIGTERM.  `on_ready` gets the port.  `port` 0 means any free
    port.  `certificate`: clients must use TLS.
    """
    protocol: Any = partial(Connection, admission=Admission(bounds, front))
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=protocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        backlog=_BACKLOG,
        timeout_keep_alive=bounds.idle_seconds,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return Server(config, on_ready, certificate)
