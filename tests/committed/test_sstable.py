"""The table format: RocksDB reads what we write, we read what RocksDB writes, damage is noticed."""

import contextlib
import itertools
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import cramjam
import pytest
import rocksdict

from graveler.committed import splice
from graveler.committed.blocks import Block, index_entries, masked_crc, plain_entries, unseal
from graveler.committed.cache import BudgetedCache
from graveler.committed.table import SortedTable
from graveler.committed.table_end import properties_of
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, Record
from tests import draws
from tests.committed.files import (
    BytesFile,
    build_table,
    contents,
    opened,
    rocksdb_contents,
    rocksdb_table,
    table_options,
)
from tests.support.range_suite import numbered

NONE = rocksdict.DBCompressionType.none
SNAPPY = rocksdict.DBCompressionType.snappy
ZSTD = rocksdict.DBCompressionType.zstd


INTERVALS = ((1, 1), (16, 1), (16, 8))  # of data blocks and of the index
OPTIONS = list(itertools.product((NONE, SNAPPY, ZSTD), (256, 16_384, 65_536), INTERVALS, (0, 10)))


@pytest.mark.slow
@pytest.mark.parametrize(("compression", "block_size", "restarts", "bloom"), OPTIONS)
def test_every_table_option_of_rocksdb_opens(
    tmp_path: Path, compression: Any, block_size: int, restarts: tuple[int, int], bloom: int
) -> None:
    records = numbered(1_000, value_length=90)
    raw = rocksdb_table(
        tmp_path / "table.sst", records, table_options(compression(), block_size, restarts, bloom)
    )
    table = opened(raw, cache_bytes=1 << 20)
    assert contents(table) == records
    assert table.count == 1_000
    for key, value in records[::7]:
        assert table.get(key) == value
        assert table.get(key + b"\0") is ABSENT
        assert table.get(key[:-1]) is ABSENT


def test_rocksdb_ingests_what_the_store_writes(tmp_path: Path) -> None:
    for count in (1, 2, 100, 5_000):
        records = numbered(count)
        file = tmp_path / f"{count}.sst"
        build_table(file, records)
        assert rocksdb_contents(tmp_path / f"database{count}", file) == records


def test_the_written_form_is_the_one_that_both_readers_take(tmp_path: Path) -> None:
    build_table(tmp_path / "table.sst", numbered(500))
    raw = (tmp_path / "table.sst").read_bytes()
    assert raw[-53] == 1  # CRC32C
    assert raw[-12:] == struct.pack("<IQ", 2, 0x88E241B785F4CFF7)
    known = properties_of(opened(raw).stored_properties)
    assert known["rocksdb.compression"] == b"Snappy"
    assert known["rocksdb.external_sst_file.global_seqno"] == bytes(8)
    assert known["rocksdb.block.based.table.index.type"] == bytes(4)


def test_a_table_without_records_opens() -> None:
    table = opened(b"".join(splice.table([])))
    assert (contents(table), table.count, table.get(b"key")) == ([], 0, ABSENT)


def test_the_oldest_footer_opens(tmp_path: Path) -> None:
    build_table(tmp_path / "table.sst", numbered(500))
    raw = (tmp_path / "table.sst").read_bytes()
    oldest = raw[:-53] + raw[-52:-12] + struct.pack("<Q", 0xDB4775248B80FB57)
    assert contents(opened(oldest)) == numbered(500)


def test_a_cold_look_up_reads_the_end_and_one_block(tmp_path: Path) -> None:
    records = numbered(50_000, value_length=200)
    build_table(tmp_path / "table.sst", records)
    file = BytesFile((tmp_path / "table.sst").read_bytes())
    assert file.size() > 1_000_000
    table = SortedTable(file, BudgetedCache(1 << 20))
    opening = len(file.reads)
    assert opening <= 2
    assert table.get(records[20_000][0]) == records[20_000][1]
    assert len(file.reads) == opening + 1
    assert table.get(records[20_001][0]) == records[20_001][1]
    assert len(file.reads) == opening + 1
    assert sum(length for _, length in file.reads) < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [(1, 1), (16, 8)])
def test_every_damaged_byte_is_noticed_or_harmless(
    tmp_path: Path, restarts: tuple[int, int]
) -> None:
    records = numbered(60)
    raw = rocksdb_table(tmp_path / "table.sst", records, table_options(SNAPPY(), 512, restarts, 10))
    harmless = []
    for at in range(len(raw)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(raw)
            damaged[at] ^= flip
            if _reads_right_or_raises(bytes(damaged), records):
                harmless.append(at)
    # the filter, and the padding of the footer, are all that nobody reads
    assert len(set(harmless)) < 250


def _reads_right_or_raises(raw: bytes, records: list[Record]) -> bool:
    """True if everything still reads; damage must raise, wherever it is met."""
    try:
        table = opened(raw)
        found = contents(table)
        points = [table.get(key) for key, _ in records]
    except Corrupt:
        return False
    assert found == records
    assert points == [value for _, value in records]
    return True


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    build_table(tmp_path / "table.sst", numbered(60))
    raw = (tmp_path / "table.sst").read_bytes()
    for length in range(len(raw)):
        with pytest.raises(Corrupt):
            opened(raw[:length])


def test_random_bytes_raise_nothing_but_corrupt(tmp_path: Path) -> None:
    seed = draws.seed()
    generator = random.Random(seed)
    build_table(tmp_path / "table.sst", numbered(300))
    raw = (tmp_path / "table.sst").read_bytes()
    for _ in range(2_000):
        body = bytearray(raw[-generator.randrange(54, 2_000) :])
        for _ in range(generator.randrange(1, 20)):
            body[generator.randrange(len(body))] = generator.randrange(256)
        try:
            table = opened(bytes(body))
            table.get(b"key")
            contents(table)
        except Corrupt:
            pass


def test_sealed_garbage_raises_nothing_but_corrupt() -> None:
    """Blocks whose checksum is right, as an attacker would write them."""
    seed = draws.seed()
    generator = random.Random(seed)
    for _ in range(20_000):
        payload = generator.randbytes(generator.randrange(40))
        if generator.random() < 0.7:
            payload += struct.pack("<II", 0, 1)
        for parse in (
            lambda raw: Block(raw).records(),
            lambda raw: list(index_entries(raw)),
            plain_entries,
        ):
            try:
                parse(payload)
                Block(payload).get(b"k")
            except Corrupt:
                pass
        for kind in (b"\0", b"\1", b"\7", b"\4"):
            body = payload + kind
            with contextlib.suppress(Corrupt):
                unseal(body + struct.pack("<I", masked_crc(body)), True)


def test_a_block_that_claims_to_be_huge_takes_no_memory() -> None:
    claim = b"\x80\x80\x80\x80\x28"  # 10 GiB
    for kind, packed in (
        (b"\1", claim + b"\0" * 100),
        (b"\7", claim + bytes(cramjam.zstd.compress(b"\0" * 1_000))),
        (b"\7", b"\x64" + bytes(cramjam.zstd.compress(b"\0" * 50_000_000))),
    ):
        body = packed + kind
        with pytest.raises(Corrupt):
            unseal(body + struct.pack("<I", masked_crc(body)), True)


MALICIOUS = """
import resource, struct, sys
from graveler.committed import splice, sstable
from graveler.committed.blocks import masked_crc
from graveler.committed.table_end import MAGIC
from graveler.core.errors import Corrupt, Unavailable
from tests.committed.files import contents, opened

limit = 600 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
def seal(payload, kind):
    body = payload + kind
    return body + struct.pack("<I", masked_crc(body))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bomb = seal(b"\\x80\\x80\\x80\\x80\\x28" + b"\\0" * 9000, b"\\1")
meta = seal(struct.pack("<II", 0, 1), b"\\0")
v = splice.varint
handles = v(len(bomb)) + v(len(meta) - 5) + v(0) + v(len(bomb) - 5)
raw = bomb + meta + b"\\1" + handles.ljust(40, b"\\0") + struct.pack("<IQ", 2, MAGIC)
try:
    contents(opened(raw))
except Corrupt as error:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print("corrupt", grown)
"""


def test_a_small_file_that_claims_gigabytes_stays_small() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", MALICIOUS], capture_output=True, text=True, check=True
    )
    word, grown = finished.stdout.split()
    assert word == "corrupt"
    assert int(grown) < 64 * 1024  # KiB
