"""What the tests of verbs share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.core.ids import CommitId
from graveler.engine.gc import retention
from graveler.refs.garbage import Retention
from tests.engine.lake import Lake, new_lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.support.interposer import Script


@pytest.fixture
def lake() -> Lake:
    return new_lake()


@pytest.fixture
def forked(lake: Lake) -> Lake:
    """A branch `dev` with a commit of its own."""
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    return lake


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A repository whose ranges are files in memory."""
    return new_storage(tmp_path)


@pytest.fixture
def aged(storage: Storage) -> tuple[Storage, CommitId]:
    """A branch whose first commit has expired, and that commit."""
    retention.set_rule(storage.opened, Retention(default_days=7))
    old = storage.commit(a="old", b="same")
    storage.commit(a="new")
    storage.wait(8 * DAY)
    return storage, CommitId(old)


@pytest.fixture
def rival(lake: Lake) -> Lake:
    """Another process on the same store."""
    return lake.another_process()


@pytest.fixture
def scripted(lake: Lake) -> tuple[Lake, Script]:
    """A process whose requests follow a script."""
    return lake.interposed()


@pytest.fixture
def fast_folder() -> Iterator[Path]:
    """A folder in memory where the system has such a thing: every write is synced."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
