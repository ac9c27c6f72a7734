"""The contract of object storage, clause by clause (block/adapter.py).

The tests of a driver or wrapper subclass `BlockSuite` and supply the fixture `blocks`, an empty
store.  They may not change a test.  They may only declare what the driver lacks, and a verb that it
lacks must raise `Unsupported`.
"""

import random
from collections.abc import Iterator

import pytest

from graveler.block.adapter import (
    CREATE,
    Blocks,
    NewObject,
    ObjectHead,
    PartOf,
    PartPage,
    Target,
)
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    GravelerError,
    Invalid,
    NotFound,
    RangeUnsatisfiable,
    Unsupported,
)
from tests.support.block_clauses import Capabilities, PutClauses, ReadClauses, content
from tests.support.block_oracle import compare_at_random
from tests.support.hostile_names import KEYS_IN_ORDER, escaping_addresses


class ListClauses(Capabilities):
    """B4: order, pages, prefixes."""

    def _filled(self, blocks: Blocks) -> list[str]:
        keys = [key for key in KEYS_IN_ORDER if self.unlistable.isdisjoint(key)]
        addresses = [f"{self.bucket}/{key}" for key in keys]
        for address in reversed(addresses):
            blocks.put(address, [address.encode()], CREATE)
        return addresses

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    def test_b4_every_page_size_shows_the_same(self, blocks: Blocks, limit: int) -> None:
        addresses = self._filled(blocks)
        listed: list[str] = []
        while True:
            page = blocks.list(f"{self.bucket}/", listed[-1] if listed else "", limit)
            assert len(page.lines) <= limit
            for line in page.lines:
                assert line.head == blocks.head(line.address)
            listed += [line.address for line in page.lines]
            if not page.more:
                break
        assert listed == addresses

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
            expected = [a for a in addresses if a.startswith(prefix)]
            assert [line.address for line in page.lines] == expected, prefix
            assert not page.more
        assert blocks.list(stem + "nothing/at/all/", "", 5).lines == ()

    def test_b4_after_may_be_any_address(self, blocks: Blocks) -> None:
        addresses = self._filled(blocks)
        stem = f"{self.bucket}/"
        places = ["a/b/zzz", "a/", "a/b.", "a!", "b/c/d", "zz", "\uffff\uffff"]
        places = [place for place in places if self.unlistable.isdisjoint(place)]
        outside = ["", "a", "zzz", self.bucket, f"{self.bucket}0", f"{self.bucket}!/x"]
        for after in [*addresses, *(stem + place for place in places), *outside]:
            listed = [line.address for line in blocks.list(stem, after, 1_000).lines]
            assert listed == [address for address in addresses if address > after], after

    def test_b4_a_bucket_ends_at_its_name(self, blocks: Blocks) -> None:
        blocks.put(f"{self.bucket}/a", [b"mine"])
        blocks.put(f"{self.bucket}2/b", [b"other"])
        lines = blocks.list(f"{self.bucket}/", "", 10).lines
        assert [line.address for line in lines] == [f"{self.bucket}/a"]

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
        assert self.seen(blocks.head(address)) == self.seen(new)
        blocks.delete(address, new.version)
        with pytest.raises(NotFound):
            blocks.head(address)

    def test_b11_versions_are_kept(self, blocks: Blocks) -> None:
        first = blocks.put(f"{self.bucket}/a", [b"same"])
        blocks.check_versions(f"{self.bucket}/a")
        again = blocks.put(f"{self.bucket}/a", [b"same"])
        blocks.delete(f"{self.bucket}/a", first.version)
        assert self.seen(blocks.head(f"{self.bucket}/a")) == self.seen(again)

    def test_b10_many_are_deleted_as_each_would_be(self, blocks: Blocks) -> None:
        names = [f"{self.bucket}/{key}" for key in ("a/1", "a/2", "a/3", "b", "c/d/1", "c/d/2")]
        old = {name: blocks.put(name, [b"old"]) for name in names}
        new = {name: blocks.put(name, [b"new"]) for name in names[1::2]}
        blocks.delete_all(())
        blocks.delete_all(
            [
                Target(f"{self.bucket}/none"),
                Target(f"{self.bucket}/a", "some-version"),
                *(Target(name, old[name].version) for name in reversed(names[:4])),
                Target(names[4]),
                Target(names[5], new[names[5]].version),
            ]
        )
        remaining = blocks.list(f"{self.bucket}/", "", 10).lines
        assert [line.address for line in remaining] == [names[1], names[3]]
        for name in (names[1], names[3]):
            assert self.seen(blocks.head(name)) == self.seen(new[name])
            assert content(blocks, name) == b"new"

    def test_b12_many_are_created_as_each_would_be(self, blocks: Blocks) -> None:
        taken = f"{self.bucket}/a/taken"
        blocks.put(taken, [b"old"])
        bodies = [(), (b"1",), (b"2", b"x" * 99), (b"3" * 70_000,), (b"", b"4")]
        objects = [NewObject(f"{self.bucket}/a/{n}", body) for n, body in enumerate(bodies)]
        objects.insert(2, NewObject(taken, (b"new",)))
        objects.insert(4, NewObject("nowhere://a/b", (b"x",)))
        results = blocks.create_many(objects)
        for new, result in zip(objects, results, strict=True):
            if isinstance(result, ObjectHead):
                assert self.seen(blocks.head(new.address)) == self.seen(result)
                assert content(blocks, new.address) == b"".join(new.body)
        errors = [type(each) for each in results if isinstance(each, GravelerError)]
        assert errors == [AlreadyExists, Invalid]
        assert content(blocks, taken) == b"old"
        lines = blocks.list(f"{self.bucket}/a/", "", 10).lines
        assert len(lines) == 6
        assert blocks.create_many(()) == []

    def test_b10_both_versions_of_one_name_may_be_meant(self, blocks: Blocks) -> None:
        name = f"{self.bucket}/a"
        versions = [blocks.put(name, [b"%d" % number]).version for number in range(2)]
        blocks.delete_all([Target(name, version) for version in versions])
        with pytest.raises(NotFound):
            blocks.head(name)

    def test_b10_there_is_a_most_and_nothing_else_goes(self, blocks: Blocks) -> None:
        name = f"{self.bucket}/a"
        blocks.put(name, [b"kept"])
        many = [Target(name)] * (limits.block_delete_count_max + 1)
        for wrong in (many, [Target("other://bucket/a")], [Target(f"{self.bucket}/../a")]):
            with pytest.raises(Invalid):
                blocks.delete_all(wrong)
        assert content(blocks, name) == b"kept"

    def test_b10_a_whole_batch_goes(self, blocks: Blocks) -> None:
        names = [f"{self.bucket}/d/{number:03}" for number in range(60)]
        heads = [blocks.put(name, [b"x"]) for name in names]
        due = [Target(*pair) for pair in zip(names, (h.version for h in heads), strict=True)]
        blocks.delete_all(due[::-2])
        blocks.delete_all(due[::-2])
        remaining = blocks.list(f"{self.bucket}/", "", 100).lines
        assert [line.address for line in remaining] == names[::2]

    def test_hostile_names_are_deleted_together(self, blocks: Blocks) -> None:
        names = [f"{self.bucket}/{key}" for key in KEYS_IN_ORDER]
        heads = {name: blocks.put(name, [b"x"], CREATE) for name in names if self._listed(name)}
        blocks.delete_all([Target(name, head.version) for name, head in heads.items()])
        for name in heads:
            with pytest.raises(NotFound):
                blocks.head(name)

    def _listed(self, name: str) -> bool:
        return self.unlistable.isdisjoint(name)

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
        compare_at_random(blocks, self.bucket, random.SystemRandom().randrange(2**32), self.seen)


class AddressClauses(Capabilities):
    """B6: only addressed objects are touched."""

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
                lambda bad=bad: blocks.delete_all([Target(bad)]),
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
        if self.completes_again:
            assert blocks.complete_upload(address, upload, (first, late)) == head
        else:
            with pytest.raises(NotFound):
                blocks.complete_upload(address, upload, (first, late))
        for call in (
            lambda: blocks.put_part(address, upload, 1, [b"x"]),
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


class PartClauses(Capabilities):
    """Lists and copies of parts."""

    def test_stored_parts_are_listed_by_number(self, blocks: Blocks) -> None:
        if not self.uploads_parts:
            return
        address = f"{self.bucket}/joined"
        upload = blocks.create_upload(address)
        assert blocks.list_parts(address, upload, 0, 10) == PartPage((), False)
        bodies = {10: b"ten", 2: b"", 9: b"x" * 70_000, 10_000: b"last"}
        sent = {
            number: blocks.put_part(address, upload, number, [bodies[number]]) for number in bodies
        }
        page = blocks.list_parts(address, upload, 0, 1_000)
        assert [line.number for line in page.lines] == [2, 9, 10, 10_000] and not page.more
        for line in page.lines:
            assert line.etag == sent[line.number].etag and line.size == len(bodies[line.number])
            assert line.modified_ns > 0
        first = blocks.list_parts(address, upload, 0, 2)
        assert (first.lines, first.more) == (page.lines[:2], True)
        rest = blocks.list_parts(address, upload, 9, 2)
        assert (rest.lines, rest.more) == (page.lines[2:], False)
        assert blocks.list_parts(address, upload, 10_000, 1) == PartPage((), False)
        again = blocks.put_part(address, upload, 10, [b"more"])
        assert blocks.list_parts(address, upload, 9, 1).lines[0][:3] == (10, again.etag, 4)
        for limit in (0, limits.part_page_count_max + 1):
            with pytest.raises(Invalid):
                blocks.list_parts(address, upload, 0, limit)
        blocks.abort_upload(address, upload)
        for place, name in ((address, upload), (f"{self.bucket}/other", upload), (address, "")):
            with pytest.raises(NotFound):
                blocks.list_parts(place, name, 0, 1)

    def test_a_part_is_copied_from_a_range(self, blocks: Blocks) -> None:
        if not self.uploads_parts:
            return
        source, address = f"{self.bucket}/source", f"{self.bucket}/joined"
        blocks.put(source, [b"0123456789"])
        upload = blocks.create_upload(address)
        parts = [
            blocks.copy_part(PartOf(upload, number), address, source, start, end)
            for number, (start, end) in enumerate(((3, 7), (0, 10), (4, 4), (9, 10)), 1)
        ]
        assert [line.size for line in blocks.list_parts(address, upload, 0, 9).lines] == [
            4,
            10,
            0,
            1,
        ]
        for start, end, kind in (
            (0, 11, RangeUnsatisfiable),
            (10, 12, RangeUnsatisfiable),
            (5, 4, Invalid),
            (-1, 2, Invalid),
            (0, -1, Invalid),
        ):
            with pytest.raises(kind):
                blocks.copy_part(PartOf(upload, 5), address, source, start, end)
        with pytest.raises(NotFound):
            blocks.copy_part(PartOf(upload, 1), address, f"{self.bucket}/absent", 0, 1)
        if self.checks_uploads_of_copies:
            for part, place in (
                (PartOf("no", 1), address),
                (PartOf(upload, 1), f"{self.bucket}/other"),
            ):
                with pytest.raises(NotFound):
                    blocks.copy_part(part, place, source, 0, 1)
        with pytest.raises(Invalid):
            blocks.copy_part(PartOf(upload, 0), address, source, 0, 1)
        blocks.complete_upload(address, upload, tuple(parts))
        assert content(blocks, address) == b"345601234567899"

    def test_an_upload_keeps_its_storage_class(self, blocks: Blocks) -> None:
        if not self.uploads_parts:
            return
        address = f"{self.bucket}/joined"
        upload = blocks.create_upload(address, "STANDARD_IA")
        blocks.complete_upload(address, upload, (blocks.put_part(address, upload, 1, [b"x"]),))
        assert blocks.head(address).storage_class == ("STANDARD_IA" if self.keeps_classes else "")


class PresignClauses(Capabilities):
    """B9: presigned URLs."""

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


class PresignedPartClauses(Capabilities):
    """B9: presigned URLs of the parts of an upload."""

    def test_b9_urls_of_parts_are_bound(self, blocks: Blocks) -> None:
        address = f"{self.bucket}/a"
        upload = blocks.create_upload(address)
        if not self.presigns_parts:
            with pytest.raises(Unsupported):
                blocks.presign(address, "PUT", 60, "", PartOf(upload, 1))
            blocks.abort_upload(address, upload)
            return
        urls = {
            blocks.presign(place, "PUT", 60, "", PartOf(upload, number)).url
            for place in (address, f"{self.bucket}/b")
            for number in (1, 10_000)
        }
        assert len(urls) == 4
        for number, seconds in ((0, 60), (10_001, 60), (1, 0), (1, limits.presign_seconds_max + 1)):
            with pytest.raises(Invalid):
                blocks.presign(address, "PUT", seconds, "", PartOf(upload, number))
        with pytest.raises(NotFound):
            blocks.presign(address, "PUT", 60, "", PartOf("", 1))
        with pytest.raises(Invalid):
            blocks.presign(address, "GET", 60, "", PartOf(upload, 1))
        blocks.abort_upload(address, upload)


class BlockSuite(
    PutClauses,
    ReadClauses,
    ListClauses,
    ChangeClauses,
    AddressClauses,
    UploadClauses,
    PartClauses,
    PresignClauses,
    PresignedPartClauses,
):
    """All clauses; subclass it and supply the fixture `blocks`."""


__all__ = ["BlockSuite", "content"]
