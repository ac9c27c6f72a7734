"""One server for the tests of a module, and the administrator's session on it."""

from collections.abc import Iterator

import pytest

from graveler.lake.session import Session, connect
from tests.api.serving import ADMINISTRATOR, Served, served


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


@pytest.fixture
def session(live: Served) -> Session:
    known = ADMINISTRATOR
    return connect(live.client.url, known.access_key_id, known.secret_access_key)


@pytest.fixture
def repo(live: Served) -> str:
    return live.fresh_repository()
