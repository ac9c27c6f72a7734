"""One failure of S3 at any put of a commit does not fail the commit; many ranges are put at a time.

The drivers are those of the deployment.  A range of more than 64 KiB is built in a file, a
metarange in memory: both are sent again.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.assembly.aws import aws_drivers
from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.adapter import ObjectHead
from graveler.block.s3 import S3Blocks
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.records import BreakParameters, CommitEntry, Entry, Repository
from graveler.core.settings import Deployment
from graveler.engine.commits import commit
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.objects import read, write
from graveler.engine.objects.read import ListQuery
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.aws.buckets import create_bucket
from tests.aws.conftest import local
from tests.aws.tables import new_table
from tests.aws.test_s3_faults import PASSING, unharmed
from tests.fault_proxy import FaultProxy, fault_proxy
from tests.waiting import PATIENCE_SECONDS

PATHS = [f"path/{number:03d}" for number in range(70)]
LONG = {"note": "x" * 1_000}  # 70 of them make a range of more than 64 KiB
PUTS = ("range", "metarange")


class Lake(NamedTuple):
    """A repository; only its objects are behind the proxy."""

    ports: Ports
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)


@pytest.fixture(scope="module")
def switch(engine: str) -> Iterator[FaultProxy]:
    with fault_proxy(engine) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lake(
    engine: str,
    switch: FaultProxy,
    session: AwsSession,
    fresh_name: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lake:
    name = fresh_name()
    new_table(session, name)
    create_bucket(session, name)

    def drivers(url: str, cache: Path) -> Drivers:
        made = Deployment(name, "secret", (name,), cache_folder=str(cache))
        return aws_drivers(AwsSession(local(url)), made, SystemIds())

    near = drivers(engine, tmp_path_factory.mktemp("near"))
    far = drivers(switch.url, tmp_path_factory.mktemp("far"))
    ports = ports_of(far._replace(kv=near.kv), bytes(32))
    return Lake(ports, repository.create(ports, NewRepository("lake", f"s3://{name}/lake")))


@pytest.mark.parametrize("put", PUTS)
@pytest.mark.parametrize("fault", PASSING)
def test_a_commit_survives_one_failure_at_any_put(
    lake: Lake, switch: FaultProxy, put: str, fault: str
) -> None:
    ports, repo = lake
    content = f"{fault} {put}"
    for path in PATHS:
        entry = Entry(f"data/{content}/{path}", 1, content, 1, metadata=LONG)
        write.stage(open_repository(ports, repo), "main", path, entry)
    switch.plan(*[unharmed] * PUTS.index(put), PASSING[fault], operation="PUT")
    switch.operations.clear()
    made = commit.commit(open_repository(ports, repo), "main", CommitRequest(content, "tester"))
    assert switch.pending() == 0
    assert switch.operations.count("PUT") == len(PUTS) + 1
    listed = read.list_objects(open_repository(ports, repo), made.id, ListQuery(amount=1_000))
    assert [path for path, _ in listed.lines] == PATHS


def test_many_ranges_are_put_at_a_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put lasts as long as S3 needs to answer; a commit of many ranges waits for some at once."""
    begun: list[str] = []
    numbers, both = itertools.count(1), threading.Barrier(2)
    put = S3Blocks.put

    def waiting(self: S3Blocks, address: str, *more: Any, **named: Any) -> ObjectHead:
        begun.append(address)
        if next(numbers) in (3, 4):  # the first two are put one after the other
            both.wait(PATIENCE_SECONDS)
        return put(self, address, *more, **named)

    ports, _ = lake
    breaks = BreakParameters(raggedness=2)
    new = NewRepository("many", f"{lake.repo.namespace.rpartition('/')[0]}/many", breaks=breaks)
    opened = open_repository(ports, repository.create(ports, new))
    for path in PATHS:
        write.stage(opened, "main", path, Entry(f"data/{path}", 1, "c", 1))
    monkeypatch.setattr(S3Blocks, "put", waiting)
    made = commit.commit(opened, "main", CommitRequest("many ranges", "tester"))
    listed = read.list_objects(opened, made.id, ListQuery(amount=1_000))
    assert [path for path, _ in listed.lines] == PATHS
    assert len(begun) > 8


def test_many_ranges_are_read_at_a_time(
    lake: Lake, session: AwsSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, both = itertools.count(1), threading.Barrier(2)
    bucket = lake.repo.namespace.removeprefix("s3://").partition("/")[0]
    breaks = BreakParameters(raggedness=2)
    new = NewRepository("changed", f"s3://{bucket}/changed", breaks=breaks)
    repo = repository.create(lake.ports, new)

    def load(opened: OpenRepository, content: str) -> CommitEntry:
        for path in PATHS:
            write.stage(opened, "main", path, Entry(f"data/{path}", 1, content, 1))
        return commit.commit(opened, "main", CommitRequest(content, "tester"))

    load(open_repository(lake.ports, repo), "first")
    read_one = S3Blocks.read

    def waiting(self: S3Blocks, *arguments: Any) -> bytes:
        is_handed = threading.current_thread().name.startswith("rewrites")
        if is_handed and next(numbers) <= 2:
            both.wait(PATIENCE_SECONDS)
        return read_one(self, *arguments)

    monkeypatch.setattr(S3Blocks, "read", waiting)
    made = Deployment(bucket, "secret", (bucket,), cache_folder=str(tmp_path / "cold"))
    cold = ports_of(aws_drivers(session, made, SystemIds()), bytes(32))
    opened = open_repository(cold, repo)
    done = load(opened, "second")
    listed = read.list_objects(opened, done.id, ListQuery(amount=1_000))
    assert [path for path, _ in listed.lines] == PATHS
    assert next(numbers) > 2
