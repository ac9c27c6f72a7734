"""Checksums of parts: kept with their bytes, compared at a completion, forgotten in the end."""

from pathlib import Path

import pytest

from graveler.block.adapter import Part
from graveler.core import limits
from graveler.core.errors import Code, Invalid
from graveler.core.records import ABSENT
from graveler.engine import janitor
from graveler.engine.objects import multipart
from graveler.refs.uploads import ChecksumRow, PartChecksum
from tests.engine.objects.test_part_uploads import begun, counted, sent
from tests.engine.storage import Storage, new_storage

CRC = "AAAAAA=="


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return new_storage(tmp_path)


def test_only_what_arrived_with_these_bytes_may_be_stated(storage: Storage) -> None:
    upload = begun(storage.opened)
    (part,) = sent(storage.opened, upload, b"one")
    repo, kv, blocks = counted(storage.opened)
    multipart.keep_checksum(repo, upload, part, 3, "crc32", CRC)
    assert (kv.snapshot(), blocks.snapshot()) == ({"set": 1}, {})
    multipart.check_checksums(repo, upload, ())
    assert kv.snapshot() == {"set": 1}
    right = PartChecksum(1, part.etag, "crc32", CRC)
    multipart.check_checksums(storage.restarted().opened, upload, [right])
    multipart.check_checksums(repo, upload, [right, right])
    assert kv.snapshot() == {"set": 1, "scan": 1}
    for wrong in (
        right._replace(number=2),
        right._replace(etag="other"),
        right._replace(algorithm="crc32c"),
        right._replace(text="BBBBBB=="),
    ):
        with pytest.raises(Invalid) as caught:
            multipart.check_checksums(repo, upload, [right, wrong])
        assert caught.value.code is Code.PART_INVALID
    other = begun(repo)
    with pytest.raises(Invalid):
        multipart.check_checksums(repo, other, [right])


def kept(part: Part, text: str) -> ChecksumRow:
    return ChecksumRow(PartChecksum(part.number, part.etag, "crc32", text), 3)


def test_the_checksums_of_parts_are_in_the_order_of_a_completion(storage: Storage) -> None:
    upload = begun(storage.opened)
    parts = sent(storage.opened, upload, b"one", b"two")
    repo, kv, _ = counted(storage.opened)
    for part, text in zip(reversed(parts), ("2", "1"), strict=True):
        multipart.keep_checksum(repo, upload, part, 3, "crc32", text)
    one, two = kept(parts[0], "1"), kept(parts[1], "2")
    assert multipart.checksums_of(repo, upload, parts, "crc32") == [one, two]
    assert multipart.checksums_of(repo, upload, parts[1:], "crc32") == [two]
    assert kv.snapshot() == {"set": 2, "scan": 2}
    for lacking, algorithm in (
        (parts, "crc32c"),
        ([*parts, parts[0]._replace(number=3)], "crc32"),
        ([parts[0]._replace(etag="other")], "crc32"),
    ):
        with pytest.raises(Invalid) as caught:
            multipart.checksums_of(repo, upload, lacking, algorithm)
        assert caught.value.code is Code.PART_INVALID


def test_an_algorithm_that_all_parts_share_is_found_at_the_cost_of_one_scan(
    storage: Storage,
) -> None:
    upload = begun(storage.opened)
    first, last = parts = sent(storage.opened, upload, b"one", b"two")
    repo, kv, _ = counted(storage.opened)
    multipart.keep_checksum(repo, upload, first, 3, "crc32", "1")
    assert multipart.shared_checksums(repo, upload, parts, ("crc32c", "crc32")) is ABSENT
    multipart.keep_checksum(repo, upload, last, 3, "crc32", "2")
    kv_before = kv.snapshot()["scan"]
    shared = multipart.shared_checksums(repo, upload, parts, ("crc32c", "crc32"))
    assert shared == ("crc32", [kept(first, "1"), kept(last, "2")])
    assert kv.snapshot()["scan"] == kv_before + 1
    assert multipart.shared_checksums(repo, upload, parts, ("crc32c",)) is ABSENT


def test_checksums_of_more_than_a_page_of_parts(storage: Storage) -> None:
    repo, upload = storage.opened, begun(storage.opened)
    numbers = range(1, limits.scan_page_count_max + 200)
    for number in numbers:
        multipart.keep_checksum(repo, upload, Part(number, "e"), 1, "crc32", f"{number}")
    stated = [PartChecksum(number, "e", "crc32", f"{number}") for number in numbers]
    multipart.check_checksums(repo, upload, stated)
    with pytest.raises(Invalid, match=f"number={numbers[-1]}"):
        multipart.check_checksums(repo, upload, [*stated[:-1], stated[-1]._replace(text="0")])


def test_checksums_are_forgotten_once_no_completion_may_name_them(storage: Storage) -> None:
    repo, upload = storage.opened, begun(storage.opened)
    (part,) = sent(repo, upload, b"one")
    multipart.keep_checksum(repo, upload, part, 3, "crc32", CRC)
    right = PartChecksum(1, part.etag, "crc32", CRC)

    def check(*_arguments: object) -> None:
        multipart.check_checksums(repo, upload, [right])

    storage.clock.sleep(limits.multipart_upload_seconds - 60)
    multipart.complete(repo, upload, [part], check=check)
    storage.clock.sleep(limits.multipart_upload_keep_seconds - 60)
    swept = janitor.sweep(repo)
    assert (swept.uploads, swept.checksums) == (0, 0)
    multipart.complete(repo, upload, [part], check=check)
    storage.clock.sleep(180)
    swept = janitor.sweep(repo)
    assert (swept.uploads, swept.checksums) == (1, 1)
    with pytest.raises(Invalid):
        check()
