"""Verification names what is wrong and goes on."""

from dataclasses import replace
from pathlib import Path

from graveler.block.memory import MemoryBlocks
from graveler.committed import reader, seal, writer
from graveler.committed.memory import MemoryRangeStore, MemoryTable
from graveler.committed.ranges import METARANGE_PROPERTIES, Keyspace, Metarange
from graveler.committed.tiers import file_address
from graveler.core.identity import identity_of, merkle_identity
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, Record
from tests.committed.stores import NAMESPACE, memory_blocks, sst_store, value

RECORDS: list[Record] = [(b"%04d" % at, value(at)) for at in range(1_000)]
BREAKS = BreakParameters(raggedness=100)


def test_nothing_is_wrong_with_what_was_just_written() -> None:
    space = Keyspace(MemoryRangeStore(), NAMESPACE, BREAKS)
    assert not list(reader.metarange_damages(space, writer.write(space, RECORDS)))
    assert not list(reader.metarange_damages(space, MetarangeId("")))


def test_every_damage_is_named() -> None:
    store = MemoryRangeStore()
    space = Keyspace(store, NAMESPACE, BREAKS)
    metarange = writer.write(space, RECORDS)
    refs = reader.ranges(space, metarange)
    damages = {
        0: [(k, value(9)) for k, _ in RECORDS[: refs[0].count]],  # other values
        1: RECORDS[refs[0].count : refs[0].count + refs[1].count - 1],  # one record short
        2: [(b"x", value(1))],  # other bounds
    }
    for at, records in damages.items():
        store.ranges[NAMESPACE, refs[at].id] = MemoryTable(records)
    del store.ranges[NAMESPACE, refs[3].id]
    found = [damage.id for damage in reader.metarange_damages(space, metarange)]
    assert found == [ref.id for ref in refs[:4]]
    skipped = frozenset([refs[0].id, refs[2].id])
    found = [damage.id for damage in reader.metarange_damages(space, metarange, skipped)]
    assert found == [refs[1].id, refs[3].id]


def test_a_missing_metarange_is_a_damage() -> None:
    space = Keyspace(MemoryRangeStore(), NAMESPACE, BREAKS)
    missing = MetarangeId("1" * 64)
    assert [damage.id for damage in reader.metarange_damages(space, missing)] == [missing]


def test_recorded_identities_are_checked() -> None:
    store = MemoryRangeStore()
    space = Keyspace(store, NAMESPACE, BREAKS)
    refs = reader.ranges(space, writer.write(space, RECORDS))
    right = merkle_identity([(k, identity_of(v)) for k, v in RECORDS[: refs[0].count]])
    assert not list(reader.range_damages(space, replace(refs[0], identity=right)))
    assert list(reader.range_damages(space, replace(refs[0], identity=b"\0" * 32)))


def damaged(blocks: MemoryBlocks, name: str, at: int) -> None:
    address = file_address(NAMESPACE, name)
    raw = bytearray(b"".join(blocks.get(address).chunks))
    raw[at] ^= 0x40
    blocks.put(address, [bytes(raw)])


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    blocks = memory_blocks()
    metarange = writer.write(Keyspace(sst_store(tmp_path, blocks), NAMESPACE, BREAKS), RECORDS)
    fresh = Keyspace(sst_store(tmp_path, blocks), NAMESPACE, BREAKS)
    refs = reader.ranges(fresh, metarange)
    damaged(blocks, refs[1].id, 10)
    damaged(blocks, refs[2].id, -1)
    found = [damage.id for damage in reader.metarange_damages(fresh, metarange)]
    assert found == [refs[1].id, refs[2].id]
    damaged(blocks, metarange, 10)
    cold = Keyspace(sst_store(tmp_path, blocks), NAMESPACE, BREAKS)
    assert [damage.id for damage in reader.metarange_damages(cold, metarange)] == [metarange]


def test_a_metarange_under_another_name_is_a_damage(tmp_path: Path) -> None:
    blocks = memory_blocks()
    space = Keyspace(sst_store(tmp_path, blocks), NAMESPACE, BREAKS)
    metarange = writer.write(space, RECORDS)
    other = seal.file_id([(b"a", b"b")], METARANGE_PROPERTIES)
    blocks.copy(file_address(NAMESPACE, metarange), file_address(NAMESPACE, other))
    found = list(reader.metarange_damages(space, MetarangeId(other)))
    assert [damage.id for damage in found] == [other]


def test_overlapping_ranges_are_never_read_as_a_keyspace() -> None:
    store = MemoryRangeStore()
    space = Keyspace(store, NAMESPACE, BREAKS)
    refs = reader.ranges(space, writer.write(space, RECORDS))
    wrong = MetarangeId("2" * 64)
    store.metaranges[NAMESPACE, wrong] = Metarange.of([replace(refs[0], count=5)])
    assert [damage.id for damage in reader.metarange_damages(space, wrong)] == [refs[0].id]
