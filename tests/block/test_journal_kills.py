"""The journal of small files, killed at every step: what was answered is there after the replay.

A run of uploads, replacements and deletions is killed before each call of the system that changes
or syncs a file.  Then the disk keeps all, or only what was synced, with the last record torn in
several ways.  A machine whose syncs keep nothing must be found.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from graveler.block import journal
from graveler.block.adapter import CREATE
from graveler.block.layout import JOURNAL
from graveler.core.errors import GravelerError, NotFound
from tests.block.test_journal import address, opened, segments
from tests.support.block_suite import content

pytestmark = pytest.mark.slow
_STEPS = ("link", "rename", "unlink", "write", "fsync", "fdatasync")
# Key and body; an empty body deletes.  A key that exists is replaced.
_RUN = ((1, b"a"), (2, b"bb"), (1, b""), (1, b"ccc"), (3, b"d"), (2, b"ee"), (3, b""), (3, b"f"))
_LOSSES = ("nothing", "unsynced", "half", "zeros")


class Killed(BaseException):
    """The process has ended here."""


class Machine:
    """Counts the steps of a process, kills it before step `kill`, and keeps what was synced."""

    def __init__(self, root: Path, lazy: str = "") -> None:
        self.root = root
        self.lazy = lazy
        self.kill = -1
        self.steps = 0
        self._bytes: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._held: list[int] = []  # an inode that is open gets no second life
        self._stores: list[Any] = []

    def die_before(self, kill: int) -> None:
        self.kill, self.steps = kill, 0

    @contextmanager
    def running(self) -> Iterator[None]:
        real = {name: getattr(os, name) for name in _STEPS}
        sync_files = journal.sync_files
        with pytest.MonkeyPatch.context() as patch:
            for name in _STEPS:
                patch.setattr(os, name, self._counted(name, real[name]))
            patch.setattr(journal, "sync_files", self._counted("all", sync_files))
            yield

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*given: Any, **more: Any) -> Any:
            if 0 <= self.kill <= self.steps:
                raise Killed
            self.steps += 1
            if name == self.lazy:
                return None
            if name == "all":
                return self._keep_all()
            if name.endswith("sync"):
                return self._keep(Path(os.readlink(f"/proc/self/fd/{given[0]}")))
            return call(*given, **more)

        return counted

    def _keep_all(self) -> None:
        for path in (self.root, *self.root.rglob("*")):
            self._keep(path)

    def _keep(self, path: Path) -> None:
        if path.is_dir():
            files = [each for each in path.iterdir() if each.is_file()]
            self._names[str(path)] = {each.name: self._hold(each) for each in files}
        else:
            self._bytes[self._hold(path)] = path.read_bytes()

    def _hold(self, path: Path) -> int:
        self._held.append(os.open(path, os.O_RDONLY))
        return os.fstat(self._held[-1]).st_ino

    def lose(self, loss: str) -> None:
        """Leave what a loss of power leaves."""
        if loss == "nothing":
            return
        for folder in [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]:
            kept = self._names.get(str(folder), {})
            for path in [each for each in folder.iterdir() if each.is_file()]:
                stored = path.read_bytes()
                path.unlink()
                if path.name in kept and folder.name == JOURNAL:
                    synced = self._bytes.get(kept[path.name], b"")
                    path.write_bytes(synced + _torn(stored[len(synced) :], loss))
                    self._bytes[self._hold(path)] = path.read_bytes()
            for name, inode in kept.items():
                if not (folder / name).exists():  # or its removal was not synced
                    (folder / name).write_bytes(self._bytes.get(inode, b""))
        self._names.clear()
        self._bytes.clear()
        self._keep_all()

    def opened(self) -> Any:
        self._stores.append(opened(self.root))
        return self._stores[-1]

    def close(self) -> None:
        """Let go of most of what a process that has ended would not hold."""
        for store in self._stores:
            with suppress(OSError, GravelerError):
                store.close()
        for descriptor in self._held:
            os.close(descriptor)


def _torn(tail: bytes, loss: str) -> bytes:
    if loss == "zeros":  # the length is on the disk, the last block is not
        return tail[:-1].ljust(len(tail), b"\0")
    return tail[: len(tail) * 2 // 3] if loss == "half" else b""


def _play(machine: Machine) -> tuple[dict[int, bytes], tuple[int, bytes] | None]:
    """What was answered, and the call that was not."""
    answered: dict[int, bytes] = {}
    call = None
    try:
        blocks = machine.opened()
        for call in _RUN:
            key, body = call
            if body:
                blocks.put(address(key), [body], *(() if answered.get(key) else (CREATE,)))
            else:
                blocks.delete(address(key))
            answered[key] = body
        call = None
        blocks.close()
    except Killed:
        pass
    return answered, call


def _wrong(
    machine: Machine, answered: dict[int, bytes], call: tuple[int, bytes] | None
) -> list[str]:
    blocks = machine.opened()
    wrong = [f"segments are left: {path.name}" for path in segments(machine.root)]
    for key in {key for key, _ in _RUN}:
        try:
            found = content(blocks, address(key))
        except NotFound:
            found = b""
        allowed = {answered.get(key, b"")} | ({call[1]} if call and call[0] == key else set())
        if found not in allowed:
            wrong.append(f"{key=} {found=} {allowed=}")
    return wrong


def _killed(root: Path, kill: int, loss: str, again: int, lazy: str) -> tuple[list[str], bool]:
    """What is wrong after a kill at step `kill`, and one at step `again` of the replay; whether
    the process had ended before."""
    root.mkdir()
    machine = Machine(root, lazy)
    try:
        machine.die_before(kill)
        with machine.running():
            answered, call = _play(machine)
            is_over = machine.steps < kill
            machine.die_before(-1)
            machine.lose(loss)
            machine.die_before(again)
            try:
                wrong = _wrong(machine, answered, call)
            except Killed:
                wrong = []
            machine.die_before(-1)
            machine.lose(loss)
            return wrong + _wrong(machine, answered, call), is_over
    finally:
        machine.close()


def _search(folder: Path, lazy: str) -> list[str]:
    wrong: list[str] = []
    serial = count()
    for loss in _LOSSES:
        for kill in count():
            is_over = True
            for again in (-1, kill % 7):
                found, is_over = _killed(folder / f"{next(serial)}", kill, loss, again, lazy)
                wrong += [f"{loss} {kill} {again}: {each}" for each in found]
            if is_over or (lazy and wrong):
                break
    return wrong


def _searched(folder: Path, lazy: str = "") -> list[str]:
    """The search in a process of its own: what a killed one had open goes with it.  `lazy`: a step
    of the machine that syncs nothing."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_search, (folder, lazy))


def test_what_was_answered_is_there_after_a_kill_at_any_step(tmp_path: Path) -> None:
    assert _searched(tmp_path) == []


@pytest.mark.parametrize("lazy", ["fdatasync", "all"])
def test_a_sync_that_keeps_nothing_is_found(tmp_path: Path, lazy: str) -> None:
    assert _searched(tmp_path, lazy) != []
