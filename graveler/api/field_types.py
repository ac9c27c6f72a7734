"""Types of fields that several bodies and answers share.  Pure.

msgspec searches a pattern in the text; `matching` makes the rule for a whole text.  Patterns name
ASCII characters only.
"""

from typing import Annotated, Any, Final

from msgspec import Meta

from graveler import limits

Pairs = dict[str, str]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Message = Annotated[str, Meta(max_length=limits.message_length_bytes_max)]
Bytes64 = Annotated[str, Meta(description="Base64")]

WHOLE: Final = r"(?!\n)"  # behind the `$` of a pattern, which else lets a newline follow


def matching(pattern: str, **rules: Any) -> Meta:
    """The rule that the whole of a string matches `pattern`, which begins with `^` and ends with
    `$`."""
    return Meta(pattern=pattern + WHOLE, **rules)


ByteRange = Annotated[
    str,
    matching(
        "^bytes=[0-9]*-[0-9]*(, ?[0-9]*-[0-9]*)*,? ?$", max_length=limits.range_header_length_max
    ),
]
Checksum = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.checksum_length_bytes_max,
        description="The checksum that the storage returned for the write",
    ),
]
Size = Annotated[int, Meta(ge=0, le=limits.object_size_bytes_max)]
SECONDS_MAX: Final = (2**63 - 1) // limits.SECOND_NS  # records hold 64 bits of nanoseconds
Seconds = Annotated[int, Meta(ge=0, le=SECONDS_MAX, extra_json_schema={"format": "int64"})]
