"""Bytes and texts that no writer of Graveler made, given to every reader.

Each `fuzz_*` draws its inputs from a generator, reads `count` of them, and returns the violations:
errors of a kind that the reader does not promise.  The inputs are random bytes, and real ones that
were cut, flipped, spliced and repeated.  Blocks of tables get valid checksums, as an attacker would
give them.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from graveler.committed import splice
from graveler.committed.blocks import Block, index_entries, masked_crc, plain_entries, unseal
from graveler.committed.cache import BudgetedCache
from graveler.committed.table import SortedTable
from graveler.committed.table_end import MAGIC
from graveler.core import identity, wire
from graveler.core import wire_pb2 as pb
from graveler.core.errors import Corrupt, Invalid
from graveler.core.ids import RangeId
from graveler.core.records import Entry, RangeRef, Record
from graveler.refs import resolve

_INTERESTING = (0, 1, 7, 8, 0x7F, 0x80, 0xFF)
_NUMBERS = (0, 1, 4, 8, 127, 128, 1 << 14, 1 << 21, 1 << 32, (1 << 35) - 1, (1 << 63) - 1)
_WHOLE = 1  # the type of a record's key
Fuzz = Callable[[Random, int], list[str]]


@dataclass(frozen=True, slots=True)
class Bytes:
    """A file in memory, in the form that the table reader takes."""

    content: bytes
    name: str = "malformed"

    @property
    def held(self) -> int:
        return len(self.content)

    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, length: int) -> bytes:
        raw = self.content[offset : offset + length]
        if offset < 0 or len(raw) != length:
            raise Corrupt("file is too short")
        return raw


def fuzz_tables(random: Random, count: int) -> list[str]:
    """Open, look up and scan damaged and crafted tables."""
    samples = [b"".join(splice.table(_records(random, size))) for size in (1, 40, 600)]
    return _all_wrong(
        (
            (mutated(random, random.choice(samples)) if random.random() < 0.4 else crafted(random))
            for _ in range(count)
        ),
        read_table,
        (Corrupt,),
    )


def fuzz_blocks(random: Random, count: int) -> list[str]:
    """Parse payloads as if they came from a block with a valid checksum."""

    def read(payload: bytes) -> None:
        for parse in (_block_records, _index, plain_entries):
            _quietly(parse, payload)
        for kind in b"\0\1\7\4":
            _quietly(_unsealed, payload + bytes([kind]))

    return _all_wrong((_payload(random) for _ in range(count)), read, (Corrupt,))


def fuzz_records(random: Random, count: int) -> list[str]:
    """Decode random bytes and damaged records with the decoder of every kind of record."""
    samples = encoded_records()
    decoders = dict(decoders_of_records())
    wrong = []
    for name, decode in decoders.items():
        own = samples[name]
        inputs = (_record_bytes(random, own, samples) for _ in range(count // len(decoders)))
        wrong += [f"{name}: {each}" for each in _all_wrong(inputs, decode, (Corrupt,))]
    return wrong


def fuzz_framing(random: Random, count: int) -> list[str]:
    """Unframe random and damaged bytes; what can be unframed must frame again to the same parts."""

    def read(raw: bytes) -> None:
        for part in (identity.body_of, identity.identity_of):
            _quietly(part, raw)
        name, body = identity.unframe(raw)
        assert identity.unframe(identity.frame(name, body)) == (name, body)
        assert identity.body_of(raw) == body

    sample = identity.frame(bytes(32), b"body" * 30)
    inputs = (
        mutated(random, sample) if random.random() < 0.6 else random.randbytes(random.randrange(60))
        for _ in range(count)
    )
    return _all_wrong(inputs, read, (Corrupt,))


def fuzz_refs(random: Random, count: int) -> list[str]:
    """Parse random texts as ref expressions."""
    return _all_wrong((_ref_text(random) for _ in range(count)), resolve.parse, (Invalid,))


# ---- readers -------------------------------------------------------------------------------------


def read_table(raw: bytes) -> None:
    """Everything that the product does with a table: opening, look-ups, both kinds of scan.  After
    a first error, the rest is still tried."""
    table = SortedTable(Bytes(raw), BudgetedCache(0))
    for key in (b"", b"k0003", b"\xff" * 9):
        _quietly(table.get, key)
    for chunk in table.chunks(b"k0002", streaming=False):
        _quietly(lambda chunk=chunk: chunk.records())
    for chunk in table.chunks():
        for key, value in chunk.records():
            _quietly(wire.decode_range, value)
            assert isinstance(key, bytes)


def decoders_of_records() -> Iterator[tuple[str, Callable[[bytes], object]]]:
    """The name after `decode_` of each decoder, and the decoder."""
    for name in dir(wire):
        if name.startswith("decode_"):
            decode = getattr(wire, name)
            if name == "decode_staged":
                yield "staged", lambda raw: wire.decode_staged(raw, 1, b"v")
            else:
                yield name.removeprefix("decode_"), decode


def _block_records(payload: bytes) -> None:
    block = Block(payload)
    _quietly(block.get, b"k")
    block.records()


def _index(payload: bytes) -> None:
    for _ in index_entries(payload):
        pass


def _unsealed(body: bytes) -> None:
    unseal(body + struct.pack("<I", masked_crc(body)), True)


def _quietly(call: Callable[..., object], *arguments: object) -> None:
    try:
        call(*arguments)
    except Corrupt:
        return


def _all_wrong(
    inputs: Iterator[Any], read: Callable[[Any], object], allowed: tuple[type[Exception], ...]
) -> list[str]:
    wrong = []
    for given in inputs:
        try:
            read(given)
        except allowed:
            pass
        except Exception as error:
            shown = given.hex() if isinstance(given, bytes) else repr(given)
            wrong.append(f"{type(error).__name__}: {error}: input={shown[:4_000]}")
    return wrong


# ---- inputs --------------------------------------------------------------------------------------


def mutated(random: Random, raw: bytes) -> bytes:
    """`raw`, damaged a few times."""
    body = bytearray(raw)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        if not body:
            break
        at = random.randrange(len(body))
        how = random.randrange(6)
        if how == 0:
            body[at] ^= 1 << random.randrange(8)
        elif how == 1:
            body[at] = random.choice(_INTERESTING)
        elif how == 2:
            del body[at : at + random.randrange(1, 40)]
        elif how == 3:
            body[at:at] = random.randbytes(random.randrange(1, 12))
        elif how == 4:
            body[at:at] = body[random.randrange(len(body)) :][: random.randrange(1, 80)]
        else:
            body[at : at + 5] = identity.varint(random.choice(_NUMBERS))
    return bytes(body)


def crafted(random: Random) -> bytes:
    """A table in which every checksum is valid and every number may be wrong."""
    blocks: list[tuple[int, int]] = []
    raw = bytearray()

    def add(payload: bytes) -> bytes:
        stored = sealed(payload, 0)
        blocks.append((len(raw), len(stored) - 5))
        raw.extend(stored)
        return _handle(random, *blocks[-1])

    data = [
        add(_payload(random) if random.random() < 0.3 else _block(_records(random, 6)))
        for _ in range(random.randrange(4))
    ]
    keys = sorted(b"k%04d" % random.randrange(60) for _ in data)
    internal = [(key + b"\1" + bytes(7), handle) for key, handle in zip(keys, data, strict=True)]
    counted = identity.varint(random.choice(_NUMBERS[:7]))
    properties = add(payload_of([(b"rocksdb.num.entries", counted)]))
    metaindex = add(payload_of([(b"rocksdb.properties", properties)]))
    index = add(payload_of(internal))
    return bytes(raw) + footer(metaindex + index)


def footer(handles: bytes) -> bytes:
    """The end of a table with these handles of metaindex and index."""
    return b"\1" + handles.ljust(40, b"\0")[:40] + struct.pack("<IQ", 2, MAGIC)


def sealed(payload: bytes, kind: int) -> bytes:
    """A block in the form in which it is stored in a file."""
    body = payload + bytes([kind])
    return body + struct.pack("<I", masked_crc(body))


def _handle(random: Random, offset: int, length: int) -> bytes:
    if random.random() < 0.05:
        offset = random.choice(_NUMBERS)
    if random.random() < 0.05:
        length = random.choice(_NUMBERS)
    return identity.varint(offset) + identity.varint(length)


def payload_of(entries: Sequence[Record]) -> bytes:
    """The payload of a block with these entries; every key is stored whole."""
    raw, restarts = bytearray(), []
    for key, value in entries:
        restarts.append(len(raw))
        raw += b"\0" + identity.varint(len(key)) + identity.varint(len(value)) + key + value
    if not restarts:
        restarts = [0]
    return (
        bytes(raw) + struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts))
    )


def _block(records: Sequence[Record]) -> bytes:
    return payload_of([(key + bytes([_WHOLE]) + bytes(7), value) for key, value in records])


def _payload(random: Random) -> bytes:
    """Entries with wrong numbers, followed by restarts that are usually valid."""
    raw = bytearray()
    for _ in range(random.randrange(8)):
        key = random.randbytes(random.randrange(4)) + b"\1" + bytes(7)
        numbers = [random.choice((0, 0, 0, 3)), len(key), random.randrange(5)]
        if random.random() < 0.1:
            numbers[random.randrange(3)] = random.choice(_NUMBERS)
        raw += b"".join(map(identity.varint, numbers)) + key + random.randbytes(numbers[2] & 7)
    restarts = [0] if random.random() < 0.7 else [random.randrange(60) for _ in range(3)]
    count = len(restarts) if random.random() < 0.9 else random.choice((0, 2, 9, 1 << 31))
    return bytes(raw) + struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", count)


def _records(random: Random, count: int) -> list[Record]:
    value = identity.frame(bytes(32), b"x" * random.randrange(40))
    return [(b"k%04d" % at, value) for at in sorted(random.sample(range(2_000), count))]


def _record_bytes(random: Random, own: bytes, all_of_them: dict[str, bytes]) -> bytes:
    drawn = random.random()
    if drawn < 0.6:
        return mutated(random, own)
    if drawn < 0.75:
        return mutated(random, random.choice(list(all_of_them.values())))
    head = b"" if drawn < 0.85 else wire.FORMAT
    return head + random.randbytes(random.randrange(50))


def _ref_text(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice("~^@$a9") * random.randrange(1, 5_000)
    pieces = ("~", "^", "@", "$", "main", "v1.0", "0", "9" * 30, " ", "\0", "%", "ä", "٣", "\ud800")
    parts = [random.choice(pieces) for _ in range(random.randrange(9))]
    parts += [chr(random.randrange(1, 0x10000)) for _ in range(random.randrange(3))]
    random.shuffle(parts)
    return "".join(parts)


_MESSAGES = {
    "repository": pb.Repository,
    "branch": pb.Branch,
    "commit": pb.Commit,
    "tag": pb.Tag,
    "fold": pb.Fold,
    "cleanup": pb.Cleanup,
    "upload_address": pb.UploadAddress,
    "multipart_upload": pb.MultipartUpload,
    "job": pb.Job,
    "pull": pb.PullRequest,
    "pairs": pb.Pairs,
}
_VALUES: dict[type, object] = {int: 1, str: "5a" * 32, bytes: b"p" * 16, bool: True}


def encoded_records() -> dict[str, bytes]:
    """The bytes of a record for each `decode_*` of wire.py, by the name after `decode_`."""
    entry = wire.encode_entry(Entry("data/x/y", 12, "c" * 32, 1, {"k": "v", "ä": ""}))
    return {
        "entry": entry,
        "range": wire.encode_range(RangeRef(RangeId("ab" * 32), b"a", b"z", 900, 12))[1],
        "staged": wire.encode_staged(entry, b"w" * 16),
        **{
            name: wire.FORMAT + _filled(kind()).SerializeToString()
            for name, kind in _MESSAGES.items()
        },
    }


def _filled(message: Any) -> Any:
    """A message with a value in each field, also of the messages in it."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if type(value) in _VALUES:
            setattr(message, field.name, _VALUES[type(value)])
        elif hasattr(value, "DESCRIPTOR"):
            _filled(value)
        elif hasattr(value, "add"):
            _filled(value.add())
        elif hasattr(value, "append"):
            value.extend(["t1.4", "t2.4"])
        else:
            value["owner"] = "somebody"
    return message
