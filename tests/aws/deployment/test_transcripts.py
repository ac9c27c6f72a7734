"""The recorded requests are answered as recorded by the deployed stack.

`core` was recorded with a store in a folder: what names that store names S3 here.
"""

import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.transcript import ADMINISTRATOR, ANY, RIGHT, Run, lines, replay
from tests.aws.deployment.conftest import Stack
from tests.aws.engines import ROOT
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("stack")

FOLDER = ROOT / "tests" / "data" / "transcripts"
CORE, S3 = FOLDER / "core.jsonl", FOLDER / "s3.jsonl"

JOBS = ("import.status",)  # asked once when it was recorded
JOB_SECONDS = PATIENCE_SECONDS
LINKS = ("object.link", "link")  # the recorded server linked what nobody had written


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


def run_of(stack: Stack, right: dict[str, tuple[int, Any]]) -> Run:
    """A replay with names that no other has."""
    url, number = urlsplit(stack.url), time.time_ns()
    assert url.hostname is not None and url.port is not None
    return Run(
        (url.hostname, url.port),
        {"run": f"{number}", "ns": f"{stack.namespace}/t{number}", "user": "admin"},
        url.path.removesuffix("/api/v1"),
        (stack.access_key_id, stack.secret_access_key),
        right,
    )


def wrong(stack: Stack, run: Run, path: Path, swapped: dict[str, str]) -> dict[str, list[str]]:
    """What was not answered as recorded."""
    every = ((line["id"], answered(stack, run, line)) for line in lines(path, swapped))
    return {name: found for name, found in every if found}


def answered(stack: Stack, run: Run, line: dict[str, Any]) -> list[str]:
    """What is wrong with the answer; jobs are waited for: they run in another function."""
    if line["id"] in LINKS:
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


def test_the_core_is_answered_as_recorded(stack: Stack) -> None:
    [config] = [line["response"]["json"] for line in lines(S3) if line["id"] == "config"]
    right = {
        **RIGHT,
        "config": (200, config),
        "config.storage": (200, config["storage_config"]),
        "object.presign-multipart": (201, ANY),
    }
    keys = (stack.access_key_id, stack.secret_access_key)
    swapped = {
        "local://": "s3://",
        "s3://": "local://",
        "internal_auth_session": "__Host-internal_auth_session",  # the gateway is reached by TLS
        "HttpOnly; SameSite=Lax": "Secure; HttpOnly; SameSite=Strict",
        '"next_offset": "${m3}"': '"next_offset": "<log-page>"',  # behind merges
        **dict(zip(ADMINISTRATOR, keys, strict=True)),
    }
    assert wrong(stack, run_of(stack, right), CORE, swapped) == {}


def test_what_was_recorded_on_s3_is_answered_as_recorded(stack: Stack) -> None:
    found = wrong(stack, run_of(stack, RIGHT_ON_S3), S3, {"s3://lake/": f"{stack.namespace}/"})
    assert found == {}
