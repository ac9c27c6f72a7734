"""The worker's function takes jobs from the queue, and is killed while it runs them.

Sandboxes run the code as it is deployed, against a local engine; the messages go through its queue.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.ids import JobId, RepositoryId
from graveler.core.limits import SECOND_NS, job_lease_seconds
from graveler.core.records import ABSENT
from graveler.engine.jobs.record import MARK_KEY
from graveler.kv.dynamodb import DynamoStore
from graveler.refs import job_records as jobs
from graveler.refs import repositories
from tests.aws.deployment.templates import resources_of
from tests.aws.engines import ROOT
from tests.aws.killing import kill_after, written
from tests.aws.lake import Lake, ask, build, make_lake, sandboxes, told
from tests.fault_proxy import Fault, FaultProxy, Forward, Reply, Request, fault_proxy, refusal
from tests.functions.sandbox import Sandbox, SandboxLost

pytestmark = pytest.mark.xdist_group("sandboxes")

MAIN = "/repositories/lake/branches/main"
COMMITTED = "/repositories/lake/refs/main@/objects/ls"


class Stage(NamedTuple):
    """A lake, a sandbox of the API's function, and the code of the worker's."""

    lake: Lake
    api: Sandbox
    worker: Path
    session: AwsSession
    engine: str

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return told(self.lake, self.api, method, path, body)

    def message(self) -> dict[str, Any]:
        """The next one of the queue, as a function gets it."""
        queue = self.session.client("sqs")
        found = queue.receive_message(QueueUrl=self.lake.jobs_queue, WaitTimeSeconds=5)
        received = found["Messages"][0]
        queue.delete_message(QueueUrl=self.lake.jobs_queue, ReceiptHandle=received["ReceiptHandle"])
        record = {
            "messageId": received["MessageId"],
            "receiptHandle": "handle",
            "body": received["Body"],
            "attributes": {},
            "messageAttributes": {},
            "md5OfBody": "",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:jobs",
            "awsRegion": "us-east-1",
        }
        return {"Records": [record]}

    def fall_silent(self, job: str) -> None:
        """As if the worker's last beat were longer ago than its lease."""
        kv = DynamoStore(self.session, self.lake.name, clock=SystemClock(), ids=SystemIds())
        repo = repositories.get(kv, RepositoryId("lake"))
        seen = jobs.get(kv, repo, JobId(job))
        past = seen.job.updated_ns - 2 * job_lease_seconds * SECOND_NS
        put = jobs.put(kv, repo, seen.job._replace(updated_ns=past), seen, SystemIds().stamp())
        assert put is not ABSENT


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of both functions."""
    folder = tmp_path_factory.mktemp("functions")
    for name in ("api", "worker"):
        build(name, folder / name)
    return folder


@pytest.fixture
def stage(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], code: Path
) -> Iterator[Stage]:
    lake = make_lake(session, fresh_name())
    with sandboxes(lake, code / "api", engine, 1) as (api,):
        stage = Stage(lake, api, code / "worker", session, engine)
        stage.ask(
            "POST", "/repositories", {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
        )
        yield stage


def stage_some(stage: Stage, part: int) -> set[str]:
    paths = {f"{part}/x", f"{part}/y"}  # few: where one ends a range, there is a write more
    for path in paths:
        target = f"{MAIN}/objects"
        answer = ask(stage.lake, stage.api, "POST", target, {"path": path}, path.encode())
        assert answer.status == 201, answer
    return paths


def status(stage: Stage, job: str) -> Any:
    return stage.ask("GET", f"{MAIN}/commits/async/{job}/status")


def marked(stage: Stage, job: str) -> int:
    log = stage.ask("GET", "/repositories/lake/refs/main/commits")["results"]
    return sum(each["metadata"].get(MARK_KEY) == job for each in log)


def run_through(
    stage: Stage, proxy: FaultProxy, part: int, writes: Sequence[str] = ()
) -> tuple[list[str], bool]:
    """A commit by a worker that is killed after the last of `writes`, by none if there are none;
    another ends what it left.  The writes of the first, and whether it left anything."""
    paths = stage_some(stage, part)
    job = stage.ask("POST", f"{MAIN}/commits/async", {"message": f"part {part}"})["id"]
    message = stage.message()
    with sandboxes(stage.lake, stage.worker, proxy.url, 1, 900.0) as (worker,):
        kill_after(proxy, worker, writes)
        if writes:
            with pytest.raises(SandboxLost):
                worker.invoke(message)
        else:
            assert worker.invoke(message) == {"batchItemFailures": []}
        made = written(proxy)
        assert proxy.pending() == 0
        left = not status(stage, job)["completed"]
        if left:
            stage.fall_silent(job)
            assert not status(stage, job)["completed"]  # and hands it on
            assert worker.invoke(stage.message()) == {"batchItemFailures": []}
    ended = status(stage, job)
    assert ended["completed"] and ended["result"]["message"] == f"part {part}", ended
    assert marked(stage, job) == 1
    listed = ask(stage.lake, stage.api, "GET", COMMITTED, {"prefix": f"{part}/"})
    assert {each["path"] for each in listed.json["results"]} == paths
    return made, left


def test_a_worker_killed_after_any_write_of_a_job_is_replaced(stage: Stage) -> None:
    with fault_proxy(stage.engine) as proxy:
        run_through(stage, proxy, 0)
        writes, _ = run_through(stage, proxy, 1)
        assert set(writes) == {"PUT", "PutItem", "BatchWriteItem"}
        for count in range(1, len(writes) + 1):
            made, left = run_through(stage, proxy, count + 1, writes[:count])
            assert made == writes[:count]
            assert left is (count < len(writes))  # the last one says what it came to


def test_an_import_is_run_by_the_worker(stage: Stage) -> None:
    names = {f"n{number}" for number in range(5)}
    for name in names:
        stage.session.client("s3").put_object(
            Bucket=stage.lake.name, Key=f"source/{name}", Body=name.encode()
        )
    source = f"s3://{stage.lake.name}/source/"
    paths = [{"type": "common_prefix", "path": source, "destination": "in/"}]
    body = {"paths": paths, "commit": {"message": "imported"}}
    job = stage.ask("POST", f"{MAIN}/import", body)["id"]
    with sandboxes(stage.lake, stage.worker, stage.engine, 1, 900.0) as (worker,):
        assert worker.invoke(stage.message()) == {"batchItemFailures": []}
    answer = ask(stage.lake, stage.api, "GET", f"{MAIN}/import", {"id": job})
    assert answer.json["completed"], answer
    assert answer.json["ingested_objects"] == len(names)


REFUSED = [refusal(400, "AccessDeniedException")] * 40
NO_JOB = ("{", "[]", '{"kind": "job"}', '{"kind": "of a later release", "repository": "lake"}')


def delivered_again(
    stage: Stage, event: dict[str, Any], faults: Sequence[Fault] = (), *, operation: str = "GetItem"
) -> list[int]:
    """A function fails the messages of the event: after how many seconds they are delivered
    again.  The `faults` are those of the `operation`."""
    asked: list[int] = []

    def note(request: Request, forward: Forward) -> Reply:
        asked.append(json.loads(request.body)["VisibilityTimeout"])
        return Reply(200, {"content-type": "application/x-amz-json-1.0"}, b"{}")

    with (
        fault_proxy(stage.engine) as proxy,
        sandboxes(stage.lake, stage.worker, proxy.url, 1, 900.0) as (worker,),
    ):
        worker.start()
        proxy.plan(*faults, operation=operation)
        proxy.plan(*[note] * len(event["Records"]), operation="ChangeMessageVisibility")
        failed = [{"itemIdentifier": each["messageId"]} for each in event["Records"]]
        assert worker.invoke(event) == {"batchItemFailures": failed}
    return asked


def test_a_job_that_could_not_be_run_is_delivered_again_after_two_minutes(stage: Stage) -> None:
    """Not after the 90 minutes that the longest job may take."""
    stage_some(stage, 0)
    job = stage.ask("POST", f"{MAIN}/commits/async", {"message": "x"})["id"]
    assert delivered_again(stage, stage.message(), REFUSED) == [120]
    assert not status(stage, job)["completed"]


def test_a_message_that_is_no_job_goes_to_the_dead_letters_within_minutes(stage: Stage) -> None:
    """After all deliveries of the queue; an upgrade that sends jobs of a new kind is over then."""
    deliveries = resources_of(ROOT / "template.yaml")["Jobs"]["Properties"]["RedrivePolicy"]
    records = [
        {"messageId": f"m{number}", "receiptHandle": "handle", "body": body}
        for number, body in enumerate(NO_JOB)
    ]
    asked = delivered_again(stage, {"Records": records})
    assert len(asked) == len(NO_JOB)
    for seconds in asked:
        assert 5 * 60 <= seconds * deliveries["maxReceiveCount"] <= 15 * 60
    log = stage.worker.with_name(f"log-{stage.lake.name}-0").read_text().splitlines()
    lines = [json.loads(line) for line in log if '"message is not a job"' in line]
    assert [line["message_id"] for line in lines] == [each["messageId"] for each in records]
    assert all(line["level"] == "ERROR" and line["cause"] for line in lines)


def test_notifications_that_failed_are_delivered_again_in_minutes(
    stage: Stage, tmp_path: Path
) -> None:
    """One whose rules could not be read, after two; what is none, so that it is among the dead
    letters after ten."""
    build("events", tmp_path / "events")
    events = stage._replace(worker=tmp_path / "events")
    rule = {"branch": "main", "bucket": stage.lake.name, "prefix": "in/", "path": "raw/{rest}"}
    stage.ask("POST", "/repositories/lake/events/rules", {**rule, "objects": 1, "seconds": 3600})
    record = {
        "eventName": "ObjectCreated:Put",
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "s3": {
            "bucket": {"name": stage.lake.name},
            "object": {"key": "in/b", "sequencer": "0A", "size": 1, "eTag": "e"},
        },
    }
    records = [
        {"messageId": name, "receiptHandle": name, "body": body}
        for name, body in (("good", json.dumps({"Records": [record]})), ("bad", "{"))
    ]
    assert sorted(delivered_again(events, {"Records": records}, REFUSED)) == [10, 120]
