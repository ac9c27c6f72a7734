"""Entries on the wire: the same entry, the same bytes, whoever writes them."""

from itertools import permutations

import pytest

from graveler import wire_pb2 as pb
from graveler.framing import body_of
from graveler.records import AddressType, Entry
from graveler.wire import decode_entry, encode_entry

ENTRY = Entry("s3://b/k", 300, "e", 1_000_000_002, {}, AddressType.FULL, "t/x")
# Fields in order; pairs by the bytes of their keys, of which one may begin with the other.
BEFORE = b"\x0a\x08s3://b/k\x12\x04\x08\x01\x10\x02\x18\xac\x02\x22\x01e"
PAIRS = {
    "a": b"\x2a\x06\x0a\x01a\x12\x011",
    "ab": b"\x2a\x06\x0a\x02ab\x12\x00",
    "b": b"\x2a\x06\x0a\x01b\x12\x011",
    "é": b"\x2a\x09\x0a\x02\xc3\xa9\x12\x03\xe4\xb8\x96",
}
METADATA = {"a": "1", "ab": "", "b": "1", "é": "世"}
BEHIND = b"\x30\x02\x3a\x03t/x"


@pytest.mark.parametrize("count", range(len(PAIRS) + 1))
def test_an_entry_has_one_spelling(count: int) -> None:
    for keys in permutations(PAIRS, count):
        entry = ENTRY._replace(metadata={key: METADATA[key] for key in keys})
        value = encode_entry(entry)
        assert body_of(value) == BEFORE + b"".join(PAIRS[key] for key in sorted(keys)) + BEHIND
        assert decode_entry(value) == entry


def test_it_is_that_of_the_whole_message() -> None:
    for metadata in ({}, {"k": "v" * 300}):
        value = encode_entry(ENTRY._replace(metadata=metadata))
        message = pb.Entry.FromString(body_of(value))
        assert message.SerializeToString() == body_of(value)
        assert dict(message.metadata) == metadata
