"""Sandboxes of the API's function write and commit to one branch; nothing acknowledged is lost.

They run the code as it is deployed, each in a process of its own, and are killed at any moment, or
meet requests that are dropped, late, or applied and answered 500.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from graveler.core.aws import AwsSession
from tests import fault_proxy
from tests.aws.lake import Lake, ask, build, make_lake, sandboxes
from tests.aws.writers import Committed, Writer, lost, run
from tests.fault_proxy import Fault, FaultProxy, Forward, Reply, Request
from tests.functions.sandbox import Sandbox

pytestmark = pytest.mark.xdist_group("sandboxes")

UNKNOWN = ("commit unknown", "upload unknown", "delete unknown")
BUSY = Reply(503, {"content-type": "application/xml"}, b"<Error><Code>SlowDown</Code></Error>")


def busy(request: Request, forward: Forward) -> Reply | None:
    """Too much at once: as DynamoDB says so, or S3."""
    return fault_proxy.throttle(request, forward) if "x-amz-target" in request.headers else BUSY


FAULTS: Sequence[Fault] = (
    fault_proxy.lost_request,
    fault_proxy.lost_answer,
    fault_proxy.error_after,
    fault_proxy.error_before,
    fault_proxy.slow_answer(0.3),
    busy,
)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the API's function."""
    return build("api", tmp_path_factory.mktemp("function") / "api")


@pytest.fixture
def chance() -> random.Random:
    seed = secrets.randbits(32)
    print(f"{seed=}")
    return random.Random(seed)


def opened(lake: Lake, running: Sequence[Sandbox], chance: random.Random) -> list[Writer]:
    """A repository, and a writer for each sandbox."""
    for each in running:
        each.start()
    wanted = {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
    made = ask(lake, running[0], "POST", "/repositories", {}, json.dumps(wanted).encode())
    assert made.status == 201, made
    return [
        Writer(lake, sandbox, f"w{number}", random.Random(chance.random()))
        for number, sandbox in enumerate(running)
    ]


def test_eight_sandboxes_that_are_killed_lose_nothing_and_fail_no_commit(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    code: Path,
    chance: random.Random,
) -> None:
    lake = make_lake(session, fresh_name())
    with sandboxes(lake, code, engine, 8) as running:
        writers = opened(lake, running, chance)

        kills, killed_at = 0, 0

        def disturb() -> None:
            nonlocal kills, killed_at
            time.sleep(chance.uniform(0.5, 2.0))
            landed = sum(len(writer.commits) for writer in writers)
            if landed >= killed_at + 2:  # on a busy machine a start takes longer than that pause
                chance.choice(running).kill()
                kills, killed_at = kills + 1, landed

        def enough() -> bool:
            """Some kills, one of them in the middle of a change."""
            unknown = sum(writer.told[what] for writer in writers for what in UNKNOWN)
            uploads = sum(writer.told["upload done"] for writer in writers)
            return kills >= 3 and unknown > 0 and uploads >= 16

        told = run(writers, 0.0, 16, disturb, enough)
        print(dict(told), f"{kills=}")
        assert lost(writers, lake, running[0]) == []
        assert enough()
    assert {what for what in told if "failed" in what} == set()
    assert told["commit done"] >= 16


def test_behind_a_network_that_fails_nothing_acknowledged_is_lost(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    code: Path,
    chance: random.Random,
) -> None:
    lake = make_lake(session, fresh_name())
    with (
        fault_proxy.fault_proxy(engine) as proxy,
        sandboxes(lake, code, proxy.url, 4) as running,
    ):
        writers = opened(lake, running, chance)

        def disturb() -> None:
            disturbed(proxy, chance)

        told = run(writers, 5.0, 10, disturb)
        proxy.calm()
        proxy.deliver()
        print(dict(told), len(proxy.operations))
        assert lost(writers, lake, running[0]) == []
        writers[0].known = dict.fromkeys(writers[0].known, frozenset(("never written",)))
        writers[1].commits.append(Committed("never made", {}))
        assert len(lost(writers, lake, running[0])) == len(writers[0].known) + 1
    statuses = {what.split()[2] for what in told if " failed " in what}
    assert statuses <= {"503"}, told
    assert told["commit done"] >= 10 and told["upload done"] >= 10


def disturbed(proxy: FaultProxy, chance: random.Random) -> None:
    """One fault, or a burst of them, for whoever comes next, once the last was met; sometimes what
    was held arrives."""
    if not proxy.pending():
        fault = chance.choice((*FAULTS, proxy.hold))
        proxy.plan(*[fault] * chance.choice((1, 1, 2, 5)))
    time.sleep(chance.uniform(0.02, 0.2))
    if chance.random() < 0.1:
        proxy.deliver()
