"""Tables with right checksums and ids whose content is wrong, as a faulty writer would store them:
every read refuses them."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import cramjam
import pytest

from graveler.committed import seal, splice
from graveler.committed.blocks import index_entries, masked_crc, unseal
from graveler.committed.ranges import METARANGE_PROPERTIES
from graveler.committed.table_end import MAGIC
from graveler.core import limits, wire
from graveler.core.errors import Corrupt
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import RangeRef, Record
from tests.committed.files import contents, opened
from tests.committed.stores import memory_blocks, sst_store

NAMESPACE = "mem://bucket/lake"
TAIL = b"\1" + bytes(7)  # of an internal key: type "set", sequence number 0
Pairs = Sequence[tuple[bytes, bytes]]
varint = splice.varint


def sealed(payload: bytes) -> bytes:
    """A stored block that is not compressed."""
    body = payload + b"\0"
    return body + struct.pack("<I", masked_crc(body))


def block(pairs: Pairs, restarts: Sequence[int] | None = None) -> bytes:
    """A payload with whole keys; by default each entry is a restart."""
    entries = [b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs]
    places = [sum(map(len, entries[:at])) for at in range(len(entries))] or [0]
    chosen = places if restarts is None else restarts
    return (
        b"".join(entries)
        + struct.pack(f"<{len(chosen)}I", *chosen)
        + struct.pack("<I", len(chosen))
    )


def handle(offset: int, payload_length: int) -> bytes:
    return varint(offset) + varint(payload_length)


def table(
    data: Sequence[tuple[bytes, bytes]],
    properties: dict[bytes, bytes] | None = None,
    handles: Callable[[list[bytes]], list[bytes]] = lambda right: right,
    metaindex_length: int = 0,
) -> bytes:
    """A file of data blocks, each with its bound.  `handles` changes those of the index."""
    raw = b""
    right: list[bytes] = []
    for _, payload in data:
        right.append(handle(len(raw), len(payload)))
        raw += sealed(payload)
    bounds = [bound + TAIL for bound, _ in data]
    known = {b"rocksdb.num.entries": varint(2)} if properties is None else properties
    parts = []
    for payload in (
        block(sorted(known.items())),
        block([(b"rocksdb.properties", handle(len(raw), len(block(sorted(known.items())))))]),
        block(list(zip(bounds, handles(right), strict=True))),
    ):
        parts.append(handle(len(raw), len(payload)))
        raw += sealed(payload)
    metaindex = handle(0, metaindex_length) if metaindex_length else parts[1]
    return raw + b"\1" + (metaindex + parts[2]).ljust(40, b"\0") + struct.pack("<IQ", 2, MAGIC)


SOUND = block([(b"a" + TAIL, b"1"), (b"b" + TAIL, b"2")])
OTHER = block([(b"c" + TAIL, b"3")])
BOTH = [(b"b", SOUND), (b"c", OTHER)]
LARGE = block([(b"a" + TAIL, bytes(limits.table_block_length_bytes_max + 1))])
LONG_KEY = b"k" * (1 << 20)
EXPANDS = (
    b"\0" + varint(len(LONG_KEY) + 8) + b"\0" + LONG_KEY + TAIL
    + b"".join(varint(len(LONG_KEY) + at) + b"\x09\0" + b"k" + TAIL for at in range(20))
    + struct.pack("<II", 0, 1)
)  # fmt: skip


def test_what_is_sound_is_read() -> None:
    assert contents(opened(table(BOTH))) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    without = opened(table(BOTH, {}))
    assert without.count == -1 and without.get(b"b") == b"2"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (table(BOTH, {b"rocksdb.deleted.keys": b"\1"}), "unknown kind"),
        (
            table(BOTH, {b"rocksdb.num.entries": varint(limits.table_records_count_max + 1)}),
            "impossible number",
        ),
        (table(BOTH, handles=lambda right: [right[0], right[0]]), "overlap"),
        (table([BOTH[1], BOTH[0]]), "index has keys out of order"),
        (table([(b"a", LARGE)]), "too long"),
        (table([(b"a", LARGE)], metaindex_length=len(LARGE)), "too long"),
        (table([(b"b", block([(b"b" + TAIL, b"1"), (b"a" + TAIL, b"2")]))]), "keys out of order"),
        (table([(b"l", EXPANDS)]), "expands to too much"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        contents(opened(raw))


def test_an_index_with_restarts_out_of_order_is_refused() -> None:
    with pytest.raises(Corrupt, match="restarts out of order"):
        list(index_entries(SOUND[:-12] + struct.pack("<4I", 0, 20, 10, 3)))


@pytest.mark.parametrize("read", [contents, lambda table: table.get(b"a")])
def test_a_deletion_is_no_record(read: Callable[[object], object]) -> None:
    deleted = block([(b"a" + bytes(8), b""), (b"b" + TAIL, b"2")])
    with pytest.raises(Corrupt, match="entry of an unknown kind"):
        read(opened(table([(b"b", deleted)])))


@pytest.mark.parametrize("stated", [999, 1_001])
def test_a_block_of_another_length_than_it_states_is_refused(stated: int) -> None:
    body = varint(stated) + bytes(cramjam.zstd.compress(b"x" * 1_000)) + b"\7"
    with pytest.raises(Corrupt, match="does not decompress"):
        unseal(body + struct.pack("<I", masked_crc(body)), True)


# ---- metaranges ----------------------------------------------------------------------------------


def ref(letter: str, first: bytes, last: bytes, name: str = "") -> Record:
    return wire.encode_range(RangeRef(RangeId(name or letter * 64), first, last, 9, 1))


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([ref("a", b"a", b"c"), ref("b", b"b", b"d")], "ranges out of order"),
        ([ref("a", b"a", b"a", "../../etc/passwd")], "not an id"),
        ([(b"b", ref("a", b"a", b"a")[1])], "wrong key"),
        ([ref("a", b"b", b"a")], "wrong key"),
    ],
)
def test_a_metarange_is_refused(tmp_path: Path, records: list[Record], why: str) -> None:
    blocks = memory_blocks()
    name = MetarangeId(seal.file_id(records, METARANGE_PROPERTIES))
    blocks.put(f"{NAMESPACE}/_lakefs/{name}", splice.table(records))
    with pytest.raises(Corrupt, match=why):
        sst_store(tmp_path, blocks).read_metarange(NAMESPACE, name)
