"""What leaves the service: only to hosts that are allowed, at addresses that are public, once."""

import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import Refused, Unavailable
from graveler.core.web import Outgoing, Reply
from graveler.hooks.egress import EgressRules, WebSender, system_resolve
from tests.hooks.web import Reaction, answering, sending, served
from tests.support.clockwork import TickingClock

LOCAL = EgressRules(("127.0.0.1:*", "localhost:*", "hooks.test:*"), loopback=True)
PUBLIC = "93.184.215.14"


@dataclass
class Names:
    """Answers one look-up after the other; `asked` has the questions."""

    answers: list[Sequence[str]]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, host: str, port: int, seconds: float) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers.pop(0)


def _post(url: str, body: bytes = b"{}") -> Outgoing:
    return Outgoing("POST", url, {"Content-Type": "application/json"}, body)


def _sent(react: Reaction, seconds: float = 10) -> tuple[Reply, bytes]:
    with served(react) as web:
        reply = WebSender(LOCAL, SystemClock()).send(_post(web.url), seconds)
        return reply, web.requests[0]


# ---- one exchange --------------------------------------------------------------------------------


def test_a_request_arrives_whole_and_its_answer_comes_back() -> None:
    with served(answering(201, b"heard")) as web:
        url = f"{web.url}?a=b%20c"
        reply = WebSender(LOCAL, SystemClock()).send(_post(url, b'{"x":1}'), 10)
    assert reply == Reply(201, b"heard")
    head, _, body = web.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"x":1}'
    assert head.decode().split("\r\n") == [
        "POST /hook?a=b%20c HTTP/1.1",
        f"Host: 127.0.0.1:{web.port}",
        "User-Agent: graveler",
        "Content-Type: application/json",
        "Content-Length: 7",
        "Connection: close",
    ]


def test_an_answer_in_chunks_or_until_the_end_is_read() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    assert _sent(sending(chunked))[0] == Reply(200, b"abc")
    assert _sent(sending(b"HTTP/1.0 200 OK\r\n\r\nabc"))[0] == Reply(200, b"abc")
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\n\r\n"
    assert _sent(sending(interim))[0] == Reply(204, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with served(answering()) as elsewhere:
        react = answering(status, b"", f"Location: {elsewhere.url}\r\n")
        reply, _ = _sent(react)
        assert reply.status == status
        assert elsewhere.requests == []


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(answering(500)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert _sent(answering())[0].status == 200
        assert proxy.requests == []


LARGE = limits.hook_answer_length_bytes_max


def test_an_answer_of_the_greatest_length_is_read() -> None:
    assert _sent(answering(200, b"x" * LARGE))[0] == Reply(200, b"x" * LARGE)


ENDLESS = {
    "body": answering(200, b"x" * (LARGE + 1)),
    "claimed": sending(b"HTTP/1.1 200 X\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 200_000),
    "headers": sending(b"HTTP/1.1 200 X\r\n" + b"A: b\r\n" * 50_000),
    "one header": sending(b"HTTP/1.1 200 X\r\nA: " + b"b" * 200_000),
    "continue": sending(b"HTTP/1.1 100 X\r\n\r\n" * 20_000),
    "chunks": sending(
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000
    ),
    "status": sending(b"HTTP/1.1 " + b"2" * 200_000),
}
BROKEN = {
    "nothing": sending(b""),
    "no http": sending(b"220 smtp.example.com\r\n"),
    "short": sending(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc"),
    "chunk": sending(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_an_answer_without_end_is_cut_off(case: str) -> None:
    with pytest.raises(Unavailable, match=r"answer is too large|no answer"):
        _sent(ENDLESS[case])


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_answer_is_none(case: str) -> None:
    with pytest.raises(Unavailable, match="no answer"):
        _sent(BROKEN[case])


def test_the_whole_exchange_has_one_time_limit() -> None:
    """One byte after the other: each is in time, all of them are not."""
    clock = TickingClock()

    def drip(connection: socket.socket, _request: bytes) -> None:
        for number in range(10_000):
            connection.sendall(b"HTTP/1.1 200 X\r\n" if number == 0 else b"A")
            clock.sleep(1)

    with served(drip) as web, pytest.raises(Unavailable, match="no answer in time"):
        WebSender(LOCAL, clock).send(_post(web.url), 30)


def test_a_side_that_says_nothing_is_not_waited_for() -> None:
    heard = threading.Event()

    def silent(connection: socket.socket, _request: bytes) -> None:
        heard.set()
        connection.recv(1)  # until the client has gone

    with served(silent) as web, pytest.raises(Unavailable, match="no answer in time"):
        WebSender(LOCAL, SystemClock()).send(_post(web.url), 0.2)
    assert heard.is_set()


def test_a_host_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable, match="no answer"):
        WebSender(LOCAL, SystemClock()).send(_post(f"http://127.0.0.1:{port}/"), 10)
    names = Names([[]])
    with pytest.raises(Unavailable, match="host has no address"):
        WebSender(LOCAL, SystemClock(), names).send(_post("http://hooks.test/"), 10)


def test_no_time_is_not_some_time() -> None:
    names = Names([["127.0.0.1"]])
    with pytest.raises(Unavailable, match="in time"):
        WebSender(LOCAL, SystemClock(), names).send(_post("http://hooks.test/"), 0)
    assert names.asked == []


def test_a_header_cannot_end_the_head() -> None:
    request = Outgoing("POST", "http://127.0.0.1:9/", {"A": "b\r\nHost: c"}, b"")
    with served(answering()) as web:
        url = web.url
        with pytest.raises(Refused, match="control character"):
            WebSender(LOCAL, SystemClock()).send(request._replace(url=url), 10)
        assert web.requests in ([], [b""])


# ---- hosts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("hooks.example.com", "https://hooks.example.com/a"),
        ("hooks.example.com", "https://HOOKS.example.com:443/a"),
        ("hooks.example.com", "https://hooks.example.com./a"),
        ("Hooks.Example.com:8443", "https://hooks.example.com:8443/a"),
        ("hooks.example.com:*", "https://hooks.example.com:1/a"),
    ],
)
def test_allowed_hosts_pass(allowed: str, url: str) -> None:
    EgressRules((allowed,)).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://hooks.example.com.evil.com/",
        "https://evil.com/hooks.example.com",
        "https://evilhooks.example.com/",
        "https://hooks.example.com:8443/",
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "https:///",
        "https://hooks.example.com@evil.com/",
        "https://evil.com#@hooks.example.com/",
        "https://2130706433/",
        "https://[::1]/",
        "https://[x/",
        "hooks.example.com",
        "",
    ],
)
def test_other_hosts_do_not(url: str) -> None:
    names = Names([])
    sender = WebSender(EgressRules(("hooks.example.com",)), SystemClock(), names)
    with pytest.raises(Refused):
        sender.send(_post(url), 10)
    assert names.asked == []  # refused before a name server hears of it


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(Refused, match="allow-list"):
        EgressRules().check_url("https://hooks.example.com/")


# ---- addresses -----------------------------------------------------------------------------------

PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "169.254.169.254",  # metadata of a machine
    "169.254.170.2",  # credentials of a container
    "168.63.129.16",  # the platform of Azure, at a public address
    "::ffff:168.63.129.16",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2001:0:53aa:64c::",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata of a machine
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(Refused, match="address of the host is not public"):
        EgressRules().check_address(address, "https")


@pytest.mark.parametrize("others", [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC]])
def test_one_address_that_is_not_public_is_enough(others: list[str]) -> None:
    sender = WebSender(EgressRules(("hooks.test",)), SystemClock(), Names([others]))
    with pytest.raises(Refused):
        sender.send(_post("https://hooks.test/"), 10)


@pytest.mark.parametrize("address", [PUBLIC, f"::ffff:{PUBLIC}", "2606:2800:21f:cb07::1"])
def test_public_addresses_pass(address: str) -> None:
    EgressRules().check_address(address, "https")


@pytest.mark.parametrize(
    "address", [each for each in PRIVATE if not ip_address(each.split("%")[0]).is_loopback]
)
def test_the_switch_for_loopback_opens_nothing_else(address: str) -> None:
    if address == "::ffff:127.0.0.1":
        return
    for scheme in ("http", "https"):
        with pytest.raises(Refused):
            LOCAL.check_address(address, scheme)


def test_http_needs_a_loopback_address() -> None:
    with pytest.raises(Refused, match="https://"):
        LOCAL.check_address(PUBLIC, "http")
    LOCAL.check_address("127.0.0.1", "http")
    LOCAL.check_address("::1", "http")


def test_a_name_is_looked_up_once_and_the_connection_goes_there() -> None:
    """A name that means another address at the second look-up gains nothing."""
    with served(answering()) as web:
        names = Names([["127.0.0.1"], ["169.254.169.254"]])
        url = f"http://hooks.test:{web.port}/"
        assert WebSender(LOCAL, SystemClock(), names).send(_post(url), 10).status == 200
        assert names.asked == [("hooks.test", web.port)]
        assert f"Host: hooks.test:{web.port}".encode() in web.requests[0]


def test_the_resolver_of_the_system_answers_or_is_left_behind() -> None:
    assert "127.0.0.1" in system_resolve("127.0.0.1", 80, 10)
    assert system_resolve("no-such-name.invalid", 80, 30) == []
    tested = threading.Event()

    def slow(*_asked: object, type: int) -> list[object]:
        tested.wait()
        return []

    try:
        for seconds in (0.01, -1.0):
            with pytest.raises(Unavailable, match="not resolved in time"):
                system_resolve("127.0.0.1", 80, seconds, slow)
    finally:
        tested.set()


# ---- tls -----------------------------------------------------------------------------------------


def _certificate(folder: Path, name: str) -> Path:
    """A certificate for one name, and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.mark.parametrize("name", ["hooks.test", "other.test"])
def test_the_certificate_must_name_the_host_and_not_the_address(tmp_path: Path, name: str) -> None:
    path = _certificate(tmp_path, name)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(path)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    with theirs.wrap_socket(connection, server_side=True) as secure:
                        secure.recv(65_536)
                        answering()(secure, b"")
                except (ssl.SSLError, OSError):
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        ours = lambda: ssl.create_default_context(cafile=str(path))  # noqa: E731
        sender = WebSender(LOCAL, SystemClock(), Names([["127.0.0.1"]]), ours)
        request = _post(f"https://hooks.test:{port}/")
        if name == "hooks.test":
            assert sender.send(request, 10) == Reply(200, b"ok")
        else:
            with pytest.raises(Unavailable, match="SSLCertVerificationError"):
                sender.send(request, 10)
        thread.join()
