"""Symlink files: one for each folder, whatever the order of paths."""

from dataclasses import replace

import pytest

from graveler.core.errors import GravelerError, Invalid, NotFound, Refused, Unavailable, Unsupported
from graveler.core.records import AddressType, Entry
from graveler.core.requests import Counts, counted_blocks
from graveler.engine.objects import read, write
from graveler.engine.objects.read import physical_address, stat
from graveler.engine.objects.write import Upload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.engine.storage import Storage
from tests.support.faults import Fault, FaultyBlocks, nth

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
    assert read.export_symlinks(storage.opened, "main", prefix) == TOP
    assert exported(storage) == expected(storage, prefix)


def test_an_export_overwrites_the_one_before(storage: Storage) -> None:
    grown(storage)
    read.export_symlinks(storage.opened, "main", "")
    storage.put(a="changed")
    read.export_symlinks(storage.opened, "main", "")
    assert exported(storage) == expected(storage)


def test_an_export_costs_a_put_for_each_folder(storage: Storage) -> None:
    grown(storage)
    counts = Counts()
    repo = replace(storage.opened, blocks=counted_blocks(storage.blocks, counts))
    read.export_symlinks(repo, "main", "")
    assert counts.snapshot()["put"] == len(expected(storage)) == 6


def test_many_folders_take_several_steps(storage: Storage) -> None:
    storage.put(**{f"d{number:03}/x": "1" for number in range(203)})
    read.export_symlinks(storage.opened, "main", "")
    assert len(exported(storage)) == 203


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_an_address_cannot_bring_a_second_one(storage: Storage, end: str) -> None:
    """Names of imported objects are chosen by others, and a reader takes each line for an object
    that it may read with its own rights."""
    grown(storage)
    smuggled = Entry(f"mem://far/x{end}/secret", 1, "c", 1, address_type=AddressType.FULL)
    write.stage(storage.opened, "main", "a/b/e", smuggled)
    with pytest.raises(Unsupported, match="line break"):
        read.export_symlinks(storage.opened, "main", "a/")
    assert not any("secret" in line for lines in exported(storage).values() for line in lines)
    read.export_symlinks(storage.opened, "main", "z/")


def test_an_object_of_another_repository_is_not_named(storage: Storage) -> None:
    other = repository.create(storage.ports, NewRepository("other", "mem://bucket/other"))
    made = write.upload(open_repository(storage.ports, other), "main", "secret", Upload([b"x"]))
    theirs = made._replace(address=physical_address(other, made), address_type=AddressType.FULL)
    write.stage(storage.opened, "main", "mine", theirs)
    with pytest.raises(Refused, match="another repository"):
        read.export_symlinks(storage.opened, "main", "")


def test_what_cannot_be_exported(storage: Storage) -> None:
    grown(storage)
    repo = storage.opened
    with pytest.raises(NotFound):
        read.export_symlinks(repo, "none", "")
    for branch, location in (("a/../b", ""), ("main", "x\0")):
        with pytest.raises(Invalid):
            read.export_symlinks(repo, branch, location)
    with pytest.raises(Unsupported, match="at most 12"):
        read.export_symlinks(repo, "main", "", 12)
    late = replace(repo, settings=repo.settings._replace(operation_seconds_max=-1.0))
    with pytest.raises(Unavailable):
        read.export_symlinks(late, "main", "")
    assert exported(storage) == {}


def test_a_put_that_fails_is_reported_and_a_repetition_is_whole(storage: Storage) -> None:
    grown(storage)
    for fault in (Fault.DROPPED, Fault.LOST, Fault.FULL):
        blocks = FaultyBlocks(storage.blocks, nth({3: fault}))
        with pytest.raises(GravelerError):
            read.export_symlinks(replace(storage.opened, blocks=blocks), "main", "")
        read.export_symlinks(storage.opened, "main", "")
        assert exported(storage) == expected(storage)
