"""When a function has answered, its sandbox is frozen: nothing may be under way then."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from graveler.assembly.aws import aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.records import BreakParameters, Entry
from graveler.core.settings import Deployment
from graveler.engine.commits import commit
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.objects import write
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository, open_repository
from tests.aws.lake import ask, build, make_lake, sandboxes
from tests.fault_proxy import Forward, Reply, Request, fault_proxy

WAITS_SECONDS = 0.5  # for what is under way, when the function has answered


def test_a_page_that_is_full_leaves_no_request_under_way(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    """Of the ranges that were fetched ahead of it."""
    lake = make_lake(session, fresh_name())
    made = Deployment(lake.name, lake.name, (lake.name,), cache_folder=str(tmp_path / "cache"))
    ports = ports_of(aws_drivers(session, made, SystemIds()), bytes(32))
    breaks = BreakParameters(raggedness=2)
    new = NewRepository("lake", f"s3://{lake.name}/lake", breaks=breaks)
    opened = open_repository(ports, repository.create(ports, new))
    commits = []
    for content in ("first", "second"):
        for number in range(100):
            write.stage(opened, "main", f"{number:03}", Entry(f"{number}", 1, content, 1))
        commits.append(commit.commit(opened, "main", CommitRequest(content, "tester")).id)

    assert len(aws_drivers(session, made, SystemIds()).threads) == 3
    numbers, under_way = itertools.count(), dict[int, float]()

    def slow(request: Request, forward: Forward) -> Reply | None:
        number = next(numbers)
        under_way[number] = time.monotonic()
        time.sleep(0.1)
        reply = forward(request)
        del under_way[number]
        return reply

    code = build("api", tmp_path / "api")
    with fault_proxy(engine) as proxy, sandboxes(lake, code, proxy.url, 1) as (sandbox,):
        sandbox.start()
        proxy.plan(*[slow] * 200, operation="GET")
        path = f"/repositories/lake/refs/{commits[0]}/diff/{commits[1]}"
        answer = ask(lake, sandbox, "GET", path, {"amount": "10"})
        late = time.monotonic() - WAITS_SECONDS  # a machine so slow that it was not waited for
        assert not [began for began in under_way.values() if began > late]
        assert len(answer.json["results"]) == 10 and next(numbers) > 0
