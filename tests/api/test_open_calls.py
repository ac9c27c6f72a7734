"""What needs no credentials cannot be called by a page of another site."""

from pathlib import Path

import pytest

from graveler.api.dispatch import knows_host
from graveler.http.front import Front
from tests.api.serving import ADMINISTRATOR, API, Client, Served, served

BODY = b'{"username": "eve"}'
JSON = {"Content-Type": "application/json"}
OPEN = (("POST", "/setup_lakefs"), ("POST", "/auth/login"),
        ("POST", "/auth/external/principal/login"), ("POST", "/sts/login"),
        ("GET", "/setup_lakefs"), ("GET", "/auth/capabilities"))  # fmt: skip


@pytest.fixture
def anonymous(client: Client) -> Client:
    return Client(client.host, client.port, "")


def login(anonymous: Client, **headers: str) -> int:
    known = ADMINISTRATOR
    body = {"access_key_id": known.access_key_id, "secret_access_key": known.secret_access_key}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return anonymous.send("POST", "/auth/login", body=body, headers=named).status


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonx",
    ],
)
def test_a_fresh_server_is_not_taken_over_by_a_form(tmp_path: Path, kind: str) -> None:
    with served(tmp_path / "store", administrator=False) as live:
        anonymous = Client(live.client.host, live.client.port, "")
        token = {"X-Graveler-Setup-Token": live.service.auth.setup_token}
        headers = token | ({"Content-Type": kind} if kind else {})
        reply = anonymous.raw("POST", API + "/setup_lakefs", BODY, headers)
        assert (reply.status, "application/json" in reply.message) == (400, True)
        assert anonymous.send("GET", "/setup_lakefs").json["state"] == "not_initialized"
        charset = {"Content-Type": "application/json; charset=utf-8"}
        assert anonymous.raw("POST", API + "/setup_lakefs", BODY, token | charset).status == 200


def test_logins_come_from_the_services_own_pages(live: Served, anonymous: Client) -> None:
    assert login(anonymous) == 200
    assert login(anonymous, Origin=anonymous.url) == 200
    for origin in ("https://evil.example", "null", anonymous.url + ".evil.example"):
        assert login(anonymous, Origin=origin) == 403
    assert login(anonymous, Content_Type="text/plain") == 400


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_a_name_that_was_made_to_lead_here_is_refused(
    anonymous: Client, method: str, path: str
) -> None:
    """DNS rebinding: for the browser the page and the service are one site."""
    evil = f"evil.example:{anonymous.port}"
    headers = {"Host": evil, "Origin": f"http://{evil}"}
    body = BODY if method == "POST" else None
    reply = anonymous.raw(method, API + path, body, JSON | headers)
    assert (reply.status, reply.message[:19]) == (403, "host is not allowed")


def test_health_is_told_to_anybody(anonymous: Client) -> None:
    headers = {"Host": "balancer.example", "Origin": "https://other.example"}
    assert anonymous.send("GET", "/healthcheck", headers=headers).status == 204


@pytest.mark.parametrize(
    ("front", "host", "expected"),
    [
        (Front(), "", True),
        (Front(), "localhost:8000", True),
        (Front(), "lake.localhost", True),
        (Front(), "10.0.0.1:8000", True),
        (Front(), "[::1]:8000", True),
        (Front(), "lake.example", False),
        (Front(), "localhost.evil.example", False),
        (Front(), "127.0.0.1.evil.example", False),
        (Front("https://lake.example:8443"), "lake.example", True),
        (Front("https://lake.example"), "lake.example.", True),
        (Front("https://lake.example"), "evil.lake.example", False),
        (Front(hosts=("Lake",)), "lake:8000", True),
        (Front(hosts=("*",)), "anything.example", True),
    ],
)
def test_hosts_that_are_known(front: Front, host: str, expected: bool) -> None:
    assert knows_host(front, host) is expected
