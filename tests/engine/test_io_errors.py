"""The device answers EIO: to each call of the system in turn, and to RocksDB.

Whatever is asked for then ends well or is answered *unavailable*; nothing acknowledged is lost,
nothing is half done, and the same call succeeds once the device is well again.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from graveler.assembly.embedded import Embedded, open_embedded
from graveler.core.errors import NoChanges, Unavailable
from graveler.engine.objects import read, write
from graveler.engine.objects.write import Upload
from graveler.engine.repositories import repository
from graveler.kv import handle
from graveler.kv.handle import RocksSettings
from tests.engine.lake import Lake

SYSTEM_CALLS = ("open", "pread", "write", "fsync", "link", "rename", "stat", "fstat", "mkdir")
CALLS_MAX = 400


@contextmanager
def opened(folder: Path) -> Iterator[Lake]:
    """A lake on disk with a commit and something uncommitted."""
    store = open_embedded(folder, rocks=RocksSettings(reopen_seconds=0.0))
    try:
        yield _ground(store)
    finally:
        store.close()


def _ground(store: Embedded) -> Lake:
    new = repository.NewRepository("lake", "local://lake/x")
    lake = Lake(store.ports, repository.create(store.ports, new))
    upload(lake, "old", b"old")
    lake.commit("first")
    upload(lake, "staged", b"staged")
    return lake


def upload(lake: Lake, path: str, content: bytes) -> None:
    write.upload(lake.opened, "main", path, Upload([content]))


def contents(lake: Lake, ref: str = "main") -> dict[str, bytes]:
    """path -> bytes"""
    found = {}
    for path in lake.tree(ref):
        entry = read.stat(lake.opened, ref, path)
        body = read.open_body(lake.opened, entry)
        found[path] = b"".join(body.chunks)
    return found


def _upload(lake: Lake) -> None:
    upload(lake, "new", b"new")


def _commit(lake: Lake) -> None:
    with suppress(NoChanges):  # it was done before its answer was lost
        lake.commit("second")


def _read(lake: Lake) -> None:
    assert contents(lake) == BEFORE


BEFORE = {"old": b"old", "staged": b"staged"}
VERBS: dict[str, tuple[Callable[[Lake], None], dict[str, bytes]]] = {
    "upload": (_upload, BEFORE | {"new": b"new"}),
    "commit": (_commit, BEFORE),
    "read": (_read, BEFORE),
}


class Breaking:
    """Counts calls, and answers EIO to one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0

    def strike(self) -> bool:
        self.seen += 1
        return self.seen == self.at

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*arguments: Any, **more: Any) -> Any:
            if self.strike():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(*arguments, **more)

        return broken


@pytest.mark.parametrize("name", SYSTEM_CALLS)
@pytest.mark.parametrize("verb", VERBS)
def test_eio_of_each_system_call(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str
) -> None:
    call, after = VERBS[verb]
    for number in range(1, CALLS_MAX):
        with opened(fast_folder / f"{number}") as lake:
            breaking = Breaking(number)
            with monkeypatch.context() as patch:
                patch.setattr(os, name, breaking.wrap(getattr(os, name)))
                with suppress(Unavailable):
                    call(lake)
            assert contents(lake) in (BEFORE, after)
            call(lake)
            assert contents(lake) == after
            if verb == "commit":
                assert contents(lake, "main@") == after
        if breaking.seen < number:
            return
    raise AssertionError("a verb of that many calls is none of ours")


class BrokenRows:
    """RocksDB's handle, of which one call of one method answers EIO."""

    def __init__(self, rows: Any, name: str, breaking: Breaking) -> None:
        self._rows = rows
        self._name = name
        self._breaking = breaking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        if name != self._name:
            return found

        def broken(*arguments: Any, **more: Any) -> Any:
            if self._breaking.strike():
                raise Exception("IO error: While fdatasync: file.log: Input/output error")
            return found(*arguments, **more)

        return broken


@pytest.mark.parametrize("name", ["put", "write", "get", "iter", "flush_wal"])
@pytest.mark.parametrize("verb", VERBS)
def test_eio_of_each_call_of_rocksdb(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str
) -> None:
    call, after = VERBS[verb]
    breaking = Breaking(0)
    real = handle.Rdict
    monkeypatch.setattr(handle, "Rdict", lambda *given: BrokenRows(real(*given), name, breaking))
    for number in range(1, CALLS_MAX):
        breaking.at = 0
        with opened(fast_folder / f"{number}") as lake:
            breaking.seen, breaking.at = 0, number
            with suppress(Unavailable):
                call(lake)
            struck = breaking.seen >= number
            breaking.at = 0
            assert contents(lake) in (BEFORE, after)
            call(lake)
            assert contents(lake) == after
        if not struck:
            return
    raise AssertionError("a verb of that many calls is none of ours")


def test_what_was_acknowledged_before_a_sync_failed_is_there_after_a_restart(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking = Breaking(0)
    real = handle.Rdict
    monkeypatch.setattr(
        handle, "Rdict", lambda *given: BrokenRows(real(*given), "flush_wal", breaking)
    )
    acknowledged = dict(BEFORE)
    with opened(fast_folder) as lake:
        for number in range(40):
            breaking.seen, breaking.at = 0, number % 3
            with suppress(Unavailable):
                upload(lake, f"n/{number}", b"%d" % number)
                acknowledged[f"n/{number}"] = b"%d" % number
        repo = lake.repo
    assert len(acknowledged) > 15
    breaking.at = 0
    again = open_embedded(fast_folder)
    try:
        found = contents(Lake(again.ports, repo))
    finally:
        again.close()
    assert acknowledged.items() <= found.items()
