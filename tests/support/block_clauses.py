"""The first clauses of the contract of object storage: bodies, conditions, ranges.

`block_suite.py` combines them with the rest; the tests of drivers inherit from it.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import ClassVar

import pytest

from graveler.block.adapter import CREATE, OVERWRITE, Blocks, Mode, ObjectHead, Update
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    RangeUnsatisfiable,
)


class Capabilities:
    """What the suite must know about the driver."""

    bucket: ClassVar[str] = "mem://suite"
    presigns: ClassVar[bool] = False
    uploads_parts: ClassVar[bool] = True
    presigns_parts: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True
    tells_put_time: ClassVar[bool] = True  # a put returns the time that `head` returns
    checks_uploads_of_copies: ClassVar[bool] = True  # a copy into an unknown upload is refused
    completes_again: ClassVar[bool] = False  # completing an upload twice is no error
    unlistable: ClassVar[frozenset[str]] = frozenset()  # characters that its lists cannot show

    def seen(self, head: ObjectHead) -> ObjectHead:
        """The part of a put's head that later heads must equal."""
        return head if self.tells_put_time else head._replace(modified_ns=0)


def content(blocks: Blocks, address: str) -> bytes:
    """All bytes of an object."""
    return b"".join(blocks.get(address).chunks)


class PutClauses(Capabilities):
    """B1, B2, B7: bodies arrive whole, under the given condition."""

    @pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
    def test_b1_an_object_is_kept_as_asked(self, blocks: Blocks, mode: Mode) -> None:
        address, plain = f"{self.bucket}/kept", f"{self.bucket}/plain"
        expected = "STANDARD_IA" if self.keeps_classes else ""
        assert blocks.put(address, [b"a"], mode, "STANDARD_IA").storage_class == expected
        assert blocks.head(address).storage_class == expected
        assert blocks.get(address).head.storage_class == expected
        blocks.put(plain, [b"a"], mode)
        assert blocks.head(plain).storage_class == ""
        lines = blocks.list(f"{self.bucket}/", "", 10).lines
        assert [line.head.storage_class for line in lines] == ["", ""]

    @pytest.mark.parametrize(
        "body",
        [(), (b"",), (b"a",), (b"", b"a", b"", b"bc"), (b"x" * (limits.chunk_length_bytes + 1),)],
        ids=["none", "empty", "one", "pieces", "long"],
    )
    def test_b1_bytes_come_back(self, blocks: Blocks, body: tuple[bytes, ...]) -> None:
        address = f"{self.bucket}/some/object"
        head = blocks.put(address, iter(body))
        assert head.size == len(b"".join(body))
        assert content(blocks, address) == b"".join(body)
        assert blocks.head(address) == blocks.get(address).head
        assert self.seen(blocks.head(address)) == self.seen(head)

    @pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
    def test_b1_a_body_that_raises_stores_nothing(self, blocks: Blocks, mode: Mode) -> None:
        def broken() -> Iterator[bytes]:
            yield b"half"
            raise OSError(2, "the client went away")

        address = f"{self.bucket}/a"
        with pytest.raises(OSError, match="went away"):
            blocks.put(address, broken(), mode)
        with pytest.raises(NotFound):
            blocks.head(address)
        head = blocks.put(address, [b"whole"])
        with pytest.raises(OSError, match="went away"):
            blocks.put(address, broken(), Update(head.etag))
        assert content(blocks, address) == b"whole"
        assert [line.address for line in blocks.list(f"{self.bucket}/", "", 10).lines] == [address]

    def test_b2_create_finds_the_name_free_or_fails(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/name"
        head = blocks.put(address, [b"first"], CREATE)
        for body in ([b"second"], [b"first"], []):
            with pytest.raises(AlreadyExists):
                blocks.put(address, body, CREATE)
        assert self.seen(blocks.head(address)) == self.seen(head)
        blocks.delete(address)
        blocks.put(address, [b"third"], CREATE)
        assert content(blocks, address) == b"third"

    def test_b2_overwrite_replaces(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/name"
        first = blocks.put(address, [b"first"])
        second = blocks.put(address, [b"other"], OVERWRITE)
        assert (second.etag, second.version) != (first.etag, first.version)
        assert content(blocks, address) == b"other"

    def test_b2_update_replaces_only_the_etag_named(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/name"
        for etag in ("", "0"):
            with pytest.raises(PreconditionFailed):
                blocks.put(address, [b"x"], Update(etag))
        first = blocks.put(address, [b"first"])
        second = blocks.put(address, [b"second"], Update(first.etag))
        for etag in ("", first.etag, second.etag + "0"):
            with pytest.raises(PreconditionFailed):
                blocks.put(address, [b"third"], Update(etag))
        assert self.seen(blocks.head(address)) == self.seen(second)
        assert content(blocks, address) == b"second"

    def test_b2_an_etag_does_not_come_back_with_other_bytes(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/name"
        heads = [blocks.put(address, [b"%d" % (number % 10)]) for number in range(50)]
        for left, right in pairwise(heads):
            assert left.etag != right.etag
        assert len({head.version for head in heads}) == len(heads)

    def test_b2_one_of_many_creators_wins(self, blocks: Blocks) -> None:
        names = [f"{self.bucket}/race/{number}" for number in range(20)]
        won = self._race(lambda name, writer: blocks.put(name, [writer], CREATE), names)
        for name in names:
            assert len(won[name]) == 1
            assert content(blocks, name) == won[name][0]

    def test_b2_one_of_many_updaters_wins(self, blocks: Blocks) -> None:
        names = [f"{self.bucket}/race/{number}" for number in range(20)]
        etags = {name: blocks.put(name, [b"old"]).etag for name in names}
        won = self._race(
            lambda name, writer: blocks.put(name, [writer], Update(etags[name])), names
        )
        for name in names:
            assert len(won[name]) == 1
            assert content(blocks, name) == won[name][0]

    @staticmethod
    def _race(put: Callable[[str, bytes], object], names: list[str]) -> dict[str, list[bytes]]:
        won: dict[str, list[bytes]] = {name: [] for name in names}
        together = threading.Barrier(6)

        def writer(number: int) -> None:
            for name in names:
                together.wait()
                try:
                    put(name, b"writer %d" % number)
                    won[name].append(b"writer %d" % number)
                except Conflict:
                    pass

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(writer, range(6)))
        return won


class ReadClauses(Capabilities):
    """B3, B7: ranges."""

    def test_b3_ranges_are_half_open(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/digits"
        blocks.put(address, [b"01234", b"56789"])
        head = blocks.head(address)
        for start, end, text in (
            (0, -1, b"0123456789"),
            (0, 1, b"0"),
            (3, 7, b"3456"),
            (9, 10, b"9"),
            (9, 99, b"9"),
            (0, 99, b"0123456789"),
            (4, 4, b""),
        ):
            body = blocks.get(address, start, end)
            assert b"".join(body.chunks) == text
            assert (body.head, body.start, body.end) == (head, start, start + len(text))

    def test_b3_a_range_behind_the_end_is_refused(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/digits"
        blocks.put(address, [b"0123456789"])
        for start, end in ((10, -1), (10, 11), (11, -1), (99, 100)):
            with pytest.raises(RangeUnsatisfiable) as refused:
                blocks.get(address, start, end)
            assert refused.value.size == 10
            with pytest.raises(RangeUnsatisfiable):
                blocks.read(address, start, 1)
        for start, end in ((-1, -1), (5, 4), (0, -2)):
            with pytest.raises(Invalid):
                blocks.get(address, start, end)

    def test_b3_an_empty_object_read_from_0_is_empty(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/empty"
        blocks.put(address, [])
        assert content(blocks, address) == b""
        assert b"".join(blocks.get(address, 0, 5).chunks) == b""
        assert blocks.read(address, 0, 5) == blocks.read(address, -3, 5) == b""
        with pytest.raises(RangeUnsatisfiable):
            blocks.get(address, 1)

    def test_read_counts_from_either_end(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/digits"
        blocks.put(address, [b"0123456789"])
        for start, length, text in (
            (0, 3, b"012"),
            (8, 5, b"89"),
            (-2, 2, b"89"),
            (-3, 2, b"78"),
            (-99, 2, b"01"),
            (5, 0, b""),
        ):
            assert blocks.read(address, start, length) == text
        with pytest.raises(Invalid):
            blocks.read(address, 0, -1)

    def test_b7_bodies_stream_in_chunks(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/long"
        chunk = bytes(range(256)) * 400
        size = blocks.put(address, (chunk for _ in range(20))).size
        pieces = list(blocks.get(address, 1, size - 1).chunks)
        assert max(map(len, pieces)) <= limits.chunk_length_bytes
        assert b"".join(pieces) == (chunk * 20)[1:-1]

    def test_b1_an_open_body_outlives_its_name(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/long"
        old, new = b"o" * 1_000_000, b"n" * 1_000_000
        blocks.put(address, [old])
        body = blocks.get(address)
        begun = next(body.chunks)
        blocks.put(address, [new])
        blocks.delete(address)
        assert begun + b"".join(body.chunks) == old

    def test_what_is_not_there_is_not_found(self, blocks: Blocks) -> None:
        blocks.put(f"{self.bucket}/a/b", [b"x"])
        for key in ("b", "a", "a/", "a/b/", "a/b/c", "a/c"):
            address = f"{self.bucket}/{key}"
            with pytest.raises(NotFound):
                blocks.get(address)
            with pytest.raises(NotFound):
                blocks.read(address, 0, 1)
            with pytest.raises(NotFound):
                blocks.head(address)
            with pytest.raises(NotFound):
                blocks.copy(address, f"{self.bucket}/copied")
        assert len(blocks.list(f"{self.bucket}/", "", 10).lines) == 1
