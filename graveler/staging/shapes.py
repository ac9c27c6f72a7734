"""A fast reader for the value of a staged row.

    format (1 byte) | 0a | length (varint) | value | 12 10 | wid (16 bytes)
    format (1 byte)                                | 12 10 | wid (16 bytes)     a tombstone

Commits and listings read many staged rows and need only their values.  Writes by ordinary requests
are stored in these shapes, so this module takes the value out by position.  It passes any other
shape to the record's full decoder (`wire.decode_staged`).
"""

from graveler import wire
from graveler.records import TOMBSTONE, StagedValue

_VALUE = b"\x0a"
_WID = b"\x12\x10"
_BEGIN = wire.FORMAT + _VALUE
_HEAD = len(_BEGIN)
_REST = len(_WID) + 16
_LEAST = _HEAD + 1 + _REST  # with a value of no byte
_DELETION = wire.FORMAT + _WID
_DELETION_LENGTH = len(wire.FORMAT) + _REST
_MORE = 0x80  # this bit of a varint byte means that another byte follows


def value_of(raw: bytes) -> StagedValue:
    """The same value as `wire.decode_staged` returns, in a third of its time.  Raises
    `Corrupt`."""
    if len(raw) == _DELETION_LENGTH and raw.startswith(_DELETION):
        return TOMBSTONE
    if len(raw) > _LEAST and raw.startswith(_BEGIN):
        begin, length = _HEAD + 1, raw[_HEAD]
        if length & _MORE and not raw[begin] & _MORE:
            length = (length ^ _MORE) | raw[begin] << 7
            begin += 1
        end = begin + length
        if length and len(raw) == end + _REST and raw.startswith(_WID, end):
            return raw[begin:end]
    return wire.decode_staged(raw, 0, b"").value
