"""One server for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import lakefs_sdk
import pytest

from tests.api.fault_lake import lake
from tests.api.fault_world import Surroundings, World, surroundings
from tests.api.serving import ADMINISTRATOR, Client, Served, served
from tests.api.somebody import Somebody, somebody_of


@pytest.fixture(scope="module")
def import_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that imports may read."""
    return tmp_path_factory.mktemp("imports")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, import_root: Path) -> Iterator[Served]:
    """A server on a fresh store."""
    store = tmp_path_factory.mktemp("served") / "store"
    with served(store, import_roots=[import_root]) as running:
        yield running


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    """What worlds without a server share."""
    with surroundings(tmp_path_factory.mktemp("scratch")) as found:
        yield found


@pytest.fixture(scope="module")
def template(around: Surroundings) -> World:
    """A world with a lake; to be copied."""
    return lake(around)


@pytest.fixture(scope="module")
def somebody(live: Served) -> Somebody:
    """A caller whose rights the test chooses."""
    return somebody_of(live)


@pytest.fixture
def client(live: Served) -> Client:
    """The administrator's client."""
    return live.client


@pytest.fixture
def repo(live: Served) -> str:
    """A fresh repository."""
    return live.fresh_repository()


@pytest.fixture
def sdk(client: Client) -> lakefs_sdk.ApiClient:
    """The unmodified client of lakeFS."""
    return lakefs_sdk.ApiClient(
        lakefs_sdk.Configuration(
            host=f"{client.url}/api/v1",
            username=ADMINISTRATOR.access_key_id,
            password=ADMINISTRATOR.secret_access_key,
        )
    )
