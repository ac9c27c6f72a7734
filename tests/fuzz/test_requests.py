"""Requests of every operation, right and broken, against a real server: never 5xx, never silent."""

import random
from collections.abc import Iterator

import pytest

from simulator.service.described import by_name, described
from simulator.service.requests import Fuzzer, Request, Requests
from tests import draws
from tests.api.serving import Served, served

COUNT = 4_800


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("fuzz") / "store") as running:
        yield running


@pytest.fixture
def fuzzer(live: Served) -> Iterator[Fuzzer]:
    fuzzer = Fuzzer(live.client.host, live.client.port, live.client.authorization)
    yield fuzzer
    fuzzer.close()


def test_every_answer_is_one_that_the_document_promises(fuzzer: Fuzzer) -> None:
    seed = draws.seed()
    fuzzer.run(random.Random(seed), COUNT)
    assert fuzzer.wrong == [], "\n".join(fuzzer.wrong)
    assert sum(fuzzer.statuses.values()) >= COUNT
    # Requests that are all refused would prove nothing.
    print(fuzzer.statuses, fuzzer.operations)
    assert len(fuzzer.operations) > len(described()) // 2
    assert {200, 201, 204, 400, 401, 404, 409} <= fuzzer.statuses.keys()


def test_requests_are_determined_by_their_seed() -> None:
    def some() -> list[Request]:
        stream = Requests(random.Random(7))
        return [*stream.ground(), *(stream.draw() for _ in range(1_000))]

    assert some() == some()
    assert {request.route.operation for request in some()} > {"commit", "listObjects", "login"}


def test_an_answer_that_breaks_a_rule_is_noticed(live: Served, fuzzer: Fuzzer) -> None:
    route = by_name()["getRepository"]
    fuzzer.send(Request(route, "/favicon.ico"))
    fuzzer.send(Request(route, "/api/v1/config"))
    assert len(fuzzer.wrong) == 2
    assert "not JSON" in fuzzer.wrong[0]
    assert "shape" in fuzzer.wrong[1]


def test_times_beyond_what_a_record_holds_are_refused(live: Served) -> None:
    repo = live.fresh_repository()
    latest = (2**63 - 1) // 10**9
    where = f"/repositories/{repo}/branches/main/commits"
    body = {"message": "m", "allow_empty": True}
    assert live.client.send("POST", where, body=body | {"date": latest}).status == 201
    assert live.client.send("POST", where, body=body | {"date": latest + 1}).status == 400
    record = {
        "commit_id": "0" * 64,
        "version": 1,
        "committer": "c",
        "message": "m",
        "metarange_id": "",
        "creation_date": 0,
        "parents": [],
        "generation": 1,
    }
    for name, value in (("creation_date", latest + 1), ("generation", 2**63 - 1)):
        reply = live.client.send(
            "POST", f"/repositories/{repo}/commits", body=record | {name: value}
        )
        assert reply.status == 400
        assert name in reply.message


def test_a_conflict_of_a_cherry_pick_or_a_revert_says_so(live: Served) -> None:
    repo = live.fresh_repository()
    where = f"/repositories/{repo}"
    for content in (b"1", b"2", b"3"):
        live.client.upload(repo, "a", content)
        live.client.send("POST", f"{where}/branches/main/commits", body={"message": "m"})
    for verb in ("cherry-pick", "revert"):
        body = {"ref": "main~1", "parent_number": 1}
        reply = live.client.send("POST", f"{where}/branches/main/{verb}", body=body)
        assert reply.status == 409
        assert "conflict" in reply.message
