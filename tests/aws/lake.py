"""A lake for sandboxes of the API's function: what a template makes, made directly in an engine.

Events are those of an HTTP API, payload format 2.0.  A sandbox that is lost has answered nothing:
the gateway would say 503, so does `ask`.
"""

import atexit
import base64
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from tests.aws.buckets import create_bucket
from tests.aws.engines import ROOT
from tests.aws.tables import new_table
from tests.functions.sandbox import Function, Sandbox, SandboxLost

RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
LOST = "sandbox lost; outcome unknown"
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Lake(NamedTuple):
    """Where the records and the objects are, and who may ask."""

    name: str  # of the table, of the bucket, and of the secret
    authorization: str
    jobs_queue: str  # nobody takes from it


class Answer(NamedTuple):
    """What the gateway would hand on."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def unknown(self) -> bool:
        """Whether it says of itself that a write may have happened."""
        return b"outcome unknown" in self.body


def make_lake(session: AwsSession, name: str) -> Lake:
    """A table, a bucket, a secret, a queue."""
    new_table(session, name)
    create_bucket(session, name)
    text = SystemIds().unique(120)
    session.client("secretsmanager").create_secret(Name=name, SecretString=text)
    pair = f"GRVL{text[:16]}:{text[16:56]}".encode()
    queue = session.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    return Lake(name, "Basic " + base64.b64encode(pair).decode(), queue)


def build(name: str, folder: Path) -> Path:
    """The code of a function as it is deployed, in a folder of its own."""
    return Path(shutil.copytree(_built(name), folder))


@cache
def _built(name: str) -> Path:
    """The code of a function, built once in this process: each module is compiled."""
    folder = Path(tempfile.mkdtemp(prefix="graveler-function-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    machine = "x86_64" if platform.machine() in ("x86_64", "AMD64") else "arm64"
    command = [sys.executable, str(ROOT / "layers" / "build.py"), "--runtime", RUNTIME]
    command += ["--architecture", machine, "function", name, str(folder)]
    subprocess.run(command, check=True)
    return folder


@contextmanager
def sandboxes(
    lake: Lake,
    code: Path,
    endpoint: str,
    count: int,
    seconds: float = 29.0,
    more: Mapping[str, str] = NO_VARIABLES,
) -> Iterator[Sequence[Sandbox]]:
    """Processes of the function in `code`, each with a cache of its own; `more`: variables."""
    with ExitStack() as ended:
        functions = [_function(lake, code, endpoint, number, seconds) for number in range(count)]
        yield [
            ended.enter_context(Sandbox(replace(each, variables={**each.variables, **more})))
            for each in functions
        ]


def _function(lake: Lake, code: Path, endpoint: str, number: int, seconds: float) -> Function:
    variables = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": endpoint,
        "GRAVELER_TABLE": lake.name,
        "GRAVELER_SECRET": lake.name,
        "GRAVELER_BUCKETS": lake.name,
        "GRAVELER_JOBS_QUEUE": lake.jobs_queue,
        "GRAVELER_EVENTS_QUEUE": lake.jobs_queue,
        "GRAVELER_CACHE_FOLDER": str(code.parent / f"cache-{lake.name}-{number}"),
        "POWERTOOLS_METRICS_NAMESPACE": "Graveler",
        "POWERTOOLS_SERVICE_NAME": lake.name,
    }
    log = code.parent / f"log-{lake.name}-{number}"
    return Function(code, name=lake.name, variables=variables, seconds=seconds, log=log)


def event(
    lake: Lake, method: str, path: str, query: Mapping[str, str], body: bytes | None
) -> dict[str, Any]:
    """A request as the function gets it; `body` goes as bytes."""
    headers = {"authorization": lake.authorization, "host": "lake"}
    sent: dict[str, Any] = {}
    if body is not None:
        kind = "application/json" if body[:1] == b"{" else "application/octet-stream"
        headers |= {"content-type": kind, "content-length": str(len(body))}
        sent = {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    http = {"method": method, "path": "/api/v1" + path, "protocol": "HTTP/1.1"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/api/v1" + path,
        "rawQueryString": urlencode(query),
        "headers": headers,
        "requestContext": {
            "http": {**http, "sourceIp": "127.0.0.1", "userAgent": "test"},
            "domainName": "lake",
            "requestId": "request",
            "stage": "$default",
            "timeEpoch": 0,
        },
        "isBase64Encoded": False,
        **sent,
    }


def told(
    lake: Lake, sandbox: Sandbox, method: str, path: str, body: Mapping[str, Any] | None
) -> Any:
    """What a request through one sandbox is told, which succeeds."""
    sent = None if body is None else json.dumps(body).encode()
    answer = ask(lake, sandbox, method, path, body=sent)
    assert answer.status < 300, answer
    return answer.json


def ask(
    lake: Lake,
    sandbox: Sandbox,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """One request through one sandbox."""
    try:
        said = sandbox.invoke(event(lake, method, path, query or {}, body))
    except SandboxLost:
        return Answer(503, LOST.encode())
    text = said.get("body", "")
    return Answer(
        said["statusCode"], base64.b64decode(text) if said["isBase64Encoded"] else text.encode()
    )
