"""Encodes the framed value of a range record: an identity, then a body, each with its length.

    zigzag-varint(length) ‖ identity ‖ zigzag-varint(length) ‖ body

The identity comes first, so two values can be compared without decoding their bodies.  lakeFS uses
the same framing in its files, so each system reads the files of the other.  A length of 32 is the
byte `40` (hex).
"""

from graveler.core.errors import Corrupt


def _varint(length: int) -> bytes:
    if length < 64:
        return bytes((length << 1,))
    number = length << 1  # zigzag of a number that is not negative
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number & 1:
                raise Corrupt("framed value has a negative length")
            return number >> 1, at
    raise Corrupt("framed value ends inside a length")


def frame(identity: bytes, body: bytes) -> bytes:
    """The framed value of `identity` and `body`."""
    return _varint(len(identity)) + identity + _varint(len(body)) + body


def unframe(value: bytes) -> tuple[bytes, bytes]:
    """The (identity, body) of a framed value.  Ignores trailing bytes.  Raises `Corrupt`."""
    length, start = _read_varint(value, 0)
    identity = value[start : start + length]
    size, body_start = _read_varint(value, start + length)
    body = value[body_start : body_start + size]
    if len(identity) != length or len(body) != size:
        raise Corrupt("framed value is shorter than its lengths state")
    return identity, body


def body_of(value: bytes) -> bytes:
    """The body of a framed value.  With an identity of 32 bytes and a body below 8 KiB it costs one
    slice.  Raises `Corrupt`."""
    if len(value) > 34 and value[0] == 0x40:
        number, more = value[33], value[34]
        start = 34 if number < 0x80 else 35
        if start == 35:
            number = number & 0x7F | more << 7
        end = start + (number >> 1)
        if not number & 1 and (start == 34 or more < 0x80) and end <= len(value):
            return value[start:end]
    return unframe(value)[1]


def identity_of(value: bytes) -> bytes:
    """The identity of a framed value.  The ordinary identity of 32 bytes costs one slice.  Any
    other raises `Corrupt` if it does not parse."""
    if value[:1] == b"\x40":
        return value[1:33]
    return unframe(value)[0]
