"""Logins with an IAM identity, by the unmodified client, and tokens of an identity provider,
against real servers."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import jwt
import pytest
from lakefs.client import from_aws_role, from_web_identity
from lakefs.exceptions import ForbiddenException, NotAuthorizedException
from lakefs_sdk.exceptions import ApiException

from graveler.api.identities import open_identities
from graveler.auth.authenticator import Identities
from graveler.auth.jwks import FetchedKeys, GivenKeys
from graveler.auth.oidc import CodeLogin, OidcClient, OidcIssuer
from graveler.auth.sts import AwsLogin
from graveler.core.clock import SystemClock
from graveler.core.errors import Invalid, Refused
from graveler.core.records import ABSENT
from graveler.core.settings import (
    IdentitySettings,
    identity_settings,
    oidc_secret_name,
    with_oidc_secret,
)
from graveler.core.web import Outgoing, Reply
from graveler.hooks.egress import EgressRules, WebSender
from tests.api.serving import Client, Served, served
from tests.auth.fake_sts import (
    ACCOUNT,
    KEY,
    ROLE,
    SECRET,
    SESSION,
    TOKEN,
    US,
    FakeSts,
    identity_token,
    signed_token,
)
from tests.auth.provider import (
    AUDIENCE,
    CLIENT,
    CLIENT_SECRET,
    ISSUER,
    REDIRECT,
    FakeProvider,
    key_set,
    token,
)
from tests.hooks.web import answering
from tests.hooks.web import served as web_served

PATH = "/auth/external/principal/login"


@dataclass(frozen=True)
class Rerouted:
    """Requests to STS go to a server on this machine, by the driver of production."""

    port: int
    sender: WebSender

    def send(self, request: Outgoing, seconds: float) -> Reply:
        parts = urlsplit(request.url)
        assert parts.scheme == "https"
        url = parts._replace(scheme="http", netloc=f"127.0.0.1:{self.port}").geturl()
        headers = {"Host": parts.netloc, **request.headers}
        return self.sender.send(request._replace(url=url, headers=headers), seconds)


def _react(connection: socket.socket, raw: bytes) -> None:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    url = f"https://{headers.pop('Host')}{target}"
    reply = FakeSts().answer(Outgoing(method, url, headers, body))
    answer = f"HTTP/1.1 {reply.status} X\r\nContent-Length: {len(reply.body)}\r\n\r\n"
    connection.sendall(answer.encode() + reply.body)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that lets the identities of one account in."""
    with web_served(_react) as sts:
        rules = EgressRules((f"127.0.0.1:{sts.port}",), loopback=True)
        sender = Rerouted(sts.port, WebSender(rules, SystemClock()))
        login = AwsLogin(sender, frozenset(("127.0.0.1",)), frozenset((ACCOUNT,)))
        store = tmp_path_factory.mktemp("store")
        with served(store, identities=Identities(login)) as live:
            assert live.client.send("POST", "/auth/users", body={"id": "ann"}).status == 201
            path, query = "/auth/users/ann/external/principals", {"principalId": ROLE}
            assert live.client.send("POST", path, query).status == 201
            yield live


def _session() -> Any:
    return boto3.Session(KEY, SECRET, TOKEN, region_name=US)


def _login(live: Served, **body: Any) -> Any:
    return Client(live.client.host, live.client.port, "").send("POST", PATH, body=body)


def _role(live: Served) -> Any:
    return from_aws_role(_session(), ttl_seconds=1_800, host=live.client.url, username="",
                         password="")  # fmt: skip


def test_the_client_logs_in_with_its_role(aws: Served) -> None:
    client = _role(aws)
    assert client.sdk_client.auth_api.get_current_user().user.id == "ann"
    with pytest.raises(ApiException) as refused:  # ann has no policy
        client.sdk_client.repositories_api.list_repositories()
    assert refused.value.status == 403
    path, query = "/auth/users/ann/external/principals", {"principalId": ROLE}
    assert aws.client.send("DELETE", path, query).status == 204
    with pytest.raises(ApiException) as refused:
        client.sdk_client.auth_api.get_current_user()
    assert refused.value.status == 401
    with pytest.raises(ForbiddenException, match=SESSION):
        _role(aws)
    assert aws.client.send("POST", path, query).status == 201


def test_an_answer_is_a_session_that_lasts_as_long_as_was_asked(aws: Served) -> None:
    request = {"identity_token": identity_token("127.0.0.1")}
    reply = _login(aws, identityRequest=request, token_expiration_duration=90)
    assert reply.status == 200 and reply.headers["cache-control"] == "no-store"
    claims = jwt.decode(reply.json["token"], options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 90 and claims["exp"] == reply.json["token_expiration"]
    for seconds in (0, -1, 12 * 3600 + 1, "90"):
        refused = _login(aws, identityRequest=request, token_expiration_duration=seconds)
        assert refused.status == 400


def test_the_trail_names_who_logged_in(aws: Served) -> None:
    request = {"identity_token": identity_token("127.0.0.1")}
    reply = _login(aws, identityRequest=request)
    query = {"operation": "externalPrincipalLogin", "user": "ann"}
    lines = aws.client.send("GET", "/audit", query).json["results"]
    (line,) = [each for each in lines if each["request_id"] == reply.headers["x-request-id"]]
    assert (line["outcome"], line["status"]) == ("done", 200)


def test_what_proves_nothing_is_refused(aws: Served) -> None:
    for body in ({}, {"identityRequest": []}, {"identityRequest": {}},
                 {"identityRequest": {"identity_token": 1}},
                 {"identityRequest": {"identity_token": "e30="}}):  # fmt: skip
        assert _login(aws, **body).status == 400
    elsewhere = {"identity_token": signed_token("lake.example.com")}
    assert _login(aws, identityRequest=elsewhere).status == 401


def test_without_accounts_there_is_no_such_login(live: Served) -> None:
    reply = _login(live, identityRequest={"identity_token": signed_token()})
    assert (reply.status, reply.message) == (501, "Not Implemented")


def test_a_deployment_lets_in_accounts_of_aws_if_it_knows_its_name() -> None:
    variables = {"GRAVELER_AWS_LOGIN_ACCOUNTS": f"{ACCOUNT},210987654321"}
    settings = identity_settings({**variables, "GRAVELER_LOGIN_HOSTS": "A.example"}, "b.example")
    assert settings == IdentitySettings(("a.example", "b.example"), (ACCOUNT, "210987654321"))
    assert settings.given and not identity_settings({}).given
    opened = open_identities(settings, SystemClock()).aws
    assert opened is not ABSENT and opened.hosts == {"a.example", "b.example"}
    with pytest.raises(Invalid, match="needs a public URL"):
        identity_settings(variables)
    for wrong in ("12345678901", "１23456789012", "x"):
        with pytest.raises(Invalid, match="12 digits"):
            identity_settings({"GRAVELER_AWS_LOGIN_ACCOUNTS": wrong}, "a")


# ---- tokens of an identity provider --------------------------------------------------------------


def test_a_token_of_a_provider_is_accepted_in_every_request(tmp_path: Path) -> None:
    """Its keys come from a real server, by the driver of production."""
    now = SystemClock().now_ns() // 10**9
    times = {"iat": now, "exp": now + 600}

    def react(connection: socket.socket, request: bytes) -> None:
        answering(body=key_set())(connection, request)

    with web_served(react) as web:
        rules = EgressRules((f"127.0.0.1:{web.port}",), loopback=True)
        keys = FetchedKeys(web.url, WebSender(rules, SystemClock()), SystemClock())
        names = {"readers": ("Viewers",)}
        oidc = OidcIssuer(ISSUER, AUDIENCE, keys, groups_claim="groups", group_names=names)
        with served(tmp_path / "store", identities=Identities(oidc=oidc)) as live:

            def ask(text: str, target: str = "/user") -> Any:
                return replace(live.client, authorization=f"Bearer {text}").send("GET", target)

            mail = {"email": "carl@example.com", "email_verified": True}
            known = token(**times, groups=["readers", "Admins"], **mail)
            user = ask(known).json["user"]
            assert (user["id"], user["email"]) == ("carl", "carl@example.com")
            assert ask(known, "/repositories").status == 200
            assert ask(token("e", **times, sub="s-2")).status == 403  # carl is another subject
            plain = token("e", **times, sub="s-2", preferred_username="dora")
            assert ask(plain).status == 200 and ask(plain, "/repositories").status == 403
            for wrong in (token(), token(**times, aud="x"), token("unknown", **times), "a.b.c"):
                assert ask(wrong).status == 401
            assert len(web.requests) == 1
            listed = live.client.send("GET", "/auth/users/carl/groups").json["results"]
            assert [each["id"] for each in listed] == ["Viewers"]
            listed = live.client.send("GET", "/auth/users/carl/external/principals/ls").json
            assert [each["id"] for each in listed["results"]] == [f"oidc:{ISSUER}#s-1"]
            assert live.client.send("DELETE", "/auth/users/carl").status == 204
            again = token(**times, jti="2")  # makes the user again, without a group
            assert ask(again).status == 200 and ask(again, "/repositories").status == 403


def test_a_token_of_a_disabled_user_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    now = SystemClock().now_ns() // 10**9
    oidc = OidcIssuer(ISSUER, AUDIENCE, GivenKeys(key_set()), groups_claim="groups")
    with served(tmp_path / "store", identities=Identities(oidc=oidc)) as live:
        for group in ("one", "two"):
            assert live.client.send("POST", "/auth/groups", body={"id": group}).status == 201

        def ask(age: int, group: str) -> int:
            text = token(iat=now - age, exp=now + 600, groups=[group])
            return replace(live.client, authorization=f"Bearer {text}").send("GET", "/user").status

        def groups() -> list[str]:
            listed = live.client.send("GET", "/auth/users/carl/groups").json["results"]
            return [each["id"] for each in listed]

        assert ask(9, "one") == 200
        assert live.client.send("POST", "/auth/users/carl/disable").status == 204
        assert ask(9, "one") == ask(8, "two") == 401 and groups() == ["one"]
        assert live.client.send("POST", "/auth/users/carl/enable").status == 204
        assert ask(9, "one") == ask(8, "two") == 200 and groups() == ["two"]


def test_a_disabled_user_does_not_log_in_with_its_role(aws: Served) -> None:
    def login() -> int:
        request = {"identity_token": identity_token("127.0.0.1")}
        return int(_login(aws, identityRequest=request).status)

    assert login() == 200
    assert aws.client.send("POST", "/auth/users/ann/disable").status == 204
    try:
        assert login() == 401
    finally:
        assert aws.client.send("POST", "/auth/users/ann/enable").status == 204
    assert login() == 200


@pytest.mark.parametrize(("path", "status"), [("/user", 200), ("/repositories", 403)])
def test_what_a_token_changes_has_lines_of_its_own(tmp_path: Path, path: str, status: int) -> None:
    """Also in a request that changes nothing itself, and in one that is denied."""
    now = SystemClock().now_ns() // 10**9
    oidc = OidcIssuer(ISSUER, AUDIENCE, GivenKeys(key_set()), groups_claim="groups")
    with served(tmp_path / "store", identities=Identities(oidc=oidc)) as live:
        for group in ("one", "two"):
            body = {"id": group, "name": group}
            assert live.client.send("POST", "/auth/groups", body=body).status == 201

        def changes(issued: int, *groups: str) -> list[tuple[str, list[str]]]:
            text = token(iat=issued, exp=now + 600, groups=list(groups))
            reply = replace(live.client, authorization=f"Bearer {text}").send("GET", path)
            assert reply.status == status
            lines = live.client.send("GET", "/audit", {"user": "carl"}).json["results"]
            request = reply.headers["x-request-id"]
            found = [each for each in lines if each["request_id"] == request]
            for each in found:
                assert (each["status"], each["address"]) == (status, "127.0.0.1")
                assert each["uid"]
            denied = [each for each in found if each["outcome"] == "denied"]
            assert len(denied) == (status == 403)
            done = [each for each in found if each["outcome"] == "done"]
            names = [[one.rpartition("/")[2] for one in each["resources"]] for each in done]
            return list(zip([each["operation"] for each in done], names, strict=True))

        made = ("tokenCreatesUser", ["carl"])
        assert changes(now - 9, "one") == [made, ("tokenJoinsGroups", ["carl", "one"])]
        assert changes(now - 9, "one") == []
        assert changes(now - 8, "two") == [
            ("tokenJoinsGroups", ["carl", "two"]),
            ("tokenLeavesGroups", ["carl", "one"]),
        ]
        assert changes(now - 7, "two") == []


def test_metrics_put_on_record_whom_they_made_and_whom_they_denied(tmp_path: Path) -> None:
    now = SystemClock().now_ns() // 10**9
    oidc = OidcIssuer(ISSUER, AUDIENCE, GivenKeys(key_set()))
    with served(tmp_path / "store", identities=Identities(oidc=oidc)) as live:
        bearer = {"Authorization": f"Bearer {token(iat=now, exp=now + 600)}"}
        assert live.client.raw("GET", "/metrics", headers=bearer).status == 403
        lines = live.client.send("GET", "/audit", {"user": "carl"}).json["results"]
        assert [each["operation"] for each in lines] == ["metrics", "tokenCreatesUser"]


@pytest.mark.parametrize(
    "text", ["x", "[]", "7", '{"a": 7}', '{"a": []}', '{"a": [""]}', '{"a": ["b", 7]}', "{" * 9_999]
)
def test_groups_of_a_provider_are_mapped_by_a_json_object(text: str) -> None:
    given = {"GRAVELER_OIDC_ISSUER": ISSUER, "GRAVELER_OIDC_AUDIENCE": AUDIENCE,
             "GRAVELER_OIDC_KEYS": key_set().decode()}  # fmt: skip
    claim = {"GRAVELER_OIDC_GROUPS_CLAIM": "groups"}
    mapped = '{"lake-admins": "Admins", "CN=Data, OU=All": ["data", "Viewers"]}'
    settings = identity_settings({**given, **claim, "GRAVELER_OIDC_GROUPS": mapped})
    opened = open_identities(settings, SystemClock()).oidc
    assert opened is not ABSENT
    names = {"lake-admins": ("Admins",), "CN=Data, OU=All": ("data", "Viewers")}
    assert opened.group_names == names
    with pytest.raises(Invalid, match="needs GRAVELER_OIDC_GROUPS_CLAIM"):
        identity_settings({**given, "GRAVELER_OIDC_GROUPS": mapped})
    with pytest.raises(Invalid, match="must be a JSON object"):
        identity_settings({**given, **claim, "GRAVELER_OIDC_GROUPS": text})


# ---- codes of an identity provider ---------------------------------------------------------------


@dataclass
class CodeLake:
    """A service that accepts codes of a provider on this machine.  `codes`: the claims of those
    that the provider has given out, and not yet exchanged."""

    live: Served
    provider: FakeProvider
    codes: dict[str, dict[str, Any]]

    def give(self, code: str, **said: Any) -> str:
        """A code of the provider, for a login at this moment."""
        now = SystemClock().now_ns() // 10**9
        claims = {"iss": self.provider.issuer, "aud": CLIENT, "iat": now, "exp": now + 600}
        self.codes[code] = claims | said
        return code

    def log_in(self, code: str, /, **body: Any) -> Any:
        known = {"code": code, "state": "s", "redirect_uri": REDIRECT} | body
        anonymous = Client(self.live.client.host, self.live.client.port, "")
        return anonymous.send("POST", "/sts/login", body=known)

    def lines(self, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.live.client.send("GET", "/audit", query).json["results"]
        return found


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeLake]:
    codes: dict[str, dict[str, Any]] = {}

    def said(code: str) -> str:
        claims = codes.pop(code, {})  # a code is good once
        return token(**claims) if claims else ""

    provider = FakeProvider(said)

    def react(connection: socket.socket, raw: bytes) -> None:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
        reply = provider.send(Outgoing(method, provider.issuer + target, headers, body), 1)
        answering(reply.status, reply.body)(connection, raw)

    with web_served(react) as web:
        provider.issuer = f"http://127.0.0.1:{web.port}"
        oidc = OidcIssuer(
            provider.issuer, AUDIENCE, GivenKeys(key_set()), groups_claim="groups",
            group_names={"readers": ("Viewers",)},
        )  # fmt: skip
        rules = EgressRules((f"127.0.0.1:{web.port}",), loopback=True)
        client = OidcClient(CLIENT, CLIENT_SECRET, frozenset((REDIRECT,)))
        login = CodeLogin(oidc, client, WebSender(rules, SystemClock()), SystemClock())
        store = tmp_path_factory.mktemp("coded")
        with served(store, identities=Identities(oidc=oidc, codes=login)) as live:
            yield CodeLake(live, provider, codes)


def test_the_client_logs_in_with_a_code(coded: CodeLake) -> None:
    code = coded.give("one", sub="s-7", preferred_username="gina", groups=["readers", "Admins"])
    known = {"host": coded.live.client.url, "username": "", "password": ""}
    client = from_web_identity(code, "state", REDIRECT, ttl_seconds=900, **known)
    assert client.sdk_client.auth_api.get_current_user().user.id == "gina"
    assert client.sdk_client.repositories_api.list_repositories().results == []
    claims = jwt.decode(client.config.access_token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 900
    with pytest.raises(NotAuthorizedException):
        from_web_identity(code, "state", REDIRECT, **known)
    lines = coded.lines(user="gina")
    assert [each["operation"] for each in lines] == [
        "stsLogin", "tokenCreatesUser", "tokenJoinsGroups",
    ]  # fmt: skip
    assert len({each["request_id"] for each in lines}) == 1
    (denied,) = coded.lines(operation="stsLogin", outcome="denied")
    assert (denied["status"], denied["user"]) == (401, "")


def test_an_answer_to_a_code_is_a_session_of_an_hour_that_no_cache_keeps(coded: CodeLake) -> None:
    reply = coded.log_in(coded.give("two"))
    assert reply.status == 200 and reply.headers["cache-control"] == "no-store"
    assert "set-cookie" not in reply.headers
    claims = jwt.decode(reply.json["token"], options={"verify_signature": False})
    assert (
        claims["exp"] - claims["iat"] == 3_600 and claims["exp"] == reply.json["token_expiration"]
    )
    session = replace(coded.live.client, authorization=f"Bearer {reply.json['token']}")
    assert session.send("GET", "/user").json["user"]["id"] == "carl"
    where = "/auth/users/carl/external/principals"
    (bound,) = coded.live.client.send("GET", where + "/ls").json["results"]
    assert coded.live.client.send("DELETE", where, {"principalId": bound["id"]}).status == 204
    assert session.send("GET", "/user").status == 401  # the session ends with its principal


def test_a_code_that_is_malformed_or_for_elsewhere_never_leaves_the_service(
    coded: CodeLake,
) -> None:
    before = len(coded.provider.requests)
    for wrong in (
        {"redirect_uri": REDIRECT + "/"}, {"redirect_uri": ""}, {"code": ""}, {"code": 7},
        {"code": "x" * 4_097}, {"state": "x" * 4_097}, {"ttl_seconds": 0},
        {"ttl_seconds": 12 * 3600 + 1}, {"ttl_seconds": "60"},
    ):  # fmt: skip
        hugo = coded.give("three", sub="s-3", preferred_username="hugo")
        assert coded.log_in(hugo, **wrong).status == 400, wrong
    assert len(coded.provider.requests) == before
    assert coded.log_in("three", ttl_seconds=None).status == 200  # null: the default


def test_an_id_token_for_another_client_or_of_another_user_is_no_login(coded: CodeLake) -> None:
    assert coded.log_in(coded.give("four", aud=AUDIENCE)).status == 401
    administrator = coded.give("five", sub="s-9", preferred_username="administrator")
    assert coded.log_in(administrator).status == 403
    nameless = coded.give("six", sub="s-9", preferred_username=None)
    assert coded.log_in(nameless).status == 403


def test_without_a_client_id_no_code_is_accepted_and_the_setting_is_named(live: Served) -> None:
    body = {"code": "c", "state": "s", "redirect_uri": REDIRECT}
    reply = Client(live.client.host, live.client.port, "").send("POST", "/sts/login", body=body)
    assert reply.status == 501
    assert "GRAVELER_OIDC_CLIENT_ID" in reply.message and "OidcClientId" in reply.message


_OIDC = {
    "GRAVELER_OIDC_ISSUER": ISSUER,
    "GRAVELER_OIDC_AUDIENCE": AUDIENCE,
    "GRAVELER_OIDC_KEYS": key_set().decode(),
}
_CLIENT = {"GRAVELER_OIDC_CLIENT_ID": CLIENT, "GRAVELER_OIDC_REDIRECTS": REDIRECT}
_SECRET = {"GRAVELER_OIDC_CLIENT_SECRET": CLIENT_SECRET}


def test_a_deployment_accepts_codes_with_a_secret_from_its_own_place(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(CLIENT_SECRET + "\n")
    from_file = {"GRAVELER_OIDC_CLIENT_SECRET_FILE": str(file)}
    named = {**_CLIENT, "GRAVELER_OIDC_SECRET_NAME": "the-arn"}
    assert (oidc_secret_name(named), oidc_secret_name({**named, **_CLIENT})) == ("the-arn",) * 2
    assert oidc_secret_name({"GRAVELER_OIDC_SECRET_NAME": "the-arn"}) == ""
    text = json.dumps(_SECRET)
    more = {"GRAVELER_OIDC_HOSTS": "token.example.com,login.example.com:8443"}
    for given in (_SECRET, from_file, with_oidc_secret({}, text)):
        settings = identity_settings({**_OIDC, **_CLIENT, **given, **more}).oidc
        assert settings is not ABSENT and settings.client is not ABSENT
        assert settings.client.secret == CLIENT_SECRET and CLIENT_SECRET not in repr(settings)
        assert settings.client.redirects == (REDIRECT,)
        assert settings.client.hosts == ("token.example.com", "login.example.com:8443")
    opened = open_identities(identity_settings({**_OIDC, **_CLIENT, **_SECRET}), SystemClock())
    assert opened.codes is not ABSENT
    assert open_identities(identity_settings(_OIDC), SystemClock()).codes is ABSENT


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"GRAVELER_OIDC_CLIENT_SECRET": ""}, "CLIENT_SECRET_FILE"),
        ({"GRAVELER_OIDC_REDIRECTS": ""}, "GRAVELER_OIDC_REDIRECTS"),
        ({"GRAVELER_OIDC_CLIENT_SECRET_FILE": "/nowhere/secret"}, "not read"),
        ({"GRAVELER_OIDC_ISSUER": ISSUER.replace("https", "http")}, "https://"),
        ({"GRAVELER_OIDC_HOSTS": "https://x"}, "host of OIDC"),
        *(
            ({"GRAVELER_OIDC_REDIRECTS": uri}, "redirect URI")
            for uri in ("http://lake.example/", "http://localhost.evil.example/", "x", "https://",
                        "https://a/#b", "https://a b", "https://a/" + "x" * 2_048)
        ),
    ],
)  # fmt: skip
def test_a_deployment_that_accepts_codes_by_halves_does_not_start(
    changed: dict[str, str], text: str
) -> None:
    with pytest.raises(Invalid, match=text) as raised:
        identity_settings({**_OIDC, **_CLIENT, **_SECRET, **changed})
    assert CLIENT_SECRET not in str(raised.value)


def test_a_client_needs_an_issuer_and_a_secret_of_its_own_form() -> None:
    with pytest.raises(Invalid, match="needs GRAVELER_OIDC_ISSUER"):
        identity_settings({**_CLIENT, **_SECRET})
    for text in ("", "x", "[]", "{}", '{"GRAVELER_OIDC_CLIENT_SECRET": 7}', CLIENT_SECRET):
        with pytest.raises(Invalid, match="JSON object") as raised:
            with_oidc_secret({}, text)
        assert CLIENT_SECRET not in str(raised.value)


def test_a_deployment_names_an_issuer_with_its_keys(tmp_path: Path) -> None:
    given = {"GRAVELER_OIDC_ISSUER": ISSUER, "GRAVELER_OIDC_AUDIENCE": AUDIENCE}
    file = tmp_path / "keys.json"
    file.write_bytes(key_set())
    for keys in (str(file), key_set().decode(), "https://login.example.com/keys"):
        settings = identity_settings({**given, "GRAVELER_OIDC_KEYS": keys})
        opened = open_identities(settings, SystemClock())
        assert settings.given and opened.aws is ABSENT and opened.oidc is not ABSENT
        assert opened.oidc.user_claim == "preferred_username" and not opened.oidc.groups_claim
    with pytest.raises(Invalid, match="set GRAVELER_OIDC_ISSUER"):
        identity_settings(given)
    with pytest.raises(Invalid, match="issuer of OIDC"):
        identity_settings({**given, "GRAVELER_OIDC_KEYS": "{}", "GRAVELER_OIDC_ISSUER": "x"})
    for keys in ("http://login.example.com/keys", str(tmp_path / "none"), "{}"):
        settings = identity_settings({**given, "GRAVELER_OIDC_KEYS": keys})
        with pytest.raises(Invalid, match="key"):
            open_identities(settings, SystemClock())


def test_only_the_log_says_why_a_provider_is_not_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers without credentials learn neither hosts nor settings, by code or by token."""
    provider = FakeProvider(
        lambda _code: "", described={"token_endpoint": "https://inner.example/"}
    )

    class Fenced:
        def send(self, request: Outgoing, seconds: float) -> Reply:
            if "inner" in request.url:
                raise Refused("host is not on the allow-list: host=inner.example")
            return provider.send(request, seconds)

    keys = FetchedKeys("https://inner.example/keys", Fenced(), SystemClock())
    client = OidcClient(CLIENT, CLIENT_SECRET, frozenset((REDIRECT,)))
    oidc = OidcIssuer(ISSUER, AUDIENCE, keys)
    login = CodeLogin(oidc, client, Fenced(), SystemClock())
    with served(tmp_path, identities=Identities(oidc=oidc, codes=login)) as live:
        lake = CodeLake(live, provider, {})
        stranger = Client(live.client.host, live.client.port, "")
        bearer = {"Authorization": f"Bearer {token()}"}
        refused = [lake.log_in("x"), stranger.send("GET", "/user", headers=bearer)]
    for reply in refused:
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert reply.message == "service not available; try again"
    causes = [vars(record).get("cause", "") for record in caplog.records]
    assert any("GRAVELER_OIDC_HOSTS" in cause for cause in causes)
    assert sum("host=inner.example" in cause for cause in causes) >= 2
