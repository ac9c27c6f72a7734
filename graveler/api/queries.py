"""Query parameters and headers that several operations share.

Pure.  Used by the modules with endpoints.
"""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from graveler import limits
from graveler.api.operation import Headers, Query
from graveler.errors import Invalid
from graveler.limits import SECOND_NS

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


def page_count(amount: int) -> int:
    """The greatest number of lines on a page, if a client asks for `amount`.  Pure."""
    return amount if amount > 0 else limits.page_count_default


class Paging(Query, frozen=True):
    """Which page of a listing."""

    prefix: Prefix = ""
    after: After = ""
    amount: Amount = limits.page_count_default

    @property
    def count(self) -> int:
        """The greatest number of lines on the page."""
        return page_count(self.amount)


class ForceQuery(Query, frozen=True):
    """For deletions."""

    force: Force = False


class PathQuery(Query, frozen=True):
    """Which object."""

    path: Path


class WriteConditions(Headers, frozen=True):
    """When to write an object.  graveler/http/conditions.py reads the headers."""

    if_none_match: str | UnsetType = field(default=UNSET, name="If-None-Match")
    if_match: str | UnsetType = field(default=UNSET, name="If-Match")
    if_unmodified_since: str | UnsetType = field(default=UNSET, name="If-Unmodified-Since")


def moment_ns(name: str, text: str) -> int:
    """The time in the query parameter `name`, as RFC 3339 writes it, in nanoseconds since 1970; 0
    for an empty text.  Raises `Invalid`."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp() * SECOND_NS))
    except (ValueError, OverflowError) as error:
        rule = "it must be a time as RFC 3339 writes it"
        raise Invalid(f'parameter "{name}" in query has an error: {rule}') from error
