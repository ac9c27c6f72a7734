"""A bulk job lands once, whenever the function that lands it is killed.

Sandboxes run the code of the API as it is deployed.  One is killed as soon as a write of its has
been applied, one write after the other; the same request to another one brings the job to its end.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.core.aws import AwsSession
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob
from graveler.lake.session import Session
from tests.aws.cluster import Cluster
from tests.aws.killing import kill_after, written
from tests.aws.lake import LOST, Answer, Lake, ask, build, make_lake, sandboxes, told
from tests.fault_proxy import FaultProxy, fault_proxy
from tests.functions.sandbox import Sandbox

pytestmark = pytest.mark.xdist_group("sandboxes")


@dataclass(frozen=True, kw_only=True)
class Through(Session):
    """Calls that all go to one sandbox, and succeed."""

    lake: Lake
    sandbox: Sandbox

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Any = None
    ) -> Any:
        return told(self.lake, self.sandbox, method, path, body)


def finish(lake: Lake, sandbox: Sandbox, job: BulkJob, metarange: str) -> Answer:
    """One attempt to land."""
    body = {"metarange": metarange, "request_id": "r", "message": job.id}
    path = f"/repositories/lake/branches/main/bulk/{job.id}/finish"
    return ask(lake, sandbox, "PUT", path, body=json.dumps(body).encode())


class Scene(NamedTuple):
    """Two sandboxes of one lake behind a proxy, and a cluster that writes beside them."""

    lake: Lake
    victim: Sandbox
    other: Through
    cluster: Cluster
    proxy: FaultProxy

    def landed(self, number: int, writes: Sequence[str]) -> list[str]:
        """Land a job; the victim is killed after the last of `writes`, by none if there are none.
        What the victim wrote."""
        into = f"{number}/"
        job = bulk.begin(self.other, "lake", "main", "replace", prefix=into, id=f"j{number}")
        metarange = self.cluster.write(job, {f"{into}x": "x", f"{into}y": "y"})
        kill_after(self.proxy, self.victim, writes)
        first = finish(self.lake, self.victim, job, metarange)
        assert (first.body == LOST.encode()) is bool(writes), first
        made = written(self.proxy)
        again = [finish(self.lake, self.other.sandbox, job, metarange) for _ in range(2)]
        assert [each.status for each in again] == [201, 201], again
        assert again[0].body == again[1].body
        assert self.proxy.pending() == 0
        return made


def test_a_job_whose_function_is_killed_after_any_write_lands_once(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    lake = make_lake(session, fresh_name())
    code = build("api", tmp_path / "api")
    with fault_proxy(engine) as proxy, sandboxes(lake, code, proxy.url, 2) as (victim, sandbox):
        other = Through("", "", "", lake=lake, sandbox=sandbox)
        new = {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
        other.call("POST", "/repositories", new)
        scene = Scene(lake, victim, other, Cluster(session, lake.name, tmp_path), proxy)
        scene.landed(0, [])
        writes = scene.landed(1, [])
        assert set(writes) == {"PUT", "PutItem", "BatchWriteItem"}
        for count in range(1, len(writes) + 1):
            assert scene.landed(count + 1, writes[:count]) == writes[:count]
        log = other.call("GET", "/repositories/lake/refs/main/commits")["results"]
        made = range(len(writes) + 2)
        wanted = [*(f"j{number}" for number in reversed(made)), "Repository created"]
        assert [each["message"] for each in log] == wanted
        listed = other.call("GET", "/repositories/lake/refs/main/objects/ls")["results"]
        assert {each["path"] for each in listed} == {f"{n}/{name}" for n in made for name in "xy"}
