"""What the service tells browsers: pages of other origins get nothing, and secrets are not kept."""

import pytest

from tests.api.samples import ALL, Sample
from tests.api.serving import ADMINISTRATOR, API, USER, Client, Reply, Served

EVIL = "https://evil.example"
PAGES = ("/", "/docs", "/openapi.json", "/_health", "/nothing", "/metrics")


def _foreign(live: Served, method: str, path: str, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return live.client.raw(method, path, headers={"Origin": EVIL, **named})


def _shared(reply: Reply) -> list[str]:
    return [name for name in reply.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(("operation", "one"), ALL, ids=[name for name, _ in ALL])
def test_no_answer_is_shared_with_another_origin(live: Served, operation: str, one: Sample) -> None:
    """Neither an answer nor what a browser asks before a request allows another origin."""
    asked = _foreign(
        live,
        "OPTIONS",
        API + one.path,
        Access_Control_Request_Method=one.method,
        Access_Control_Request_Headers="authorization",
    )
    assert asked.status in (404, 405) and not _shared(asked)
    if one.method == "GET":
        assert not _shared(_foreign(live, "GET", API + one.path))


def test_no_page_is_shared_with_another_origin(live: Served) -> None:
    for path in PAGES:
        assert not _shared(_foreign(live, "GET", path))


def test_answers_with_secrets_are_not_kept(live: Served) -> None:
    known = ADMINISTRATOR
    body = {"access_key_id": known.access_key_id, "secret_access_key": known.secret_access_key}
    anonymous = Client(live.client.host, live.client.port, "")
    session = anonymous.send("POST", "/auth/login", body=body)
    key = live.client.send("POST", f"/auth/users/{USER}/credentials")
    assert (session.status, key.status) == (200, 201)
    for reply in (session, key):
        assert reply.headers["cache-control"] == "no-store"
    shown = live.client.send("GET", f"/auth/users/{USER}/credentials/{key.json['access_key_id']}")
    listed = live.client.send("GET", f"/auth/users/{USER}/credentials")
    for reply in (shown, listed):
        assert reply.status == 200 and key.json["secret_access_key"] not in reply.body.decode()


def test_pages_and_answers_are_taken_for_nothing_else_and_stand_in_no_frame(live: Served) -> None:
    for path in PAGES[:2]:
        page = live.client.raw("GET", path)
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert page.headers["x-frame-options"] == "DENY"
    for path in (*PAGES, API + "/repositories", API + "/user", API + "/nothing"):
        assert live.client.raw("GET", path).headers["x-content-type-options"] == "nosniff", path


def test_logout_leads_nowhere_else(live: Served) -> None:
    for query in ("?next=https://evil.example", "?redirect=//evil.example", "?url=evil"):
        reply = live.client.raw("GET", "/logout" + query)
        assert (reply.status, reply.headers["location"]) == (307, "/")
