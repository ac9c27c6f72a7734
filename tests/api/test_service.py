"""The service as a whole: set-up, pages, what it logs, what it refuses under load, how it stops."""

import http.client
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler import __version__
from graveler.api.branches import TagCreation, create_tag
from graveler.api.operations import OPERATIONS
from graveler.api.pages import OPEN_PATHS
from graveler.core.errors import Conflict, Corrupt, OutcomeUnknown, StorageFull, Unavailable
from graveler.core.records import JobState
from graveler.engine import imports, names
from graveler.engine.imports import ImportRequest
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.http.answers import Answer
from graveler.http.service import Call, ServiceSettings
from graveler.kv.store import Declined
from tests.api.serving import ADMINISTRATOR, API, Client, Served, basic, ended, listening, served
from tests.engine.overridden import Overridden
from tests.waiting import PATIENCE_SECONDS, until


def test_the_set_up_by_the_api(tmp_path: Path) -> None:
    with served(tmp_path / "store", administrator=False) as live:
        anonymous = Client(live.client.host, live.client.port, "")
        assert anonymous.send("GET", "/setup_lakefs").json["state"] == "not_initialized"
        assert live.client.send("GET", "/user").status == 401
        token = {"X-Graveler-Setup-Token": live.service.auth.setup_token}
        wrong = anonymous.send("POST", "/setup_lakefs", body={"username": ""}, headers=token)
        assert wrong.status == 400
        assert anonymous.send("POST", "/setup_lakefs", body={"username": "eve"}).status == 403
        reply = anonymous.send("POST", "/setup_lakefs", body={"username": "ann"}, headers=token)
        assert reply.status == 200
        assert reply.headers["cache-control"] == "no-store"
        given = basic(reply.json["access_key_id"], reply.json["secret_access_key"])
        ann = Client(anonymous.host, anonymous.port, given)
        assert ann.send("GET", "/user").json["user"]["id"] == "ann"
        assert anonymous.send("GET", "/setup_lakefs").json["state"] == "initialized"
        again = anonymous.send("POST", "/setup_lakefs", body={"username": "bob"})
        assert again.status == 409
    with served(tmp_path / "store", administrator=False) as live:
        ann = Client(live.client.host, live.client.port, given)
        assert ann.send("GET", "/user").status == 200


def test_the_set_up_takes_given_keys_and_is_raced_by_one_winner(tmp_path: Path) -> None:
    with served(tmp_path / "store", administrator=False) as live:
        anonymous = Client(live.client.host, live.client.port, "")

        token = {"X-Graveler-Setup-Token": live.service.auth.setup_token}

        def attempt(number: int) -> tuple[int, str]:
            key = {"access_key_id": f"KEY{number}", "secret_access_key": f"secret {number}" * 4}
            body = {"username": f"user{number}", "key": key}
            reply = anonymous.send("POST", "/setup_lakefs", body=body, headers=token)
            return reply.status, f"{number}"

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(attempt, range(8)))
        assert sorted(status for status, _ in outcomes) == [200] + [409] * 7
        for status, number in outcomes:
            header = {"Authorization": basic(f"KEY{number}", f"secret {number}" * 4)}
            accepted = anonymous.send("GET", "/user", headers=header).status == 200
            assert accepted == (status == 200)


def test_exactly_these_paths_are_open() -> None:
    assert OPEN_PATHS == (
        "/",
        "/_health",
        "/healthcheck",
        "/_health/ready",
        "/openapi.json",
        "/docs",
        "/logout",
        "/_presigned/",
        "/repositories",
        "/auth",
        "/setup",
        "/login",
        "/_ui/",
    )


def test_the_pages(client: Client) -> None:
    anonymous = Client(client.host, client.port, "")
    first = anonymous.raw("GET", "/")
    assert first.status == 200
    for said in ("Graveler is running", "/api/v1", "/openapi.json"):
        assert said in first.body.decode()
    for path in ("/_health", "/healthcheck"):
        assert anonymous.raw("GET", path).status == 200
        assert anonymous.raw("HEAD", path).body == b""
    assert anonymous.send("GET", "/healthcheck").status == 204
    assert anonymous.raw("GET", "/openapi.json").json["info"]["version"] == __version__
    out = anonymous.raw("GET", "/logout")
    assert (out.status, out.headers["location"]) == (307, "/")
    assert "internal_auth_session=;" in out.headers["set-cookie"]
    assert anonymous.raw("POST", "/").status == 404


def test_the_page_does_not_repeat_what_a_caller_says(client: Client) -> None:
    reply = client.raw("GET", "/", headers={"Host": "<script>alert(1)</script>"})
    assert b"<script>" not in reply.body


def test_every_answer_names_its_request(client: Client, repo: str) -> None:
    found = [client.send("GET", f"/repositories/{repo}") for _ in range(3)]
    found += [client.raw("GET", path) for path in ("/", "/nothing", API + "/nothing")]
    assert len({reply.headers["x-request-id"] for reply in found}) == 6


def test_nothing_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "canary0secret"
    settings = ServiceSettings(access_log=True)
    with served(tmp_path / "store", settings=settings) as live:
        client, repo = live.client, live.fresh_repository()
        where = f"/repositories/{repo}"
        headers = {"Authorization": basic(canary, canary), "Cookie": f"a={canary}"}
        client.send("GET", where, {canary: canary}, headers=headers)
        client.raw("GET", f"{API}/{canary}?{canary}")
        client.upload(repo, canary, canary.encode())
        signed = client.send("GET", where + "/branches/main/staging/backing",
                             {"path": canary, "presign": "true"}).json  # fmt: skip
        client.raw("PUT", signed["presigned_url"].removeprefix(client.url), b"x")
        body = {"access_key_id": canary, "secret_access_key": canary}
        client.send("POST", "/auth/login", body=body)
        client.send("POST", "/auth/login", body=b"{" + canary.encode())
        token = client.send("POST", "/auth/login", body={
            "access_key_id": ADMINISTRATOR.access_key_id,
            "secret_access_key": ADMINISTRATOR.secret_access_key,
        }).json["token"]  # fmt: skip
    requests = [vars(record) for record in caplog.records if record.name == "graveler.access"]
    answers = {(fields["operation"], fields["status"]) for fields in requests}
    assert {("uploadObject", 201), ("login", 401)} <= answers
    signature = signed["physical_address"].partition(",")[2]
    for secret in (canary, ADMINISTRATOR.secret_access_key, token, signature):
        assert secret not in caplog.text and secret not in str(requests)


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (StorageFull("no room left: path=/secret"), 507, "no room"),
        (Unavailable("not now"), 503, "not now"),
        (OutcomeUnknown("perhaps"), 503, "perhaps"),
        (Conflict("clash"), 409, "clash"),
        (Corrupt("damaged: id=abc"), 500, "damaged"),
        (ValueError("a bug with details"), 500, "internal error"),
    ],
)
def test_failures_of_the_store(
    live: Served, repo: str, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int,
    told: str
) -> None:  # fmt: skip
    def fail(*_arguments: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(names, "create_tag", fail)
    reply = live.client.send("POST", f"/repositories/{repo}/tags", body={"id": "t", "ref": "main"})
    assert reply.status == status
    assert told in reply.message
    assert "details" not in reply.message
    assert (reply.headers.get("retry-after") == "1") == (status == 503)


def test_too_many_waiting_writes_are_told_to_come_back(tmp_path: Path) -> None:
    held = threading.Event()

    def create_tag_later(call: Call, body: TagCreation) -> Answer:
        held.wait()
        answer: Answer = create_tag.endpoint(call, body)
        return answer

    later = replace(create_tag, endpoint=create_tag_later)
    others = [each for each in OPERATIONS if each is not create_tag]
    settings = ServiceSettings(writer_threads=1, requests_waiting_max=1)
    operations = (*others, later)
    with served(tmp_path / "store", settings=settings, operations=operations) as live:
        repo = live.fresh_repository()

        def tag(number: int) -> int:
            body = {"id": f"t{number}", "ref": "main"}
            reply = live.client.send("POST", f"/repositories/{repo}/tags", body=body)
            assert reply.status == 201 or reply.headers["retry-after"] == "1"
            return reply.status

        with ThreadPoolExecutor(6) as pool:
            waiting = [pool.submit(tag, number) for number in range(6)]
            until(lambda: sum(each.done() for each in waiting) == 4, "four are refused")
            # reads are not held up
            assert live.client.send("GET", f"/repositories/{repo}").status == 200
            held.set()
            statuses = sorted(each.result() for each in waiting)
        assert statuses == [201, 201, 503, 503, 503, 503]


def _refused(client: Client) -> bool:
    try:
        socket.create_connection((client.host, client.port), timeout=PATIENCE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_stop_lets_requests_in_flight_finish(tmp_path: Path) -> None:
    with served(tmp_path / "store") as live:
        repo = live.fresh_repository()
        connection = http.client.HTTPConnection(
            live.client.host, live.client.port, timeout=PATIENCE_SECONDS
        )
        where = f"{API}/repositories/{repo}/branches/main/objects?path=a"
        connection.putrequest("POST", where)
        connection.putheader("Authorization", live.client.authorization)
        connection.putheader("Content-Length", "200000")
        connection.endheaders()
        connection.send(b"x" * 100_000)
        until(lambda: live.server.server_state.tasks, "the request has begun")
        live.server.should_exit = True
        until(lambda: _refused(live.client), "it listens no more")
        connection.send(b"x" * 100_000)
        assert connection.getresponse().status == 201
        connection.close()


def test_jobs_of_a_dead_process_go_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with served(store, import_roots=[tmp_path]) as live:
        name = live.fresh_repository()
        ports = live.embedded.ports
        repo = repository.get(ports, name)
        source = tmp_path / "data"
        source.mkdir()
        (source / "a").write_bytes(b"a")
        paths = [imports.ImportPath("common_prefix", f"local://{source}/", "i/")]
        request = ImportRequest(paths, "m", "somebody")
        job = imports.submit(
            open_repository(ports, repo), "main", request, owner=b"another process"
        )
        assert imports.status(open_repository(ports, repo), job.id).state is JobState.RUNNING
    with served(store, import_roots=[tmp_path]) as live:
        where = f"/repositories/{name}/branches/main/import"
        found = ended(live.client, where, "completed", id=job.id)
        assert found["completed"] and found["ingested_objects"] == 1


def test_a_request_that_loses_every_try_is_429_which_clients_repeat(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        repo, kv = live.fresh_repository(), live.service.ports.kv
        assert live.client.upload(repo, "a", b"x").status == 201

        def lost(partition: bytes, key: bytes, *_: object) -> Declined:
            return Declined(kv.get(partition, key))

        busy: Any = Overridden(kv, set_if=lost)
        service = replace(live.service, ports=replace(live.service.ports, kv=busy))
        with listening(service) as (client, _):
            main, create = f"/repositories/{repo}/branches/main", {"If-None-Match": "*"}
            for reply in (
                client.send("POST", main + "/commits", body={"message": "m"}),
                client.send("POST", main + "/objects", {"path": "b"}, body=b"x", headers=create),
                client.send("DELETE", main + "/objects", {"path": "a"}, headers={"If-Match": "*"}),
            ):
                assert (reply.status, reply.headers["retry-after"]) == (429, "1"), reply
                assert "try again" in reply.message


def test_guesses_are_answered_429_on_every_route(tmp_path: Path) -> None:
    with served(tmp_path / "store", settings=ServiceSettings()) as live:
        guess = {"Authorization": basic(ADMINISTRATOR.access_key_id, "guess")}
        statuses = [live.client.send("GET", "/user", headers=guess).status for _ in range(11)]
        assert statuses == [401] * 10 + [429]
        body = {"access_key_id": "K" * 20, "secret_access_key": "guess"}
        for reply in (
            live.client.send("POST", "/auth/login", body=body),
            live.client.send("GET", "/repositories", headers=guess),
        ):
            assert (reply.status, reply.message[:8]) == (429, "too many")
            assert 1 <= int(reply.headers["retry-after"]) <= 60
