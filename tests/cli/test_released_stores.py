"""A store of each release is opened by the present code, and nothing in it is lost."""

import json
from pathlib import Path

import pytest

from tests.cli.released_store import FOLDER, REPOSITORY, extract, facts
from tests.cli.service import run, serving

RELEASES = sorted(file.stem for file in FOLDER.glob("*.json"))


def test_a_store_of_the_first_release_is_kept() -> None:
    assert "0.1.0" in RELEASES


@pytest.mark.parametrize("version", RELEASES)
def test_a_store_of_a_release_is_read_verified_and_changed(version: str, tmp_path: Path) -> None:
    store = extract(version, tmp_path)
    expected = json.loads((FOLDER / f"{version}.json").read_text(encoding="utf-8"))
    with serving(store) as service, service.client() as api:
        assert json.loads(json.dumps(facts(api))) == expected
        api.post(f"{REPOSITORY}/branches/dev/commits", json={"message": "Go on"}).raise_for_status()
        merged = api.post(f"{REPOSITORY}/refs/dev/merge/main", json={}).raise_for_status().json()
        listed = api.get(f"{REPOSITORY}/refs/{merged['reference']}/objects/ls").json()
        paths = [entry["path"] for entry in listed["results"]]
        assert "staged.txt" in paths and "empty" not in paths and "readme.md" in paths
        assert service.end()[0] == 0
    verified = run("verify", "--store", str(store), "--content")
    assert verified.returncode == 0, verified.stdout + verified.stderr
