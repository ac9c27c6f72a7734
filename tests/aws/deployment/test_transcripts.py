"""The requests that were recorded on S3 are answered as recorded by the deployed stack."""

import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.transcript import ANY, Run, lines, replay
from tests.aws.deployment.conftest import Stack
from tests.aws.engines import ROOT
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("stack")

S3 = ROOT / "tests" / "data" / "transcripts" / "s3.jsonl"

JOBS = ("import.status",)  # asked once when it was recorded
JOB_SECONDS = PATIENCE_SECONDS


def marked(recorded: dict[str, Any]) -> dict[str, Any]:
    """The commit of a job bears the job's mark: so it is made once, whoever goes on with it."""
    commit = recorded["commit"]
    metadata = {**commit["metadata"], "graveler.job": "<20>"}
    return {**recorded, "commit": {**commit, "metadata": metadata}}


# As in the replayer: what is right where the recorded server was wrong.
RIGHT_ON_S3: dict[str, tuple[int, Any]] = {
    "address.unknown-branch": (404, ANY),
    "link.elsewhere": (400, ANY),
    "stage": (400, ANY),
    "namespace.other-repo": (400, ANY),  # names the namespace without the slash at its end
    "multipart.complete-aborted": (404, ANY),
    "import.status": (200, marked),
}


def test_what_was_recorded_on_s3_is_answered_as_recorded(stack: Stack) -> None:
    url, number = urlsplit(stack.url), time.time_ns()  # names that no other run has
    assert url.hostname is not None and url.port is not None
    run = Run(
        (url.hostname, url.port),
        {"run": f"{number}", "ns": f"{stack.namespace}/t{number}", "user": "admin"},
        url.path.removesuffix("/api/v1"),
        (stack.access_key_id, stack.secret_access_key),
        RIGHT_ON_S3,
    )
    recorded = lines(S3, {"s3://lake/": f"{stack.namespace}/"})
    every = ((line["id"], answered(stack, run, line)) for line in recorded)
    assert {name: found for name, found in every if found} == {}


def answered(stack: Stack, run: Run, line: dict[str, Any]) -> list[str]:
    """What is wrong with the answer; jobs are waited for: they run in another function."""
    if line["id"] == "link":  # the recorded server linked what nobody had written
        place = urlsplit(run.names["addr"])
        stack.aws("s3").put_object(Bucket=place.netloc, Key=place.path[1:], Body=b"a")
    if line["id"] == "import.start":  # the recorded server imported what nobody had put
        bucket = urlsplit(stack.namespace)
        folder = f"{bucket.path[1:]}/nothing-here-{run.names['run']}/".removeprefix("/")
        stack.aws("s3").put_object(Bucket=bucket.netloc, Key=folder, Body=b"")
    end = time.monotonic() + JOB_SECONDS
    while (found := replay(run, line)) and line["id"] in JOBS and time.monotonic() < end:
        time.sleep(0.2)
    return found
