"""The operation that reads the audit trail."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from graveler import limits
from graveler.api import answers
from graveler.api.answers import Answer, Page, Shape
from graveler.api.field_types import Integer
from graveler.api.operation import Query, operation
from graveler.api.queries import Amount, moment_ns, page_count
from graveler.api.service import Call
from graveler.audit.trail import Line, Outcome, Question
from graveler.auth.permissions import Permission
from graveler.errors import Invalid, Unavailable, Unsupported
from graveler.limits import SECOND_NS
from graveler.records import ABSENT

_Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
# The last second that a time of RFC 3339 can name.
_NEVER_NS: Final = 253_402_300_799 * SECOND_NS
_Outcomes = Literal["", "done", "denied", "failed", "unknown"]


class AuditQuery(Query, frozen=True):
    """Which lines, oldest first.  Without `since`: those of the last day before `until`."""

    user: Annotated[str, Meta(description="lines of this user")] = ""
    operation: Annotated[str, Meta(description="lines of this operation")] = ""
    resource: Annotated[
        str, Meta(description="lines with a resource that begins with this, an ARN")
    ] = ""
    outcome: Annotated[_Outcomes, Meta(description="lines with this outcome")] = ""
    since: _Moment = ""
    until: _Moment = ""
    after: Annotated[
        str, Meta(description="next_offset of the page before; its span of time counts")
    ] = ""
    amount: Amount = limits.page_count_default


class AuditLine(Shape, frozen=True):
    """Who did what, on what, with which outcome, in which request."""

    time: str
    request_id: str
    user: str
    uid: str
    address: str
    operation: str
    resources: tuple[str, ...]
    outcome: Outcome
    status: Integer
    code: str
    missing: str
    unrecorded: Integer
    left_out: Integer


class AuditTrail(Page, frozen=True):
    """A page of lines.  It may be short, or empty, and yet not the last."""

    results: list[AuditLine]


@operation(
    "listAuditLines",
    "GET",
    "/audit",
    tag="graveler",
    permissions=(Permission("auth:ReadAudit", "*"),),
    answers={200: AuditTrail},
    errors=(Unsupported, Unavailable),
)
def list_audit_lines(call: Call, query: AuditQuery) -> Answer:
    """List changes and denials of the last days."""
    question, after = _question(query, call.ports.clock.now_ns())
    count = page_count(query.amount)
    page = call.service.trail.read(question, after, count)
    following = _token(question, page.following) if page.following else ""
    lines = [_shape(line) for line in page.lines]
    return answers.json(AuditTrail(answers.pagination(len(lines), following), lines))


def _question(query: AuditQuery, now: int) -> tuple[Question, str]:
    """What is asked for, and where the page begins."""
    if query.after:
        since, until, after = _read(query.after)
    else:
        until = moment_ns("until", query.until) if query.until else now + 1
        default = until - limits.audit_seconds_default * SECOND_NS
        since = moment_ns("since", query.since) if query.since else default
        after = ""
    return Question(
        min(max(since, 0), _NEVER_NS - 1),
        min(until, _NEVER_NS - 1),
        query.user,
        query.operation,
        Outcome(query.outcome) if query.outcome else ABSENT,
        query.resource,
    ), after


def _token(question: Question, following: str) -> str:
    """A continuation token.  It keeps the span of time, whose ends may depend on the clock."""
    return f"{question.since_ns}.{question.until_ns}.{following}"


def _read(token: str) -> tuple[int, int, str]:
    since, until, following = (*token.split(".", 2), "", "")[:3]
    if not (_is_time(since) and _is_time(until) and following):
        raise Invalid("page not page: use the next_offset of the page before")
    return int(since), int(until), following


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < _NEVER_NS


def _shape(line: Line) -> AuditLine:
    return AuditLine(*(getattr(line, name) for name in AuditLine.__struct_fields__))
