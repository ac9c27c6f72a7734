"""The operator finds the cause of each failure in the logs of the functions, and only there.

The bucket is removed, as by a mistake of the account's owner; then commits are made in each way.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks import cost
from graveler.core.aws import AwsSession
from tests.aws.buckets import delete_bucket
from tests.aws.lake import Lake, ask, build, event, make_lake, sandboxes, told
from tests.functions.sandbox import Sandbox

pytestmark = pytest.mark.xdist_group("sandboxes")

MAIN = "/repositories/lake/branches/main"
OBJECT = "/repositories/lake/refs/main/objects"
CAUSE = "NoSuchBucket"


class Stage(NamedTuple):
    """A lake whose `main` has an uncommitted object, and a process of each function."""

    lake: Lake
    session: AwsSession
    functions: Mapping[str, Sandbox]
    logs: Mapping[str, Path]

    def ask(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
        answer = ask(self.lake, self.functions["api"], method, path, body=json.dumps(body).encode())
        return answer.status, answer.body.decode()

    def message(self) -> dict[str, Any]:
        """The next one of the queue of jobs, as a function gets it.  It stays in the queue."""
        queue = self.session.client("sqs")
        arguments = {"QueueUrl": self.lake.jobs_queue, "WaitTimeSeconds": 5}
        received = queue.receive_message(**arguments, VisibilityTimeout=5400)["Messages"][0]
        return {
            "messageId": received["MessageId"],
            "receiptHandle": received["ReceiptHandle"],
            "body": received["Body"],
        }

    def lines(self, function: str, level: str) -> list[dict[str, Any]]:
        """The lines of a level that name the cause, in the log of a function."""
        log = self.logs[function].read_text().splitlines()
        texts = [json.loads(text) for text in log if text.startswith("{") and '"level"' in text]
        return [line for line in texts if line["level"] == level and CAUSE in line.get("cause", "")]


@pytest.fixture
def stage(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    lake = make_lake(session, fresh_name())
    with ExitStack() as ended:
        functions, logs = {}, {}
        for name in ("api", "worker", "events"):
            code = build(name, tmp_path_factory.mktemp(name) / "code")
            logs[name] = code.parent / f"log-{lake.name}-0"
            (functions[name],) = ended.enter_context(sandboxes(lake, code, engine, 1, 300.0))
        stage = Stage(lake, session, functions, logs)
        new = {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
        told(lake, functions["api"], "POST", "/repositories", new)
        query = {"path": "a"}
        assert ask(lake, functions["api"], "POST", f"{MAIN}/objects", query, b"x").status == 201
        yield stage


def arrive(stage: Stage) -> dict[str, Any]:
    """An object arrives in the bucket; what the function of events gets."""
    bucket = stage.lake.name
    put = stage.session.client("s3").put_object(Bucket=bucket, Key="in/b", Body=b"x")
    record = {
        "eventName": "ObjectCreated:Put",
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "s3": {
            "bucket": {"name": bucket},
            "object": {"key": "in/b", "sequencer": "0A", "size": 1, "eTag": put["ETag"]},
        },
    }
    body = json.dumps({"Records": [record]})
    return {"Records": [{"messageId": "m1", "receiptHandle": "none", "body": body}]}


def check_sizes(stage: Stage) -> None:
    """The lines of requests have the bytes that the page of costs counts; ids of AWS are longer."""
    lake, api = stage.lake, stage.functions["api"]
    commit = b'{"message": "first"}'
    for method, path, query, body, counted in (
        ("GET", MAIN, {}, b"", cost.REQUEST_BYTES),
        ("POST", f"{MAIN}/objects", {"path": "b"}, b"x", cost.REQUEST_BYTES + cost.AUDIT_BYTES),
        ("POST", f"{MAIN}/commits", {}, commit, sum(cost.LINE_BYTES)),
    ):
        before = stage.logs["api"].stat().st_size
        assert ask(lake, api, method, path, query, body).status < 300
        written = stage.logs["api"].stat().st_size - before
        assert 0.85 * counted < written <= counted, (path, written)


def test_the_cause_of_each_failed_commit_is_in_the_log(stage: Stage) -> None:
    lake = stage.lake
    rule = {"branch": "main", "bucket": lake.name, "prefix": "in/", "path": "raw/{rest}"}
    more = {"objects": 1, "seconds": 3600}
    status, text = stage.ask("POST", "/repositories/lake/events/rules", {**rule, **more})
    assert status == 201, text
    assert stage.functions["events"].invoke(arrive(stage)) == {"batchItemFailures": []}
    batch = stage.message()
    check_sizes(stage)
    ask(lake, stage.functions["api"], "POST", f"{MAIN}/objects", {"path": "c"}, b"x")
    delete_bucket(stage.session, lake.name)

    # A commit by a request: the caller is told nothing of the account, and that nothing happened.
    message = event(lake, "POST", f"{MAIN}/commits", {}, b'{"message": "direct"}')
    message["requestContext"]["requestId"] = "id-of-the-gateway"
    answer = stage.functions["api"].invoke(message)
    assert answer["statusCode"] == 503
    assert answer["headers"]["x-request-id"] == "id-of-the-gateway"
    for hidden in (CAUSE, lake.name, "s3", "unknown"):
        assert hidden not in answer["body"]
    (line,) = stage.lines("api", "WARNING")
    assert line["operation"] == "commit" and line["repository"] == "lake"
    assert line["status"] == 503
    assert line["request_id"] == line["correlation_id"] == "id-of-the-gateway"

    assert '"CommitsFailed":[1.0]' in stage.logs["api"].read_text().replace(" ", "")

    # A read of the bytes, too.
    answer = stage.functions["api"].invoke(event(lake, "GET", OBJECT, {"path": "a"}, b""))
    assert answer["statusCode"] == 503 and lake.name not in answer["body"], answer["body"]

    # A commit by a job: its record says no more, the log of the worker has the cause.
    status, text = stage.ask("POST", f"{MAIN}/commits/async", {"message": "asynchronous"})
    assert status == 202, text
    job = json.loads(text)["id"]
    ran = stage.functions["worker"].invoke({"Records": [stage.message()]})
    assert ran == {"batchItemFailures": []}
    (line,) = stage.lines("worker", "WARNING")
    assert (line["message"], line["job"], line["state"]) == ("job ended", job, "failed")
    assert (line["repository"], line["kind"], line["attempt"]) == ("lake", "commit", 1)
    assert line["seconds"] > 0
    _, text = stage.ask("GET", f"{MAIN}/commits/async/{job}/status", {})
    assert json.loads(text)["status_code"] == 503 and CAUSE not in text and lake.name not in text
    assert '"JobsFailed":[1.0]' in stage.logs["worker"].read_text().replace(" ", "")

    # A commit of arrived objects: the message comes back, within minutes.
    ran = stage.functions["worker"].invoke({"Records": [batch]})
    assert ran == {"batchItemFailures": [{"itemIdentifier": batch["messageId"]}]}
    line = stage.lines("worker", "WARNING")[-1]
    assert (line["message"], line["message_kind"]) == ("job is delivered again", "batch")
    assert line["repository"] == "lake" and line["rule"]

    # A message that is no notification.
    poison = {"Records": [{"messageId": "m2", "receiptHandle": "none", "body": "{"}]}
    failed = [{"itemIdentifier": "m2"}]
    assert stage.functions["events"].invoke(poison) == {"batchItemFailures": failed}
    log = stage.logs["events"].read_text().splitlines()
    (line,) = [json.loads(text) for text in log if '"message failed"' in text]
    assert (line["level"], line["message_id"]) == ("WARNING", "m2")
    assert "notification is not JSON" in line["cause"]
