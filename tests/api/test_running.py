"""Where endpoints run: the event loop answers only what waits for nothing."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.api.app import Graveler
from graveler.api.operations import OPERATIONS
from graveler.auth import accounts, directory
from graveler.auth.authenticator import Authenticator
from graveler.auth.directory import OF_USER
from graveler.block.signature import Signer
from graveler.core.clock import Clock
from graveler.core.errors import Unavailable
from graveler.engine.commits import diff
from graveler.engine.commits.diff import DiffQuery
from graveler.engine.objects import read
from graveler.engine.objects.read import ListQuery
from graveler.engine.ports import Ports, open_repository
from graveler.engine.repositories import repository
from graveler.http.answers import Answer
from graveler.http.dispatch import Runs
from graveler.http.pools import BoundedPool, Pools
from graveler.http.service import Call, Service, ServiceSettings, expiring
from graveler.kv.store import WouldWait
from simulator.service.described import Described, by_name, described
from simulator.service.process import basic
from tests.api.samples import sample
from tests.api.serving import ADMINISTRATOR, USER, served
from tests.asgi import Ask, Door
from tests.jobs.world import World, new_world

SECRET = bytes(range(32))
RUNS = {operation.name: operation.runs for operation in OPERATIONS}
HERE = threading.main_thread().name


class Recorder:
    """Endpoints that say on which thread they ran; `busy` refuses to wait on the first."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.busy = False

    def of(self, runs: Runs) -> Any:
        if runs is Runs.STREAM:

            async def stream(call: Call, **_inputs: object) -> Answer:
                return self(call)

            return stream
        return self

    def __call__(self, call: Call, **_inputs: object) -> Answer:
        call.acting = USER  # a login has to name somebody
        self.threads.append(threading.current_thread().name.partition("_")[0])
        if self.busy and self.threads == [HERE]:
            raise WouldWait("busy")
        return Answer(204)


class Watched(Authenticator):
    """Notes on which thread it decides."""

    decided: tuple[str, ...] = ()

    def authorize(self, *arguments: Any) -> None:
        self.decided += (threading.current_thread().name.partition("_")[0],)
        super().authorize(*arguments)


class Worlds:
    """All operations over endpoints of one's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.recorder = Recorder()
        world: World = new_world()
        ports = world.lake.ports
        keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET)
        accounts.create(keeper, USER, "", ADMINISTRATOR)
        self.auth = Watched(keeper, SECRET)
        names = ("write", "body", "stream", "walk", "lookup", "copy")
        short, bodies, streams, walks, lookups, copies = (BoundedPool(1, 4, name) for name in names)
        self.pools = Pools(short, bodies, streams, ThreadPoolExecutor(1), walks, lookups, copies)
        signer = Signer(SECRET, "", ports.clock)
        service = Service(ports, self.auth, signer, ServiceSettings("mem"), self.pools, world.queue)
        operations = [replace(each, endpoint=self.recorder.of(each.runs)) for each in OPERATIONS]
        keys = basic(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)
        application = Graveler(operations=operations).use(service)
        self.door = Door(application, loop, {"Authorization": keys})

    def send(self, route: Described, **named: str) -> list[str]:
        """On which threads the endpoint ran."""
        self.recorder.threads = []
        one = sample(route)
        path = one.path.replace("/sample", "/lake", 1)
        for name, value in named.items():
            path = route.path.replace("{repository}", "lake").replace("{" + name + "}", value)
        query = "&".join(f"{name}={value}" for name, value in one.query.items())
        target = f"{path}?{query}"
        if isinstance(one.body, bytes) or one.body is None:
            ask = Ask(one.method, target, (one.body or b"",))
        else:
            ask = Ask.json(one.method, target, one.body)
        heard = self.door.send(ask)
        assert heard.status == 204, heard
        return self.recorder.threads


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    loop = asyncio.new_event_loop()
    made = Worlds(loop)
    yield made
    made.pools.close()
    loop.close()


def test_exactly_these_operations_may_run_on_the_loop() -> None:
    by = {runs: {name for name, each in RUNS.items() if each is runs} for runs in Runs}
    assert by[Runs.LOOP] == {
        "healthCheck",
        "getAuthCapabilities",
        "getCurrentUser",
        "getConfig",
        "getLakeFSVersion",
        "getStorageConfig",
        "postStatsEvents",
        "createBranchProtectionRulePreflight",
        "getGarbageCollectionConfig",
        "setGarbageCollectionRulesPreflight",
    }
    assert by[Runs.POINT] == {
        "getSetupState",
        "getRepository",
        "getRepositoryMetadata",
        "getBreakParameters",
        "getBranch",
        "getTag",
        "getCommit",
        "headObject",
        "statObject",
        "uploadObjectPreflight",
        "importStatus",
        "getBulkJob",
        "getEventRule",
        "getGCRules",
        "getBranchProtectionRules",
        "internalGetBranchProtectionRules",
        "internalGetGarbageCollectionRules",
        "getPullRequest",
        "getCredentials",
        "getGroup",
        "getPolicy",
        "getUser",
        "getExternalPrincipal",
        "listUserCredentials",
        "listUserExternalPrincipals",
    }
    assert by[Runs.STREAM] == {"getObject", "uploadObject", "getMetadataObject"}
    assert {"listObjects", "diffRefs", "diffBranch", "logCommits", "findMergeBase"} <= by[Runs.WALK]
    assert {"listRepositories", "listBranches", "listTags"} <= by[Runs.WALK]


def test_every_endpoint_runs_where_its_row_says(worlds: Worlds) -> None:
    expected = {
        Runs.LOOP: HERE,
        Runs.POINT: HERE,
        Runs.STREAM: HERE,
        Runs.POOL: "write",
        Runs.COPY: "copy",
    }
    for route in described():
        ran = worlds.send(route)
        assert ran == [expected.get(RUNS[route.operation], "walk")], route.operation


def test_a_look_up_that_would_wait_goes_to_a_thread(worlds: Worlds) -> None:
    worlds.recorder.busy = True
    for route in described():
        if RUNS[route.operation] is Runs.POINT:
            assert worlds.send(route) == [HERE, "lookup"], route.operation


def test_a_decision_that_takes_long_is_made_in_a_thread(worlds: Worlds) -> None:
    route, auth = by_name()["getRepository"], worlds.auth

    def deny(policy: str, resources: list[str]) -> None:
        statement = {"effect": "deny", "action": ["fs:*"], "resource": json.dumps(resources)}
        directory.create_policy(auth.keeper, policy, [statement])
        directory.add(auth.keeper, OF_USER, USER, policy)
        auth.access.forget()

    worlds.send(route)
    assert auth.decided == ()  # everything is allowed, so there is nothing to decide
    deny("quick", ["arn:lakefs:fs:::nothing"])
    worlds.send(route)
    assert auth.decided == (HERE,)
    deny("slow", [f"arn:lakefs:fs:::*{number}?a*b?c*" for number in range(20)])
    worlds.send(route)
    assert auth.decided == (HERE, "write")


@pytest.mark.parametrize("ref", ["main~1", "main^", "main~", "main%5E2", "0000~3"])
def test_a_ref_with_modifiers_walks(worlds: Worlds, ref: str) -> None:
    rows = by_name()
    assert worlds.send(rows["statObject"], ref=ref) == ["walk"]
    assert worlds.send(rows["getCommit"], commitId=ref) == ["walk"]


def test_requests_of_a_loop_that_must_not_wait_are_answered(tmp_path: Path) -> None:
    """While rows of others are always waiting for their sync, and look-ups scan, too."""
    with served(tmp_path / "store") as live:
        repo, stop = live.fresh_repository(), threading.Event()
        branch = f"/repositories/{repo}/branches/main"

        def write(number: int) -> None:
            while not stop.is_set():
                assert live.client.upload(repo, f"shared-{number % 2}", b"x").status == 201

        live.client.upload(repo, "shared-0", b"x")
        live.client.upload(repo, "shared-1", b"x")
        head = live.client.send("GET", branch).json["commit_id"]
        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, number) for number in range(4)]
            try:
                for _ in range(60):
                    for path, query in (
                        (f"/repositories/{repo}/refs/main/objects/stat", {"path": "shared-0"}),
                        (f"/repositories/{repo}/refs/main/objects", {"path": "shared-1"}),
                        (f"/repositories/{repo}/commits/{head[:12]}", {}),
                        (branch, {}),
                        ("/repositories", {"search": repo}),
                    ):
                        assert live.client.send("GET", path, query).status == 200, path
            finally:
                stop.set()
            for writer in writers:
                writer.result()


class _Running(Clock):
    """A clock that moves by a second each time it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def steady_seconds(self) -> float:
        self._now += 1.0
        return self._now

    def now_ns(self) -> int:
        return 1_000_000_000

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def test_a_walk_has_a_deadline_inside() -> None:
    world = new_world()
    lake = world.lake
    for number in range(100):
        lake.put(f"path-{number:03}", "1")
    patient = lake.ports
    hasty = expiring(_with(patient, _Running()))
    query = ListQuery("", "", "", 10)
    assert read.list_objects(open_repository(expiring(patient), lake.repo), "main", query).lines
    with pytest.raises(Unavailable, match="took too long"):
        for _ in range(40):
            read.list_objects(open_repository(hasty, lake.repo), "main", query)
    hasty = expiring(_with(patient, _Running()))
    with pytest.raises(Unavailable, match="took too long"):
        for _ in range(40):
            diff.diff_refs(open_repository(hasty, lake.repo), "main", "other", DiffQuery())
    hasty = expiring(_with(patient, _Running()))
    with pytest.raises(Unavailable, match="took too long"):
        for _ in range(40):
            repository.list_page(hasty, "", lambda name: "lake" in name, "", 10)


def _with(ports: Ports, clock: Clock) -> Ports:
    return replace(ports, clock=clock)
