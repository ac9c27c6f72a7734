"""Files and folders for their owner alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.core import private_files


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_all_folders_that_are_made_are_private(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    private_files.make_folder(tmp_path / "a/b/c")
    private_files.make_folder(tmp_path / "a/b/c")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o755, 0o700, 0o700]


def test_a_replaced_file_is_private(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"before")
    private_files.replace(tmp_path / "f", b"after")
    assert (tmp_path / "f").read_bytes() == b"after" and mode(tmp_path / "f") == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "f"
    victim.write_bytes(b"whole")
    (tmp_path / f"f.{os.getpid()}.new").symlink_to(victim)
    private_files.replace(file, b"secret")
    assert victim.read_bytes() == b"whole"
    assert file.read_bytes() == b"secret" and not file.is_symlink()


def test_a_failed_replacement_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError, match="directory"):
        private_files.replace(tmp_path / "f", b"x")
    assert os.listdir(tmp_path) == ["f"]
