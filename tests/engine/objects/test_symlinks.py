"""Symlink files: one for each folder, whatever the order of paths."""

from dataclasses import replace

import pytest

from graveler.block.counter import ObservedBlocks
from graveler.engine.objects import symlinks
from graveler.engine.objects.read import stat
from graveler.errors import GravelerError, Invalid, NotFound, Unavailable, Unsupported
from graveler.requests import Counts
from graveler.testing.block_faults import FaultyBlocks
from graveler.testing.faults import Fault, nth
from tests.engine.storage import Storage

TOP = "mem://bucket/lake/symlinks"
PATHS = tuple(
    ["0", "a", "a/1", "a/b", "a/b-x", "a/b/c/1", "a/b/c/2", "a/b/d", "a/b0", "a/c", "ab/1", "z/1"]
)


def grown(storage: Storage) -> None:
    storage.put(**dict.fromkeys(PATHS[:6], "1"))
    storage.commit(**dict.fromkeys(PATHS[6:], "2"))
    storage.put(**{"z/2": "staged"})


def exported(storage: Storage) -> dict[str, list[str]]:
    lines = storage.blocks.list(f"{TOP}/", "", 1_000).lines
    return {
        line.address.removeprefix(f"{TOP}/lake/main/"): _read(storage, line.address).split("\n")
        for line in lines
    }


def _read(storage: Storage, place: str) -> str:
    return b"".join(storage.blocks.get(place).chunks).decode()


def expected(storage: Storage, prefix: str = "") -> dict[str, list[str]]:
    """By the definition: the full addresses of the objects of each folder, in order of paths."""
    folders: dict[str, list[str]] = {}
    for path in sorted((*PATHS, "z/2")):
        if path.startswith(prefix):
            folder = path.rpartition("/")[0]
            place = f"mem://bucket/lake/{stat(storage.opened, 'main', path).address}"
            folders.setdefault(f"{folder}/symlink.txt".lstrip("/"), []).append(place)
    return folders


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "z/2"])
def test_each_folder_has_one_file_with_all_of_its_objects(storage: Storage, prefix: str) -> None:
    grown(storage)
    assert symlinks.export(storage.opened, "main", prefix) == TOP
    assert exported(storage) == expected(storage, prefix)


def test_an_export_overwrites_the_one_before(storage: Storage) -> None:
    grown(storage)
    symlinks.export(storage.opened, "main", "")
    storage.put(a="changed")
    symlinks.export(storage.opened, "main", "")
    assert exported(storage) == expected(storage)


def test_an_export_costs_a_put_for_each_folder(storage: Storage) -> None:
    grown(storage)
    counts = Counts()
    repo = replace(storage.opened, blocks=ObservedBlocks(storage.blocks, counts))
    symlinks.export(repo, "main", "")
    assert counts.snapshot()["put"] == len(expected(storage)) == 6


def test_many_folders_take_several_steps(storage: Storage) -> None:
    storage.put(**{f"d{number:03}/x": "1" for number in range(203)})
    symlinks.export(storage.opened, "main", "")
    assert len(exported(storage)) == 203


def test_what_cannot_be_exported(storage: Storage) -> None:
    grown(storage)
    repo = storage.opened
    with pytest.raises(NotFound):
        symlinks.export(repo, "none", "")
    for branch, location in (("a/../b", ""), ("main", "x\0")):
        with pytest.raises(Invalid):
            symlinks.export(repo, branch, location)
    with pytest.raises(Unsupported, match="at most 12"):
        symlinks.export(repo, "main", "", 12)
    late = replace(repo, settings=replace(repo.settings, operation_seconds_max=-1.0))
    with pytest.raises(Unavailable):
        symlinks.export(late, "main", "")
    assert exported(storage) == {}


def test_a_put_that_fails_is_reported_and_a_repetition_is_whole(storage: Storage) -> None:
    grown(storage)
    for fault in (Fault.DROPPED, Fault.LOST, Fault.FULL):
        blocks = FaultyBlocks(storage.blocks, nth({3: fault}))
        with pytest.raises(GravelerError):
            symlinks.export(replace(storage.opened, blocks=blocks), "main", "")
        symlinks.export(storage.opened, "main", "")
        assert exported(storage) == expected(storage)
