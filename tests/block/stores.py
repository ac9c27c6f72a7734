"""The local store as the tests of its parts open it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from graveler.block.local import LocalBlocks
from graveler.block.signature import Signer
from graveler.core.clock import SystemClock, SystemIds

_target: Final = os.readlink  # whatever a test puts in its place


def opened(root: Path, *, journaled: bool = False) -> LocalBlocks:
    """A store that signs URLs.  `journaled`: a journal makes small objects durable."""
    clock = SystemClock()
    signer = Signer(b"k" * 32, "http://127.0.0.1:8000", clock)
    return LocalBlocks(root, clock=clock, ids=SystemIds(), signer=signer, journaled=journaled)


def open_count(root: Path) -> int:
    """How many files below `root` this process has open, without temporary ones.  What else it has
    open may be closed at any time: earlier tests leave servers that end, and objects that are
    collected."""
    return sum("%tmp" not in target for target in opened_below(root))


def synced_paths(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The files and folders that `os.fsync` syncs from now on."""
    synced: set[str] = set()
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(_target(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return synced


def opened_below(root: Path) -> list[str]:
    """The files and folders below `root` that this process has open."""
    targets = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of `listdir`
            targets.append(_target(f"/proc/self/fd/{name}"))
    return [target for target in targets if target.startswith(str(root))]
