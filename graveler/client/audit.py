"""The audit trail of a server, over the API.

Only Graveler has this call.  Part of the public Python client.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypedDict, cast

from graveler.client.refs import checked
from graveler.client.session import Session, paged, with_query

_PAGE: Final = 1_000


class Line(TypedDict):
    """One change, or one denial.  `time` is in RFC 3339."""

    time: str
    request_id: str
    user: str
    uid: str
    address: str
    operation: str
    resources: list[str]
    outcome: str
    status: int
    code: str
    missing: str
    unrecorded: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Question:
    """Which lines.  Times are in RFC 3339.  Without `since`: those of the day before `until`.
    `resource`: the beginning of an ARN."""

    since: str = ""
    until: str = ""
    user: str = ""
    operation: str = ""
    outcome: str = ""
    resource: str = ""


def lines(session: Session, question: Question) -> Iterator[Line]:
    """The lines, oldest first.  Cost: a request per 1,000 lines or less.  Raises the errors of
    `Session.ask`; `Unsupported` if the server keeps no trail."""
    path = with_query(
        "/audit",
        since=question.since,
        until=question.until,
        user=question.user,
        operation=question.operation,
        outcome=question.outcome,
        resource=question.resource,
    )
    for item in paged(session, path, _PAGE):
        yield cast(Line, checked(item, "time", "user", "operation", "outcome"))
