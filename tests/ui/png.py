"""Makes a screenshot smaller: flat areas and text pack best without the filters of PNG."""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB: Final = 3  # bytes a pixel: what a browser without transparency writes


def repacked(png: bytes) -> bytes:
    """The same pixels of an RGB picture of eight bits, without filters, packed as far as it
    goes."""
    parts = list(_chunks(png))
    (header,) = (body for kind, body in parts if kind == b"IHDR")
    width, height, depth, colours = struct.unpack(">IIBB", header[:10])
    assert (depth, colours) == (8, 2), (depth, colours)
    data = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    rows, length, above = [], width * _RGB, bytes(width * _RGB)
    for start in range(0, height * (length + 1), length + 1):
        above = _unfiltered(data[start], data[start + 1 : start + 1 + length], above)
        rows.append(b"\0" + above)
    return _written(header, b"".join(rows))


def packed(width: int, height: int, pixels: bytes) -> bytes:
    """A picture of these RGB pixels."""
    length = width * _RGB
    starts = range(0, height * length, length)
    rows = b"".join(b"\0" + pixels[start : start + length] for start in starts)
    return _written(struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), rows)


def _written(header: bytes, rows: bytes) -> bytes:
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _unfiltered(kind: int, line: bytes, above: bytes) -> bytes:
    row = bytearray(_RGB) + line  # the pixel left of the first one is black
    up = bytes(_RGB) + above
    for at in range(_RGB, len(row)):
        left, over, corner = row[at - _RGB], up[at], up[at - _RGB]
        guess = (0, left, over, (left + over) // 2, _nearest(left, over, corner))[kind]
        row[at] = (row[at] + guess) & 255
    return bytes(row[_RGB:])


def _nearest(left: int, over: int, corner: int) -> int:
    """The predictor of Paeth."""
    aim = left + over - corner
    return min((left, over, corner), key=lambda value: abs(aim - value))
