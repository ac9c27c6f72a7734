"""The section of `.gitignore`: where it is written, and what is left alone."""

import subprocess
from pathlib import Path

import pytest

from graveler.lake.transfers.link import git_ignore, git_metadata, git_top


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in a working copy."""
    folder = tmp_path / "copy/data"
    folder.mkdir(parents=True)
    run(folder.parent, "init", "-q")
    return folder


def run(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def test_a_section_is_added_once(data: Path) -> None:
    file = data.parent / ".gitignore"
    assert git_ignore(data) == file and git_ignore(data) is None
    assert "data/*\n!data/.lakefs_ref.yaml\n" in file.read_text()


def test_a_configuration_cannot_lead_elsewhere(data: Path, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "other"):
        place.mkdir(exist_ok=True)
        run(data.parent, "config", "core.worktree", str(place))
        assert git_ignore(data) is None and git_top(data) is None
        assert not (place / ".gitignore").exists()


def test_files_of_a_branch_are_no_repository(data: Path) -> None:
    run(data, "init", "-q", "--bare", ".")
    assert git_top(data) is None and git_metadata(data) == {}


@pytest.mark.parametrize("makes", [lambda file: file.write_bytes(b"\xff"), Path.mkdir])
def test_a_file_that_cannot_be_changed_stays(data: Path, makes: object) -> None:
    assert callable(makes)
    makes(data.parent / ".gitignore")
    assert git_ignore(data) is None
