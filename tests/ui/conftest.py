"""One browser and one server for all scenarios; a context for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.api.serving import Served, served
from tests.ui.scene import Scene, lake, launched, scene


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser.  It ends with the last scenario: its event loop must not meet other tests."""
    with launched() as running:
        yield running


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on a fresh store."""
    store: Path = tmp_path_factory.mktemp("served") / "store"
    with served(store) as running:
        yield running


@pytest.fixture(scope="package")
def repo(live: Served) -> str:
    """A lake that scenarios only read."""
    return lake(live)


@pytest.fixture
def shown(browser: Browser, live: Served) -> Iterator[Scene]:
    """A scene in a wide window."""
    with scene(browser, live) as made:
        yield made


@pytest.fixture
def live_commit(live: Served, repo: str) -> str:
    """The commit of `main` in the lake that scenarios only read."""
    return str(live.client.send("GET", f"/repositories/{repo}/branches/main").json["commit_id"])
