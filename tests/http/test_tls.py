"""TLS of the server: its certificate, and connections before it protects them.

What holds for every connection is in test_connections.py, which has each test by http and https.
"""

import errno
import http.client
import os
import re
import socket
import ssl
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from graveler.core.errors import Invalid
from graveler.core.settings import TlsFiles
from graveler.http.connections import ConnectionLimits
from graveler.http.server import Certificate
from tests.api.serving import ADMINISTRATOR, API, Served, served
from tests.tls import certified, secured
from tests.waiting import until

FOREVER = 1e9
HEALTH = b"GET /_health HTTP/1.1\r\nHost: x\r\n\r\n"
HASTY = ConnectionLimits(head_seconds=0.2)


def _raw(live: Served) -> socket.socket:
    """A connection without TLS."""
    return socket.create_connection((live.client.host, live.client.port), timeout=30)


class _Shaking:
    """A client that does TLS by hand, and sends what it wants of it."""

    def __init__(self, live: Served, raw: socket.socket) -> None:
        assert live.client.tls is not None
        self._raw = raw
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = live.client.tls.wrap_bio(self._into, self._out, server_hostname="127.0.0.1")

    def unsent(self) -> bytes:
        return self._out.read()

    def shake(self) -> None:
        """The handshake, but for the last bytes of this client."""
        while True:
            try:
                return self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._raw.sendall(self.unsent())
                self._into.write(self._raw.recv(65_536))

    def read(self) -> bytes:
        """What the server says until it closes."""
        said = b""
        while True:
            try:
                piece = self.tls.read(65_536)
            except ssl.SSLWantReadError:
                arrived = self._raw.recv(65_536)
                self._into.write(arrived) if arrived else self._into.write_eof()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return said
            if not piece:
                return said
            said += piece


def _status(raw: socket.socket) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPResponse(raw)) as answer:
        answer.begin()
        return answer.status, answer.headers.get("connection", ""), answer.read()


def _gone(live: Served) -> None:
    until(lambda: not live.server.server_state.connections, "every connection is closed")


# ---- before the handshake ------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [0, 1, 50], ids=["nothing", "a byte", "half a hello"])
def test_a_client_that_does_not_end_its_handshake_is_dropped(tmp_path: Path, sent: int) -> None:
    with served(tmp_path / "store", bounds=HASTY, tls=certified(tmp_path)) as live:
        with _raw(live) as raw:
            shaking = _Shaking(live, raw)
            with pytest.raises(ssl.SSLWantReadError):
                shaking.tls.do_handshake()
            raw.sendall(shaking.unsent()[:sent])
            assert raw.recv(10) == b""
        _gone(live)


def test_unfinished_handshakes_count_as_connections_of_their_address(tmp_path: Path) -> None:
    bounds = ConnectionLimits(
        connections_max=4, per_address_max=2, refused_max=1, head_seconds=FOREVER
    )
    with served(tmp_path / "store", bounds=bounds, tls=certified(tmp_path)) as live:
        with ExitStack() as silent:
            for _ in range(2):
                silent.enter_context(_raw(live))
            connections = live.server.server_state.connections
            until(lambda: len(connections) == 2, "both are counted")
            with live.client.connected() as third:
                assert _status(third)[:2] == (429, "close")
                with _raw(live) as fourth:
                    assert fourth.recv(10) == b""  # one refusal at a time is worth a handshake
        _gone(live)
        assert live.client.send("GET", "/config").status == 200


@pytest.mark.parametrize("leave", [socket.socket.close, lambda raw: raw.shutdown(socket.SHUT_WR)])
def test_clients_that_leave_before_the_handshake_are_forgotten(
    tmp_path: Path, leave: Callable[[socket.socket], None]
) -> None:
    bounds = ConnectionLimits(connections_max=3, head_seconds=FOREVER)
    tls = certified(tmp_path)
    with served(tmp_path / "store", bounds=bounds, tls=tls) as live, ExitStack() as left:
        for sent in (0, 1, 50):
            raw = left.enter_context(_raw(live))
            shaking = _Shaking(live, raw)
            with pytest.raises(ssl.SSLWantReadError):
                shaking.tls.do_handshake()
            raw.sendall(shaking.unsent()[:sent])
            leave(raw)
        until(lambda: live.client.send("GET", "/config").status == 200, "there is room again")


def test_plain_http_is_answered_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        plain = replace(live.client, tls=None)
        for body in (None, b"x" * 300_000):
            reply = plain.send("POST", "/repositories", body=body)
            assert reply.status == 400 and "only https" in reply.message
            assert reply.headers["connection"] == "close"
        _gone(live)
    assert "address=127.0.0.1" in caplog.text


def test_a_client_that_trusts_another_certificate_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        with pytest.raises(ssl.SSLCertVerificationError):
            replace(live.client, tls=ssl.create_default_context()).connected()
        until(lambda: "UNKNOWN_CA" in caplog.text, "the log says why")
        _gone(live)


def test_old_versions_are_refused(tmp_path: Path) -> None:
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        for version, taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            with warnings.catch_warnings(action="ignore"):
                context.minimum_version = context.maximum_version = version
            with _raw(live) as raw:
                try:
                    with context.wrap_socket(raw) as wrapped:
                        assert wrapped.version() == "TLSv1.2"
                    assert taken
                except ssl.SSLError:
                    assert not taken


def test_a_long_upload_may_come_with_the_end_of_the_handshake(tmp_path: Path) -> None:
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        repo = live.fresh_repository()
        body = os.urandom(3_000_000)
        head = (
            f"POST {API}/repositories/{repo}/branches/main/objects?path=a HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {live.client.authorization}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        with _raw(live) as raw:
            shaking = _Shaking(live, raw)
            shaking.shake()
            shaking.tls.write(head.encode() + body)
            raw.sendall(shaking.unsent())
            assert shaking.read().startswith(b"HTTP/1.1 201 ")
        stored = live.client.send("GET", f"/repositories/{repo}/refs/main/objects", {"path": "a"})
        assert stored.body == body


def test_too_few_open_files_only_delay_a_connection(
    live: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(socket.socket):
        """As if another file could be opened only at the second try."""

        is_full = True

        def accept(self) -> Any:
            if self.is_full:
                self.is_full = False
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    with secured(live.server, tmp_path, kind=Full) as tls:
        trust = ssl.create_default_context(cafile=tls.certificate)
        client = replace(live.client, port=urlsplit(tls.url).port or 0, tls=trust)
        assert client.send("GET", "/config").status == 200
    assert "Too many open files" in caplog.text


# ---- the end -------------------------------------------------------------------------------------


def test_an_idle_client_that_leaves_the_end_of_tls_unanswered_is_closed(tmp_path: Path) -> None:
    bounds = ConnectionLimits(idle_seconds=2, linger_seconds=FOREVER)
    tls = certified(tmp_path)
    with served(tmp_path / "store", bounds=bounds, tls=tls) as live, live.client.connected() as raw:
        raw.sendall(HEALTH)
        assert _status(raw)[0] == 200
        _gone(live)


def test_a_stop_waits_for_no_handshake(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bounds = ConnectionLimits(head_seconds=FOREVER)
    with ExitStack() as silent:
        with served(tmp_path / "store", bounds=bounds, tls=certified(tmp_path)) as live:
            for sent in (b"", b"\x16", b"\x16\x03\x01"):
                silent.enter_context(_raw(live)).sendall(sent)
            connections = live.server.server_state.connections
            until(lambda: len(connections) == 3, "all are counted")
        assert not connections
    assert "timeout graceful shutdown exceeded" not in caplog.text


def test_a_client_that_ends_tls_is_answered_by_its_end(tmp_path: Path) -> None:
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        with live.client.connected() as raw:
            assert isinstance(raw, ssl.SSLSocket)
            raw.sendall(HEALTH)
            assert _status(raw)[0] == 200
            raw.unwrap().close()  # raises if the server does not answer
        _gone(live)


# ---- what clients are told -----------------------------------------------------------------------


def test_urls_and_cookies_are_those_of_https(tmp_path: Path) -> None:
    with served(tmp_path / "store", public=True, tls=certified(tmp_path)) as live:
        repo = live.fresh_repository()
        backing = f"/repositories/{repo}/branches/main/staging/backing"
        given = live.client.send("GET", backing, {"path": "a", "presign": "true"}).json
        assert given["presigned_url"].startswith(f"{live.client.url}/_presigned/")
        target = given["presigned_url"].removeprefix(live.client.url)
        assert live.client.raw("PUT", target, b"1", {"Authorization": ""}).status == 200
        login = {
            "access_key_id": ADMINISTRATOR.access_key_id,
            "secret_access_key": ADMINISTRATOR.secret_access_key,
        }
        cookie = live.client.send("POST", "/auth/login", body=login).headers["set-cookie"]
        assert cookie.startswith("__Host-") and "; Secure;" in cookie
        page = live.client.raw("GET", "/")
        assert "strict-transport-security" in page.headers


# ---- the certificate -----------------------------------------------------------------------------


def _absent(files: TlsFiles) -> None:
    files.certificate.unlink()


def _folder(files: TlsFiles) -> None:
    files.key.unlink()
    files.key.mkdir()


def _swapped(files: TlsFiles) -> None:
    files.certificate.write_bytes(files.key.read_bytes())


def _no_key(files: TlsFiles) -> None:
    files.key.write_bytes(files.certificate.read_bytes())


def _torn(files: TlsFiles) -> None:
    text = files.certificate.read_text()
    files.certificate.write_text(text.replace("\n", "\nx", 2))


def _foreign_key(files: TlsFiles) -> None:
    other = files.key.with_name("other")
    other.mkdir()
    files.key.write_bytes(certified(other).key.read_bytes())


def _encrypted(kind: serialization.PrivateFormat) -> Callable[[TlsFiles], None]:
    def encrypt(files: TlsFiles) -> None:
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
        locked = serialization.BestAvailableEncryption(b"secret")
        files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, locked))

    return encrypt


UNUSABLE: dict[str, tuple[Callable[[TlsFiles], None], str]] = {
    "absent": (_absent, "certificate invalid: not read: No such file"),
    "folder": (_folder, "key invalid: not read: Is a directory"),
    "swapped": (_swapped, "it has no certificate in PEM form"),
    "no key": (_no_key, "it has no private key in PEM form"),
    "torn": (_torn, "certificate invalid: not usable"),
    "foreign key": (_foreign_key, "the key is not that of the first certificate of"),
    "encrypted": (
        _encrypted(serialization.PrivateFormat.PKCS8),
        "needs a password; decrypt it: openssl pkey",
    ),
    "encrypted as of old": (
        _encrypted(serialization.PrivateFormat.TraditionalOpenSSL),
        "needs a password; decrypt it: openssl pkey",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_files_that_cannot_be_used_are_named_with_the_reason(tmp_path: Path, name: str) -> None:
    spoil, reason = UNUSABLE[name]
    files = certified(tmp_path)
    spoil(files)
    with pytest.raises(Invalid, match=re.escape(reason)) as raised:
        Certificate(files)
    assert str(tmp_path) in str(raised.value) and "\n" not in str(raised.value)


def test_new_files_are_used_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = tmp_path / "renewed"
    renewed.mkdir()
    with served(tmp_path / "store", tls=certified(tmp_path)) as live:
        old = live.client
        assert old.send("GET", "/config").status == 200
        files = certified(renewed)
        (renewed / "certificate.pem").rename(tmp_path / "certificate.pem")
        assert old.send("GET", "/config").status == 200  # without its key the new one is no use
        assert "the one before stays" in caplog.text
        (renewed / "key.pem").rename(tmp_path / "key.pem")
        trust = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        assert replace(old, tls=trust).send("GET", "/config").status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            old.send("GET", "/config")
        assert not files.key.exists()


@pytest.mark.parametrize(
    ("days", "reason"), [(-30, "not valid before"), (0, ""), (30, "expired at")]
)
def test_a_certificate_says_when_clients_refuse_it(tmp_path: Path, days: int, reason: str) -> None:
    said = Certificate(certified(tmp_path)).lapse(datetime.now(UTC) + timedelta(days=days))
    assert reason in said and bool(reason) == bool(said)
