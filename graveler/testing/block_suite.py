"""The contract of object storage, clause by clause (block/adapter.py).

A driver's or wrapper's tests subclass `BlockSuite` and supply the fixture `blocks`, an empty one;
they may not change a test, only say what the driver lacks, and a verb that it lacks must raise
`Unsupported`.
"""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import ClassVar

import pytest

from graveler import limits
from graveler.block.adapter import CREATE, OVERWRITE, Blocks, Mode, Update
from graveler.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    RangeUnsatisfiable,
    Unsupported,
)
from graveler.testing.block_oracle import compare_at_random
from graveler.testing.hostile_names import KEYS_IN_ORDER, escaping_addresses


class Capabilities:
    """What the suite must know of the driver."""

    bucket: ClassVar[str] = "mem://suite"
    presigns: ClassVar[bool] = False
    uploads_parts: ClassVar[bool] = True


def content(blocks: Blocks, address: str) -> bytes:
    """All bytes of an object."""
    return b"".join(blocks.get(address).chunks)


class PutClauses(Capabilities):
    """B1, B2, B7: bodies arrive whole, under the condition named."""

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
        assert blocks.head(address) == head == blocks.get(address).head

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
        kept = blocks.put(address, [b"whole"])
        with pytest.raises(OSError, match="went away"):
            blocks.put(address, broken(), Update(kept.etag))
        assert content(blocks, address) == b"whole"
        assert [line.address for line in blocks.list(f"{self.bucket}/", "", 10).lines] == [address]

    def test_b2_create_finds_the_name_free_or_fails(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/name"
        head = blocks.put(address, [b"first"], CREATE)
        for body in ([b"second"], [b"first"], []):
            with pytest.raises(AlreadyExists):
                blocks.put(address, body, CREATE)
        assert blocks.head(address) == head
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
        assert blocks.head(address) == second
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
        head = blocks.put(address, [b"01234", b"56789"])
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


class ListClauses(Capabilities):
    """B4: order, pages, prefixes."""

    def _filled(self, blocks: Blocks) -> list[str]:
        addresses = [f"{self.bucket}/{key}" for key in KEYS_IN_ORDER]
        for address in reversed(addresses):
            blocks.put(address, [address.encode()], CREATE)
        return addresses

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    def test_b4_every_page_size_shows_the_same(self, blocks: Blocks, limit: int) -> None:
        addresses = self._filled(blocks)
        found: list[str] = []
        while True:
            page = blocks.list(f"{self.bucket}/", found[-1] if found else "", limit)
            assert len(page.lines) <= limit
            for line in page.lines:
                assert line.head == blocks.head(line.address)
            found += [line.address for line in page.lines]
            if not page.more:
                break
        assert found == addresses

    def test_hostile_names_keep_their_bytes(self, blocks: Blocks) -> None:
        for address in self._filled(blocks):
            assert content(blocks, address) == address.encode()
        for address in self._filled_again(blocks):
            blocks.delete(address)
            with pytest.raises(NotFound):
                blocks.head(address)
        assert blocks.list(f"{self.bucket}/", "", 1_000).lines == ()

    def _filled_again(self, blocks: Blocks) -> list[str]:
        return [line.address for line in blocks.list(f"{self.bucket}/", "", 1_000).lines]

    def test_b4_prefixes_cut_anywhere(self, blocks: Blocks) -> None:
        addresses = self._filled(blocks)
        stem = f"{self.bucket}/"
        prefixes = {a[:cut] for a in addresses for cut in range(len(stem), min(len(a), 60) + 1)}
        for prefix in sorted(p for p in prefixes if "//" not in p[len(stem) :]):
            page = blocks.list(prefix, "", 1_000)
            wanted = [a for a in addresses if a.startswith(prefix)]
            assert [line.address for line in page.lines] == wanted, prefix
            assert not page.more
        assert blocks.list(stem + "nothing/at/all/", "", 5).lines == ()

    def test_b4_after_may_be_any_address(self, blocks: Blocks) -> None:
        addresses = self._filled(blocks)
        stem = f"{self.bucket}/"
        places = ["a/b/zzz", "a/", "a/b.", "a!", "b/c/d", "zz", "\uffff\uffff"]
        outside = ["", "a", "zzz", self.bucket, f"{self.bucket}0", f"{self.bucket}!/x"]
        for after in [*addresses, *(stem + place for place in places), *outside]:
            found = [line.address for line in blocks.list(stem, after, 1_000).lines]
            assert found == [address for address in addresses if address > after], after

    def test_b4_a_bucket_ends_at_its_name(self, blocks: Blocks) -> None:
        blocks.put(f"{self.bucket}/a", [b"mine"])
        blocks.put(f"{self.bucket}2/b", [b"other"])
        found = blocks.list(f"{self.bucket}/", "", 10).lines
        assert [line.address for line in found] == [f"{self.bucket}/a"]

    def test_list_limits(self, blocks: Blocks) -> None:
        for limit in (0, -1, limits.scan_page_count_max + 1):
            with pytest.raises(Invalid):
                blocks.list(f"{self.bucket}/", "", limit)


class ChangeClauses(Capabilities):
    """B8, and copies."""

    def test_b8_deleting_what_is_not_there_is_no_error(self, blocks: Blocks) -> None:
        blocks.put(f"{self.bucket}/a/b", [b"x"])
        for key in ("b", "a", "a/", "a/b/c", "x/y/z"):
            blocks.delete(f"{self.bucket}/{key}")
            blocks.delete(f"{self.bucket}/{key}", "some-version")
        assert content(blocks, f"{self.bucket}/a/b") == b"x"

    def test_b8_with_a_version_only_that_version_goes(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/a"
        old = blocks.put(address, [b"same"])
        new = blocks.put(address, [b"same"])
        assert old.version != new.version
        blocks.delete(address, old.version)
        assert blocks.head(address) == new
        blocks.delete(address, new.version)
        with pytest.raises(NotFound):
            blocks.head(address)

    def test_a_copy_stands_alone(self, blocks: Blocks) -> None:
        source, target = f"{self.bucket}/a", f"{self.bucket}/folder/b"
        first = blocks.put(source, [b"bytes"])
        blocks.put(target, [b"replaced"])
        head = blocks.copy(source, target)
        assert head == blocks.head(target)
        assert (head.size, head.version) != (first.size, first.version)
        assert head.modified_ns >= first.modified_ns
        blocks.delete(source)
        assert content(blocks, target) == b"bytes"
        blocks.copy(target, target)
        assert content(blocks, target) == b"bytes"

    def test_agrees_with_a_dictionary(self, blocks: Blocks) -> None:
        compare_at_random(blocks, self.bucket, random.SystemRandom().randrange(2**32))


class AddressClauses(Capabilities):
    """B6: nothing is touched that is not addressed."""

    def test_b6_no_verb_serves_an_address_that_escapes(self, blocks: Blocks) -> None:
        good = f"{self.bucket}/good"
        blocks.put(good, [b"kept"])
        tried = 0
        for bad in escaping_addresses(self.bucket):
            for call in (
                lambda bad=bad: blocks.get(bad),
                lambda bad=bad: blocks.read(bad, 0, 1),
                lambda bad=bad: blocks.head(bad),
                lambda bad=bad: blocks.put(bad, _untouchable()),
                lambda bad=bad: blocks.put(bad, _untouchable(), CREATE),
                lambda bad=bad: blocks.copy(bad, good),
                lambda bad=bad: blocks.copy(good, bad),
                lambda bad=bad: blocks.delete(bad),
                lambda bad=bad: blocks.presign(bad, "GET", 60, ""),
                lambda bad=bad: blocks.presign(bad, "PUT", 60, ""),
                lambda bad=bad: blocks.create_upload(bad),
            ):
                with pytest.raises(Invalid):
                    call()
            tried += 1
        assert tried > 1_000
        assert content(blocks, good) == b"kept"
        assert len(blocks.list(f"{self.bucket}/", "", 10).lines) == 1

    def test_b6_no_prefix_escapes(self, blocks: Blocks) -> None:
        scheme = self.bucket.partition("://")[0]
        rest = ("", self.bucket, f"{scheme}://", "other://bucket/", "/", f"{scheme}://../")
        inner = ("../x", "a/../x", "./x", "a//x", "/x", "a\0/x", "a\\x", "\ud800", "x/../")
        for prefix in (*rest, *(f"{self.bucket}/{part}" for part in inner)):
            with pytest.raises(Invalid):
                blocks.list(prefix, "", 10)

    def test_b6_spellings_of_one_address_are_one(self, blocks: Blocks) -> None:
        scheme, _, rest = self.bucket.partition("://")
        blocks.put(f"{scheme.upper()}://{rest}/a", [b"x"])
        assert content(blocks, f"{self.bucket}/a") == b"x"


def _untouchable() -> Iterator[bytes]:
    yield b""
    raise AssertionError("the body was read before its address was checked")


class UploadClauses(Capabilities):
    """Multipart uploads."""

    def test_parts_become_one_object(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/joined"
        if not self.uploads_parts:
            with pytest.raises(Unsupported):
                blocks.create_upload(address)
            return
        upload = blocks.create_upload(address)
        blocks.put_part(address, upload, 7, [b"replaced"])
        late = blocks.put_part(address, upload, 7, [b"7", b"7"])
        first = blocks.put_part(address, upload, 1, iter([b"1"]))
        blocks.put_part(address, upload, 3, [b"left out"])
        with pytest.raises(NotFound):
            blocks.head(address)
        assert blocks.list(f"{self.bucket}/", "", 10).lines == ()
        head = blocks.complete_upload(address, upload, (first, late))
        assert head == blocks.head(address)
        assert content(blocks, address) == b"177"
        for call in (
            lambda: blocks.put_part(address, upload, 1, [b"x"]),
            lambda: blocks.complete_upload(address, upload, (first, late)),
            lambda: blocks.abort_upload(address, upload),
        ):
            with pytest.raises(NotFound):
                call()

    def test_wrong_parts_are_refused(self, blocks: Blocks) -> None:
        if not self.uploads_parts:
            return
        address = f"{self.bucket}/joined"
        blocks.put(address, [b"before"])
        upload = blocks.create_upload(address)
        one = blocks.put_part(address, upload, 1, [b"1"])
        two = blocks.put_part(address, upload, 2, [b"2"])
        absent, forged = two._replace(number=3), two._replace(etag=one.etag)
        for parts in ((), (two, one), (one, one), (one, forged), (one, absent)):
            with pytest.raises(Invalid):
                blocks.complete_upload(address, upload, parts)
        for number in (0, -1, limits.multipart_parts_count_max + 1):
            with pytest.raises(Invalid):
                blocks.put_part(address, upload, number, [b"x"])
        assert content(blocks, address) == b"before"
        blocks.complete_upload(address, upload, (one, two))
        assert content(blocks, address) == b"12"

    def test_uploads_are_known_by_id_and_address(self, blocks: Blocks) -> None:
        if not self.uploads_parts:
            return
        address, other = f"{self.bucket}/joined", f"{self.bucket}/other"
        upload = blocks.create_upload(address)
        part = blocks.put_part(address, upload, 1, [b"1"])
        for place, name in ((other, upload), (address, "no"), (address, "../x"), (address, "")):
            with pytest.raises(NotFound):
                blocks.put_part(place, name, 1, [b"x"])
            with pytest.raises(NotFound):
                blocks.complete_upload(place, name, (part,))
            with pytest.raises(NotFound):
                blocks.abort_upload(place, name)
        blocks.abort_upload(address, upload)
        with pytest.raises(NotFound):
            blocks.head(address)


class PresignClauses(Capabilities):
    """B9."""

    def test_b9_urls_are_bound_in_time(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/a"
        if not self.presigns:
            with pytest.raises(Unsupported):
                blocks.presign(address, "GET", 60, "")
            return
        urls = {
            blocks.presign(place, method, 60, kind).url
            for place in (address, f"{self.bucket}/b")
            for method in ("GET", "PUT")
            for kind in ("", "text/plain")
        }
        assert len(urls) == 8
        for seconds in (0, -1, limits.presign_seconds_max + 1):
            with pytest.raises(Invalid):
                blocks.presign(address, "GET", seconds, "")
        with pytest.raises(NotFound):
            blocks.head(address)


class BlockSuite(
    PutClauses,
    ReadClauses,
    ListClauses,
    ChangeClauses,
    AddressClauses,
    UploadClauses,
    PresignClauses,
):
    """All clauses; subclass it and supply the fixture `blocks`."""
