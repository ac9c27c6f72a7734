"""A store whose files are damaged at rest: no command makes it worse, and `verify` calls it damage.

The store is as a killed service leaves it: rows in the log of the database, small objects in the
journal.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from graveler.assembly import Embedded, open_embedded
from graveler.cli.main import main
from graveler.core.errors import Corrupt, GravelerError
from graveler.engine.commits import commit
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.objects import read, write
from graveler.engine.objects.write import Upload
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.kv.rocksdb import RocksStore
from graveler.kv.store import Row, Write
from tests.cli.service import run
from tests.kv.test_rocksdb import as_nobody
from tests.waiting import until

OBJECTS = {f"p{number:03}": b"%d" % number * 90 for number in range(60)}


def _opened_lake(store: Embedded) -> OpenRepository:
    return open_repository(store.ports, repository.get(store.ports, "lake"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    store = open_embedded(folder / "living")
    repo = open_repository(
        store.ports, repository.create(store.ports, NewRepository("lake", "local://lake/"))
    )
    for path, body in OBJECTS.items():
        write.upload(repo, "main", path, Upload([body]))
        if path == "p030":
            commit.commit(repo, "main", CommitRequest("half", "me"))
    shutil.copytree(folder / "living", folder / "killed")
    store.close()
    return folder / "killed"


@pytest.fixture
def lake(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "store"))


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files with their times."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def objects(folder: Path) -> dict[str, bytes]:
    """The objects that a start of the service finds; those that cannot be read are left out."""
    store = open_embedded(folder)
    found = {}
    try:
        repo = _opened_lake(store)
        for path in OBJECTS:
            try:
                found[path] = read.read_body(repo, read.stat(repo, "main", path))
            except GravelerError:
                continue
    finally:
        store.close()
    return found


def verified(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """The exit code and the output of `graveler verify`, which changes nothing."""
    before = content(folder)
    capsys.readouterr()
    code = main(("verify", "--store", str(folder), *more))
    assert content(folder) == before
    return code, capsys.readouterr().out


def refused(folder: Path) -> str:
    before = content(folder)
    with pytest.raises(Corrupt) as raised:
        open_embedded(folder)
    assert content(folder) == before
    return str(raised.value)


def journal(folder: Path) -> Path:
    (segment,) = (folder / "objects" / "%journal").iterdir()
    return segment


def flip(path: Path, at: int) -> None:
    stored = bytearray(path.read_bytes())
    stored[at] ^= 0x10
    path.write_bytes(stored)


def test_a_killed_store_is_sound_and_verify_leaves_its_logs(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = verified(lake, capsys, "--objects")
    assert (code, said.splitlines()[-1].split(", ")[-1]) == (0, "damaged: 0")
    assert objects(lake) == OBJECTS


def test_objects_that_only_the_journal_has_are_sound(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a loss of power, the files may be empty until the next start."""
    _lose_unsynced(lake)
    assert verified(lake, capsys, "--objects")[0] == 0
    assert objects(lake) == OBJECTS


def _lose_unsynced(folder: Path) -> None:
    for path in (folder / "objects/lake/data").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")


@pytest.mark.parametrize("lost", ["kv", "kv/*", "kv/CURRENT", "kv/MANIFEST*", "kv/*.log"])
def test_a_store_without_its_database_is_damaged_and_gets_no_new_one(
    lake: Path, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    kept = shutil.copytree(lake / "kv", lake.with_name("back-up"))
    for path in list(lake.glob(lost)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    code, said = verified(lake, capsys)
    assert code == 1 and said.startswith("damaged: store: ") and said.endswith("damaged: 1\n")
    assert "restore" in said and "docs/how-to/back-up.md" in said
    assert refused(lake) in said
    shutil.rmtree(lake / "kv", ignore_errors=True)
    shutil.copytree(kept, lake / "kv")
    assert objects(lake) == OBJECTS


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.95])
def test_a_damaged_log_of_the_database_is_damage(
    lake: Path, capsys: pytest.CaptureFixture[str], place: float
) -> None:
    (log,) = (lake / "kv").glob("*.log")
    flip(log, int(log.stat().st_size * place))
    code, said = verified(lake, capsys)
    assert code == 1 and f"the log is damaged: file=kv/{log.name} " in said
    assert refused(lake) in said


def test_serve_refuses_a_damaged_store_in_one_line(lake: Path) -> None:
    (log,) = (lake / "kv").glob("*.log")
    flip(log, log.stat().st_size // 2)
    before = content(lake)
    ended = run("serve", "--store", str(lake), "--listen", "127.0.0.1:0")
    assert ended.returncode == 1 and content(lake) == before
    (line,) = ended.stderr.splitlines()
    assert "`truncate -s " in line and "docs/how-to/back-up.md" in line


@pytest.mark.parametrize("place", [0.02, 0.3, 0.8, 0.95])
def test_a_damaged_journal_is_kept_and_its_whole_records_can_be_saved(
    lake: Path, capsys: pytest.CaptureFixture[str], place: float
) -> None:
    _lose_unsynced(lake)
    segment = journal(lake)
    flip(segment, int(segment.stat().st_size * place))
    code, said = verified(lake, capsys, "--objects")
    assert code == 1 and "journal has a damaged record: " in said
    assert refused(lake) in said
    assert f"rename this file to {segment.name}.damaged" in said
    segment.rename(f"{segment}.damaged")
    saved = {path: body for path, body in objects(lake).items() if body}
    lost = len(OBJECTS) - len(saved)
    assert saved.items() <= OBJECTS.items()
    assert lost <= 1  # or the record was one of a file of the repository
    assert journal(lake).name == f"{segment.name}.kept"
    code, said = verified(lake, capsys, "--objects")
    assert (code, said.count("damaged: repository=lake path p")) == (lost, lost)


def test_a_torn_end_of_the_journal_is_no_damage(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = journal(lake)
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 10)
    assert verified(lake, capsys)[0] == 0
    assert objects(lake) == OBJECTS  # the files are there


def test_a_lost_key_and_a_damaged_table_are_named(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_embedded(lake).close()  # its rows are in a table now
    (table,) = (lake / "kv").glob("*.sst")
    flip(table, table.stat().st_size // 5)
    code, said = verified(lake, capsys)
    assert code == 1 and f"kv/{table.name}" in said
    flip(table, table.stat().st_size // 5)
    (lake / "key").unlink()
    code, said = verified(lake, capsys)
    assert code == 1 and str(lake / "key") in said
    (lake / "key").write_bytes(b"cut")
    assert refused(lake) in verified(lake, capsys)[1]


def test_verify_reads_a_folder_that_it_may_not_write(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (lake, *lake.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        os.chmod(shared, 0o777)
        copy = Path(shutil.copytree(lake, Path(shared, "store")))
        monkeypatch.setattr(tempfile, "tempdir", shared)
        with as_nobody():
            code, said = verified(copy, capsys, "--objects")
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o700)
    assert code == 0, said


def test_a_store_whose_tables_cannot_be_merged_says_so_and_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Four tables are merged in the background, and one of them is damaged."""
    folder = tmp_path / "store"
    rows = [Write(b"p", b"%04d" % number, os.urandom(100), b"1") for number in range(300)]
    for life in range(4):
        store = RocksStore(str(folder / "living"))
        store.set_many(rows)
        if life == 3:
            shutil.copytree(folder / "living", folder / "kv")  # with rows for a fourth table
        store.close()
    table = min((folder / "kv").glob("*.sst"))
    flip(table, table.stat().st_size // 2)
    store = RocksStore(str(folder / "kv"))
    answers: list[str] = []

    def is_refused() -> bool:
        try:
            store.set(b"p", b"one", b"more", b"2")
        except Corrupt as error:
            answers.append(str(error))
        return len(answers) == 3

    until(is_refused, "the damage is found")
    assert len(set(answers)) == 1 and f"kv/{table.name}" in answers[0]
    assert "restore the store from a back-up" in answers[0]
    assert store.get(b"p", b"0001") == Row(rows[1].value, b"1")
    store.close()
    assert [answers[0] in line.getMessage() for line in caplog.records] == [True]
    assert table.exists()
