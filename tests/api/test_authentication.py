"""No route answers a caller without right credentials, but those of the open list."""

import base64
import json
import re
from typing import Any

import jwt
import pytest

from graveler.api.operation import OPEN
from graveler.auth import secrets, sessions
from graveler.auth.keyrings import RingKey
from graveler.core.errors import Internal
from graveler.core.records import ABSENT
from tests.api.samples import ALL, Sample
from tests.api.serving import ADMINISTRATOR, API, USER, Client, Reply, Served, basic

CLOSED = [(operation, one) for operation, one in ALL if operation not in OPEN]


def _key(live: Served) -> RingKey:
    return live.service.auth.keeper.sessions.current()


def _account_epoch(live: Served) -> str:
    account = live.service.auth.account()
    if account is ABSENT:
        raise Internal("no administrator")
    return account.epoch


def _now(live: Served) -> int:
    return live.embedded.ports.clock.now_ns() // 10**9


def _token(
    live: Served, *, now: int = 0, secret: bytes = b"", key_id: str = "", epoch: str = ""
) -> str:
    key = _key(live)
    key = RingKey(key_id or key.id, secret or key.secret)
    epoch = epoch or _account_epoch(live)
    return sessions.issue(key, USER, epoch, now or _now(live), "id").token


def _claims(live: Served) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(_token(live), options={"verify_signature": False})
    return claims


def _signed(live: Served, claims: dict[str, Any]) -> str:
    """A token with any claims, signed by the right key."""
    key = _key(live)
    return jwt.encode(claims, key.secret, "HS256", headers={"kid": key.id})


def _unsigned(live: Served) -> str:
    claims = _claims(live)
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode())
    body = base64.urlsafe_b64encode(json.dumps(claims).encode())
    return f"{head.decode().rstrip('=')}.{body.decode().rstrip('=')}."


def _hs512(live: Served) -> str:
    key = _key(live)
    return jwt.encode(_claims(live), key.secret * 2, "HS512", headers={"kid": key.id})


def hostile_headers(live: Served) -> dict[str, dict[str, str]]:
    """Credentials that must not be accepted, by what is wrong with them."""
    key, secret = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
    bearer = {
        "expired": _token(live, now=_now(live) - sessions.LIFE_SECONDS - 1),
        "from the future": _token(live, now=_now(live) + 3600),
        "other key": _token(live, secret=b"x" * 32),
        "unknown key": _token(live, key_id="0" * 16),
        "endless key": _token(live, key_id="0" * 1000),
        "derived key": jwt.encode(
            _claims(live), secrets.derive(live.embedded.secret, "sessions"), "HS256"
        ),
        "no key": jwt.encode(_claims(live), _key(live).secret, "HS256"),
        "ended by a reset": _token(live, epoch="0" * 32),
        "unsigned": _unsigned(live),
        "other algorithm": _hs512(live),
        "other audience": _signed(live, {**_claims(live), "aud": "other"}),
        "everlasting": _signed(live, {**_claims(live), "exp": _now(live) + 10**9}),
        "not yet": _signed(live, {**_claims(live), "nbf": _now(live) + 3600}),
        "without nbf": _signed(live, {n: v for n, v in _claims(live).items() if n != "nbf"}),
        "garbage": "x.y.z",
        "nothing": "",
    }
    found = {f"bearer: {what}": {"Authorization": f"Bearer {t}"} for what, t in bearer.items()}
    found |= {
        "none": {},
        "wrong secret": {"Authorization": basic(key, "nope")},
        "secret with more": {"Authorization": basic(key, secret + "x")},
        "empty secret": {"Authorization": basic(key, "")},
        "unknown key": {"Authorization": basic("AKIANOBODY", secret)},
        "not base64": {"Authorization": "Basic !!!"},
        "no colon": {"Authorization": "Basic " + base64.b64encode(b"abc").decode()},
        "not UTF-8": {"Authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()},
        "no scheme": {"Authorization": "abc"},
        "other scheme": {"Authorization": f"Digest {key}"},
        "endless": {"Authorization": "Basic " + "A" * 8192},
        "cookie": {"Cookie": "internal_auth_session=x.y.z"},
        "cookie with the secret": {"Cookie": f"internal_auth_session={secret}"},
    }
    return found


def _send(live: Served, one: Sample, headers: dict[str, str]) -> Reply:
    anonymous = Client(live.client.host, live.client.port, "")
    return anonymous.send(one.method, one.path, one.query, body=one.body, headers=headers)


@pytest.mark.parametrize(("operation", "one"), CLOSED, ids=[operation for operation, _ in CLOSED])
def test_wrong_credentials_are_refused(live: Served, operation: str, one: Sample) -> None:
    for what, headers in hostile_headers(live).items():
        reply = _send(live, one, headers)
        assert reply.status == 401, (operation, what, reply.body)
        if one.method != "HEAD":
            assert reply.json == {"message": "error authenticating request"}


@pytest.mark.parametrize(("operation", "one"), CLOSED, ids=[operation for operation, _ in CLOSED])
def test_nobody_is_told_what_is_wrong_with_a_request(
    live: Served, operation: str, one: Sample
) -> None:
    """Neither with the body nor with the query, a name in the path or a header."""
    anonymous = Client(live.client.host, live.client.port, "")
    query = "?amount=x&path=%FF&presign=x&after=%FF"
    for path in (one.path, re.sub("^/repositories/[^/]+", "/repositories/%FF", one.path)):
        spoiled = {"If-None-Match": "x", "Content-Type": "application/json"}
        reply = anonymous.raw(one.method, API + path + query, b"{no json", spoiled)
        assert reply.status == 401, (operation, reply.body)


@pytest.mark.parametrize(("operation", "one"), CLOSED, ids=[operation for operation, _ in CLOSED])
def test_right_credentials_are_accepted_in_every_form(
    live: Served, operation: str, one: Sample
) -> None:
    token = _token(live)
    for headers in (
        {"Authorization": live.client.authorization},
        {"Authorization": f"Bearer {token}"},
        {
            "Cookie": f"a=b; internal_auth_session={token}; c=d",
            "Sec-Fetch-Site": "same-origin",
            "X-Graveler-Page": "1",
        },
    ):
        reply = _send(live, one, headers)
        assert reply.status not in (401, 500), (operation, reply.body)


@pytest.mark.parametrize(
    ("proof", "status"),
    [
        ({}, 401),  # a cookie alone, as a form of another site would bring it
        ({"Origin": "https://evil.example"}, 401),
        ({"Origin": "null"}, 401),
        ({"Sec-Fetch-Site": "cross-site"}, 401),
        ({"Sec-Fetch-Site": "same-site"}, 401),
        ({"Origin": "own", "Sec-Fetch-Site": "cross-site"}, 401),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, 401),
        ({"Origin": "own"}, 204),
        ({"Sec-Fetch-Site": "same-origin"}, 204),
        ({"Origin": "own", "Sec-Fetch-Site": "same-origin"}, 204),
    ],
)
def test_a_cookie_writes_only_for_a_page_of_the_service(
    live: Served, proof: dict[str, str], status: int
) -> None:
    origin = {name: live.client.url if value == "own" else value for name, value in proof.items()}
    form = {"Cookie": f"internal_auth_session={_token(live)}", **origin}
    headers = {**form, "X-Graveler-Page": "1"}
    anonymous = Client(live.client.host, live.client.port, "")
    assert anonymous.send("GET", "/user", headers=form).status == 200
    reply = anonymous.send("POST", "/statistics", body={"events": []}, headers=headers)
    assert reply.status == status
    reply = anonymous.send("POST", "/statistics", body={"events": []}, headers=form)
    assert reply.status == 401  # a form cannot add the header
    bearer = {"Authorization": f"Bearer {_token(live)}", **origin}
    reply = anonymous.send("POST", "/statistics", body={"events": []}, headers=bearer)
    assert reply.status == 204  # no other site can add this header


def test_login_gives_a_session_of_twelve_hours(live: Served) -> None:
    body = {
        "access_key_id": ADMINISTRATOR.access_key_id,
        "secret_access_key": ADMINISTRATOR.secret_access_key,
    }
    anonymous = Client(live.client.host, live.client.port, "")
    reply = anonymous.send("POST", "/auth/login", body=body)
    assert reply.status == 200
    claims = jwt.decode(reply.json["token"], options={"verify_signature": False})
    assert (claims["iss"], claims["aud"], claims["sub"]) == ("auth", "login", USER)
    assert claims["exp"] - claims["iat"] == 12 * 3600 == sessions.LIFE_SECONDS
    assert reply.json["token_expiration"] == claims["exp"]
    bearer = {"Authorization": f"Bearer {reply.json['token']}"}
    assert anonymous.send("GET", "/user", headers=bearer).json["user"]["id"] == USER
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert anonymous.send("GET", "/user", headers={"Cookie": cookie}).status == 200


@pytest.mark.parametrize("form", ["page", "cookie", "bearer"])
def test_logout_ends_the_session(live: Served, form: str) -> None:
    known = ADMINISTRATOR
    body = {"access_key_id": known.access_key_id, "secret_access_key": known.secret_access_key}
    anonymous = Client(live.client.host, live.client.port, "")
    token = anonymous.send("POST", "/auth/login", body=body).json["token"]
    cookie, bearer = (
        {"Cookie": f"internal_auth_session={token}"},
        {"Authorization": f"Bearer {token}"},
    )
    assert anonymous.raw("HEAD", "/logout", headers=cookie).status == 307  # ends nothing
    for headers in (cookie, bearer):
        assert anonymous.send("GET", "/user", headers=headers).status == 200
    page = {"Sec-Fetch-Site": "same-origin", "Origin": live.client.url, "X-Graveler-Page": "1"}
    for method, headers in (
        ("GET", {"Sec-Fetch-Site": "cross-site"}),
        ("GET", {"Sec-Fetch-Site": "same-origin"}),  # a link of a document that the page shows
        ("POST", {}),
        ("POST", {**page, "X-Graveler-Page": ""}),
        ("POST", {**page, "Sec-Fetch-Site": "cross-site"}),
    ):
        reply = anonymous.raw(method, "/logout", headers={**cookie, **headers})
        assert reply.status in (303, 307) and "set-cookie" not in reply.headers
        assert anonymous.send("GET", "/user", headers=cookie).status == 200
    if form == "page":
        out = anonymous.raw("POST", "/logout", headers={**cookie, **page})
    else:
        out = anonymous.raw("GET", "/logout", headers=cookie if form == "cookie" else bearer)
    assert out.headers["location"] == "/"
    for headers in (cookie, bearer):
        assert anonymous.send("GET", "/user", headers=headers).status == 401
    assert (
        anonymous.raw("GET", "/logout", headers={"Cookie": "internal_auth_session=x"}).status == 307
    )


def test_that_there_is_no_such_call_is_told_to_anybody(live: Served) -> None:
    anonymous = Client(live.client.host, live.client.port, "")
    assert anonymous.raw("GET", API + "/nothing/here").status == 404
