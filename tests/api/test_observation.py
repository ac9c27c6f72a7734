"""Metrics, readiness, usage and communication preferences of a running service."""

import asyncio
import re
import threading
from dataclasses import replace
from typing import Literal

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException

from graveler.api.app import Graveler
from graveler.api.pages import Observation
from graveler.auth import accounts
from graveler.block.adapter import Blocks
from graveler.block.memory import MemoryBlocks
from graveler.core.errors import Corrupt, GravelerError, StorageFull, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.engine import staged_rows
from graveler.engine.repositories import repository
from graveler.http.answers import Answer
from graveler.http.metrics import BUCKETS, Metrics, add_requests
from graveler.http.pools import BoundedPool
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Row
from graveler.refs import branches
from tests.api.fault_world import KEY, SECRET_KEY, Running, Strikes, World, sound
from tests.api.serving import Client, basic
from tests.asgi import Ask, Door, Message
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore, nth
from tests.waiting import PATIENCE_SECONDS

LINE = re.compile(
    r"[a-z_]+(\{[a-z]+=\"[^\"]*\"(,[a-z]+=\"[^\"]*\")*\})? [0-9.]+|# (HELP|TYPE) [^\n]+"
)
PREFS = {"featureUpdates": True, "securityUpdates": False, "email": "a@example.com"}


class PageDoor(Door):
    """A door into the paths outside the API."""

    def __init__(self, world: World, running: Running) -> None:
        headers = {"Authorization": basic(KEY, SECRET_KEY), "Host": "lake"}
        super().__init__(Graveler().use(running.service), world.around.loop, headers)

    def _scope(self, ask: Ask) -> Message:
        path = ask.target
        return {**super()._scope(ask), "path": path, "raw_path": path.encode()}


def figure(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} ([0-9.]+)$", text, re.M)
    return float(found[1]) if found else 0.0


# ---- metrics -------------------------------------------------------------------------------------


def test_requests_are_counted_by_operation_and_status(client: Client, repo: str) -> None:
    def counted(status: int) -> float:
        text = client.raw("GET", "/metrics").body.decode()
        labels = f'operation="getRepository",status="{status}"'
        return figure(text, f"graveler_requests_seconds_count{{{labels}}}")

    before = counted(200), counted(404)
    for name in (repo, repo, "none"):
        client.send("GET", f"/repositories/{name}")
    assert (counted(200), counted(404)) == (before[0] + 2, before[1] + 1)


def test_every_line_is_in_the_format_and_no_path_is_a_label(client: Client, repo: str) -> None:
    assert client.upload(repo, "secret/path", b"1").status == 201
    assert client.send("POST", f"/repositories/{repo}/dump").status == 202
    client.send("GET", "/nothing/at/all")
    reply = client.raw("GET", "/metrics")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
    lines = reply.body.decode().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert "secret" not in reply.body.decode() and "nothing" not in reply.body.decode()
    for name in ("graveler_cache_hits_total", "graveler_cache_bytes", "graveler_jobs"):
        assert any(line.startswith(f"{name}{{") for line in lines) or name == "graveler_jobs"


def test_metrics_need_credentials(client: Client) -> None:
    for authorization in ("", "Basic eDp5"):
        refused = Client(client.host, client.port, authorization).raw("GET", "/metrics")
        assert (refused.status, b"graveler_" in refused.body) == (401, False)
    assert client.raw("POST", "/metrics").status == 404


def test_buckets_add_up(client: Client) -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.001, 0.0011, 7.0, 1_000.0):
        metrics.record("getObject", 200, seconds)
    text = "\n".join(metrics.lines())
    labels = 'operation="getObject",status="200"'
    counts = [
        figure(text, f'graveler_requests_seconds_bucket{{{labels},le="{bound}"}}')
        for bound in (*BUCKETS, "+Inf")
    ]
    assert counts[:2] == [2, 3] and counts[-3:] == [4, 4, 5] and counts == sorted(counts)
    assert figure(text, f"graveler_requests_seconds_sum{{{labels}}}") == pytest.approx(1007.0022)


def test_jobs_are_counted_by_state_at_most_once_a_minute(template: World) -> None:
    world = template.copy()
    running = world.serve(sound())
    door = PageDoor(world, running)

    def jobs() -> float:
        text = door.send(Ask("GET", "/metrics")).body.decode()
        assert figure(text, "graveler_jobs_repositories") == 4
        return figure(text, 'graveler_jobs{state="running"}')

    before = jobs()
    assert before >= 5
    assert running.door.send(Ask("POST", "/repositories/lake/dump")).status == 202
    assert jobs() == before
    world.clock.sleep(61)
    assert jobs() == before + 1


def test_uncommitted_rows_are_counted_at_most_once_a_minute(template: World) -> None:
    world = template.copy()
    running = world.serve(sound())
    door = PageDoor(world, running)

    def rows() -> float:
        return figure(door.send(Ask("GET", "/metrics")).body.decode(), "graveler_staged_rows")

    before = rows()
    assert before > 2
    for name in ("new", "newer"):
        path = f"/repositories/lake/branches/dev/objects?path={name}"
        assert running.door.send(Ask("POST", path, (b"x",))).status == 201
    assert rows() == before
    world.clock.sleep(61)
    assert rows() == before + 2
    reset = Ask.json("PUT", "/repositories/lake/branches/dev", {"type": "reset"})
    assert running.door.send(reset).status == 204
    world.clock.sleep(61)
    assert rows() < before + 2


def test_the_count_of_rows_ends_with_their_number_or_its_time(template: World) -> None:
    ports = template.copy().serve(sound()).service.ports
    whole = staged_rows.count(ports, 10_000, lambda: True)
    listed = [len(list(branches.every(each.kv, each.record))) for each in repository.every(ports)]
    assert whole.rows > 2 and whole.branches == sum(listed)
    few = staged_rows.count(ports, 1, lambda: True)
    assert few.rows >= 1 and few.branches < whole.branches
    assert staged_rows.count(ports, 10_000, lambda: False).branches == 0


# ---- readiness -----------------------------------------------------------------------------------


def test_a_service_is_ready_while_its_store_answers(client: Client) -> None:
    anonymous = Client(client.host, client.port, "")
    assert anonymous.raw("GET", "/_health/ready").status == 200
    assert anonymous.raw("GET", "/_health").status == 200


def test_a_service_whose_store_is_gone_lives_and_is_not_ready(template: World) -> None:
    world = template.copy()
    strikes = Strikes(1, Fault.REFUSED)
    door = PageDoor(world, world.serve(strikes))
    ready = door.send(Ask("GET", "/_health/ready"))
    assert (ready.status, ready.headers["retry-after"]) == (503, "1")
    assert door.send(Ask("GET", "/_health")).status == 200
    assert door.send(Ask("GET", "/_health/ready")).status == 503  # kept for a second
    assert len(strikes.seen) == 1
    world.clock.sleep(2)
    assert door.send(Ask("GET", "/_health/ready")).status == 200


class RefusingStore(MemoryStore):
    """Refuses to write, with the error that it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.error: GravelerError | Literal[Absent.ABSENT] = ABSENT

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self.writes += 1
        if self.error is not ABSENT:
            raise self.error
        super().set(partition, key, value, version)


def test_a_store_that_takes_no_writes_is_not_ready_and_says_why(template: World) -> None:
    service, kv = template.copy().serve(sound()).service, RefusingStore()
    clock = TickingClock()
    settings = service.settings._replace(ready_writes=True)
    ports = replace(service.ports, kv=kv, clock=clock)
    observation = Observation(replace(service, ports=ports, settings=settings))

    def ready() -> tuple[int, bytes]:
        answer = asyncio.run(observation.ready())
        return answer.status, answer.body

    assert [ready()[0] for _ in range(20)] == [200] * 20
    for _ in range(20):
        clock.sleep(0.5)
        assert ready()[0] == 200
    assert kv.writes in (2, 3)
    clock.sleep(5)
    for error, words in (
        (StorageFull("x"), b"no room is left"),
        (Corrupt("file=/secret"), b"are damaged: read the log"),
        (Unavailable("x"), b"does not answer"),
    ):
        kv.error = error
        clock.sleep(1)
        status, body = ready()
        assert status == 503 and words in body and b"secret" not in body
    kv.error = ABSENT
    clock.sleep(1)
    assert ready() == (200, b"ready")


class SlowStore(MemoryStore):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.told = 0, threading.Event()

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        self.asked += 1
        assert self.told.wait(PATIENCE_SECONDS)
        return super().get(partition, key)


def test_a_process_whose_threads_all_wait_for_its_store_is_alive(template: World) -> None:
    """Else it would be replaced while its store is slow, and its successor could not start."""
    world = template.copy()
    running, kv = world.serve(sound()), SlowStore()
    writers = BoundedPool(2, 1, "write")
    pools = running.service.pools._replace(writers=writers, is_remote=True)
    door = PageDoor(world, running._replace(service=replace(running.service, pools=pools)))

    async def look_up() -> None:
        for _ in range(3):
            writers.start(kv.get, b"partition", b"key")

    world.around.loop.run_until_complete(look_up())
    try:
        assert door.send(Ask("GET", "/metrics")).status == 503  # no thread is left, and no place
        for path in ("/_health", "/healthcheck"):
            for method in ("GET", "HEAD"):
                assert door.send(Ask(method, path)).status == 200
    finally:
        kv.told.set()
        writers.close()


def test_all_who_ask_at_the_same_time_share_one_answer(template: World) -> None:
    """Anybody may ask; a store that is slow is not asked more often for that."""
    service, kv = template.copy().serve(sound()).service, SlowStore()
    pool = BoundedPool(4, 8, "walk")
    pools = service.pools._replace(walkers=pool)
    observation = Observation(replace(service, ports=replace(service.ports, kv=kv), pools=pools))

    async def whole() -> list[Answer]:
        asking = [asyncio.ensure_future(observation.ready()) for _ in range(5)]
        await asyncio.sleep(0)
        asking.pop(0).cancel()  # the client that asked first goes away
        kv.told.set()
        answers = await asyncio.gather(*asking)
        pool.close()
        return answers

    assert [answer.status for answer in asyncio.run(whole())] == [200] * 4
    assert kv.asked == 1


def test_a_process_with_a_bucket_is_ready_while_that_answers_too(template: World) -> None:
    service = template.copy().serve(sound()).service

    class NoBucket(MemoryBlocks):
        def read(self, address: str, start: int, length: int) -> bytes:
            raise Unavailable(f"no such bucket: {address}")

    def status(blocks: Blocks, namespace: str) -> int:
        ports = replace(service.ports, blocks=blocks)
        return asyncio.run(Observation(replace(service, ports=ports), namespace).ready()).status

    clock = service.ports.clock
    assert status(MemoryBlocks(clock), "mem://lake") == status(NoBucket(clock), "") == 200
    assert status(NoBucket(clock), "mem://lake") == 503


# ---- usage ---------------------------------------------------------------------------------------


def test_usage_is_reported_as_json_and_as_text(sdk: lakefs_sdk.ApiClient, client: Client) -> None:
    api = lakefs_sdk.InternalApi(sdk)
    before = api.get_usage_report_summary()
    for _ in range(3):
        client.send("GET", "/user")
    after = api.get_usage_report_summary()
    assert after.installation_id == before.installation_id
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", after.installation_id)
    assert total(after) == total(before) + 4
    text = client.send("GET", "/usage-report/summary", headers={"Accept": "text/plain"})
    assert text.headers["content-type"].startswith("text/plain")
    first, *months = text.body.decode().splitlines()
    assert first == f"installation {after.installation_id}"
    assert months == [f"{each.year}-{each.month:02} {total(after) + 1}" for each in after.reports]
    anonymous = Client(client.host, client.port, "")
    assert anonymous.send("GET", "/usage-report/summary").status == 401


def total(report: lakefs_sdk.InstallationUsageReport) -> int:
    return sum(each.count for each in report.reports)


def test_counters_of_processes_and_months_add_up() -> None:
    kv = MemoryStore()
    for number in range(40):
        accounts.add_usage(kv, SeededIds(number), f"2026-{1 + number % 2:02}", number)
    report = accounts.usage_report(kv, SeededIds(99))
    assert [(month.year, month.month) for month in report.months] == [(2026, 1), (2026, 2)]
    assert sum(month.requests for month in report.months) == sum(range(40))
    assert accounts.usage_report(kv, SeededIds(100)) == report


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LOST, Fault.LATE, Fault.REFUSED])
def test_an_installation_has_one_id_whatever_fails(fault: Fault) -> None:
    kv = MemoryStore()
    for number in range(1, 4):
        store = FaultyStore(kv, nth({number: fault}))
        try:
            accounts.usage_report(store, SeededIds(number))
        except Unavailable:
            store.land()
    first = accounts.usage_report(kv, SeededIds(7))
    assert accounts.usage_report(kv, SeededIds(8)) == first


def test_what_is_not_added_now_is_added_later(template: World) -> None:
    world = template.copy()
    service = world.serve(sound()).service
    for _ in range(3):
        service.metrics.record("getUser", 200, 0.1)
    broken = world.serve(Strikes(1, Fault.REFUSED)).service
    with pytest.raises(Unavailable):
        add_requests(broken.ports, service.metrics)
    add_requests(service.ports, service.metrics)
    add_requests(service.ports, service.metrics)
    [month] = accounts.usage_report(service.ports.kv, service.ports.ids).months
    assert month.requests == 3


def test_every_thousandth_request_adds_them(template: World) -> None:
    world = template.copy()
    running = world.serve(sound())
    for _ in range(1_000):
        running.door.send(Ask("GET", "/healthcheck"))
    assert running.later.waiting
    running.later.run()
    [month] = accounts.usage_report(world.kv, SeededIds(1)).months
    assert month.requests == 1_000


# ---- communication preferences -------------------------------------------------------------------


def test_preferences_are_recorded_once(sdk: lakefs_sdk.ApiClient, client: Client) -> None:
    with pytest.raises(ApiException) as refused:  # the generated SDK sends no credentials here
        lakefs_sdk.InternalApi(sdk).setup_comm_prefs(lakefs_sdk.CommPrefsInput(**PREFS))
    assert refused.value.status == 401
    assert client.send("POST", "/setup_comm_prefs", body={"email": "x"}).status == 400
    statuses = [client.send("POST", "/setup_comm_prefs", body=PREFS).status for _ in range(2)]
    assert statuses == [200, 409]
