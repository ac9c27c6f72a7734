"""Files of the embedded store that are lost, cut or changed on the disk: all rows, or a refusal
that changes nothing and says what to do."""

import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from graveler.core.errors import Conflict, Corrupt, NotFound, Unavailable
from graveler.kv.rocksdb import RocksReader, RocksStore
from graveler.kv.store import scan_all
from tests import draws

Rows = Mapping[bytes, bytes]


class Killed:
    """The folder that a killed process leaves: one table, and rows in the log behind it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.in_table: dict[bytes, bytes] = {}
        self.in_log: dict[bytes, bytes] = {}
        for life, rows in enumerate((self.in_table, self.in_log)):
            store = RocksStore(str(folder.with_name("living")))
            for number in range(150):
                key = b"%d/%03d" % (life, number)
                rows[key] = chance.randbytes(chance.choice((9, 300, 3_000)))
                store.set(b"p", key, rows[key], b"v")
            if life:
                shutil.copytree(folder.with_name("living"), folder)
            store.close()

    @property
    def rows(self) -> dict[bytes, bytes]:
        return self.in_table | self.in_log

    def named(self, kind: str) -> str:
        """The name of the file that counts."""
        if kind.endswith(("log", "sst")):
            return max(path.name for path in self.folder.glob(f"*.{kind}"))
        return max(path.name for path in self.folder.glob(f"{kind}*"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("kv") / "killed", random.Random(draws.seed()))


@pytest.fixture
def folder(killed: Killed, tmp_path: Path) -> Iterator[Path]:
    """A copy to damage."""
    yield Path(shutil.copytree(killed.folder, tmp_path / "copy"))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(folder: Path, *, read_only: bool = False) -> Rows:
    store = (RocksReader if read_only else RocksStore)(str(folder))
    try:
        return {key: row.value for key, row in scan_all(store, b"p")}
    finally:
        store.close()


def flip(path: Path, at: int, bit: int = 4) -> None:
    stored = bytearray(path.read_bytes())
    stored[at] ^= 1 << bit
    path.write_bytes(stored)


def refused(folder: Path) -> str:
    """The text of the refusal, which is the same for who only reads, and changes nothing."""
    before = content(folder)
    with pytest.raises(Corrupt) as to_read:
        read(folder, read_only=True)
    with pytest.raises(Corrupt) as raised:
        read(folder)
    assert str(raised.value) == str(to_read.value)
    assert content(folder) == before
    return str(raised.value)


def test_a_killed_store_opens_with_all_rows(folder: Path, killed: Killed) -> None:
    before = content(folder)
    assert read(folder, read_only=True) == killed.rows
    assert content(folder) == before
    assert read(folder) == killed.rows


def test_who_reads_writes_nothing_and_keeps_owners_out(folder: Path, killed: Killed) -> None:
    reader, other = (RocksReader(str(folder)) for _ in range(2))
    for write in (
        lambda: reader.set(b"p", b"k", b"v", b"1"),
        lambda: reader.delete(b"p", [b"k"]),
    ):
        with pytest.raises(Unavailable, match="open to be read"):
            write()
    with pytest.raises(Conflict, match="another process uses the folder"):
        RocksStore(str(folder))
    other.close()
    reader.close()
    owner = RocksStore(str(folder))
    with pytest.raises(Conflict, match="another process uses the folder"):
        RocksReader(str(folder))
    owner.close()


@pytest.mark.parametrize("kind", ["CURRENT", "MANIFEST", "sst", "log"])
def test_a_lost_file_is_named(folder: Path, killed: Killed, kind: str) -> None:
    name = killed.named(kind)
    (folder / name).unlink()
    said = refused(folder)
    assert (name if kind != "log" else "*.log") in said
    assert "restore the store from a back-up" in said


def test_what_says_nothing_about_rows_may_be_lost(folder: Path, killed: Killed) -> None:
    for path in list(folder.iterdir()):
        if path.name.startswith(("IDENTITY", "OPTIONS", "LO", "OWNER", "rocksdict")):
            path.unlink()
    assert read(folder, read_only=True) == killed.rows
    assert read(folder) == killed.rows


@pytest.mark.parametrize("kind", ["CURRENT", "log"])
def test_a_file_that_cannot_be_read_is_named(folder: Path, killed: Killed, kind: str) -> None:
    file = folder / killed.named(kind)
    file.unlink()
    file.mkdir()
    for opened in (RocksReader, RocksStore):
        with pytest.raises(Unavailable, match=f"file=kv/{file.name} reason=Is a directory"):
            opened(str(folder))


def test_an_owner_file_that_cannot_be_opened_is_refused(folder: Path) -> None:
    (folder / "OWNER").unlink()
    (folder / "OWNER").symlink_to("OWNER")
    for opened in (RocksReader, RocksStore):
        with pytest.raises(Unavailable, match="choose another folder"):
            opened(str(folder))


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.95, 0.9999])
def test_a_damaged_log_is_kept_and_what_is_before_the_damage_can_be_saved(
    folder: Path, killed: Killed, place: float
) -> None:
    log = folder / killed.named("log")
    flip(log, int(log.stat().st_size * place))
    said = refused(folder)
    assert f"the log is damaged: file=kv/{log.name} " in said and f" path={folder}" in said
    command = said.partition("`truncate -s ")[2].partition("`")[0].split()
    assert command[1] == f"kv/{log.name}"
    with log.open("r+b") as file:
        file.truncate(int(command[0]))
    saved = read(folder)
    count = int(said.partition("records_before=")[2].split()[0])
    assert saved == killed.in_table | dict(list(killed.in_log.items())[:count])
    assert abs(count - place * 150) < 30


def test_rows_that_are_cut_out_of_a_log_are_damage(folder: Path, killed: Killed) -> None:
    log = folder / killed.named("log")
    stored = log.read_bytes()
    first = 7 + int.from_bytes(stored[4:6], "little")
    log.write_bytes(stored[first : 32 * 1024])
    assert "rows are lost before a record" in refused(folder)


@pytest.mark.parametrize("fill", [b"", b"\0"])
def test_a_torn_end_of_the_log_opens_with_all_rows_before_it(
    folder: Path, killed: Killed, fill: bytes
) -> None:
    log = folder / killed.named("log")
    stored = log.read_bytes()
    chance = random.Random(draws.seed())
    for length in [0, len(stored) - 1, *(chance.randrange(len(stored)) for _ in range(4))]:
        copy = Path(shutil.copytree(folder, folder.with_name(f"torn {length}")))
        (copy / log.name).write_bytes(stored[:length].ljust(len(stored) if fill else 0, b"\0"))
        rows = read(copy)
        whole = len(rows) - len(killed.in_table)
        assert rows == killed.in_table | dict(list(killed.in_log.items())[:whole]), length
        assert whole >= 150 * length / len(stored) - 30, length


def test_a_manifest_without_its_last_edits_is_damage(tmp_path: Path) -> None:
    """The edits name a table and remove its log: without them, the table would be removed."""
    store = RocksStore(str(tmp_path / "kv"))
    store.set(b"p", b"k", b"v", b"1")
    manifest = max((tmp_path / "kv").glob("MANIFEST*"))
    size = manifest.stat().st_size
    store.close()
    assert read(tmp_path / "kv", read_only=True) == {b"k": b"v"}
    for length in (size, size + 20):
        copy = Path(shutil.copytree(tmp_path / "kv", tmp_path / f"{length}"))
        with (copy / manifest.name).open("r+b") as file:
            file.truncate(length)
        assert "a log is lost, or the end of the manifest" in refused(copy)


@pytest.mark.parametrize("left", [(), ("IDENTITY",), ("IDENTITY", "MANIFEST-000001")])
def test_a_creation_that_was_interrupted_is_taken_up(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in (*left, "OWNER", "LOCK", "LOG"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(NotFound, match="no database is in this folder"):
        read(tmp_path, read_only=True)
    assert read(tmp_path) == {}
    assert read(tmp_path) == {}


def test_any_change_leaves_all_rows_or_is_refused_and_changes_nothing(
    killed: Killed, tmp_path: Path
) -> None:
    """But for a log that was cut, which looks as a crash leaves it."""
    seed = draws.seed()
    chance = random.Random(seed)
    names = sorted(path.name for path in killed.folder.iterdir() if path.stat().st_size)
    for number in range(60):
        name = names[number % len(names)]
        copy = Path(shutil.copytree(killed.folder, tmp_path / f"{number}"))
        at = chance.randrange((copy / name).stat().st_size)
        is_cut = chance.random() < 0.3 and not name.endswith(".log")
        if is_cut:
            with (copy / name).open("r+b") as file:
                file.truncate(at)
        else:
            flip(copy / name, at, chance.randrange(8))
        where = f"{seed=} {name} {at=} {is_cut=}"
        before = content(copy)
        try:
            store = RocksStore(str(copy))
        except Corrupt:
            assert content(copy) == before, where
            continue
        try:
            assert {key: row.value for key, row in scan_all(store, b"p")} == killed.rows, where
        except Corrupt:
            assert name.endswith(".sst"), where
            assert (copy / name).read_bytes() == before[name], where
        finally:
            store.close()


@pytest.mark.parametrize("place", [0.01, 0.5, 0.9])
def test_all_tables_are_read_for_damage(folder: Path, killed: Killed, place: float) -> None:
    store = RocksReader(str(folder))
    assert list(store.damages()) == []
    store.close()
    table = folder / killed.named("sst")
    flip(table, int(table.stat().st_size * place))
    store = RocksReader(str(folder))
    (damage,) = store.damages()
    store.close()
    assert f"kv/{table.name}" in damage
