"""Query parameters and headers that several operations share.

Pure.  Used by the modules with endpoints.
"""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from graveler import limits
from graveler.api.operation import Headers, Query
from graveler.errors import Unsupported

Prefix = Annotated[str, Meta(description="only names that begin with this")]
After = Annotated[str, Meta(description="only names greater than this")]
Amount = Annotated[
    int,
    Meta(
        ge=-1,
        le=limits.page_count_max,
        description="how many to return; 0 and -1 mean the default",
    ),
]
Delimiter = Annotated[str, Meta(description="names that share a stem up to this become one line")]
Path = Annotated[str, Meta(description="relative to the ref")]
Presign = Annotated[bool, Meta(description="answer with a signed URL")]
Force = Annotated[bool, Meta(description="even if the repository is read-only")]


class Paging(Query, frozen=True):
    """Which page of a listing."""

    prefix: Prefix = ""
    after: After = ""
    amount: Amount = limits.page_count_default

    @property
    def count(self) -> int:
        """The greatest number of lines on the page."""
        return self.amount if self.amount > 0 else limits.page_count_default


class ForceQuery(Query, frozen=True):
    """For deletions."""

    force: Force = False


class PathQuery(Query, frozen=True):
    """Which object."""

    path: Path


class WriteConditions(Headers, frozen=True):
    """When to write an object."""

    if_none_match: str | UnsetType = field(default=UNSET, name="If-None-Match")
    if_match: str | UnsetType = field(default=UNSET, name="If-Match")

    @property
    def only_if_absent(self) -> bool:
        """Whether the path must be absent (`If-None-Match: *`).  Raises `Unsupported` for any other
        condition."""
        if self.if_match is not UNSET or self.if_none_match not in (UNSET, "", "*"):
            raise Unsupported("Not Implemented")
        return self.if_none_match == "*"
