"""Entries on the wire: the same entry, the same bytes, whoever writes them; older records."""

from itertools import permutations

import pytest

from graveler.core import wire_pb2 as pb
from graveler.core.identity import body_of
from graveler.core.ids import BranchId, RepositoryId, RepositoryUid
from graveler.core.records import AddressType, BreakParameters, Entry, Repository
from graveler.core.wire import (
    FORMAT,
    decode_entry,
    decode_repository,
    encode_entry,
    encode_repository,
)

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


def test_a_repository_without_break_parameters_has_those_of_the_first_records() -> None:
    made = pb.Repository(id="r", uid="u", namespace="mem://b/r", default_branch="main", state=1)
    old = decode_repository(FORMAT + made.SerializeToString())
    assert old.breaks == BreakParameters(0, 20 << 20, 50_000, b"")
    made.breaks.raggedness = 50_000
    assert decode_repository(FORMAT + made.SerializeToString()).breaks.raggedness == 50_000


def test_a_repository_keeps_the_break_parameters_that_it_was_made_with() -> None:
    made = Repository(RepositoryId("r"), RepositoryUid("u"), "mem://b/r", BranchId("main"), 1)
    kept = decode_repository(encode_repository(made))
    assert kept == made
    assert kept.breaks == BreakParameters() and kept.breaks.raggedness == 2_000
