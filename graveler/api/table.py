"""The type of a row in the table of routes, and the parameters that rows share.

Pure.  Used by routes.py and by all readers of the table: routing, validation, authentication, the
OpenAPI document, tests.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from graveler import limits
from graveler.api.conditions import RANGE_PATTERN
from graveler.api.operation import Runs

_SEGMENT = re.compile(r"\{(\w+)\}")


class Parameter(NamedTuple):
    """One query parameter or header."""

    name: str
    schema: Mapping[str, Any]
    required: bool = False
    place: Literal["query", "header"] = "query"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation.

    `path` is relative to /api/v1.  `action` and `resource` name the permission that the operation
    needs; the OpenAPI document shows them.  `resource` is a template over path parameters, query
    parameters and fields of the body.  `answers` maps a status code to the name of the schema of
    its body ("" for no body).
    """

    operation: str
    method: str
    path: str
    tag: str
    summary: str
    action: str = ""
    resource: str = "*"
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    answers: Mapping[int, str] = field(default_factory=dict)
    runs: Runs = Runs.WALK
    authenticated: bool = True

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names between braces in `path`, in order."""
        return tuple(_SEGMENT.findall(self.path))


TEXT: Final = {"type": "string"}
SWITCH: Final = {"type": "boolean", "default": False}

PREFIX: Final = Parameter("prefix", TEXT, description="only names that begin with this")
AFTER: Final = Parameter("after", TEXT, description="only names greater than this")
AMOUNT: Final = Parameter(
    "amount",
    {
        "type": "integer",
        "minimum": -1,
        "maximum": limits.page_count_max,
        "default": limits.page_count_default,
    },
    description="how many to return; 0 and -1 mean the default",
)
PAGE: Final = (PREFIX, AFTER, AMOUNT)
DELIMITER: Final = Parameter(
    "delimiter", TEXT, description="names that share a stem up to this become one line"
)
FORCE: Final = Parameter("force", SWITCH, description="even if the repository is read-only")
PATH: Final = Parameter("path", TEXT, required=True, description="relative to the ref")
PRESIGN: Final = Parameter("presign", SWITCH, description="answer with a signed URL")
USER_METADATA: Final = Parameter("user_metadata", {"type": "boolean", "default": True})
NO_TOMBSTONE: Final = Parameter("no_tombstone", SWITCH)
IF_NONE_MATCH: Final = Parameter("If-None-Match", TEXT, place="header")
IF_MATCH: Final = Parameter("If-Match", TEXT, place="header")
RANGE: Final = Parameter(
    "Range",
    {
        "type": "string",
        "pattern": f"^{RANGE_PATTERN.pattern}$",
        "maxLength": limits.range_header_length_max,
    },
    place="header",
)
