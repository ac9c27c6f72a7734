"""Files that stay open: fewer calls of the system, and never the bytes of a name that is gone."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.block.layout import Place
from graveler.block.local import LocalBlocks
from graveler.block.open_files import OpenFiles, kept_max
from graveler.clock import SystemClock, SystemIds
from graveler.errors import NotFound
from graveler.testing.block_suite import content

ADDRESS = "local://lake/a/b"


def opened(root: Path) -> LocalBlocks:
    return LocalBlocks(root, clock=SystemClock(), ids=SystemIds())


@pytest.fixture
def blocks(tmp_path: Path) -> LocalBlocks:
    blocks = opened(tmp_path)
    blocks.put(ADDRESS, [b"first"])
    return blocks


def open_count(root: Path) -> int:
    """How many files below `root` this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # that of `listdir`
            continue
        count += target.startswith(str(root)) and "%tmp" not in target
    return count


def test_a_second_read_opens_nothing(blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert content(blocks, ADDRESS) == b"first"

    def refused(*_arguments: object, **_named: object) -> int:
        raise AssertionError("a file was opened")

    monkeypatch.setattr(os, "open", refused)
    assert content(blocks, ADDRESS) == b"first"
    assert blocks.read(ADDRESS, 1, 3) == b"irs"
    assert blocks.head(ADDRESS).size == 5


@pytest.mark.parametrize("other_process", [False, True])
def test_what_was_removed_is_not_found(
    blocks: LocalBlocks, tmp_path: Path, other_process: bool
) -> None:
    assert content(blocks, ADDRESS) == b"first"
    (opened(tmp_path) if other_process else blocks).delete(ADDRESS)
    with pytest.raises(NotFound):
        blocks.get(ADDRESS)


@pytest.mark.parametrize("other_process", [False, True])
def test_what_was_replaced_is_read_anew(
    blocks: LocalBlocks, tmp_path: Path, other_process: bool
) -> None:
    before = blocks.head(ADDRESS)
    (opened(tmp_path) if other_process else blocks).put(ADDRESS, [b"second"])
    assert content(blocks, ADDRESS) == b"second"
    assert blocks.head(ADDRESS).etag != before.etag


def test_an_open_body_is_read_to_its_end_after_its_object_was_removed(
    blocks: LocalBlocks,
) -> None:
    body = blocks.get(ADDRESS)
    blocks.delete(ADDRESS)
    assert b"".join(body.chunks) == b"first"


@pytest.mark.parametrize(
    "change",
    [lambda blocks: blocks.delete(ADDRESS), lambda blocks: blocks.put(ADDRESS, [b"second"])],
)
def test_what_is_gone_takes_no_room(
    blocks: LocalBlocks, tmp_path: Path, change: Callable[[LocalBlocks], object]
) -> None:
    content(blocks, ADDRESS)
    assert open_count(tmp_path) == 1
    change(blocks)
    assert open_count(tmp_path) == 0


def test_few_files_stay_open(blocks: LocalBlocks, tmp_path: Path) -> None:
    for number in range(kept_max() + 10):
        blocks.put(f"{ADDRESS}{number}", [b"%d" % number])
        assert content(blocks, f"{ADDRESS}{number}") == b"%d" % number
    assert open_count(tmp_path) == kept_max()


def test_a_low_limit_of_open_files_keeps_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert kept_max() == 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert kept_max() == 128


def test_a_file_that_is_removed_while_it_is_opened_is_not_kept(tmp_path: Path) -> None:
    place, path = Place((), "a"), tmp_path / "a"
    path.write_bytes(b"first")
    files = OpenFiles(8)

    def removed_after(_place: Place) -> int:
        descriptor = os.open(path, os.O_RDONLY)
        path.unlink()
        files.forget(place)  # as the remover does, before the file is kept
        return descriptor

    file, _ = files.open(place, removed_after)
    assert os.pread(file.descriptor, 5, 0) == b"first"
    del file
    assert open_count(tmp_path) == 0


def test_the_file_that_was_read_longest_ago_leaves_first(tmp_path: Path) -> None:
    files = OpenFiles(2)
    opened_names: list[str] = []

    def opened_file(place: Place) -> int:
        opened_names.append(place.name)
        (tmp_path / place.name).touch()
        return os.open(tmp_path / place.name, os.O_RDONLY)

    for name in "abacab":
        files.open(Place((), name), opened_file)
    assert opened_names == ["a", "b", "c", "b"]
