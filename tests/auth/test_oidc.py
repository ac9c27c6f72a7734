"""Bearer tokens of an identity provider: which are accepted, and whose they are."""

import asyncio
import base64
import hashlib
import hmac
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from graveler.auth import directory, entities, jwks, oidc, policies, principals
from graveler.auth.authenticator import Authenticator, Identities
from graveler.auth.directory import MEMBER
from graveler.auth.entities import USERS, Keeper
from graveler.auth.jwks import FetchedKeys, GivenKeys
from graveler.auth.oidc import Claims, OidcIssuer
from graveler.auth.principals import (
    CREATES_USER,
    JOINS_GROUPS,
    Assignment,
    Change,
    created,
    regrouped,
)
from graveler.core import limits
from graveler.core.errors import Invalid, NotFound, Refused, Throttled, Unauthenticated, Unavailable
from graveler.core.records import ABSENT
from graveler.core.web import Outgoing, Reply
from graveler.kv.store import WouldWait
from tests import draws
from tests.auth.bench import Lake, broken
from tests.auth.provider import (
    AUDIENCE,
    ISSUER,
    START,
    ec_key,
    entry,
    key_set,
    rsa_key,
    token,
)
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, stands_at, until

NOW = START + 10


def issuer(raw: bytes = b"", groups_claim: str = "groups") -> OidcIssuer:
    keys = GivenKeys(raw or key_set())
    return OidcIssuer(ISSUER, AUDIENCE, keys, groups_claim=groups_claim)


def claims(text: str, now: int = NOW) -> Claims:
    known = issuer()
    return known.claims(known.verified(text), now)


@pytest.mark.parametrize("kid", ["r", "e"])
def test_a_token_says_who_it_is(kid: str) -> None:
    mail = {"email": "c@example.com", "email_verified": True}
    said = claims(token(kid, sub="a b", **mail, groups=["b", "a", "a", 7, ""]))
    assert said.principal == f"oidc:{ISSUER}#a%20b"
    assert (said.user, said.email, said.groups) == ("carl", "c@example.com", ("a", "b"))
    assert (said.issued, said.expires) == (START, START + 3_600)
    assert claims(token(aud=["other", AUDIENCE])).groups == ()
    assert claims(token(groups="a", nbf=START)).groups == ("a",)


@pytest.mark.parametrize("verified", [True, "true", None, False, "false", 1.5, 0, "yes", [True]])
def test_an_email_counts_only_if_the_provider_has_verified_it(verified: object) -> None:
    """The committer of a commit is the email of its user: nobody may choose that of another."""
    said = claims(token(email="c@example.com", email_verified=verified))
    assert said.email == ("c@example.com" if verified in (True, "true") else "")


@pytest.mark.parametrize(
    "said",
    [{"iss": "https://evil.example"}, {"iss": None}, {"aud": "other"}, {"aud": None}, {"aud": []},
     {"sub": None}, {"sub": ""}, {"sub": "x" * 256}, {"sub": 7}, {"exp": None}, {"iat": None},
     {"iat": START + 100}, {"nbf": START + 100}, {"exp": START + 10}, {"exp": START - 1},
     {"exp": START + 12 * 3600 + 1}, {"exp": 1e300}, {"iat": "x"}, {"exp": True},
     {"nbf": START + 0.5}],
)  # fmt: skip
def test_each_claim_is_checked(said: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        claims(token(**said))


def test_a_token_without_a_user_is_refused() -> None:
    for name in (None, "", 7):
        with pytest.raises(Refused, match="no claim preferred_username"):
            claims(token(preferred_username=name))


def forged(head: dict[str, Any], key: bytes = b"") -> str:
    """A token with a MAC, or without a signature."""
    said = jwt.decode(token(), options={"verify_signature": False})
    text = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (head, said)
    )
    mac = hmac.digest(key, text.encode(), hashlib.sha256) if key else b""
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def test_a_token_cannot_choose_how_it_is_verified() -> None:
    public = rsa_key().public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secrets = [pem, pem.strip(), json.dumps(entry("r")).encode(), entry("r")["n"].encode()]
    texts = [forged({"alg": "HS256", "kid": "r"}, secret) for secret in secrets]
    texts += [forged({"alg": name, "kid": "r"}) for name in ("none", "None", "NONE", "", "RS256")]
    texts += [forged({"alg": "RS256", **head}) for head in ({}, {"kid": None}, {"kid": 7})]
    texts += [
        token("r", algorithm="ES256", key=ec_key()),  # the kid of the other key
        token("e", algorithm="RS256", key=rsa_key()),
        token("r", algorithm="PS256"), token("r", algorithm="RS512"), token("unknown"),
        token("r", key=rsa_key(3_072)),
        token("r", head={"crit": ["exp"], "exp": 1}), "", "a.b.c", "....", "\x00", "é" * 9,
    ]  # fmt: skip
    embedded = token("r", key=rsa_key(3_072), head={"jwk": entry("r", rsa_key(3_072))})
    for text in [*texts, embedded]:
        with pytest.raises(Unauthenticated):
            issuer().verified(text)


@pytest.mark.parametrize("kid", ["r", "e"])
def test_no_changed_token_is_accepted(kid: str) -> None:
    seed = draws.seed()
    chance, known, text = random.Random(seed), issuer(), token(kid)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= \x00é"
    said = known.verified(text)
    for _ in range(1_000):
        letters = list(text)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(letters))
            change = chance.choice(("replace", "remove", "insert"))
            piece = [] if change == "remove" else [chance.choice(alphabet)]
            letters[at : at + (change != "insert")] = piece
        changed = "".join(letters)
        with suppress(Unauthenticated):
            # Base64 has spare bits at its end: another text may be the same token.
            assert known.verified(changed) == said


# ---- keys ----------------------------------------------------------------------------------------


def test_only_keys_for_the_two_algorithms_are_used() -> None:
    small = {**entry("small"), "n": base64.urlsafe_b64encode(b"\xff" * 128).decode().rstrip("=")}
    entries = [
        entry("ok"), entry("enc", use="enc"), entry("alg", alg="RS512"), {**entry("x"), "kid": 7},
        {**entry("oct"), "kty": "oct", "k": "AAAA"}, {**entry("kty"), "kty": ["RSA"]}, small,
        {**entry("p", ec_key()), "crv": "P-384"}, {**entry("off", ec_key()), "x": "AAAA"},
        {**entry("n"), "n": None}, {**entry("e"), "e": ""}, {**entry("kid"), "kid": ""}, 7,
    ]  # fmt: skip
    assert set(jwks.parse(json.dumps({"keys": entries}).encode())) == {"ok"}
    twice = jwks.parse(key_set(entry("a"), entry("a", ec_key())))
    assert twice["a"].algorithm == "RS256"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"keys": 1}', b"\xff", b"[" * 50_000, b" " * (64 * 1024 + 1),
            json.dumps({"keys": [{}] * 101}).encode()]
)  # fmt: skip
def test_what_is_no_key_set_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match="key set"):
        jwks.parse(raw)


class Provider:
    """Answers with `reply`."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply or Reply(200, key_set())
        self.count = 0

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.count += 1
        return self.reply


def test_keys_are_read_once_an_hour_and_for_an_unknown_key_once_in_half_a_minute() -> None:
    clock, provider = TickingClock(), Provider()
    keys = FetchedKeys("https://login.example.com/keys", provider, clock)
    for _ in range(5):
        assert keys.find("r") is not ABSENT and keys.find("new") is ABSENT
    assert provider.count == 1
    provider.reply = Reply(200, key_set(entry("new")))
    clock.sleep(limits.key_set_retry_seconds)
    assert keys.find("r") is not ABSENT and provider.count == 1
    assert keys.find("new") is not ABSENT and keys.find("r") is ABSENT and provider.count == 2
    clock.sleep(limits.key_set_seconds_max)
    assert keys.find("new") is not ABSENT and provider.count == 3


@pytest.mark.parametrize("reply", [Reply(500, b""), Reply(200, b"no keys")])
def test_keys_that_cannot_be_read_again_count_for_a_day(reply: Reply) -> None:
    clock, provider = TickingClock(), Provider()
    keys = FetchedKeys("https://login.example.com/keys", provider, clock)
    assert keys.find("r") is not ABSENT
    provider.reply = reply
    clock.sleep(limits.key_set_stale_seconds_max - 60)
    assert keys.find("r") is not ABSENT
    clock.sleep(120)
    with pytest.raises(Unavailable):
        keys.find("r")
    never = FetchedKeys("https://login.example.com/keys", Provider(reply), clock)
    with pytest.raises(Unavailable):
        never.find("r")


def test_the_first_callers_wait_for_the_one_that_reads_the_keys() -> None:
    asked, answers = threading.Event(), threading.Event()

    class SlowProvider(Provider):
        def send(self, request: Outgoing, seconds: float) -> Reply:
            asked.set()
            assert answers.wait(PATIENCE_SECONDS)
            return super().send(request, seconds)

    provider = SlowProvider()
    keys = FetchedKeys("https://login.example.com/keys", provider, TickingClock())
    threads: list[int] = []

    def find() -> Any:
        threads.append(threading.get_ident())
        return keys.find("r")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(keys.find, "r")
        assert asked.wait(PATIENCE_SECONDS)
        second = pool.submit(find)

        def waits() -> bool:
            return second.done() or stands_at(threads, "with self._lock:")

        until(waits, "the second caller waits")
        is_early = second.done()
        answers.set()
        assert not is_early
        assert first.result() is not ABSENT and second.result() is not ABSENT
    assert provider.count == 1


class HeldProvider(Provider):
    """Answers once `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.asked.set()
        assert self.answers.wait(PATIENCE_SECONDS)
        return super().send(request, seconds)


def test_few_threads_wait_for_the_first_keys_and_others_are_told_to_come_back() -> None:
    """Forged tokens ask for keys too, and must not hold all threads of a process."""
    provider = HeldProvider()
    keys = FetchedKeys("https://login.example.com/keys", provider, TickingClock())
    threads: list[int] = []

    def find() -> Any:
        threads.append(threading.get_ident())
        return keys.find("r")

    most = limits.key_set_waiting_max
    with ThreadPoolExecutor(most + 2) as pool:
        first = pool.submit(keys.find, "r")
        try:
            assert provider.asked.wait(PATIENCE_SECONDS)
            waiting = [pool.submit(find) for _ in range(most)]
            until(
                lambda: (
                    len(threads) == most
                    and all(stands_at([thread], "with self._lock:") for thread in threads)
                ),
                "the others wait",
            )
            with pytest.raises(Unavailable, match="another request is reading it"):
                pool.submit(keys.find, "r").result(PATIENCE_SECONDS)
        finally:
            provider.answers.set()
        assert first.result() is not ABSENT
        assert all(each.result() is not ABSENT for each in waiting)
    assert provider.count == 1


def test_nobody_waits_for_newer_keys_but_the_one_that_reads_them() -> None:
    clock, provider = TickingClock(), HeldProvider()
    provider.answers.set()
    keys = FetchedKeys("https://login.example.com/keys", provider, clock)
    assert keys.find("r") is not ABSENT
    provider.asked.clear()
    provider.answers.clear()
    clock.sleep(limits.key_set_retry_seconds)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(keys.find, "unknown")
        try:
            assert provider.asked.wait(PATIENCE_SECONDS)
            assert pool.submit(keys.find, "r").result(PATIENCE_SECONDS) is not ABSENT
            assert pool.submit(keys.find, "forged").result(PATIENCE_SECONDS) is ABSENT
        finally:
            provider.answers.set()
        assert reading.result() is ABSENT
    assert provider.count == 2


def test_keys_are_not_read_on_an_event_loop() -> None:
    provider = Provider()
    keys = FetchedKeys("https://login.example.com/keys", provider, TickingClock())

    async def ask() -> Any:
        return keys.find("r")

    with pytest.raises(WouldWait):
        asyncio.run(ask())
    assert not provider.count and keys.find("r") is not ABSENT
    assert asyncio.run(ask()) is not ABSENT


# ---- users ---------------------------------------------------------------------------------------


def said(at: int = START, *groups: str, user: str = "carl", subject: str = "s-1") -> Claims:
    return Claims(f"oidc:{ISSUER}#{subject}", user, "", groups, at, at + 60)


def user_of(keeper: Keeper, claims: Claims) -> tuple[Assignment, list[Change]]:
    """The user, and what was changed for it."""
    changes: list[Change] = []
    return oidc.user_of(keeper, claims, changes), changes


def groups_of(lake: Lake, user: str = "carl") -> list[str]:
    record = entities.get(lake.kv, USERS, user)
    return [group.id for group in directory.targets(lake.kv, MEMBER, record)]


def test_a_user_is_made_at_its_first_request_and_known_by_its_subject() -> None:
    lake = Lake()
    keeper = lake.keeper()
    first, changed = user_of(keeper, said())
    assert first.user.id == "carl" and first.user.principals == (first.principal,)
    assert changed == [created("carl", first.user.uid)]
    again, changed = user_of(keeper, said(user="renamed"))
    assert again.user.uid == first.user.uid and not changed
    with pytest.raises(NotFound):
        entities.get(lake.kv, USERS, "renamed")


def test_the_name_of_another_user_is_refused() -> None:
    lake = Lake()
    keeper = lake.keeper()
    user_of(keeper, said())
    for user, subject in (("ann", "s-2"), ("carl", "s-2")):
        with pytest.raises(Refused, match="another user has this name"):
            user_of(keeper, said(user=user, subject=subject))
    for user in ("a:b", "${user}", "*", "", "x" * 101, " a"):
        with pytest.raises(Refused, match="not allowed"):
            user_of(keeper, said(user=user, subject="s-2"))
    with pytest.raises(Refused, match="not allowed"):
        user_of(keeper, said(user="new", subject="x" * 600))
    assert principals.find(lake.kv, [f"oidc:{ISSUER}#s-2"]) is ABSENT


def test_an_administrator_may_bind_a_subject_to_a_user() -> None:
    lake = Lake()
    principals.create(lake.keeper(), "ann", f"oidc:{ISSUER}#s-1")
    assert user_of(lake.keeper(), said())[0].user.id == "ann"


def test_the_newest_token_says_which_groups() -> None:
    lake = Lake()
    keeper = lake.keeper()
    directory.create_group(keeper, "other")
    user_of(keeper, said(START, "team", "nothing"))
    assert groups_of(lake) == ["team"] and "carl" in lake.listed_members
    user_of(keeper, said(START + 5, "other"))
    assert groups_of(lake) == ["other"] and "carl" not in lake.listed_members
    for late in (START, START + 5):  # an older token brings nothing back
        _, changed = user_of(keeper, said(late, "team"))
        assert not changed and groups_of(lake) == ["other"]
    user_of(keeper, said(START + 6))
    assert groups_of(lake) == []
    lake.check_index()


def test_without_a_claim_for_groups_tokens_change_none() -> None:
    lake = Lake()
    user_of(lake.keeper(), said())
    directory.add(lake.keeper(), MEMBER, "carl", "team")
    none = said(START + 9)
    user_of(lake.keeper(), Claims(**{**_fields(none), "groups": ABSENT}))
    assert groups_of(lake) == ["team"]
    known = issuer(groups_claim="")
    assert known.claims(known.verified(token(groups=["team"])), NOW).groups is ABSENT


def test_a_group_that_every_lake_has_is_joined_only_if_the_deployment_maps_a_name_to_it() -> None:
    claimed = token(groups=[*policies.GROUPS, "team", "lake-admins"])

    def groups(**mapped: tuple[str, ...]) -> Any:
        known = replace(issuer(), group_names=mapped or ABSENT)
        return known.claims(known.verified(claimed), NOW).groups

    assert groups() == ("lake-admins", "team")
    both = groups(**{"lake-admins": ("Admins", "ops"), "elsewhere": ("SuperUsers",)})
    assert both == ("Admins", "ops")  # with a map, a name outside of it means nothing
    assert groups(Admins=("Admins",), team=("team",)) == ("Admins", "team")
    assert groups(Admins=("guests",)) == ("guests",)


def _fields(one: Claims) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Claims.__dataclass_fields__}


def test_changes_of_a_token_are_noted_by_what_they_are() -> None:
    lake = Lake()
    for group in ("other", "third"):
        directory.create_group(lake.keeper(), group)
    first, noted = user_of(lake.keeper(), said(START, "team", "other", "nothing"))
    uid = first.user.uid
    assert noted == [created("carl", uid), *regrouped("carl", uid, (), ("other", "team"))]
    _, noted = user_of(lake.keeper(), said(START + 1, "third", "team"))
    carl, group = "arn:lakefs:auth:::user/carl", "arn:lakefs:auth:::group/"
    assert noted == [
        Change("tokenJoinsGroups", "carl", uid, (carl, group + "third")),
        Change("tokenLeavesGroups", "carl", uid, (carl, group + "other")),
    ]
    _, noted = user_of(lake.keeper(), said(START + 2, "third", "team"))
    assert noted == []
    _, noted = user_of(lake.keeper(), said(START + 3))
    assert noted == [Change("tokenLeavesGroups", "carl", uid,
                            (carl, group + "team", group + "third"))]  # fmt: skip


NOTED: list[Change] = []  # by the verbs below


def _first(keeper: Keeper) -> None:
    oidc.user_of(keeper, said(START, "team"), NOTED)


def _next(keeper: Keeper) -> None:
    oidc.user_of(keeper, said(START + 1, "other"), NOTED)


def _fresh(_lake: Lake) -> None:
    NOTED.clear()


def _begun(lake: Lake) -> None:
    NOTED.clear()
    directory.create_group(lake.keeper(), "other")
    _first(lake.keeper())


def test_a_first_request_that_goes_wrong_is_whole_after_another() -> None:
    for lake in broken(_first, _fresh):
        _check_noted(lake)
        _first(lake.keeper())
        assert groups_of(lake) == ["team"] and "carl" in lake.listed_members
        lake.land()
        assert groups_of(lake) == ["team"]
        lake.check_index()
        _check_noted(lake)


def test_a_change_of_groups_that_goes_wrong_is_whole_after_another() -> None:
    for lake in broken(_next, _begun):
        lake.check_index()
        _check_noted(lake)
        _next(lake.keeper())
        assert groups_of(lake) == ["other"]
        lake.land()
        assert groups_of(lake) == ["other"]
        lake.check_index()
        _check_noted(lake)


def _check_noted(lake: Lake) -> None:
    """Whatever has happened is noted, as done or as possible."""
    user = USERS.read("carl", lake.kv.get(*USERS.place("carl")))
    if user is ABSENT:
        return
    assert any(each.operation == CREATES_USER and each.uid == user.uid for each in NOTED)
    for group in groups_of(lake):
        named = f"arn:lakefs:auth:::group/{group}"
        assert any(each.operation == JOINS_GROUPS and named in each.resources
                   and each.uid == user.uid for each in NOTED)  # fmt: skip


def test_verbs_cost_what_they_state() -> None:
    lake = Lake()
    assert lake.requests(lambda k: user_of(k, said(START))) == 1 + 1 + 2 + 2
    assert lake.requests(lambda k: user_of(k, said(START))) == 2
    assert lake.requests(lambda k: user_of(k, said(START + 1, "team"))) == 2 + 1 + 4
    assert lake.requests(lambda k: user_of(k, said(START + 2, "team"))) == 2 + 1 + 2


# ---- requests ------------------------------------------------------------------------------------


def authenticator(lake: Lake) -> Authenticator:
    return Authenticator(lake.keeper(), identities=Identities(oidc=issuer()))


def test_a_token_is_a_credential_until_it_expires_or_its_principal_ends() -> None:
    lake = Lake()
    auth = authenticator(lake)
    header = f"Bearer {token(groups=['team'])}".encode()
    assert auth.identify(header, "").user == "carl"
    assert groups_of(lake) == ["team"]
    principals.delete(lake.keeper(), "carl", f"oidc:{ISSUER}#s-1")
    auth.access.forget()
    with pytest.raises(Unauthenticated):
        auth.identify(header, "")
    later = f"Bearer {token(sub='s-2', preferred_username='dora')}".encode()
    assert auth.identify(later, "").user == "dora"
    lake.clock.sleep(3_600)
    with pytest.raises(Unauthenticated):
        auth.identify(later, "")
    with pytest.raises(Unauthenticated):
        auth.identify(b"", token(sub="s-3"))  # a cookie is a session, never a token


def test_sessions_and_tokens_stand_beside_each_other() -> None:
    lake = Lake()
    auth = authenticator(lake)
    user_of(lake.keeper(), said())
    epoch = entities.get(lake.kv, USERS, "carl").principals[0].epoch
    session = auth.sessions.begin("carl", epoch).token
    assert auth.identify(f"Bearer {session}".encode(), "").user == "carl"
    plain = Authenticator(lake.keeper())
    with pytest.raises(Unauthenticated):
        plain.identify(f"Bearer {token()}".encode(), "")


def test_forged_tokens_are_limited() -> None:
    lake = Lake()
    auth = authenticator(lake)
    with pytest.raises(Throttled):
        for number in range(1_000):
            with suppress(Unauthenticated):
                auth.identify(f"Bearer {token(iss=str(number))}".encode(), "", lambda: "192.0.2.1")
