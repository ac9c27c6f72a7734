"""Tables with long indexes: whatever a store writes, another one reads; what nobody could read is
refused before it is written."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import pytest

from graveler.committed import reader, writer
from graveler.committed.ranges import Keyspace
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import RangeId
from graveler.core.records import ABSENT, BreakParameters, RangeRef
from tests.committed.stores import NAMESPACE, memory_blocks, sst_store

LONG = limits.path_length_bytes_max


class Refs(Sequence[RangeRef]):
    """References of ranges with the longest paths, each made when it is asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> RangeRef: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[RangeRef]: ...
    def __getitem__(self, at: int | slice) -> RangeRef | Sequence[RangeRef]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(self._count))]
        if at >= self._count:
            raise IndexError(at)
        key = b"p" * (LONG - 8) + b"%08d" % at
        return RangeRef(RangeId(f"{at:064x}"), key, key, 1_500_000, 10_000)


def test_a_metarange_of_many_ranges_with_long_paths_is_read(tmp_path: Path) -> None:
    """Its index has 7 MB; a block of records may have 4 MiB."""
    blocks, refs = memory_blocks(), Refs(35_000)
    name = sst_store(tmp_path, blocks).write_metarange(NAMESPACE, refs)
    found = sst_store(tmp_path, blocks).find_range(NAMESPACE, name, refs[34_999].max_key)
    assert found is not ABSENT and found.id == refs[34_999].id
    read = sst_store(tmp_path, blocks).read_metarange(NAMESPACE, name)
    assert [each.id for each in read.ranges] == [each.id for each in refs]


def test_a_metarange_that_nobody_could_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=f"pack the branch.*ranges=300000 .*={LONG}"):
        sst_store(tmp_path).write_metarange(NAMESPACE, Refs(300_000))


def test_the_longest_range_of_the_longest_paths_is_read(tmp_path: Path) -> None:
    blocks = memory_blocks()
    most = limits.range_size_bytes_max
    breaks = BreakParameters(min_size=most, max_size=most, raggedness=50_000, salt=b"s")
    value = b"\x40" + bytes(32) + b"\x28" + b"v" * 20
    count = most // (LONG + len(value)) + 1_000

    def records() -> Iterator[tuple[bytes, bytes]]:
        return ((b"p" * (LONG - 8) + b"%08d" % at, value) for at in range(count))

    name = writer.write(Keyspace(sst_store(tmp_path, blocks), NAMESPACE, breaks), records())
    space = Keyspace(sst_store(tmp_path, blocks), NAMESPACE, breaks)
    assert len(space.metarange(name).ranges) == 2
    assert sum(1 for _ in reader.scan(space, name)) == count
    assert reader.get(space, name, b"p" * (LONG - 8) + b"%08d" % 5) == value
