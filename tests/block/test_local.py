"""The local folder driver keeps the contract, and what the contract does not know of folders."""

import os
import stat
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from graveler.block.adapter import CREATE, ObjectHead, Part
from graveler.block.file_reads import Chunks
from graveler.block.files import Files
from graveler.block.layout import FilePath
from graveler.block.local import LocalBlocks
from graveler.core import limits
from graveler.core.errors import GravelerError, Invalid, NotFound
from tests.block.stores import open_count, opened
from tests.support.block_suite import BlockSuite, content

DATA = "data/0123456789abcdefghij/klmnopqrstuv01234567"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "blocks"


@pytest.fixture
def blocks(root: Path) -> LocalBlocks:
    return opened(root)


class TestLocalBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True
    presigns_parts = False
    keeps_classes = False


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


class TestFiles:
    def test_our_own_objects_lie_where_their_address_says(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        for key in (f"ns/{DATA}", "ns/_lakefs/dummy", f"ns/_lakefs/{'ab' * 32}"):
            blocks.put(f"local://lake/{key}", [b"x"])
            assert (root / "lake" / key).read_bytes() == b"x"

    def test_files_are_for_their_owner_only(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        for path in root.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0

    def test_what_lies_there_by_accident_is_no_object(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        (root / "lake" / "a" / "stray").write_bytes(b"?")
        (root / "lake" / "%zz").mkdir()
        os.mkfifo(root / "lake" / "pipe%")
        found = blocks.list("local://lake/", "", 10)
        assert [line.address for line in found.lines] == ["local://lake/a/b"]
        for key in ("a/stray", "pipe", "%zz"):
            with pytest.raises(NotFound):
                blocks.get(f"local://lake/{key}")

    def test_a_body_that_is_dropped_lets_go_of_its_file(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        """While the object exists, its file stays open for others; so it is deleted first."""
        blocks.put("local://lake/a", [b"x" * 600_000])
        body = blocks.get("local://lake/a")
        next(body.chunks)
        before = open_count(root)
        blocks.delete("local://lake/a")
        assert open_count(root) == before
        del body
        assert open_count(root) == before - 1

    def test_no_verb_leaks_descriptors(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put("local://lake/a", [b"x"])
        blocks.head("local://lake/a")  # the file stays open
        before = open_count(root)
        for _ in range(10):
            blocks.put("local://lake/a", [b"x"])
            blocks.copy("local://lake/a", "local://lake/b")
            blocks.list("local://lake/", "", 1)
            blocks.head("local://lake/a")
            for failing in (
                lambda: blocks.put("local://lake/a", [b"x"], CREATE),
                lambda: blocks.get("local://lake/a", 5),
                lambda: blocks.get("local://lake/no/such"),
            ):
                with pytest.raises(GravelerError):
                    failing()
            blocks.delete("local://lake/b")
        assert open_count(root) == before

    def test_folders_removed_behind_our_back_are_made_again(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        blocks.put("local://lake/a/b", [b"1"])
        (root / "lake" / "a" / "b%").unlink()
        (root / "lake" / "a").rmdir()
        blocks.put("local://lake/a/b", [b"2"], CREATE)
        assert content(blocks, "local://lake/a/b") == b"2"


class TestLinks:
    """No link below the store is followed, wherever it stands."""

    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret%").write_bytes(b"secret")
        return outside

    def _refused(self, call: Callable[[], object]) -> None:
        with pytest.raises((Invalid, NotFound)):
            call()

    @pytest.mark.parametrize("where", ["bucket", "folder"])
    def test_linked_folders(
        self, blocks: LocalBlocks, root: Path, secret: Path, where: str
    ) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        link, stem = {
            "bucket": (root / "evil", "local://evil/"),
            "folder": (root / "lake" / "evil", "local://lake/evil/"),
        }[where]
        link.symlink_to(secret)
        self._refused(lambda: blocks.get(stem + "secret"))
        self._refused(lambda: blocks.read(stem + "secret", 0, 6))
        self._refused(lambda: blocks.head(stem + "secret"))
        self._refused(lambda: blocks.copy(stem + "secret", "local://lake/c"))
        self._refused(lambda: blocks.put(stem + "new", [b"x"]))
        self._refused(lambda: blocks.copy("local://lake/a/b", stem + "new"))
        self._refused(lambda: blocks.delete(stem + "secret"))
        self._refused(lambda: blocks.list(stem, "", 5))
        assert names_below(secret) == {"secret%"}

    def test_a_folder_that_becomes_a_link_later(
        self, blocks: LocalBlocks, root: Path, secret: Path
    ) -> None:
        blocks.put("local://lake/a/secret", [b"mine"])
        (root / "lake" / "a").rename(root / "lake" / "b")
        (root / "lake" / "a").symlink_to(secret)
        self._refused(lambda: blocks.get("local://lake/a/secret"))
        self._refused(lambda: blocks.put("local://lake/a/secret", [b"x"]))
        assert (secret / "secret%").read_bytes() == b"secret"


def test_parts_are_joined_without_a_copy_in_the_process(blocks: LocalBlocks) -> None:
    address, body = f"local://suite/{DATA}", os.urandom(5 << 20)
    upload = blocks.create_upload(address)
    parts = tuple(blocks.put_part(address, upload, number, [body]) for number in (1, 2))
    tracemalloc.start()
    try:
        blocks.complete_upload(address, upload, parts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limits.chunk_length_bytes // 2
    assert content(blocks, address) == body * 2


def test_one_call_at_a_time_joins_an_upload(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late one would put other parts over an object that was answered."""
    address = f"local://suite/{DATA}"
    upload = blocks.create_upload(address)
    old = blocks.put_part(address, upload, 1, [b"old"])
    begun, gate, answers = threading.Event(), threading.Event(), list[object]()
    join = Files.join

    def held(pieces: Iterable[Chunks]) -> Iterator[Chunks]:
        for piece in pieces:
            begun.set()
            assert gate.wait(60)
            yield piece

    def late(files: Files, place: FilePath, pieces: Iterable[Chunks], where: str) -> ObjectHead:
        return join(files, place, held(pieces), where)

    def complete(part: Part) -> None:
        try:
            answers.append(blocks.complete_upload(address, upload, (part,)))
        except GravelerError as error:
            answers.append(error)

    monkeypatch.setattr(Files, "join", late)
    first = threading.Thread(target=complete, args=(old,))
    first.start()
    assert begun.wait(60)
    new = blocks.put_part(address, upload, 1, [b"new"])
    second = threading.Thread(target=complete, args=(new,))
    second.start()
    second.join(0.2)
    assert second.is_alive() and answers == []
    gate.set()
    first.join(60)
    second.join(60)
    assert len(answers) == 2
    head, refused = sorted(answers, key=lambda each: isinstance(each, GravelerError))
    assert isinstance(refused, NotFound), answers
    assert isinstance(head, ObjectHead) and content(blocks, address) == b"old"
