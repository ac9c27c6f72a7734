"""Values read by shape are the values that the record's own decoder finds."""

import random

import pytest

from graveler.core import wire
from graveler.core.errors import Corrupt
from graveler.core.records import TOMBSTONE
from graveler.staging.area import value_of


@pytest.mark.parametrize("length", [1, 2, 18, 127, 128, 129, 130, 300, 16_383, 16_384, 70_000])
@pytest.mark.parametrize("wid", [b"", b"short", b"w" * 15, b"\x12\x10" * 8, b"w" * 17])
def test_of_rows_of_every_length(length: int, wid: bytes) -> None:
    for value in (b"v" * length, bytes(length), (b"\x12\x10" * length)[:length]):
        assert value_of(wire.encode_staged(value, wid)) == value


def test_of_deletions() -> None:
    assert value_of(wire.encode_staged(TOMBSTONE, b"w" * 16)) is TOMBSTONE
    assert value_of(wire.encode_staged(TOMBSTONE, b"")) is TOMBSTONE


def test_damaged_rows_say_what_the_decoder_says() -> None:
    chance = random.Random(7)
    rows = [wire.encode_staged(b"v" * size, b"w" * 16) for size in (1, 90, 127, 128, 200)]
    for _ in range(20_000):
        raw = bytearray(chance.choice(rows))
        for _ in range(chance.randrange(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        damaged = bytes(raw[: chance.randrange(len(raw) + 1)] if chance.random() < 0.5 else raw)
        assert _told(damaged) == _decoded(damaged), damaged.hex()


def _told(raw: bytes) -> object:
    try:
        return value_of(raw)
    except Corrupt as error:
        return str(error)


def _decoded(raw: bytes) -> object:
    try:
        return wire.decode_staged(raw, 0, b"").value
    except Corrupt as error:
        return str(error)
