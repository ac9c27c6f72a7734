"""The first 1,000 commits of the history again, over HTTP; up to sixteen that follow each other
as one."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lakefs.client import Client as LakeFS

from tests.api.serving import ADMINISTRATOR, served
from tests.replay import http_replay, recorded
from tests.replay.http_replay import CHECKS, Replayed

COUNT, LENGTH = 1_000, 16


@pytest.fixture(scope="module")
def done() -> Iterator[Replayed]:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        served(Path(folder) / "store") as live,
    ):
        client = LakeFS(
            host=live.client.url,
            username=ADMINISTRATOR.access_key_id,
            password=ADMINISTRATOR.secret_access_key,
        )
        yield http_replay.replay(client, "local://lake", recorded.condensed(COUNT, LENGTH))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_over_http(check: Callable[[Replayed], None], done: Replayed) -> None:
    check(done)
