"""Numbers and texts of many rows are those that each row has alone."""

import random

import numpy as np
import pyarrow as pa
import pytest

from graveler.arrow.vectors import PAD, Slices, octets, prefixed, varints
from graveler.core.identity import read_varint, varint


@pytest.mark.parametrize("bits_max", [7, 14, 21, 28, 35, 49, 56, 57, 64])
def test_varints_of_every_length_are_read(bits_max: int) -> None:
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    numbers = [(1 << bits) - 1 for bits in range(bits_max + 1)]
    numbers += [chance.getrandbits(chance.randrange(1, bits_max + 1)) for _ in range(300)]
    chance.shuffle(numbers)
    encoded = list(map(varint, numbers))
    ends = np.cumsum(list(map(len, encoded)))
    raw = np.frombuffer(b"".join([*encoded, bytes(PAD)]), dtype=np.uint8)
    found, after = varints(raw, ends - list(map(len, encoded)))
    assert found.tolist() == numbers
    assert after.tolist() == ends.tolist()


def test_varints_longer_than_needed_and_too_long_ones() -> None:
    padded, ten, eleven = b"\x81\x80\x00", b"\x85" + b"\x80" * 8 + b"\x00", b"\x80" * 10 + b"\x01"
    raw = np.frombuffer(padded + ten + eleven + bytes(PAD), dtype=np.uint8)
    found, after = varints(raw, np.array([0, 3, 13]))
    assert found.tolist()[:2] == [read_varint(padded, 0)[0], read_varint(ten, 0)[0]] == [1, 5]
    assert after.tolist() == [3, 13, -1]


@pytest.mark.parametrize("texts", [["ab", "cd", "é"], ["", "", ""], ["", "é世", "x"], ["one"], []])
def test_texts_are_copied_and_prefixed(texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum(list(map(len, encoded)), dtype=np.int64)
    at = Slices(ends - np.array(list(map(len, encoded)), dtype=np.int64), ends)
    copied = octets(pa.py_buffer(b"".join([*encoded, bytes(PAD)])), at)
    assert copied.to_pylist() == encoded
    assert prefixed(b"n/", copied.cast(pa.string())).to_pylist() == [f"n/{text}" for text in texts]
    part = copied.cast(pa.string()).slice(1)
    assert prefixed(b"n/", part).to_pylist() == [f"n/{text}" for text in texts[1:]]
