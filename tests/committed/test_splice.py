"""Tables that keep the blocks of their predecessor."""

import random
from pathlib import Path

import pytest
import rocksdict

from graveler.block.memory import MemoryBlocks
from graveler.committed import apply, diff, reader, splice, writer
from graveler.committed.columns import Columns
from graveler.committed.ranges import Keyspace
from graveler.committed.table_end import properties_of, read_end
from graveler.committed.tiers import file_address
from graveler.core import wire
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change, Record
from tests import draws
from tests.committed.files import (
    BytesFile,
    contents,
    opened,
    rocksdb_contents,
    rocksdb_table,
    stored_columns,
    table_options,
)
from tests.committed.stores import NAMESPACE, memory_blocks, sst_store, value

RECORDS: list[Record] = [(b"%06d" % (2 * at), value(at) + b"p" * 150) for at in range(6_000)]


def space_of(folder: Path, blocks: MemoryBlocks) -> Keyspace:
    return Keyspace(sst_store(folder, blocks), NAMESPACE, BreakParameters(raggedness=10**9))


def file_of(space: Keyspace, blocks: MemoryBlocks, metarange: MetarangeId) -> bytes:
    (ref,) = reader.ranges(space, metarange)
    return b"".join(blocks.get(file_address(NAMESPACE, ref.id)).chunks)


def random_changes(generator: random.Random, count: int) -> list[Change]:
    numbers = generator.sample(range(2 * len(RECORDS) + 100), count)
    return [
        (b"%06d" % number, TOMBSTONE if generator.random() < 0.3 else value(number, address=1))
        for number in sorted(numbers)
    ]


def test_rocksdb_reads_a_table_that_was_changed_many_times(tmp_path: Path) -> None:
    seed = draws.seed()
    generator = random.Random(seed)
    blocks = memory_blocks()
    space = space_of(tmp_path, blocks)
    metarange = writer.write(space, RECORDS)
    tree = dict(RECORDS)
    for step in range(8):
        changes = random_changes(generator, generator.choice([1, 3, 40]))
        metarange = apply.apply(space, metarange, changes, replace=True).metarange_id
        for key, new in changes:
            if new is TOMBSTONE:
                tree.pop(key, None)
            else:
                tree[key] = new
        raw = file_of(space, blocks, metarange)
        assert contents(opened(raw)) == sorted(tree.items())
        file = tmp_path / f"{step}.sst"
        file.write_bytes(raw)
        assert rocksdb_contents(tmp_path / f"database{step}", file) == sorted(tree.items())
    assert not list(reader.metarange_damages(space_of(tmp_path, blocks), metarange))
    assert metarange == writer.write(space, sorted(tree.items()))


def test_one_change_keeps_all_blocks_but_one(tmp_path: Path) -> None:
    blocks = memory_blocks()
    space = space_of(tmp_path, blocks)
    base = writer.write(space, RECORDS)
    for changes in (
        [(RECORDS[3_000][0], value(1))],
        [(RECORDS[3_000][0] + b"x", value(1))],
        [(RECORDS[3_000][0], TOMBSTONE)],
    ):
        result = apply.apply(space, base, changes).metarange_id
        before, after = (
            [chunk.stored for chunk in opened(file_of(space, blocks, one)).chunks()]
            for one in (base, result)
        )
        assert len(before) > 50
        assert len(set(before) - set(after)) == 1
        assert len(set(after) - set(before)) == 1
        assert [one.key for one in diff.diff(space, base, result)] == [changes[0][0]]


def test_the_properties_are_those_of_rocksdb(tmp_path: Path) -> None:
    blocks = memory_blocks()
    space = space_of(tmp_path, blocks)
    base = writer.write(space, RECORDS)
    same_again = apply.apply(space, base, [(RECORDS[0][0], value(5, address=2))]).metarange_id
    spliced = opened(file_of(space, blocks, same_again))
    plain = opened(
        rocksdb_table(
            tmp_path / "plain.sst",
            contents(spliced),
            table_options(rocksdict.DBCompressionType.snappy(), 16_384, (1, 1), 0),
        )
    )
    varies = {"rocksdb.data.size", "rocksdb.index.size", "rocksdb.num.data.blocks"}
    for name, held in properties_of(spliced.stored_properties).items():
        if name not in varies:
            assert properties_of(plain.stored_properties)[name] == held, name


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_blocks_of_other_writers_are_kept_too(tmp_path: Path, compression: str) -> None:
    blocks = memory_blocks()
    space = space_of(tmp_path, blocks)
    base = writer.write(space, RECORDS)
    (ref,) = reader.ranges(space, base)
    kind = getattr(rocksdict.DBCompressionType, compression)()
    foreign = rocksdb_table(
        tmp_path / "foreign.sst", RECORDS, table_options(kind, 16_384, (16, 4), 10)
    )
    blocks.put(file_address(NAMESPACE, ref.id), [foreign])
    fresh = space_of(tmp_path, blocks)
    result = apply.apply(fresh, base, [(RECORDS[9][0], value(3))]).metarange_id
    raw = file_of(fresh, blocks, result)
    assert set(c.stored for c in opened(raw).chunks()) & set(
        c.stored for c in opened(foreign).chunks()
    )
    (tmp_path / "result.sst").write_bytes(raw)
    expected = [*RECORDS[:9], (RECORDS[9][0], value(3)), *RECORDS[10:]]
    assert contents(opened(raw)) == expected
    assert rocksdb_contents(tmp_path / "database", tmp_path / "result.sst") == expected


def test_rocksdb_reads_a_range_and_its_metarange(tmp_path: Path) -> None:
    blocks = memory_blocks()
    space = space_of(tmp_path, blocks)
    short = RECORDS[:300]
    metarange = writer.write(space, short)
    (tmp_path / "short.sst").write_bytes(file_of(space, blocks, metarange))
    assert rocksdb_contents(tmp_path / "database", tmp_path / "short.sst") == short
    (tmp_path / "metarange.sst").write_bytes(
        b"".join(blocks.get(file_address(NAMESPACE, metarange)).chunks)
    )
    [(key, held)] = rocksdb_contents(tmp_path / "listed", tmp_path / "metarange.sst")
    assert (key, wire.decode_range(held)) == (short[-1][0], reader.ranges(space, metarange)[0])
    assert metarange == writer.write(space_of(tmp_path / "fresh", memory_blocks()), short)


@pytest.mark.parametrize("count", [1, 2, 700, len(RECORDS)])
def test_a_new_table_is_opened_as_a_reader_of_its_bytes_opens_it(
    count: int, tmp_path: Path
) -> None:
    records = RECORDS[:count]
    for run in ([Columns.of(records)], stored_columns(records, tmp_path)):
        built = splice.spliced(run)
        assert built.end == read_end(BytesFile(b"".join(built.content)))
