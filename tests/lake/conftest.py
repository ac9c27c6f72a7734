"""A served lake for the tests of the library, and a repository for each."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import graveler
from graveler import Branch, Lake, Repository
from tests.cli.service import KEY, SECRET, at_hand

_numbers = count()


@pytest.fixture(scope="session", params=["served", "embedded"])
def lake(request: pytest.FixtureRequest) -> Lake:
    """A lake, each way to have one."""
    found: Lake = request.getfixturevalue(f"{request.param}_lake")
    return found


@pytest.fixture(scope="session")
def embedded_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake of a store in this process."""
    with graveler.open(tmp_path_factory.mktemp("lake") / "store") as found:
        yield found


@pytest.fixture(scope="session")
def served_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake of a server on a free port."""
    with at_hand(tmp_path_factory.mktemp("lake") / "store") as served:
        yield graveler.connect(served.client.url, KEY, SECRET)


@pytest.fixture
def shop(lake: Lake) -> Repository:
    """A new repository."""
    return lake.create_repository(f"shop-{next(_numbers)}")


@pytest.fixture
def main(shop: Repository) -> Branch:
    """Its default branch."""
    return shop.branch("main")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files: an empty one, one of two levels, one with an odd name."""
    top = tmp_path / "files"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "empty").write_bytes(b"")
    (top / "deep" / "er" / "a.csv").write_text("id\n1\n")
    (top / "naïve 'q' %20.txt").write_text("odd")
    return top
