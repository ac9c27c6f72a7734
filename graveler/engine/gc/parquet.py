"""Writes a Parquet file with one column of texts, for lakeFS's Spark client.

    PAR1 ‖ page header ‖ page ‖ footer ‖ length of the footer (4, little endian) ‖ PAR1
    page     length (4, little endian) ‖ UTF-8, for each text          plain, not compressed

Headers and footer are Thrift structs in the compact protocol.  Pure.  Used by prepare.py.
"""

import struct
from collections.abc import Sequence
from typing import Final

_MAGIC: Final = b"PAR1"
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12  # types of the compact protocol
_BYTE_ARRAY, _REQUIRED, _UTF8, _PLAIN, _RLE, _DATA_PAGE, _UNCOMPRESSED = 6, 0, 0, 0, 3, 0, 0
_SHORT_LIST = 15
_Field = tuple[int, int, bytes]  # number, type, encoded value


def column(name: str, texts: Sequence[str]) -> bytes:
    """A file with one required column `name` of type string."""
    raw = [text.encode() for text in texts]
    page = b"".join(struct.pack("<I", len(each)) + each for each in raw)
    count = len(raw)
    header = _record(
        _number(1, _DATA_PAGE),
        _number(2, len(page)),
        _number(3, len(page)),
        _nested(5, _record(*(_number(at + 1, each) for at, each in enumerate(_page(count))))),
    )
    chunk = _MAGIC + header + page
    size = len(header) + len(page)
    meta = _record(
        _number(1, _BYTE_ARRAY),
        _list(2, _I32, [_zigzag(_PLAIN)]),
        _list(3, _BINARY, [_text(name)]),
        _number(4, _UNCOMPRESSED),
        _number(5, count, _I64),
        _number(6, size, _I64),
        _number(7, size, _I64),
        _number(9, len(_MAGIC), _I64),
    )
    columns = [_record(_number(2, len(_MAGIC), _I64), _nested(3, meta))]
    group = _record(_list(1, _STRUCT, columns), _number(2, size, _I64), _number(3, count, _I64))
    root = _record((4, _BINARY, _text("schema")), _number(5, 1))
    leaf = _record(
        _number(1, _BYTE_ARRAY),
        _number(3, _REQUIRED),
        (4, _BINARY, _text(name)),
        _number(6, _UTF8),
    )
    footer = _record(
        _number(1, 1),
        _list(2, _STRUCT, [root, leaf]),
        _number(3, count, _I64),
        _list(4, _STRUCT, [group]),
        (6, _BINARY, _text("graveler")),
    )
    return chunk + footer + struct.pack("<I", len(footer)) + _MAGIC


def _page(count: int) -> tuple[int, ...]:
    """The fields of a data page header: values, encoding, encodings of both kinds of levels."""
    return count, _PLAIN, _RLE, _RLE


def _record(*fields: _Field) -> bytes:
    """A struct; the numbers of its fields ascend."""
    encoded, last = b"", 0
    for number, kind, value in fields:
        encoded += bytes(((number - last) << 4 | kind,)) + value
        last = number
    return encoded + b"\0"


def _number(field: int, value: int, kind: int = _I32) -> _Field:
    return field, kind, _zigzag(value)


def _nested(field: int, record: bytes) -> _Field:
    return field, _STRUCT, record


def _list(field: int, kind: int, values: Sequence[bytes]) -> _Field:
    assert len(values) < _SHORT_LIST, "a longer list has another header"
    return field, _LIST, bytes((len(values) << 4 | kind,)) + b"".join(values)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw)) + raw


def _zigzag(value: int) -> bytes:
    return _varint(value << 1)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
