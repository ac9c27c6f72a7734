"""A service that is killed at any moment: nothing acknowledged is lost, the next start repairs
nothing."""

import random
import signal
import threading
from pathlib import Path as Folder

import httpx
import pytest

from graveler.block.journal import decode
from graveler.block.layout import JOURNAL
from tests import draws
from tests.cli.load import Committed, Load, Path, found_at, started
from tests.cli.service import Service, repository, run, serving
from tests.waiting import PATIENCE_SECONDS, until

KILLS = 3
WRITERS, COMMITTERS, PATHS = 4, 2, 24


@pytest.mark.parametrize("objects_in_a_range", ["many", "one"])
def test_nothing_acknowledged_is_lost_by_kills_under_load(
    tmp_path: Folder, objects_in_a_range: str
) -> None:
    """With one object in a range, other processes rewrite most ranges of each commit."""
    seed = draws.seed()
    chance = random.Random(seed)
    store = tmp_path / "store"
    paths = [Path(f"p/{number:02}") for number in range(PATHS)]
    commits: list[Committed] = []
    with serving(store) as service, service.client() as client:
        repository(client)
        if objects_in_a_range == "one":
            _divide(client)
        service.end()
    for _ in range(KILLS):
        with serving(store) as service:
            _check(service, paths, commits)
            commits += _killed_under_load(service, paths, chance.uniform(0.3, 1.2))
    with serving(store) as service:
        _check(service, paths, commits)
        assert service.end()[0::2] == (0, "")
    verified = run("verify", "--store", str(store), "--objects")
    assert verified.returncode == 0, verified.stdout
    assert len(commits) > KILLS
    assert min(path.acknowledged for path in paths) > 0


def test_nothing_acknowledged_is_lost_with_all_files_that_were_not_synced(
    tmp_path: Folder,
) -> None:
    """A kill, and then a loss of power: of the small files that the journal has, nothing is left,
    as of any file that was not synced."""
    store = tmp_path / "store"
    with serving(store) as service, service.client() as client:
        branch = repository(client)
        for number in range(60):
            answer = client.post(
                f"{branch}/objects", params={"path": f"p/{number}"}, content=b"%d" % number
            )
            answer.raise_for_status()
        service.end(signal.SIGKILL)
    lost = 0
    for segment in (store / "objects" / JOURNAL).iterdir():
        for file in decode(segment.read_bytes()):
            path = store.joinpath("objects", *file.place.folders, file.place.name)
            lost += 1
            path.unlink() if lost % 2 else path.write_bytes(b"")
    assert lost >= 60
    with serving(store) as service, service.client() as client:
        where = "/repositories/lake/refs/main/objects"
        for number in range(60):
            found = client.get(where, params={"path": f"p/{number}"})
            assert (found.status_code, found.content) == (200, b"%d" % number)
        assert service.end()[0::2] == (0, "")
    assert list((store / "objects" / JOURNAL).iterdir()) == []
    assert run("verify", "--store", str(store), "--objects").returncode == 0


def _divide(client: httpx.Client) -> None:
    """Let each object of the repository have a range of its own."""
    where = "/repositories/lake/settings/breaks"
    present = client.get(where).json()
    new = {**present, "raggedness": 1}
    client.put(where, json={"expected": present, "breaks": new}).raise_for_status()


def _killed_under_load(service: Service, paths: list[Path], seconds: float) -> list[Committed]:
    load = Load(service.url, paths)
    threads = started(load, WRITERS, COMMITTERS)

    def is_under_way() -> bool:
        written = all(path.acknowledged for path in paths)
        return bool(load.failures) or (written and len(load.commits) > 1)

    until(is_under_way, "all paths are written and something is committed")
    threading.Event().wait(seconds)  # at any moment from then on
    service.end(signal.SIGKILL)
    load.ended.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert load.failures == []
    return load.commits


def _check(service: Service, paths: list[Path], commits: list[Committed]) -> None:
    with service.client() as client:
        for path in paths:
            found = found_at(client, "main", path)
            assert path.allows(found, path.acknowledged), (path, found)
            # A dead process sends nothing more: what is found now is what later writes build on.
            path.acknowledged = path.last_deletion() if found is None else found
        _check_history(client, paths, commits)


def _check_history(client: httpx.Client, paths: list[Path], commits: list[Committed]) -> None:
    history: set[str] = set()
    after = ""
    while True:
        page = client.get(
            "/repositories/lake/refs/main/commits", params={"amount": 1000, "after": after}
        ).json()
        history |= {commit["id"] for commit in page["results"]}
        if not page["pagination"]["has_more"]:
            break
        after = page["pagination"]["next_offset"]
    missing = [commit.id for commit in commits if commit.id not in history]
    assert missing == []
    for commit in commits[-2:]:
        for path in paths[::5]:
            found = found_at(client, commit.id, path)
            assert path.allows(found, commit.before[path.name]), (commit, path, found)
