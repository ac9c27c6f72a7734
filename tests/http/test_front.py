"""How clients reach the service: forwarded headers, the public URL, cookies over TLS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graveler.api.pages import HEALTH_PATHS
from graveler.core.errors import Invalid
from graveler.http.front import Front, Origin, network, public_url
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, Client, Reply, Served, served

PROXIES = (network("10.0.0.0/8"), network("fd00::/8"))
LOGIN = {
    "access_key_id": ADMINISTRATOR.access_key_id,
    "secret_access_key": ADMINISTRATOR.secret_access_key,
}
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "lake.example"}


def _scope(peer: str, *headers: tuple[str, str]) -> dict[str, Any]:
    given = [(b"host", b"inner:8000")]
    given += [(name.lower().encode(), value.encode()) for name, value in headers]
    return {"scheme": "http", "client": (peer, 9) if peer else None, "headers": given}


PROTO, HOST, FOR = "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-For"


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("10.1.1.1", [], ("http", "inner:8000", "10.1.1.1")),
        ("10.1.1.1", [(PROTO, "https")], ("https", "inner:8000", "10.1.1.1")),
        ("10.1.1.1", [(PROTO, "http, https")], ("https", "inner:8000", "10.1.1.1")),
        ("10.1.1.1", [(PROTO, "gopher")], ("http", "inner:8000", "10.1.1.1")),
        ("10.1.1.1", [(HOST, "a.example, b.example")], ("http", "b.example", "10.1.1.1")),
        ("10.1.1.1", [(HOST, "a/b")], ("http", "inner:8000", "10.1.1.1")),
        ("10.1.1.1", [(FOR, "9.9.9.9")], ("http", "inner:8000", "9.9.9.9")),
        ("10.1.1.1", [(FOR, "1.1.1.1, 9.9.9.9, 10.2.2.2")], ("http", "inner:8000", "9.9.9.9")),
        ("10.1.1.1", [(FOR, "1.1.1.1"), (FOR, "9.9.9.9")], ("http", "inner:8000", "9.9.9.9")),
        ("10.1.1.1", [(FOR, "10.3.3.3")], ("http", "inner:8000", "10.3.3.3")),
        ("10.1.1.1", [(FOR, "9.9.9.9, nonsense")], ("http", "inner:8000", "10.1.1.1")),
        ("::ffff:10.1.1.1", [(FOR, "9.9.9.9")], ("http", "inner:8000", "9.9.9.9")),
        ("fd00::1", [(FOR, "2001:db8::1")], ("http", "inner:8000", "2001:db8::1")),
        ("9.9.9.9", [(PROTO, "https"), (HOST, "x"), (FOR, "1.1.1.1")],
         ("http", "inner:8000", "9.9.9.9")),
        ("", [(PROTO, "https")], ("http", "inner:8000", "")),
    ],
)  # fmt: skip
def test_forwarded_headers_count_from_trusted_proxies_only(
    peer: str, headers: list[tuple[str, str]], expected: tuple[str, str, str]
) -> None:
    found = Front(trusted_proxies=PROXIES).origin(_scope(peer, *headers))
    assert found == Origin(*expected)


LAKE = "https://lake.example"


@pytest.mark.parametrize(
    ("peer", "headers", "url", "refused"),
    [
        ("127.0.0.1", [], "", False),
        ("127.8.8.8", [], "", False),
        ("::1", [], "", False),
        ("::ffff:127.0.0.1", [], "", False),
        ("9.9.9.9", [], "", True),
        ("2001:db8::1", [], LAKE, True),
        ("::ffff:9.9.9.9", [], "", True),
        ("", [], "", True),
        ("9.9.9.9", [(PROTO, "https")], LAKE, True),  # anybody can claim it
        ("10.1.1.1", [(PROTO, "https")], "", False),
        ("10.1.1.1", [(PROTO, "http")], LAKE, True),
        ("10.1.1.1", [(PROTO, "https, http")], LAKE, True),
        ("10.1.1.1", [], LAKE, False),
        ("10.1.1.1", [], "http://lake.example", True),
        ("10.1.1.1", [], "", True),
        ("10.1.1.1", [(FOR, "127.0.0.1")], "", False),  # the client runs beside the proxy
        ("10.1.1.1", [(FOR, "127.0.0.1, 9.9.9.9")], "", True),
    ],
)
def test_other_machines_must_use_tls(
    peer: str, headers: list[tuple[str, str]], url: str, refused: bool
) -> None:
    scope = _scope(peer, *headers)
    assert Front(url, PROXIES, tls_only=True).refuses(scope) == refused
    assert not Front(url, PROXIES).refuses(scope)


@pytest.mark.parametrize(
    ("peer", "reported", "refused"),
    [("9.9.9.9", "", False), ("9.9.9.9", "http", False), ("10.1.1.1", "http", True)],
)
def test_tls_that_ends_here_counts_unless_a_proxy_reports_otherwise(
    peer: str, reported: str, refused: bool
) -> None:
    scope = _scope(peer, *([(PROTO, reported)] if reported else []))
    assert Front("", PROXIES, tls_only=True).refuses({**scope, "scheme": "https"}) == refused


def test_a_request_by_plain_http_from_another_machine_does_nothing(tmp_path: Path) -> None:
    """Not even with the right credentials."""
    front = Front(trusted_proxies=(network("127.0.0.1"),), tls_only=True)
    elsewhere = {FOR: "9.9.9.9", PROTO: "http"}
    with served(tmp_path / "store", settings=ServiceSettings(front=front)) as live:
        client = live.client
        for path in ("/api/v1/config", "/", "/docs", "/lake/main/a", "/metrics"):
            answer = client.raw("GET", path, headers=elsewhere)
            assert answer.status == 403 and b"use TLS" in answer.body, path
        login = client.send("POST", "/auth/login", body=LOGIN, headers=elsewhere)
        assert login.status == 403 and "set-cookie" not in login.headers
        for path in HEALTH_PATHS:
            assert client.raw("GET", path, headers=elsewhere).status == 200
        assert client.send("GET", "/config").status == 200
        assert client.send("GET", "/config", headers={**elsewhere, PROTO: "https"}).status == 200


def test_nobody_is_trusted_by_default() -> None:
    found = Front().origin(_scope("127.0.0.1", (PROTO, "https"), (FOR, "1.1.1.1")))
    assert found == Origin("http", "inner:8000", "127.0.0.1")


def test_the_public_url_decides_alone() -> None:
    front = Front("https://lake.example", PROXIES)
    found = front.origin(_scope("10.1.1.1", (PROTO, "http"), (HOST, "x"), (FOR, "9.9.9.9")))
    assert found == Origin("https", "lake.example", "9.9.9.9")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://Lake.Example", "https://lake.example"),
        ("https://lake.example:443/", "https://lake.example"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("https://lake.example:8443", "https://lake.example:8443"),
        ("https://[::1]:9", "https://[::1]:9"),
    ],
)
def test_public_urls(text: str, kept: str) -> None:
    assert public_url(text) == kept


@pytest.mark.parametrize(
    "text",
    ["", "lake.example", "ftp://a", "https://", "https://a/b", "https://a?b", "https://a#b",
     "https://u:p@a", "https://a b", "https://a:0", "https://a:x", "https://a:99999"],
)  # fmt: skip
def test_what_is_no_public_url_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="public URL invalid"):
        public_url(text)


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "a", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="trusted proxy invalid"):
        network(text)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that trusts a proxy on this machine."""
    settings = ServiceSettings(front=Front(trusted_proxies=(network("127.0.0.1"),)))
    store = tmp_path_factory.mktemp("behind") / "store"
    with served(store, settings=settings) as running:
        yield running


def _login(live: Served, **headers: str) -> Reply:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    anonymous = Client(live.client.host, live.client.port, "")
    return anonymous.send("POST", "/auth/login", body=LOGIN, headers=given)


def test_over_tls_the_session_is_a_secure_cookie_of_this_host_alone(behind: Served) -> None:
    anonymous = Client(behind.client.host, behind.client.port, "")
    plain, secure = _login(behind), _login(behind, X_Forwarded_Proto="https")
    assert plain.headers["set-cookie"].startswith("internal_auth_session=")
    assert "Secure" not in plain.headers["set-cookie"]
    name, _, rest = secure.headers["set-cookie"].partition("=")
    token, _, attributes = rest.partition("; ")
    assert name == "__Host-internal_auth_session"
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(attributes.split("; "))
    assert "Domain" not in attributes

    def status(cookie: str, **more: str) -> int:
        return anonymous.send("GET", "/user", headers={"Cookie": cookie, **more}).status

    assert status(f"{name}={token}", **FORWARDED) == 200
    assert status(f"internal_auth_session={token}", **FORWARDED) == 401  # a neighbour's, perhaps
    assert status(f"internal_auth_session={token}") == 200
    state = anonymous.send("GET", "/setup_lakefs", headers=FORWARDED).json
    assert state["login_config"]["login_cookie_names"] == [name]
    out = anonymous.raw("GET", "/logout", headers=FORWARDED).headers["set-cookie"]
    assert out.startswith(f"{name}=; ") and "Secure" in out


def test_over_tls_browsers_are_told_to_come_back_by_tls(behind: Served) -> None:
    for path in ("/", "/docs", "/logout", "/nothing"):
        secure = behind.client.raw("GET", path, headers=FORWARDED)
        assert secure.headers["strict-transport-security"] == "max-age=31536000"
        assert "strict-transport-security" not in behind.client.raw("GET", path).headers
        here = FORWARDED | {"X-Forwarded-Host": "localhost:8443"}
        answer = behind.client.raw("GET", path, headers=here)
        assert "strict-transport-security" not in answer.headers  # others share this name


def test_writes_of_a_session_come_from_the_host_that_the_proxy_names(behind: Served) -> None:
    anonymous = Client(behind.client.host, behind.client.port, "")
    cookie = _login(behind, **FORWARDED).headers["set-cookie"].partition(";")[0]

    def status(origin: str) -> int:
        headers = {**FORWARDED, "Cookie": cookie, "Origin": origin, "X-Graveler-Page": "1"}
        return anonymous.send("POST", "/statistics", body={"events": []}, headers=headers).status

    assert status("https://lake.example") == 204
    assert status("https://evil.example") == 401
    assert status(behind.client.url) == 401


def test_signed_urls_name_the_host_that_the_proxy_names(behind: Served) -> None:
    repo = behind.fresh_repository()
    behind.client.upload(repo, "a", b"x")
    where, query = f"/repositories/{repo}/refs/main/objects", {"path": "a", "presign": "true"}
    reply = behind.client.send("GET", where, query, headers=FORWARDED)
    assert reply.headers["location"].startswith("https://lake.example/_presigned/")


def test_with_a_public_url_clients_are_told_to_use_signed_urls(tmp_path: Path) -> None:
    with served(tmp_path / "store", public=True) as live:
        told = live.client.send("GET", "/config/storage").json
        assert told["pre_sign_support"] is True
        repo = live.fresh_repository()
        live.client.upload(repo, "a", b"x")
        where, query = f"/repositories/{repo}/refs/main/objects", {"path": "a", "presign": "true"}
        reply = live.client.send("GET", where, query, headers={"Host": "evil.example"})
        assert reply.headers["location"].startswith(live.client.url + "/_presigned/")


def test_without_one_bytes_go_through_the_service(behind: Served) -> None:
    assert behind.client.send("GET", "/config/storage").json["pre_sign_support"] is False


def test_with_a_public_url_a_session_writes_from_that_origin_only(tmp_path: Path) -> None:
    settings = ServiceSettings(front=Front("https://lake.example"))
    with served(tmp_path / "store", settings=settings) as live:
        anonymous = Client(live.client.host, live.client.port, "")
        cookie = _login(live).headers["set-cookie"].partition(";")[0]
        assert cookie.startswith("__Host-")
        for origin, status in (
            ("https://lake.example", 204),
            ("http://lake.example", 401),
            (live.client.url, 401),
            ("null", 401),
        ):
            headers = {"Cookie": cookie, "Origin": origin, "X-Graveler-Page": "1"}
            reply = anonymous.send("POST", "/statistics", body={"events": []}, headers=headers)
            assert reply.status == status, origin


def test_a_session_writes_from_the_names_that_a_cdn_hides(tmp_path: Path) -> None:
    """A CDN passes on its own `Host`, and the `Origin` of the page that it shows."""
    front = Front(own_hosts=("d1.cdn.example",))
    settings = ServiceSettings(front=front)
    with served(tmp_path / "store", settings=settings) as live:
        cookie = _login(live).headers["set-cookie"].partition(";")[0]
        anonymous = Client(live.client.host, live.client.port, "")

        def status(origin: str, site: str = "same-origin") -> int:
            proof = {"Cookie": cookie, "Origin": origin, "Sec-Fetch-Site": site}
            headers = {**proof, "X-Graveler-Page": "1"}
            body = {"events": list[object]()}
            return anonymous.send("POST", "/statistics", body=body, headers=headers).status

        assert status("https://d1.cdn.example") == status(live.client.url) == 204
        assert status("https://d2.cdn.example") == 401
        assert status("https://d1.cdn.example", "cross-site") == 401
