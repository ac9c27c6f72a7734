"""Types of fields that several bodies and answers share.  Pure.

msgspec searches a pattern in the text: a pattern of ours begins with `^` and ends with `$` and
`violations.WHOLE`, and names ASCII characters only.
"""

from typing import Annotated

from msgspec import Meta

from graveler import limits

Pairs = dict[str, str]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Message = Annotated[str, Meta(max_length=limits.message_length_bytes_max)]
