"""The token of a bulk job opens this job's heartbeat, finish and cancellation, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.auth import directory
from graveler.auth.permissions import Permission
from graveler.auth.throttling import Rates
from graveler.core import limits
from graveler.core.ids import JobId
from graveler.core.records import ABSENT
from graveler.engine.repositories import repository
from graveler.http.service import ServiceSettings
from graveler.refs import job_records
from tests.api.serving import Client, Served, basic, served
from tests.api.somebody import Somebody, somebody_of
from tests.api.test_bulk import committed, finished, written

EVERYTHING = Permission("*", "*")
REFUSED = "error authenticating request"


def where(repo: str, job: str = "", branch: str = "main") -> str:
    return f"/repositories/{repo}/branches/{branch}/bulk" + (f"/{job}" if job else "")


def begun(client: Client, repo: str, **more: Any) -> dict[str, Any]:
    body = {"mode": "splice", "prefix": "t/", "token": True, **more}
    reply = client.send("POST", where(repo), body=body)
    assert reply.status == 201, reply.body
    answer: dict[str, Any] = reply.json
    return answer


def holding(client: Client, token: str) -> Client:
    return replace(client, authorization=f"Bearer {token}")


def test_a_token_sends_heartbeats_and_lands_the_job(
    live: Served, client: Client, repo: str
) -> None:
    job = begun(client, repo)
    executor = holding(client, job["token"])
    assert executor.send("PUT", where(repo, job["id"]), body={"progress": 5}).json["progress"] == 5
    landed = finished(executor, repo, job["id"], written(live, job, {"t/a": "1"}))
    assert landed.status == 201, landed.body
    assert finished(executor, repo, job["id"], "0" * 64).json == landed.json
    assert landed.json["committer"] == finished(client, repo, job["id"], "0" * 64).json["committer"]
    other = begun(client, repo)
    assert holding(client, other["token"]).send("DELETE", where(repo, other["id"])).status == 204
    beat = holding(client, other["token"]).send("PUT", where(repo, other["id"]), body={})
    assert beat.status == 409  # it must stop, and learns why


def test_each_begin_gives_another_token_of_the_same_job(client: Client, repo: str) -> None:
    jobs = [begun(client, repo, id="nightly") for _ in range(3)]
    assert len({job["token"] for job in jobs}) == 3 and {job["id"] for job in jobs} == {"nightly"}
    for job in jobs:
        beat = holding(client, job["token"]).send("PUT", where(repo, "nightly"), body={})
        assert beat.status == 200 and "token" not in beat.json
    assert "token" not in client.send("GET", where(repo, "nightly")).json
    for _ in range(limits.bulk_tokens_count_max - 3):
        begun(client, repo, id="nightly")
    body = {"mode": "splice", "prefix": "t/", "id": "nightly"}
    full = client.send("POST", where(repo), body={**body, "token": True})
    assert full.status == 409 and "another id" in full.message
    assert client.send("POST", where(repo), body=body).status == 201


CALLS: list[tuple[str, str, Any]] = [
    ("GET", "/repositories/{repo}/branches/main/bulk/{job}", None),
    ("POST", "/repositories/{repo}/branches/main/bulk", {"mode": "splice", "prefix": "t/"}),
    ("POST", "/repositories/{repo}/branches/main/bulk", {"mode": "merge", "id": "{job}"}),
    ("GET", "/repositories/{repo}/branches/main", None),
    ("POST", "/repositories/{repo}/branches/main/commits", {"message": "m"}),
    ("GET", "/repositories/{repo}/refs/main/objects/ls", None),
    ("GET", "/repositories/{repo}/refs/main/objects?path=t/a", None),
    ("DELETE", "/repositories/{repo}/branches/main/objects?path=t/a", None),
    ("GET", "/repositories/{repo}/branches/main/staging/tokens", None),
    ("GET", "/repositories/{repo}/gc/roots", None),
    ("GET", "/repositories", None),
    ("GET", "/user", None),
    ("GET", "/auth/users", None),
    ("POST", "/auth/users/admin/credentials", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_a_token_opens_nothing_else(
    client: Client, repo: str, method: str, path: str, body: Any
) -> None:
    committed(client, repo, "t/a")
    job = begun(client, repo)
    target = "/api/v1" + path.format(repo=repo, job=job["id"])
    headers = {"Authorization": f"Bearer {job['token']}"}
    reply = client.raw(method, target, body, headers)
    assert reply.status == 401, (method, path, reply.body)


def test_a_token_is_for_one_job_of_one_branch_of_one_repository(
    live: Served, client: Client, repo: str
) -> None:
    job, other = begun(client, repo), begun(client, repo)
    body = {"name": "dev", "source": "main"}
    assert client.send("POST", f"/repositories/{repo}/branches", body=body).status == 201
    away = live.fresh_repository()
    same = begun(client, away, id=job["id"])
    executor = holding(client, job["token"])
    for place in (
        where(repo, other["id"]),
        where(repo, job["id"], "dev"),
        where(away, same["id"]),
        where(repo, "none"),
        where("none", job["id"]),
        where(repo, "a b"),
    ):
        for method, tail, sent in (
            ("PUT", "", {}),
            ("DELETE", "", None),
            ("PUT", "/finish", {"metarange": "0" * 64, "request_id": "r", "message": "m"}),
        ):
            reply = executor.send(method, place + tail, body=sent)
            assert (reply.status, reply.message) == (401, REFUSED), (place, tail)
    assert client.send("GET", where(repo, other["id"])).json["state"] == "running"
    assert client.send("GET", where(away, same["id"])).json["state"] == "running"


def test_what_is_no_token_of_the_job_is_refused(client: Client, repo: str) -> None:
    job = begun(client, repo)
    token, place = job["token"], where(repo, job["id"])
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    for header in (
        f"Bearer {wrong}",
        f"Bearer {token[:-1]}",
        f"Bearer {token}a",
        f"Bearer {token.upper()}",
        f"Bearer {token.removeprefix('gbj_')}",
        "Bearer gbj_",
        "Bearer gbj_\xff",
        f"Basic {token}",
        basic("key", token),
        token,
    ):
        reply = client.send("PUT", place, body={}, headers={"Authorization": header})
        assert reply.status == 401, header
    cookie = {"Authorization": "", "Cookie": f"internal_auth_session={token}"}
    assert client.send("PUT", place, body={}, headers=cookie).status == 401


def test_a_token_ends_with_its_job(live: Served, client: Client, repo: str) -> None:
    job = begun(client, repo, id="old")
    ports = live.service.ports
    record = repository.get(ports, repo)
    seen = job_records.get(ports.kv, record, JobId("old"))
    aged = seen.job._replace(
        created_ns=seen.job.created_ns - limits.import_seconds_max * limits.SECOND_NS
    )
    assert job_records.put(ports.kv, record, aged, seen, ports.ids.stamp()) is not ABSENT
    reply = holding(client, job["token"]).send("PUT", where(repo, "old"), body={})
    assert (reply.status, reply.message) == (401, REFUSED)
    assert client.send("PUT", where(repo, "old"), body={}).status == 409


def end_the_key(live: Served, one: Somebody) -> None:
    keys = f"/auth/users/{one.name}/credentials"
    for key in live.client.send("GET", keys).json["results"]:
        assert live.client.send("DELETE", f"{keys}/{key['access_key_id']}").status == 204


def end_the_user(live: Served, one: Somebody) -> None:
    directory.delete_user(live.service.auth.keeper, one.name)
    directory.create_user(live.service.auth.keeper, one.name)


@pytest.mark.parametrize("end", [end_the_key, end_the_user])
def test_a_token_ends_with_the_credential_of_its_user(
    live: Served, repo: str, end: Callable[[Served, Somebody], None]
) -> None:
    one = somebody_of(live, f"leaving-{end.__name__}".replace("_", "-"))
    one.may(EVERYTHING)
    job = begun(one.client, repo)
    executor = holding(one.client, job["token"])
    assert executor.send("PUT", where(repo, job["id"]), body={}).status == 200
    end(live, one)
    live.service.auth.access.forget()
    reply = executor.send("PUT", where(repo, job["id"]), body={})
    assert (reply.status, reply.message) == (401, REFUSED)


def test_a_token_may_not_do_what_its_user_may_not_do_any_more(
    live: Served, somebody: Somebody, repo: str
) -> None:
    somebody.may(EVERYTHING)
    job = begun(somebody.client, repo)
    executor = holding(somebody.client, job["token"])
    metarange = written(live, job, {"t/a": "1"})
    somebody.may_all_but(f"arn:lakefs:fs:::repository/{repo}/object/t/secret/*")
    refused = finished(executor, repo, job["id"], metarange)
    assert refused.status == 403, refused.body
    somebody.may(EVERYTHING)
    assert finished(executor, repo, job["id"], metarange).status == 201


def test_only_a_hash_of_the_token_is_stored(live: Served, client: Client, repo: str) -> None:
    job = begun(client, repo, id="kept")
    ports = live.service.ports
    order = job_records.order_of(ports.kv, repository.get(ports, repo), JobId("kept"))
    assert order is not ABSENT and any("token" in name for name in order)
    secret = job["token"].removeprefix("gbj_")
    assert all(secret not in name + value for name, value in order.items())


def test_many_wrong_tokens_are_refused_unchecked(tmp_path: Path) -> None:
    settings = ServiceSettings(failed_logins=Rates(by_token=5))
    with served(tmp_path / "store", settings=settings) as live:
        repo = live.fresh_repository()
        job = begun(live.client, repo)
        wrong = holding(live.client, "gbj_" + "0" * 40)
        statuses = [wrong.send("PUT", where(repo, job["id"]), body={}).status for _ in range(8)]
        assert statuses[:5] == [401] * 5 and statuses[-1] == 429
        assert live.client.send("PUT", where(repo, job["id"]), body={}).status == 200
