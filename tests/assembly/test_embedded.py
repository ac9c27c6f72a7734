"""The folder of an embedded store: whose it is, and what is signed with which key."""

import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from graveler.assembly import open_embedded
from graveler.assembly.drivers import UPLOADS_PURPOSE
from graveler.assembly.embedded import PRESIGNED_PURPOSE, rotate_key
from graveler.auth import accounts, secrets
from graveler.block.signature import PRESIGNED_PATH, Signer
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, Invalid, Unauthenticated
from graveler.engine.commits import commit
from graveler.engine.objects import addresses, write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.kv import handle


def _modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): path for path in (folder, *folder.rglob("*"))}
    return {name: stat.S_IMODE(path.lstat().st_mode) for name, path in found.items()}


def _store(folder: Path) -> None:
    store = open_embedded(folder)
    repo = repository.create(store.ports, NewRepository("lake", "local://lake/x"))
    write.upload(open_repository(store.ports, repo), "main", "a", write.Upload([b"bytes"]))
    store.close()


class _Rows:
    """A database that notes whether its log is synced."""

    def __init__(self, rows: Any, noted: list[str]) -> None:
        self._rows, self._noted = rows, noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def flush_wal(self, sync: bool) -> None:
        if sync:
            self._noted.append("log")
        self._rows.flush_wal(sync)


@pytest.mark.parametrize("synced", [True, False])
def test_only_a_store_that_may_lose_its_data_answers_without_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool
) -> None:
    noted: list[str] = []
    real = handle.Rdict
    monkeypatch.setattr(handle, "Rdict", lambda *given: _Rows(real(*given), noted))
    store = open_embedded(tmp_path / "store", synced=synced)
    for name in ("fsync", "fdatasync"):
        sync = getattr(os, name)
        monkeypatch.setattr(os, name, lambda file, sync=sync: [noted.append("file"), sync(file)])
    repo = repository.create(store.ports, NewRepository("lake", "local://lake/x"))
    opened = open_repository(store.ports, repo)
    for path, size in (("small", 10), ("large", 100_000), ("streamed", 20 << 20)):
        write.upload(opened, "main", path, write.Upload([b"x" * size]))
    commit.commit(opened, "main", commit.CommitRequest("all of it", "somebody"))
    assert set(noted) == ({"log", "file"} if synced else set())
    store.close()


def test_an_open_store_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder, outside = tmp_path / "store", tmp_path / "outside"
    _store(folder)
    outside.write_bytes(b"of somebody")
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    folder.chmod(0o755)
    before = _modes(folder)
    open_embedded(folder).close()
    after = _modes(folder)
    for name in before.keys() & after.keys() - {"link"}:
        assert after[name] == (0o700 if (folder / name).is_dir() else 0o600), name
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_a_folder_that_exists_before_the_store_is_closed_too(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o755)
    os.chmod(folder, 0o755)
    _store(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "objects").mkdir(parents=True)  # as in a folder .git
    (folder / "notes.txt").write_text("of somebody")
    folder.chmod(0o755)
    before = _modes(folder)
    with pytest.raises(Invalid, match=r"no store: choose a new or an empty folder: .*notes\.txt"):
        open_embedded(folder)
    assert _modes(folder) == before


@pytest.mark.parametrize("left", [(), (".probe",), ("kv/",), ("lost+found/",), ("credentials",)])
def test_a_first_start_that_was_interrupted_is_taken_up(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    """Also in a folder that only has what file systems put at their top."""
    folder = tmp_path / "store"
    folder.mkdir()
    for name in left:
        (folder / name).mkdir() if name.endswith("/") else (folder / name).write_bytes(b"")
    _store(folder)
    assert (folder / "key").stat().st_size


def test_a_store_may_have_other_files_beside_it(tmp_path: Path) -> None:
    _store(tmp_path / "store")
    (tmp_path / "store/notes.txt").write_text("of its owner")
    open_embedded(tmp_path / "store").close()


def test_each_purpose_has_a_key_of_its_own(tmp_path: Path) -> None:
    store = open_embedded(tmp_path / "store")
    purposes = (accounts.PURPOSE, UPLOADS_PURPOSE, PRESIGNED_PURPOSE)
    keys = {store.secret, *(secrets.derive(store.secret, purpose) for purpose in purposes)}
    assert len(keys) == 4
    assert store.ports.settings.signing_key == secrets.derive(store.secret, UPLOADS_PURPOSE)
    url = urlsplit(store.signer.presign("local://lake/a", "GET", 60, "").url)
    store.close()
    name, query = url.path.removeprefix(PRESIGNED_PATH), dict(parse_qsl(url.query))
    own = Signer(secrets.derive(store.secret, PRESIGNED_PURPOSE), "", SystemClock())
    assert own.verify("GET", name, query, "").address == "local://lake/a"
    with pytest.raises(Unauthenticated):
        Signer(store.secret, "", SystemClock()).verify("GET", name, query, "")


def test_what_was_made_under_the_key_before_is_accepted_until_the_next_rotation(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    store = open_embedded(folder)
    repo = repository.create(store.ports, NewRepository("lake", "local://lake/x"))
    address = addresses.hand_out(open_repository(store.ports, repo), "main", "path")
    url = urlsplit(store.signer.presign("local://lake/a", "GET", 60, "").url)
    name, query = url.path.removeprefix(PRESIGNED_PATH), dict(parse_qsl(url.query))
    secrets_seen = {store.secret}
    for is_accepted in (True, False):
        rotate_key(folder)
        store.close()
        store = open_embedded(folder)
        assert store.secret not in secrets_seen and store.before in secrets_seen
        secrets_seen.add(store.secret)
        opened = open_repository(store.ports, repo)
        if is_accepted:
            assert addresses.check_address(opened, "main", "path", address)
            assert store.signer.verify("GET", name, query, "").address == "local://lake/a"
        else:
            with pytest.raises(Invalid):
                addresses.check_address(opened, "main", "path", address)
            with pytest.raises(Unauthenticated):
                store.signer.verify("GET", name, query, "")
        fresh = addresses.hand_out(opened, "main", "fresh")
        assert addresses.check_address(opened, "main", "fresh", fresh)
    store.close()
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize("length", [0, 31, 33, 63, 65, 96])
def test_a_key_file_of_another_length_is_refused(tmp_path: Path, length: int) -> None:
    folder = tmp_path / "store"
    open_embedded(folder).close()
    (folder / "key").write_bytes(b"k" * length)
    with pytest.raises(Corrupt, match="restore it"):
        open_embedded(folder)
