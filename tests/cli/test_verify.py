"""`graveler verify` finds damage and says where; a sound store passes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.assembly import open_embedded
from graveler.cli.main import main
from graveler.core.identity import IS_FAST
from graveler.engine import imports
from graveler.engine.commits import commit
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.objects import write
from graveler.engine.objects.write import Upload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.cli.service import COMMAND, WAIT_SECONDS, environment

Damage = Callable[[Path, str], None]


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Path, str]:
    """A store with one commit of two objects, and the id of its metarange."""
    folder = tmp_path / "store"
    store = open_embedded(folder)
    repo = repository.create(store.ports, NewRepository("lake", "local://lake/"))
    for path in ("a", "b"):
        write.upload(
            open_repository(store.ports, repo), "main", path, Upload([path.encode() * 100])
        )
    made = commit.commit(open_repository(store.ports, repo), "main", CommitRequest("two", "me"))
    store.close()
    return folder, made.commit.metarange


def _range_file(folder: Path, metarange: str) -> Path:
    files = (folder / "objects" / "lake" / "_lakefs").iterdir()
    found = [file for file in files if len(file.name) == 64 and file.name != metarange]
    assert len(found) == 1
    return found[0]


def _object_file(folder: Path) -> Path:
    return next(file for file in (folder / "objects/lake/data").rglob("*") if file.is_file())


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x10
    file.chmod(0o600)
    file.write_bytes(content)


def flip_in_the_range(folder: Path, metarange: str) -> None:
    _flip(_range_file(folder, metarange))


def flip_in_the_metarange(folder: Path, metarange: str) -> None:
    _flip(folder / "objects" / "lake" / "_lakefs" / metarange)


def remove_the_range(folder: Path, metarange: str) -> None:
    _range_file(folder, metarange).unlink()


def remove_an_object(folder: Path, metarange: str) -> None:
    _object_file(folder).unlink()


def shorten_an_object(folder: Path, metarange: str) -> None:
    file = _object_file(folder)
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1])


def test_a_sound_store_passes(lake: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("verify", "--store", str(lake[0]))) == 0
    assert main(("verify", "--store", str(lake[0]), "--objects")) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "verified: 2 commits with all files, 2 objects, damaged: 0"


@pytest.mark.parametrize(
    "damage", [flip_in_the_range, flip_in_the_metarange, remove_the_range], ids=lambda d: d.__name__
)
def test_a_damaged_file_is_found(
    lake: tuple[Path, str], damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(*lake)
    assert main(("verify", "--store", str(lake[0]))) == 1
    said = capsys.readouterr().out
    assert "damaged: repository=lake commit " in said
    assert said.splitlines()[-1].endswith("damaged: 1")


@pytest.mark.parametrize("damage", [remove_an_object, shorten_an_object], ids=lambda d: d.__name__)
def test_a_damaged_object_is_found_when_objects_are_asked_for(
    lake: tuple[Path, str], damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(*lake)
    assert main(("verify", "--store", str(lake[0]))) == 0
    assert main(("verify", "--store", str(lake[0]), "--objects")) == 1
    assert "damaged: repository=lake path " in capsys.readouterr().out


def test_a_folder_without_a_store_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("verify", "--store", str(tmp_path))) == 3
    assert "no store in this folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_crash(lake: tuple[Path, str]) -> None:
    found = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", *COMMAND, "verify", "--store", str(lake[0])],
        env=environment(None),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert found.stderr == ""


def test_imported_objects_are_read_below_their_root(
    lake: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, source = lake[0], tmp_path / "source"
    source.mkdir()
    (source / "one.csv").write_bytes(b"1")
    store = open_embedded(folder, import_roots=[source])
    repo = repository.get(store.ports, "lake")
    wanted = imports.ImportPath("common_prefix", f"local://{source}/", "in/")
    request = imports.ImportRequest([wanted], "import", "me")
    job = imports.submit(open_repository(store.ports, repo), "main", request, owner=b"test")
    imports.run(open_repository(store.ports, repo), "main", request, job.id)
    assert imports.status(open_repository(store.ports, repo), job.id).error == ""
    store.close()
    check = ("verify", "--store", str(folder), "--objects")
    assert main((*check, "--import-root", str(source))) == 0
    content = ("verify", "--store", str(folder), "--content", "--import-root", str(source))
    assert main(content) == 0
    os.utime(source / "one.csv", ns=(0, 0))
    assert main((*check, "--import-root", str(source))) == 0
    assert main(content) == 1
    assert "path in/one.csv: object outside was replaced since" in capsys.readouterr().out
    (source / "one.csv").write_bytes(b"12")
    assert main((*check, "--import-root", str(source))) == 1
    assert "another size" in capsys.readouterr().out


def flip_in_an_object(folder: Path, metarange: str) -> None:
    _flip(_object_file(folder))


def test_changed_bytes_are_found_when_contents_are_asked_for(
    lake: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    check = ("verify", "--store", str(lake[0]), "--content")
    assert main(check) == 0
    assert "2 objects, 200 B read" in capsys.readouterr().out
    flip_in_an_object(*lake)
    assert main(("verify", "--store", str(lake[0]), "--objects")) == 0
    assert main(check) == 1
    out = capsys.readouterr().out
    assert "object has other bytes: recorded=" in out and out.endswith("damaged: 1\n")
    shorten_an_object(*lake)
    assert main(check) == 1
    assert "object has another size" in capsys.readouterr().out


def test_a_line_break_in_a_name_begins_no_line_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "store"
    store = open_embedded(folder)
    repo = repository.create(store.ports, NewRepository("lake", "local://lake/"))
    opened = open_repository(store.ports, repo)
    write.upload(opened, "main", "a\nverified: all, damaged: 0", Upload([b"x" * 100]))
    commit.commit(opened, "main", CommitRequest("one", "me"))
    store.close()
    _object_file(folder).unlink()
    assert main(("verify", "--store", str(folder), "--objects")) == 1
    damage, verified = capsys.readouterr().out.splitlines()
    assert damage.startswith("damaged: ") and verified.endswith(", damaged: 1")


def test_a_check_goes_on_behind_a_position(
    lake: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The position of an interrupt."""
    folder, check = lake[0], ("verify", "--store", str(lake[0]), "--content")
    name = _range_file(*lake).name
    for after, left in (("lake/0/", 2), (f"lake/{name}/a", 1), (f"lake/{name}/b", 0), ("m/0/", 0)):
        assert main((*check, "--after", after, "--json")) == 0
        assert json.loads(capsys.readouterr().out)["objects"] == left, after
    assert main((*check, "--after", "nonsense")) == 1
    assert "REPOSITORY/RANGE/PATH" in capsys.readouterr().err
    stopped = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(folder)],
        env=environment(None),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert stopped.returncode == 130, stopped
    assert f"to go on: --after lake/{name}/a" in stopped.stderr


def test_bytes_without_an_md5_are_compared_with_the_stored_crc32c(
    lake: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an object that was joined of parts, which has an etag instead."""
    store = open_embedded(lake[0])
    repo = open_repository(store.ports, repository.get(store.ports, "lake"))
    entry = write.upload(repo, "main", "joined", Upload([bytes(5 << 20)]))
    write.stage(repo, "main", "joined", entry._replace(checksum=f"{entry.checksum}-2"))
    store.close()
    check = ("verify", "--store", str(lake[0]), "--content")
    assert main(check) == 0
    assert "3 objects" in capsys.readouterr().out
    (file,) = lake[0].rglob(entry.address.rpartition("/")[2])
    with file.open("r+b") as writable:
        writable.write(b"x")
    assert main(check) == (1 if IS_FAST else 0)
    if IS_FAST:
        assert "path joined: object has other bytes: crc32c=" in capsys.readouterr().out


_INTERRUPTED = """
import sys
from graveler.cli.support import verify
from graveler.cli.main import main

def note(self, place, size, known=verify.Progress.note):
    known(self, place, size)
    raise KeyboardInterrupt

verify.Progress.note = note
sys.exit(main(("verify", "--store", sys.argv[1], "--content")))
"""
