"""Every handler runs on the runtime that is deployed by default, with the layer of that runtime.

Other tests run the handlers on the interpreter of the tests.  Where that is another one, this test
takes an interpreter of the runtime if the machine has one; no package index has one to install.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graveler.core.aws import AwsSession
from scripts import deploy
from scripts.deploy import ROOT, RUNTIME, Target
from tests.aws.lake import Lake, event, make_lake

INTERPRETER = deploy.found(RUNTIME)
MAIN = "/repositories/lake/branches/main"
DRIVER = """
import importlib.util, json, sys

class Context:
    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "x"

    def get_remaining_time_in_millis(self):
        return 290_000

def loaded(name):
    file = f"functions/{name}/handler.py"
    spec = importlib.util.spec_from_file_location(f"handler_of_{name}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.handle

handlers = {name: loaded(name) for name in ("api", "events", "worker", "janitor", "hooks")}
for line in sys.stdin:
    name, event = json.loads(line)
    print("ANSWER", json.dumps(handlers[name](event, Context())), flush=True)
"""

pytestmark = pytest.mark.skipif(not INTERPRETER, reason=f"no interpreter of {RUNTIME} is here")


@contextmanager
def functions(layer: Path, variables: Mapping[str, str]) -> Iterator[Callable[[str, Any], Any]]:
    """A call of a function by its name, in one process of the runtime."""
    folders = [str(layer / "python"), str(ROOT), str(ROOT / "functions" / "shared")]
    code = f"import sys; sys.path[:0] = {folders!r}\n{DRIVER}"
    command = [INTERPRETER, "-I", "-S", "-B", "-c"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, code], env=dict(variables), cwd=ROOT, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        taking, giving = process.stdin, process.stdout

        def call(name: str, event: Any) -> Any:
            taking.write(json.dumps([name, event]) + "\n")
            taking.flush()
            for line in giving:
                if line.startswith("ANSWER "):
                    return json.loads(line.removeprefix("ANSWER "))
            raise AssertionError(f"the process of the functions has ended: function={name}")

        try:
            yield call
        finally:
            process.kill()


def _variables(lake: Lake, engine: str, folder: Path) -> dict[str, str]:
    return {
        **deploy.LOCAL_CREDENTIALS,
        "AWS_ENDPOINT_URL": engine,
        "GRAVELER_TABLE": lake.name,
        "GRAVELER_SECRET": lake.name,
        "GRAVELER_BUCKETS": lake.name,
        "GRAVELER_JOBS_QUEUE": lake.jobs_queue,
        "GRAVELER_CACHE_FOLDER": str(folder / "cache"),
        "POWERTOOLS_METRICS_NAMESPACE": "Graveler",
        "POWERTOOLS_SERVICE_NAME": lake.name,
    }


def test_every_handler_runs_on_the_runtime_that_is_deployed(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    layer = tmp_path / "layer"
    command = [INTERPRETER, str(ROOT / "layers" / "build.py"), "--runtime", RUNTIME]
    command += ["--architecture", Target().architecture, "layer", str(layer)]
    subprocess.run(command, check=True)
    lake = make_lake(session, fresh_name())
    with functions(layer, _variables(lake, engine, tmp_path)) as call:

        def ask(method: str, where: str, body: bytes, **query: str) -> int:
            status: int = call("api", event(lake, method, where, query, body))["statusCode"]
            return status

        new = {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
        assert ask("POST", "/repositories", json.dumps(new).encode()) == 201
        assert ask("POST", f"{MAIN}/objects", b"x", path="a") == 201
        assert ask("POST", f"{MAIN}/commits/async", b'{"message": "one"}') == 202
        received = session.client("sqs").receive_message(QueueUrl=lake.jobs_queue)["Messages"]
        record = {
            "messageId": "m",
            "receiptHandle": received[0]["ReceiptHandle"],
            "body": received[0]["Body"],
        }
        assert call("worker", {"Records": [record]}) == {"batchItemFailures": []}
        log = call("api", event(lake, "GET", "/repositories/lake/refs/main/commits", {}, None))
        assert json.loads(log["body"])["results"][0]["message"] == "one"
        assert call("events", {}) == {"closed": 0}
        assert call("janitor", {}) is None
        assert "refused" in json.dumps(call("hooks", {}))
