"""Query parameters that several operations share.  Pure.  Used by the modules with endpoints."""

from typing import Annotated

from msgspec import Meta

from graveler import limits
from graveler.api.operation import Query

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
