"""The audit trail: a line for each change and each denial, none for a read, and no secret in any.

What is true of every operation is tested from the declarations.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.api import answers
from graveler.api.app import Graveler
from graveler.api.login import AuthenticationToken
from graveler.api.operation import BY_ITEM, FOR_EVERY_CALLER, OPEN
from graveler.api.operations import OPERATIONS
from graveler.audit.trail import (
    AUDIT_FOLDER,
    Line,
    LinePage,
    LoggedTrail,
    Outcome,
    Question,
    encode,
)
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Unsupported
from graveler.http.answers import Answer
from graveler.http.service import Call, ServiceSettings
from simulator.service.described import by_name, resolved
from tests.api.fault_lake import lake
from tests.api.fault_world import KEY, SECRET_KEY, sound, surroundings
from tests.api.samples import ALL, Sample
from tests.api.serving import (
    ADMINISTRATOR,
    ANY_NUMBER,
    API,
    USER,
    Client,
    Reply,
    Served,
    basic,
    served,
)
from tests.api.somebody import Somebody, somebody_of
from tests.asgi import Ask, Door

DECLARED = {each.name: each for each in OPERATIONS}
LAKE = "arn:lakefs:fs:::repository/"
SETTINGS = ServiceSettings(
    failed_logins=ANY_NUMBER, unknown_lines_max=10**9, denied_lines_max=10**9
)


class Kept(LoggedTrail):
    """A trail in memory."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def write(self, line: Line) -> None:
        self.lines.append(line)
        super().write(line)

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        return LinePage(tuple(self.lines), "")

    def of(self, reply: Reply) -> list[Line]:
        """The lines of the request that was answered so."""
        return [each for each in self.lines if each.request_id == reply.headers["x-request-id"]]


@pytest.fixture(scope="module")
def trail() -> Kept:
    return Kept()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, trail: Kept) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("audited") / "store"
    with served(store, settings=SETTINGS, trail=trail) as running:
        yield running


@pytest.fixture(scope="module")
def somebody(live: Served) -> Somebody:
    return somebody_of(live)


def anonymous(live: Served) -> Client:
    return replace(live.client, authorization="")


def placed(live: Served, one: Sample) -> Sample:
    """The request in a repository of its own."""
    if not one.path.startswith("/repositories/"):
        return one
    return replace(one, path=one.path.replace("/sample", "/" + live.fresh_repository(), 1))


def send(client: Client, one: Sample) -> Reply:
    return client.send(one.method, one.path, one.query, body=one.body)


# ---- every operation -----------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "one"), ALL, ids=[name for name, _ in ALL])
def test_a_change_has_one_line_and_a_read_has_none(
    live: Served, trail: Kept, operation: str, one: Sample
) -> None:
    one = placed(live, one)
    reply = send(live.client, one)
    lines = trail.of(reply)
    if not DECLARED[operation].audited:
        assert lines == [] or reply.status in (401, 403)
        return
    (line,) = lines
    assert (line.operation, line.status) == (operation, reply.status)
    assert line.user == ("" if operation in OPEN else USER)
    if reply.status < 300:
        assert line.outcome is Outcome.DONE
    elif reply.status not in (401, 403):
        assert line.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
    if one.path.startswith("/repositories/"):
        assert any(one.path.split("/")[2] in each for each in line.resources)


@pytest.mark.parametrize(("operation", "one"), ALL, ids=[name for name, _ in ALL])
def test_a_caller_without_credentials_leaves_one_line(
    live: Served, trail: Kept, operation: str, one: Sample
) -> None:
    if operation in OPEN:
        return
    (line,) = trail.of(send(anonymous(live), one))
    assert (line.operation, line.outcome, line.status) == (operation, Outcome.DENIED, 401)
    assert (line.user, line.address, line.missing) == ("", "127.0.0.1", "")
    if one.path.startswith("/repositories/"):
        assert line.resources == (LAKE + one.path.split("/")[2],)


@pytest.mark.parametrize(("operation", "one"), ALL, ids=[name for name, _ in ALL])
def test_a_caller_without_rights_leaves_one_line_that_says_what_is_missing(
    live: Served, somebody: Somebody, trail: Kept, operation: str, one: Sample
) -> None:
    if operation in OPEN | FOR_EVERY_CALLER:
        return
    one = placed(live, one)
    somebody.may()
    reply = send(somebody.client, one)
    line = trail.of(reply)[0]
    assert (line.operation, line.outcome, line.user) == (operation, Outcome.DENIED, "somebody")
    assert line.status == reply.status and reply.status in (403, 404)
    action, _, _resource = line.missing.partition(" on ")
    if operation not in BY_ITEM:
        assert action in {each.action for each in DECLARED[operation].permissions}


# ---- what a line says ----------------------------------------------------------------------------


def test_who_did_what_on_what(live: Served, trail: Kept) -> None:
    repo = live.fresh_repository()
    before = live.embedded.ports.clock.now_ns()
    reply = live.client.upload(repo, "a/b", b"1")
    (line,) = trail.of(reply)
    user = live.service.auth.access.view(USER).user
    assert line == Line(
        line.time, reply.headers["x-request-id"], USER, user.uid, "127.0.0.1",  # type: ignore[union-attr]
        "uploadObject", (f"{LAKE}{repo}/object/a/b",), Outcome.DONE, 201,
    )  # fmt: skip
    now = live.embedded.ports.clock.now_ns()
    assert Question(before // 1_000 * 1_000, now + 1_000).admits(line)


def test_a_hidden_repository_is_a_denial_and_an_absent_one_is_none(
    live: Served, somebody: Somebody, trail: Kept
) -> None:
    repo = live.fresh_repository()
    somebody.may()
    reply = somebody.client.send("GET", f"/repositories/{repo}")
    (line,) = trail.of(reply)
    assert (reply.status, line.status, line.outcome) == (404, 404, Outcome.DENIED)
    assert line.missing == f"fs:ReadRepository on {LAKE}{repo}"
    assert trail.of(live.client.send("GET", "/repositories/none")) == []
    assert trail.of(live.client.send("GET", "/nothing")) == []
    (absent,) = trail.of(live.client.send("DELETE", "/repositories/none"))
    assert (absent.outcome, absent.code) == (Outcome.FAILED, "repository_not_found")


def test_a_batch_names_what_was_deleted_and_what_was_denied(
    live: Served, somebody: Somebody, trail: Kept
) -> None:
    repo = live.fresh_repository()
    may = f"{LAKE}{repo}/object/mine/"
    somebody.may(Permission("fs:ReadRepository", "*"), Permission("fs:DeleteObject", may + "*"))
    where = f"/repositories/{repo}/branches/main/objects/delete"
    body = {"paths": ["mine/a", "yours/a", "mine/b", "yours/b"]}
    done, denied = trail.of(somebody.client.send("POST", where, body=body))
    assert (done.outcome, done.resources) == (Outcome.DONE, (may + "a", may + "b"))
    yours = f"{LAKE}{repo}/object/yours/"
    assert (denied.outcome, denied.status) == (Outcome.DENIED, 403)
    assert denied.resources == (yours + "a", yours + "b")
    assert denied.missing == f"fs:DeleteObject on {yours}a"


def test_what_a_rule_forbids_is_a_denial_with_its_code(live: Served, trail: Kept) -> None:
    repo = live.fresh_repository()
    where = f"/repositories/{repo}"
    live.client.send("PUT", where + "/settings/branch_protection", body=[{"pattern": "main"}])
    (line,) = trail.of(live.client.upload(repo, "a", b"1"))
    assert (line.outcome, line.status, line.code) == (Outcome.DENIED, 403, "protected_write")


def test_logins_and_logouts(live: Served, trail: Kept) -> None:
    body = {
        "access_key_id": ADMINISTRATOR.access_key_id,
        "secret_access_key": ADMINISTRATOR.secret_access_key,
    }
    client = anonymous(live)
    reply = client.send("POST", "/auth/login", body=body)
    (line,) = trail.of(reply)
    assert (line.operation, line.outcome, line.user) == ("login", Outcome.DONE, USER)
    wrong = client.send("POST", "/auth/login", body=body | {"secret_access_key": "x"})
    (line,) = trail.of(wrong)
    assert (line.outcome, line.status, line.user) == (Outcome.DENIED, 401, "")
    bearer = {"Authorization": f"Bearer {reply.json['token']}"}
    (line,) = trail.of(client.raw("GET", "/logout", headers=bearer))
    assert (line.operation, line.outcome, line.user) == ("logout", Outcome.DONE, USER)
    assert trail.of(client.raw("GET", "/logout")) == []


def test_the_set_up_names_the_administrator(tmp_path: Path) -> None:
    trail = Kept()
    with served(tmp_path / "store", settings=SETTINGS, trail=trail, administrator=False) as live:
        headers = {"X-Graveler-Setup-Token": live.service.auth.setup_token}
        body = {"username": "ada"}
        client = anonymous(live)
        (denied,) = trail.of(client.send("POST", "/setup_lakefs", body=body))
        (done,) = trail.of(client.send("POST", "/setup_lakefs", body=body, headers=headers))
    assert (denied.outcome, denied.user, denied.status) == (Outcome.DENIED, "", 403)
    assert (done.outcome, done.user, done.operation) == (Outcome.DONE, "ada", "setup")


@pytest.mark.parametrize("name", sorted(each for each in OPEN if DECLARED[each].audited))
def test_an_exchange_that_names_nobody_answers_nothing(tmp_path: Path, name: str) -> None:
    """Whatever an endpoint gives to a caller without credentials, the trail says to whom."""

    def forgetful(call: Call, body: object) -> Answer:
        return answers.json(AuthenticationToken(CANARY, 1))

    trail, body = Kept(), dict(ALL)[name].body
    with surroundings(tmp_path) as around:
        service = replace(lake(around).serve(sound()).service, trail=trail)
        one = replace(DECLARED[name], endpoint=forgetful)
        door = Door(Graveler(operations=[one]).use(service), around.loop, {"Host": "lake"})
        heard = door.send(Ask.json(one.method, one.path, body))
    (line,) = trail.lines
    assert heard.status == line.status == 500 and CANARY.encode() not in heard.body
    assert (line.operation, line.outcome, line.code) == (name, Outcome.UNKNOWN, "internal")


@pytest.mark.parametrize("path", ["/metrics", "/_presigned/x?signature=canary"])
def test_denials_beside_the_api(live: Served, trail: Kept, path: str) -> None:
    (line,) = trail.of(anonymous(live).raw("GET", path))
    assert (line.operation, line.outcome) == (path.split("/")[1].strip("_"), Outcome.DENIED)


def test_unknown_callers_cannot_fill_the_trail(tmp_path: Path) -> None:
    trail = Kept()
    settings = SETTINGS._replace(unknown_lines_max=3)
    with served(tmp_path / "store", settings=settings, trail=trail) as live:
        for _ in range(8):
            anonymous(live).send("GET", "/repositories")
        known = live.client.send("POST", "/auth/groups", body={"id": "g"})
        assert len(trail.lines) == 4
        (line,) = trail.of(known)
        assert (line.unrecorded, line.outcome) == (5, Outcome.DONE)
        assert (
            trail.of(live.client.send("POST", "/auth/groups", body={"id": "h"}))[0].unrecorded == 0
        )


def test_denials_of_a_user_cannot_fill_the_trail(tmp_path: Path) -> None:
    trail = Kept()
    settings = SETTINGS._replace(denied_lines_max=3)
    with served(tmp_path / "store", settings=settings, trail=trail) as live:
        repo, caller = live.fresh_repository(), somebody_of(live)
        caller.may(
            Permission("fs:ReadRepository", "*"), Permission("fs:DeleteObject", f"{LAKE}*/mine")
        )
        where, begun = f"/repositories/{repo}/branches/main/objects/delete", len(trail.lines)
        for _ in range(8):
            caller.client.send("GET", "/auth/users")
        assert len(trail.lines) == begun + 3
        body = {"paths": ["mine", "yours", "theirs"]}
        (line,) = trail.of(caller.client.send("POST", where, body=body))
        assert (line.outcome, line.unrecorded, line.left_out) == (Outcome.DONE, 5, 2)
        (other,) = trail.of(live.client.send("DELETE", "/repositories/none"))
        assert (other.outcome, other.unrecorded) == (Outcome.FAILED, 0)


def test_what_one_request_writes_is_bounded(live: Served, somebody: Somebody, trail: Kept) -> None:
    """However many items it names, and however long their names are."""
    repo = live.fresh_repository()
    where = f"/repositories/{repo}/branches/main/objects/delete"
    paths = [f"{number:04}{'x' * 1_000}" for number in range(1_000)]
    somebody.may(Permission("fs:ReadRepository", "*"))
    done, denied = trail.of(somebody.client.send("POST", where, body={"paths": paths}))
    assert (done.resources, done.left_out) == ((), 0)
    assert 1 <= len(denied.resources) == 1_000 - denied.left_out
    assert len(encode(denied)) < 8_000
    (done,) = trail.of(live.client.send("POST", where, body={"paths": paths}))
    assert 200 < len(done.resources) == 1_000 - done.left_out
    assert sum(map(len, done.resources)) <= 256 * 1024


def test_what_one_user_writes_in_a_minute_is_bounded(
    live: Served, somebody: Somebody, trail: Kept
) -> None:
    """Each change has its line, which then names one resource."""
    repo = live.fresh_repository()
    where = f"/repositories/{repo}/branches/main/objects/delete"
    somebody.may(Permission("fs:DeleteObject", "*"))
    paths = [f"{number:04}{'x' * 1_000}" for number in range(260)]
    written = [trail.of(somebody.client.send("POST", where, body={"paths": paths}))[0]
               for _ in range(20)]  # fmt: skip
    assert len(written[0].resources) > 200
    assert (len(written[-1].resources), written[-1].left_out) == (1, 259)
    assert sum(len(each) for line in written for each in line.resources) < 5 * 1024 * 1024


def test_a_request_that_the_service_drops_has_an_unknown_outcome(tmp_path: Path) -> None:
    trail = Kept()
    with surroundings(tmp_path) as around:
        service = replace(lake(around).serve(sound()).service, trail=trail)
        application = Graveler().use(service)
        headers = {b"authorization": basic(KEY, SECRET_KEY).encode(), b"host": b"lake"}
        scope = {
            "type": "http", "method": "POST", "scheme": "http", "query_string": b"",
            "path": f"{API}/repositories", "headers": list(headers.items()),
        }  # fmt: skip

        async def dropped() -> None:
            asked = asyncio.Event()

            async def receive() -> Any:
                asked.set()
                await asyncio.Event().wait()

            async def answer(_message: Any) -> None:
                raise AssertionError("nobody is answered")

            task = asyncio.ensure_future(application(scope, receive, answer))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        around.loop.run_until_complete(dropped())
    (line,) = trail.lines
    assert (line.operation, line.outcome, line.status) == ("createRepository", Outcome.UNKNOWN, 0)
    assert line.user


# ---- no secrets ----------------------------------------------------------------------------------

CANARY = "canary0secret"
_NAMES = frozenset(("user", "path", "id", "name", "branch", "prefix", "src_path", "dest_path"))


def _placeholders(operation: str) -> list[str]:
    found: list[str] = []
    for each in DECLARED[operation].permissions:
        found += [part.partition("}")[0] for part in each.resource.split("{")[1:]]
    return [piece for each in found for piece in each.replace("[]", "").split(".")]


def _filled(schema: Mapping[str, Any], named: set[str]) -> Any:
    """A value with a canary in each text of a body that names no resource."""
    schema = resolved(schema)
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        values = {}
        for name, inner in schema.get("properties", {}).items():
            values[name] = "sample" if name in named else _filled(inner, named)
        return values or {CANARY: CANARY}
    if kind == "array":
        return [_filled(schema["items"], named)]
    if kind == "integer":
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    if "enum" in schema:
        return schema["enum"][0]
    return CANARY


@pytest.mark.parametrize("operation", [name for name, _ in ALL])
def test_no_secret_of_a_request_is_in_a_line_or_in_the_log(
    live: Served, trail: Kept, caplog: pytest.LogCaptureFixture, operation: str
) -> None:
    caplog.set_level(logging.DEBUG)
    route = by_name()[operation]
    one = placed(live, dict(ALL)[operation])
    named = set(_placeholders(operation)) | _NAMES
    query = {each.name: "sample" if each.name in named else CANARY
             for each in route.of_place("query")}  # fmt: skip
    headers = {"Cookie": f"a={CANARY}", "X-Graveler-Setup-Token": CANARY, "X-Any": CANARY}
    headers |= {each.name: CANARY for each in route.of_place("header")}
    body = _filled(route.body, named) if route.body else one.body
    before = len(trail.lines)
    wrong, bearer = basic(CANARY, CANARY), f"Bearer {CANARY}"
    for each in ({}, {"Authorization": wrong}, {"Authorization": bearer}):
        live.client.send(one.method, one.path, query, body=body, headers=headers | each)
    half = b"{" + CANARY.encode()
    live.client.send(one.method, one.path, one.query, body=half, headers=headers)
    live.client.send(one.method, one.path, one.query, body=body, headers=headers)
    written = [encode(line).decode() for line in trail.lines[before:]]
    assert operation in OPEN or any(operation in each for each in written)
    assert [each for each in written if CANARY in each] == []
    logged = [each.getMessage() for each in caplog.records if each.name.startswith("graveler")]
    assert [each for each in logged if CANARY in each] == []


def test_an_address_shows_no_password_and_no_signature(live: Served, trail: Kept) -> None:
    repo = live.fresh_repository()
    where = f"/repositories/{repo}/branches/main/objects"
    for address, shown in (
        (f"s3://key:{CANARY}@bucket/a", "s3://bucket/a"),
        (f"local://lake/data/a,{CANARY}", "local://lake/data/a,…"),
        (f"local://lake/a?X-Amz-Signature={CANARY}", "local://lake/a"),
    ):
        body = {"physical_address": address, "checksum": "x", "size_bytes": 1}
        (line,) = trail.of(live.client.send("PUT", where, {"path": "p"}, body=body))
        assert CANARY not in encode(line).decode()
        assert any(each.startswith("arn:lakefs:fs:::namespace/" + shown) for each in line.resources)
    (line,) = trail.of(live.client.upload(repo, "x" * 9_000, b"1"))
    assert [len(each) for each in line.resources] == [limits.audit_resource_length_max + 1]


def test_a_new_secret_is_in_no_line(live: Served, trail: Kept) -> None:
    live.client.send("POST", "/auth/users", body={"id": "keyed"})
    reply = live.client.send("POST", "/auth/users/keyed/credentials")
    (line,) = trail.of(reply)
    assert line.outcome is Outcome.DONE
    for name in ("secret_access_key", "access_key_id"):
        assert reply.json[name] not in encode(line).decode()


# ---- GET /audit ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose trail is in files, as that of the commands."""
    with served(tmp_path_factory.mktemp("filed") / "store") as running:
        yield running


def listed(client: Client, **query: str) -> list[dict[str, Any]]:
    """All pages."""
    found: list[dict[str, Any]] = []
    for _ in range(1_000):
        reply = client.send("GET", "/audit", query)
        assert reply.status == 200, reply.body
        found += reply.json["results"]
        if not reply.json["pagination"]["has_more"]:
            return found
        query["after"] = reply.json["pagination"]["next_offset"]
    raise AssertionError("endless pages")


def test_the_trail_is_asked_by_user_operation_resource_outcome_and_time(filed: Served) -> None:
    client, repo = filed.client, filed.fresh_repository()
    other = somebody_of(filed)
    other.may(Permission("fs:ReadRepository", "*"))
    begun = listed(client)[-1]["time"]
    assert client.upload(repo, "a", b"1").status == 201
    assert client.upload(repo, "b", b"1").status == 201
    assert other.client.upload(repo, "c", b"1").status == 403
    whole = listed(client, resource=LAKE + repo)
    assert [each["operation"] for each in whole] == ["createRepository", *["uploadObject"] * 3]
    for amount in ("1", "2", "1000"):
        assert listed(client, resource=LAKE + repo, amount=amount) == whole
    assert listed(client, resource=f"{LAKE}{repo}/object/") == whole[1:]
    assert listed(client, resource=f"{LAKE}{repo}/object/b") == whole[2:3]
    assert listed(client, user="somebody") == whole[3:]
    assert listed(client, outcome="denied", resource=LAKE + repo) == whole[3:]
    assert listed(client, operation="uploadObject", user=USER, resource=LAKE + repo) == whole[1:3]
    assert listed(client, since=whole[2]["time"]) == whole[2:]
    assert (
        listed(client, since=begun, until=whole[2]["time"], operation="uploadObject") == whole[1:2]
    )
    assert listed(client, until="2020-01-01T00:00:00Z") == []
    ever = {"since": "1969-01-01T00:00:00Z", "until": "9999-12-31T23:59:59-12:00"}
    assert listed(client, user="somebody", **ever) == whole[3:]
    denied = whole[3]
    assert denied["missing"] == f"fs:WriteObject on {LAKE}{repo}/object/c"
    assert (denied["user"], denied["status"], denied["outcome"]) == ("somebody", 403, "denied")


def test_the_files_hold_the_same_lines(filed: Served) -> None:
    filed.fresh_repository()
    shown = listed(filed.client)
    files = sorted((filed.store / AUDIT_FOLDER).iterdir())
    kept = [json.loads(each) for file in files for each in file.read_text().splitlines()]
    kept.sort(key=lambda each: str(each["time"]))
    assert [each["request_id"] for each in kept] == [each["request_id"] for each in shown]


def test_the_trail_needs_its_own_permission(filed: Served) -> None:
    reader = somebody_of(filed, "reader")
    reader.may(Permission("fs:*", "*"), Permission("auth:ReadUser", "*"))
    refused = reader.client.send("GET", "/audit")
    assert (refused.status, refused.message) == (403, "permission missing: auth:ReadAudit on *")
    reader.may(Permission("auth:ReadAudit", "*"))
    assert reader.client.send("GET", "/audit").status == 200
    assert replace(filed.client, authorization="").send("GET", "/audit").status == 401


@pytest.mark.parametrize(
    "query",
    [
        *(
            {"after": after}
            for after in ("x", "1.2", "1.2.", "1.2.x", "-1.2.3-4", f"{'9' * 21}.1.a")
        ),
        *({name: "yesterday"} for name in ("since", "until")),
        *({"amount": amount} for amount in ("1001", "x")),
        {"outcome": "good"},
    ],
)
def test_a_wrong_question_is_refused(filed: Served, query: dict[str, str]) -> None:
    assert filed.client.send("GET", "/audit", query).status == 400


def test_a_page_keeps_its_span_of_time(filed: Served) -> None:
    """A request between two pages is on none of them, and the token needs no repeated span."""
    for _ in range(3):
        filed.fresh_repository()
    first = filed.client.send("GET", "/audit", {"amount": "2"}).json
    count = len(listed(filed.client))
    filed.fresh_repository()
    rest = listed(filed.client, after=first["pagination"]["next_offset"])
    assert len(rest) + 2 == count


def test_a_service_without_a_trail_logs_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    line = Line("t", "r", "ada", "u", "", "commit", ("arn",), Outcome.DONE, 201)
    trail = LoggedTrail()
    trail.write(line)
    assert caplog.records == []
    caplog.set_level(logging.INFO)
    trail.write(line)
    (record,) = caplog.records
    assert record.msg == json.loads(encode(line)) | {"resources": ("arn",)}
    with pytest.raises(Unsupported):
        trail.read(Question(0, 1), "", 1)
