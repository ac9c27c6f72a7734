"""Logins with codes of an identity provider: what is asked, what is believed, what is refused."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import pytest

from graveler.auth.authenticator import Authenticator, Proof, user_of
from graveler.auth.jwks import GivenKeys
from graveler.auth.oidc import CodeLogin, OidcClient, OidcIssuer
from graveler.auth.principals import Assignment, Change, created
from graveler.auth.proofs import login
from graveler.auth.throttling import Rates
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Invalid, Refused, Throttled, Unauthenticated, Unavailable
from graveler.core.web import Outgoing, Reply, Sender
from tests.auth.bench import Lake
from tests.auth.provider import (
    AUDIENCE,
    CLIENT,
    CLIENT_SECRET,
    ISSUER,
    REDIRECT,
    START,
    FakeProvider,
    key_set,
    token,
)
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS

NOW = START + 10
OIDC = OidcIssuer(ISSUER, AUDIENCE, GivenKeys(key_set()), groups_claim="groups")
KNOWN = OidcClient(CLIENT, CLIENT_SECRET, frozenset((REDIRECT,)))


def login_of(sender: Sender, clock: Clock | None = None, known: OidcClient = KNOWN) -> CodeLogin:
    return CodeLogin(OIDC, known, sender, clock or TickingClock())


def saying(**said: Any) -> FakeProvider:
    return FakeProvider(lambda code: token(aud=CLIENT, **said) if code == "good" else "")


def test_a_code_is_exchanged_for_who_the_caller_is() -> None:
    provider = saying(groups=["team"], email="carl@example.com", email_verified=True)
    codes = login_of(provider)
    said = codes.claims("good", REDIRECT, NOW)
    assert (said.user, said.email, said.groups) == ("carl", "carl@example.com", ("team",))
    assert said.principal == f"oidc:{ISSUER}#s-1"  # as with a bearer token
    described, exchanged = provider.requests
    assert CLIENT_SECRET not in str(described)
    assert parse_qs(exchanged.body.decode()) == {
        "grant_type": ["authorization_code"], "code": ["good"], "redirect_uri": [REDIRECT],
    }  # fmt: skip
    codes.claims("good", REDIRECT, NOW)
    assert len(provider.requests) == 3  # the description is known


def test_the_secret_goes_into_the_body_only_if_the_provider_wants_it_there() -> None:
    for methods, has_header in (
        (["client_secret_post"], False),
        (["client_secret_post", "client_secret_basic"], True),
        (["private_key_jwt"], True),
        ("x", True),
    ):
        provider = saying()
        provider.described = {"token_endpoint_auth_methods_supported": methods}
        assert login_of(provider).claims("good", REDIRECT, NOW).user == "carl"
        assert ("Authorization" in provider.requests[-1].headers) is has_header


@pytest.mark.parametrize(
    "said",
    [{"aud": AUDIENCE}, {"aud": "other"}, {"aud": [CLIENT, "other"]}, {"azp": "other"},
     {"aud": [CLIENT, "other"], "azp": "other"}, {"iss": "https://evil.example"},
     {"exp": NOW}, {"iat": NOW + 100}, {"sub": ""}, {"kid": "unknown"}],
)  # fmt: skip
def test_an_id_token_is_believed_only_if_it_is_for_this_client(said: dict[str, Any]) -> None:
    """`AUDIENCE` is that of bearer tokens: a token for the API is no proof of a login."""
    kid = said.get("kid", "r")
    claims = {"aud": CLIENT, **{name: value for name, value in said.items() if name != "kid"}}
    with pytest.raises(Unauthenticated):
        login_of(FakeProvider(lambda _: token(kid, **claims))).claims("good", REDIRECT, NOW)


def test_a_client_among_several_must_be_the_one_that_asked() -> None:
    several = FakeProvider(lambda _: token(aud=[CLIENT, "other"], azp=CLIENT))
    assert login_of(several).claims("good", REDIRECT, NOW).user == "carl"


def test_only_redirect_uris_of_the_deployment_are_passed_on() -> None:
    provider = saying()
    for uri in (REDIRECT + "/", REDIRECT.upper(), REDIRECT + "?a=b", "https://evil.example/", ""):
        with pytest.raises(Invalid, match="GRAVELER_OIDC_REDIRECTS"):
            login_of(provider).claims("good", uri, NOW)
    assert provider.requests == []


class Answering:
    """A provider that gives one answer to a code."""

    def __init__(self, status: int, body: bytes) -> None:
        self.reply = Reply(status, body)
        self.provider = saying()

    def send(self, request: Outgoing, seconds: float) -> Reply:
        usual = self.provider.send(request, seconds)
        return usual if request.method == "GET" else self.reply


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b'{"error": "invalid_grant"}', Unauthenticated),
        (400, b'{"error": "invalid_request"}', Unauthenticated),
        (403, b'{"error": "invalid_grant"}', Unauthenticated),  # some answer so
        (400, b"<html>", Unauthenticated),
        (400, b'{"error": 7}', Unauthenticated),
        (401, b'{"error": "invalid_client"}', Unavailable),
        (400, b'{"error": "unauthorized_client"}', Unavailable),
        (401, b"", Unavailable),
        (302, b"", Unavailable),
        (500, b"", Unavailable),
        (200, b"", Unavailable),
        (200, b"[]", Unavailable),
        (200, b"{}", Unavailable),
        (200, b'{"id_token": 7}', Unavailable),
        (200, b"[" * 60_000, Unavailable),
        (200, json.dumps({"id_token": "x" * 16_385}).encode(), Unavailable),
        (200, b'{"id_token": "a.b.c"}', Unauthenticated),
    ],
)
def test_what_the_provider_may_answer(status: int, body: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        login_of(Answering(status, body)).claims("good", REDIRECT, NOW)
    assert CLIENT_SECRET not in str(raised.value) and "canary" not in str(raised.value)


@pytest.mark.parametrize(
    "described",
    [{"issuer": ISSUER + "/"}, {"issuer": "https://evil.example"}, {"token_endpoint": None},
     {"token_endpoint": 7}],
)  # fmt: skip
def test_a_description_of_another_issuer_is_not_believed(described: dict[str, Any]) -> None:
    provider = saying()
    provider.described = described
    with pytest.raises(Unavailable):
        login_of(provider).claims("good", REDIRECT, NOW)
    assert [each.method for each in provider.requests] == ["GET"]


class Failing:
    """A provider that answers only while it is up."""

    def __init__(self) -> None:
        self.provider, self.up, self.asked = saying(), False, 0

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.asked += request.method == "GET"
        if not self.up and request.method == "GET":
            raise Unavailable("down")
        return self.provider.send(request, seconds)


def test_a_provider_that_is_down_is_asked_twice_a_minute_and_its_description_lasts_a_day() -> None:
    clock, sender = TickingClock(), Failing()
    codes = login_of(sender, clock)

    def logs_in() -> bool:
        try:
            return codes.claims("good", REDIRECT, NOW).user == "carl"
        except Unavailable:
            return False

    assert not any(logs_in() for _ in range(3)) and sender.asked == 1
    clock.sleep(limits.key_set_retry_seconds)
    sender.up = True
    assert logs_in() and logs_in() and sender.asked == 2
    sender.up = False
    clock.sleep(limits.key_set_seconds_max)
    assert logs_in() and logs_in() and sender.asked == 3
    clock.sleep(limits.key_set_stale_seconds_max)
    assert not logs_in() and not logs_in() and sender.asked == 4


class Refusing:
    def send(self, request: Outgoing, seconds: float) -> Reply:
        raise Refused("host is not on the allow-list")


def test_an_endpoint_elsewhere_is_not_asked_and_the_setting_is_named() -> None:
    with pytest.raises(Unavailable, match="GRAVELER_OIDC_HOSTS"):
        login_of(Refusing()).claims("good", REDIRECT, NOW)


def test_the_secret_is_in_no_description_of_the_client() -> None:
    assert CLIENT_SECRET not in repr(KNOWN)


def test_a_login_makes_the_user_once_and_ends_with_its_principal() -> None:
    lake = Lake()
    auth = Authenticator(lake.keeper())
    now = auth.sessions.now()
    codes = login_of(FakeProvider(lambda _: token(aud=CLIENT, iat=now, exp=now + 60)))
    changes: list[Change] = []

    def enter() -> str:
        return login(
            auth,
            "code",
            lambda now: user_of(auth, codes.claims("any", REDIRECT, now), changes),
            600,
            "192.0.2.1",
        ).token

    session = f"Bearer {enter()}".encode()
    caller = auth.identify(session, "")
    assert caller.user == "carl" and changes[0] == created("carl", caller.record.uid)
    assert auth.identify(f"Bearer {enter()}".encode(), "").record.uid == caller.record.uid
    lake.clock.sleep(600)
    with pytest.raises(Unauthenticated):
        auth.identify(session, "")


def test_wrong_codes_count_as_failed_logins() -> None:
    lake = Lake()
    auth = Authenticator(lake.keeper(), rates=Rates()._replace(by_address=3))
    provider = saying()
    codes = login_of(provider)

    def enter() -> None:
        def prove(now: int) -> Assignment:
            return user_of(auth, codes.claims("bad", REDIRECT, now), [])

        login(auth, "code", prove, 60, "192.0.2.1")

    for _ in range(3):
        with pytest.raises(Unauthenticated):
            enter()
    asked = len(provider.requests)
    with pytest.raises(Throttled):
        enter()
    assert len(provider.requests) == asked  # the provider is left alone


def test_only_some_logins_wait_for_a_provider() -> None:
    """Who is slow to answer, and whoever sends codes to it, holds no more threads."""
    lake = Lake()
    auth = Authenticator(lake.keeper())
    asked, answer = threading.Semaphore(0), threading.Event()

    def slow(code: str) -> str:
        asked.release()
        assert answer.wait(PATIENCE_SECONDS)
        return ""

    codes = login_of(FakeProvider(slow))

    def log_in(proof: Proof = "code") -> None:
        def prove(now: int) -> Assignment:
            return user_of(auth, codes.claims("good", REDIRECT, now), [])

        login(auth, proof, prove, 60, "")

    with ThreadPoolExecutor(limits.external_logins_max) as pool:
        waiting = [pool.submit(log_in) for _ in range(limits.external_logins_max)]
        for _ in waiting:
            assert asked.acquire(timeout=PATIENCE_SECONDS)
        with pytest.raises(Throttled, match="at the same time"):
            log_in()
        other = threading.Thread(target=pytest.raises, args=(Unauthenticated, log_in, "iam"))
        other.start()
        assert asked.acquire(timeout=PATIENCE_SECONDS)  # another kind of proof has room
        answer.set()
        other.join(PATIENCE_SECONDS)
        assert {type(each.exception()) for each in waiting} == {Unauthenticated}
    with pytest.raises(Unauthenticated):
        log_in()  # there is room again
