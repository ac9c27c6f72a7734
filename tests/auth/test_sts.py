"""Logins with an IAM identity: what is sent to STS, what is accepted, and that once."""

import random
from contextlib import suppress
from typing import Any

import pytest

from graveler.auth import principals, proofs, sts
from graveler.auth.authenticator import Authenticator, Identities
from graveler.auth.principals import Assignment
from graveler.auth.sts import AwsLogin
from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import (
    GravelerError,
    Invalid,
    Refused,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from graveler.core.records import ABSENT
from graveler.core.web import Reply
from tests import draws
from tests.auth.bench import Lake, broken
from tests.auth.fake_sts import (
    ACCOUNT,
    ROLE,
    SERVER,
    SESSION,
    FakeSts,
    fields_of,
    identity_token,
    signed_token,
    token_of,
)


def now() -> int:
    return SystemClock().now_ns() // 10**9


NOW = now()  # of `TOKEN`; what a test signs itself is signed later
TOKEN = signed_token()


def login(fake: FakeSts, *accounts: str, hosts: tuple[str, ...] = (SERVER,)) -> AwsLogin:
    return AwsLogin(fake, frozenset(hosts), frozenset(accounts or (ACCOUNT,)))


def changed(**fields: Any) -> str:
    return token_of({**fields_of(TOKEN), **fields})


def test_a_signed_request_names_its_caller() -> None:
    fake = FakeSts()
    caller = login(fake).caller(TOKEN, SERVER, NOW)
    assert (caller.arn, caller.principals) == (SESSION, (SESSION, ROLE))
    assert NOW - 60 < caller.expires - 60 <= NOW + 60
    assert caller.signature == fields_of(TOKEN)["signature"]
    (request,) = fake.requests
    assert request.url.startswith("https://sts.") and request.method == "POST"
    assert dict(request.headers) == {"X-LakeFS-Server-ID": SERVER, "Accept": "application/json"}


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-gov-west-1"])
def test_every_region_of_the_client_is_known(region: str) -> None:
    fake = FakeSts()
    assert login(fake).caller(signed_token(region=region), SERVER, now()).arn == SESSION
    assert region in fake.requests[0].url


def test_what_was_signed_for_another_service_is_refused() -> None:
    """By STS, because this service sends its own name; and before, if the caller used a name that
    the service does not have."""
    token = signed_token("evil.example.com")
    with pytest.raises(Unauthenticated):
        login(FakeSts()).caller(token, SERVER, now())
    fake = FakeSts()
    with pytest.raises(Refused, match="by this name"):
        login(fake).caller(token, "evil.example.com", now())
    assert not fake.requests


@pytest.mark.parametrize(
    "headers", [{"X-Other": SERVER}, {"X-LakeFS-Server-ID": SERVER, "X-B": "c"}, {}]
)
def test_exactly_the_host_and_the_name_of_the_service_are_signed(headers: Any) -> None:
    fake = FakeSts()
    with pytest.raises(Invalid, match="signed_headers"):
        login(fake).caller(identity_token(headers=headers), SERVER, now())
    assert not fake.requests


WRONG: dict[str, list[Any]] = {
    "method": ["GET", "post", None, 1],
    "action": ["AssumeRole", "GetCallerIdentity&Action=GetSessionToken", ""],
    "version": ["2011-06-16", None],
    "algorithm": ["AWS4-HMAC-SHA1", "none", None],
    "host": ["sts.evil.example", "sts.amazonaws.com.evil.example", "sts.eu-north-9.amazonaws.com",
             "STS.amazonaws.com", "sts.amazonaws.com:443", "sts.amazonaws.com/x", "169.254.169.254",
             "evil@sts.amazonaws.com", "", None, 7, ["sts.amazonaws.com"]],
    "region": ["eu-west-1", "", None],
    "date": ["2026", "20260101T000000", "20261399T000000Z", "20260101T000000Z\n", None, 5,
             "２０260101T000000Z"],
    "expiration_duration": ["0", "-1", "60.0", "6 0", "", None, 60, "99999"],
    "access_key_id": ["", "short", "a" * 20, "A" * 129, "AKIA/../AAAAAAAAAAAAAAA", None],
    "signature": ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, None],
    "security_token": ["a b", "x&y=z", "é", 5, "a" * 9_000],
    "signed_headers": [["host"], "host;x-lakefs-server-id", ["x-lakefs-server-id", "host"], None,
                       ["host", "x-lakefs-server-id", "x-b"]],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_part_of_another_form_is_refused_before_anything_is_sent(name: str) -> None:
    fake = FakeSts()
    for value in WRONG[name]:
        with pytest.raises(Invalid, match="identity_token invalid"):
            login(fake).caller(changed(**{name: value}), SERVER, NOW)
    assert not fake.requests


@pytest.mark.parametrize(
    "token", ["", "x", "e30", "e30=", "W10=", "bnVsbA==", "MQ==", "é", "W1tb" * 9]
)
def test_what_is_no_identity_token_is_refused(token: str) -> None:
    with pytest.raises(Invalid, match="identity_token invalid"):
        login(FakeSts()).caller(token, SERVER, NOW)


def test_no_text_makes_anything_but_an_error_that_callers_see() -> None:
    seed = draws.seed()
    chance, raw, fake = random.Random(seed), TOKEN.encode(), FakeSts()
    for _ in range(2_000):
        piece = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            piece[chance.randrange(len(piece))] = chance.randrange(256)
        with suppress(Invalid, Unauthenticated):
            login(fake).caller(piece.decode("latin-1"), SERVER, NOW)
    assert all(request.url.split("/")[2] in sts.HOSTS for request in fake.requests)


def test_a_changed_part_breaks_the_signature() -> None:
    known = fields_of(TOKEN)
    other = known["date"][:-2] + ("1Z" if known["date"][-2] != "1" else "2Z")
    for part in (
        {"date": other},
        {"expiration_duration": "61"},
        {"access_key_id": "ASIAPPPPPPPPPPPPPPPP"},
        {"signature": "0" * 64},
        {"security_token": None},
        {"host": "sts.eu-west-1.amazonaws.com", "region": "eu-west-1"},
    ):
        with pytest.raises(Unauthenticated):
            login(FakeSts()).caller(changed(**part), SERVER, NOW)


@pytest.mark.parametrize(
    ("seconds", "age", "accepted"),
    [(60, 0, True), (60, 55, True), (60, 65, False), (60, -290, True), (60, -320, False),
     (3_600, 890, True), (3_600, 910, False), (900, 910, False)],
)  # fmt: skip
def test_a_signature_is_at_most_as_old_as_it_says_and_as_a_quarter_of_an_hour(
    seconds: int, age: int, accepted: bool
) -> None:
    token, fake = signed_token(seconds=seconds), FakeSts()
    now = sts.read(token).signed_at + age
    if accepted:
        caller = login(fake).caller(token, SERVER, now)
        assert caller.expires - now <= limits.signed_identity_seconds_max + 300
        return
    with pytest.raises(Unauthenticated):
        login(fake).caller(token, SERVER, now)
    assert not fake.requests


def test_only_identities_of_the_allowed_accounts_log_in() -> None:
    with pytest.raises(Refused, match="account is not allowed"):
        login(FakeSts(), "210987654321").caller(TOKEN, SERVER, NOW)


@pytest.mark.parametrize(
    "body",
    [b"", b"<GetCallerIdentityResponse/>", b"[]", b"{}", b"null", b"[" * 60_000, b"\xff",
     b'{"GetCallerIdentityResponse": {"GetCallerIdentityResult": null}}'],
)  # fmt: skip
def test_an_answer_of_another_form_is_no_answer(body: bytes) -> None:
    with pytest.raises(Unavailable, match="malformed"):
        login(FakeSts(reply=Reply(200, body))).caller(TOKEN, SERVER, NOW)


@pytest.mark.parametrize(
    ("arn", "account"),
    [(SESSION, "210987654321"), ("arn:aws:s3:::x", ACCOUNT), (SESSION + "\n", ACCOUNT),
     (f"arn:evil:sts::{ACCOUNT}:x", ACCOUNT), (7, ACCOUNT), (SESSION, None)],
)  # fmt: skip
def test_an_identity_of_another_form_is_no_answer(arn: Any, account: Any) -> None:
    with pytest.raises(Unavailable, match="malformed"):
        login(FakeSts(arn, account)).caller(TOKEN, SERVER, NOW)


@pytest.mark.parametrize(("status", "kind"), [(403, Unauthenticated), (400, Unauthenticated),
                                              (500, Unavailable), (302, Unavailable),
                                              (429, Unavailable)])  # fmt: skip
def test_a_refusal_of_sts_is_one_and_a_failure_is_none(
    status: int, kind: type[GravelerError]
) -> None:
    with pytest.raises(kind):
        login(FakeSts(reply=Reply(status, b"{}"))).caller(TOKEN, SERVER, NOW)


@pytest.mark.parametrize(
    ("arn", "principals"),
    [
        (SESSION, (SESSION, ROLE)),
        (f"arn:aws:iam::{ACCOUNT}:user/path/ann", (f"arn:aws:iam::{ACCOUNT}:user/path/ann",)),
        (f"arn:aws:iam::{ACCOUNT}:root", (f"arn:aws:iam::{ACCOUNT}:root",)),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/a", (f"arn:aws:sts::{ACCOUNT}:federated-user/a",)),
    ],
)
def test_a_session_of_a_role_stands_for_itself_and_then_for_the_role(
    arn: str, principals: tuple[str, ...]
) -> None:
    assert sts.principals_of(arn) == principals


# ---- sessions ------------------------------------------------------------------------------------


def authenticator(lake: Lake, fake: FakeSts | None = None, kv: Any = None) -> Authenticator:
    identities = Identities(login(fake or FakeSts()))
    return Authenticator(lake.keeper(kv), identities=identities)


def logged_in(lake: Lake, auth: Authenticator, seconds: int = 600, after: int = 0) -> str:
    """The token of a login with the identity of `TOKEN`, some seconds later."""
    aws = auth.identities.aws
    assert aws is not ABSENT

    def prove(_now: int) -> Assignment:
        caller = aws.caller(TOKEN, SERVER, NOW + after)
        sts.spend(auth.keeper, caller.signature, caller.expires, NOW + after)
        return proofs.known(auth, caller.principals)

    return proofs.login(auth, "iam", prove, seconds, "192.0.2.1").token


def user_of(auth: Authenticator, token: str) -> str:
    return auth.identify(f"Bearer {token}".encode(), "").user


def test_a_principal_begins_a_session_of_its_user_that_ends_with_it() -> None:
    lake = Lake()
    principals.create(lake.keeper(), "ann", ROLE)
    auth = authenticator(lake)
    token = logged_in(lake, auth)
    assert user_of(auth, token) == "ann"
    principals.delete(lake.keeper(), "ann", ROLE)
    auth.access.forget()
    with pytest.raises(Unauthenticated):
        user_of(auth, token)
    principals.create(lake.keeper(), "ann", ROLE)
    auth.access.forget()
    with pytest.raises(Unauthenticated):
        user_of(auth, token)


def test_the_principal_of_a_session_goes_before_that_of_its_role() -> None:
    lake = Lake()
    principals.create(lake.keeper(), "ann", ROLE)
    principals.create(lake.keeper(), "bob", SESSION)
    auth = authenticator(lake)
    assert user_of(auth, logged_in(lake, auth)) == "bob"


def test_a_session_ends_when_its_caller_wished() -> None:
    lake = Lake()
    principals.create(lake.keeper(), "ann", ROLE)
    auth = authenticator(lake)
    token = logged_in(lake, auth, seconds=10)
    lake.clock.sleep(11)
    with pytest.raises(Unauthenticated):
        user_of(auth, token)


def test_a_signature_is_accepted_later_by_no_process() -> None:
    """Processes that sign in the same second all get a session."""
    lake = Lake()
    principals.create(lake.keeper(), "ann", ROLE)
    auth, other = authenticator(lake), authenticator(lake)
    tokens = {logged_in(lake, each, after=after) for each in (auth, other) for after in (0, 5)}
    assert len(tokens) == 4
    for each in (auth, other):
        for after in (6, 20):
            with pytest.raises(Unauthenticated, match="used before"):
                logged_in(lake, each, after=after)


def test_signatures_are_forgotten_when_they_have_expired() -> None:
    lake = Lake()
    keeper = lake.keeper()
    sts.spend(keeper, "x", 100, 50)
    sts.spend(keeper, "y", 110, 60)
    assert lake.requests(lambda k: sts.spend(k, "a", 150, 105)) == 3
    assert lake.requests(lambda k: sts.spend(k, "b", 150, 105)) == 2
    assert lake.requests(lambda k: sts.spend(k, "b", 150, 105)) == 1
    rows = lake.kv.scan(sts.PARTITION, b"", b"", 10).rows
    assert [key for key, _ in rows] == [b"a", b"b", b"y"]


def test_a_signature_is_not_accepted_later_whatever_request_goes_wrong() -> None:
    for lake in broken(lambda k: sts.spend(k, "a", 100, 50)):
        with suppress(Unauthenticated):
            sts.spend(lake.keeper(), "a", 100, 50)
        lake.land()
        with pytest.raises(Unauthenticated):
            sts.spend(lake.keeper(), "a", 100, 56)


def test_a_login_costs_what_it_states() -> None:
    lake = Lake()
    principals.create(lake.keeper(), "ann", ROLE)

    def verb(keeper: Any) -> None:
        logged_in(lake, authenticator(lake, kv=keeper.kv))

    authenticator(lake).sessions.begin("ann", "")  # makes the key that signs
    assert lake.requests(verb) == 4 + 1  # that of `Keyring.current`


def test_an_identity_without_a_user_is_told_its_name() -> None:
    lake = Lake()
    with pytest.raises(Refused, match=f"no user for this external principal: {SESSION}"):
        logged_in(lake, authenticator(lake))


def test_failures_are_limited() -> None:
    lake = Lake()
    auth = authenticator(lake, FakeSts(reply=Reply(403, b"")))
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            logged_in(lake, auth)
    with pytest.raises(Throttled):
        logged_in(lake, auth)
