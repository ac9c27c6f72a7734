"""The local driver keeps the CRC32C of a large file beside it, and knows none where it cannot."""

import os
import sys
from pathlib import Path

import google_crc32c
import pytest

from graveler.block import file_reads
from graveler.block.adapter import CREATE, OVERWRITE, PutMode
from graveler.block.file_reads import CHECKSUM_BYTES_MIN
from graveler.block.local import ImportRules, LocalBlocks
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.records import ABSENT
from tests.block.stores import opened

ADDRESS = "local://lake/ns/a"
NAME = "user.graveler.crc32c"


@pytest.fixture(autouse=True)
def attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_attributes(tmp_path, monkeypatch)


def kept_attributes(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let files have extended attributes, also on a file system of the tests without them."""
    probe = folder / "probe"
    probe.touch()
    try:
        os.setxattr(probe, NAME, b"")
    except (OSError, AttributeError):
        kept: dict[tuple[tuple[int, int], str], bytes] = {}

        def place(file: int | Path, name: str) -> tuple[tuple[int, int], str]:
            status = os.stat(file)
            return (status.st_dev, status.st_ino), name

        def get(file: int | Path, name: str) -> bytes:
            try:
                return kept[place(file, name)]
            except KeyError as error:
                raise OSError(61, "No data available") from error

        def keep(file: int | Path, name: str, value: bytes) -> None:
            kept[place(file, name)] = value

        patch.setattr(os, "setxattr", keep, raising=False)
        patch.setattr(os, "getxattr", get, raising=False)
        patch.setattr(sys, "platform", "linux")


def body(byte: bytes, length: int) -> tuple[bytes, ...]:
    return tuple(byte * min(1 << 20, length - at) for at in range(0, length, 1 << 20))


def crc_of(pieces: tuple[bytes, ...]) -> int:
    return int(google_crc32c.value(b"".join(pieces)))


@pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
def test_a_large_file_has_its_checksum(tmp_path: Path, mode: PutMode) -> None:
    blocks, pieces = opened(tmp_path / "blocks"), body(b"a", CHECKSUM_BYTES_MIN + 1)
    blocks.put(ADDRESS, iter(pieces), mode)
    expected = crc_of(pieces)
    for start in (0, 7):
        found = blocks.get(ADDRESS, start)
        assert found.head.crc32c == expected
        assert b"".join(found.chunks) == b"".join(pieces)[start:]


def test_a_file_that_is_replaced_has_its_own_checksum(tmp_path: Path) -> None:
    blocks = opened(tmp_path / "blocks")
    for pieces in (body(b"a", CHECKSUM_BYTES_MIN), body(b"b", CHECKSUM_BYTES_MIN)):
        blocks.put(ADDRESS, pieces)
        expected = crc_of(pieces)
        assert blocks.get(ADDRESS).head.crc32c == expected


def test_a_copy_has_the_checksum_of_its_source(tmp_path: Path) -> None:
    """So a copy of a damaged file is known to be damaged."""
    blocks, pieces = opened(tmp_path / "blocks"), body(b"a", CHECKSUM_BYTES_MIN)
    blocks.put(ADDRESS, pieces)
    [file] = [each for each in (tmp_path / "blocks").rglob("*") if each.is_file()]
    file.write_bytes(bytes(CHECKSUM_BYTES_MIN))
    expected = crc_of(pieces)
    for count in (1, 2):
        source = ADDRESS if count == 1 else f"{ADDRESS}1"
        blocks.copy(source, f"{ADDRESS}{count}")
        assert blocks.get(f"{ADDRESS}{count}").head.crc32c == expected


def test_a_copy_of_a_file_without_a_checksum_has_none(tmp_path: Path) -> None:
    blocks = opened(tmp_path / "blocks")
    upload = blocks.create_upload(ADDRESS)
    part = blocks.put_part(ADDRESS, upload, 1, body(b"a", CHECKSUM_BYTES_MIN))
    blocks.complete_upload(ADDRESS, upload, (part,))
    blocks.copy(ADDRESS, f"{ADDRESS}2")
    assert blocks.get(f"{ADDRESS}2").head.crc32c is ABSENT


def test_a_small_file_has_none(tmp_path: Path) -> None:
    blocks = opened(tmp_path / "blocks")
    blocks.put(ADDRESS, body(b"a", CHECKSUM_BYTES_MIN - 1))
    assert blocks.get(ADDRESS).head.crc32c is ABSENT


def test_a_file_of_parts_has_none(tmp_path: Path) -> None:
    """Its bytes do not pass through this process."""
    blocks = opened(tmp_path / "blocks")
    upload = blocks.create_upload(ADDRESS)
    part = blocks.put_part(ADDRESS, upload, 1, body(b"a", CHECKSUM_BYTES_MIN))
    blocks.complete_upload(ADDRESS, upload, (part,))
    assert blocks.get(ADDRESS).head.crc32c is ABSENT


@pytest.mark.parametrize("value", [b"", b"0123456", b"0123456G", b"012345678"])
def test_an_attribute_of_another_form_is_none(tmp_path: Path, value: bytes) -> None:
    os.setxattr(tmp_path / "probe", NAME, value)
    with (tmp_path / "probe").open() as file:
        assert file_reads.kept_checksum(file.fileno()) is ABSENT


def test_a_file_system_without_attributes_stores_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refused)
    monkeypatch.setattr(os, "getxattr", refused)
    blocks, pieces = opened(tmp_path / "blocks"), body(b"a", CHECKSUM_BYTES_MIN)
    blocks.put(ADDRESS, pieces)
    found = blocks.get(ADDRESS)
    assert found.head.crc32c is ABSENT and b"".join(found.chunks) == b"".join(pieces)


def test_a_file_outside_of_the_store_has_none(tmp_path: Path) -> None:
    """It may change after it was copied with its attributes."""
    outside = tmp_path.resolve() / "outside" / "file"
    outside.parent.mkdir()
    outside.write_bytes(b"a" * CHECKSUM_BYTES_MIN)
    os.setxattr(outside, NAME, b"00000000")
    rules = ImportRules((outside.parent,))
    blocks = LocalBlocks(tmp_path / "b", clock=SystemClock(), ids=SystemIds(), imports=rules)
    assert blocks.get(f"local://{outside}").head.crc32c is ABSENT


def test_a_library_that_is_slow_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graveler.block.files.IS_FAST", False)
    blocks = opened(tmp_path / "blocks")
    blocks.put(ADDRESS, body(b"a", CHECKSUM_BYTES_MIN))
    assert blocks.get(ADDRESS).head.crc32c is ABSENT
