"""Framed values: the short way to a body finds what the long way finds."""

import random

from graveler.core.errors import Corrupt
from graveler.core.identity import body_of, frame, identity_of, unframe
from tests import draws

LENGTHS = (0, 1, 5, 62, 63, 64, 65, 127, 128, 300, 8_190, 8_191, 8_192, 8_193, 9_000)


def test_frames_open_as_they_were_closed() -> None:
    for identity in (b"i" * 32, b"", b"i" * 31, b"i" * 64):
        for length in LENGTHS:
            framed = frame(identity, b"b" * length)
            for value in (framed, framed + b"trailing"):
                assert unframe(value) == (identity, b"b" * length)
                assert body_of(value) == b"b" * length
                assert identity_of(value) == identity


def body_or_corrupt(value: bytes) -> bytes | str:
    try:
        return body_of(value)
    except Corrupt:
        return "corrupt"


def unframed_or_corrupt(value: bytes) -> bytes | str:
    try:
        return unframe(value)[1]
    except Corrupt:
        return "corrupt"


def test_damaged_frames_are_judged_alike() -> None:
    seed = draws.seed()
    generator = random.Random(seed)
    for _ in range(20_000):
        framed = bytearray(frame(b"i" * 32, b"b" * generator.choice(LENGTHS)))
        for _ in range(generator.randrange(3)):
            framed[generator.randrange(min(40, len(framed)))] = generator.randrange(256)
        value = bytes(framed[: generator.randrange(len(framed) + 1)])
        assert body_or_corrupt(value) == unframed_or_corrupt(value)
