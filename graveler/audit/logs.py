"""The audit trail of a deployment on AWS: lines in the log group of the function.

    write ──► standard output of the function ──► CloudWatch Logs ──► FilterLogEvents ──► read

A change costs no request.  CloudWatch filters by user, operation and outcome; what it sends is
checked again here.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from graveler.audit import trail
from graveler.audit.trail import VERSION, LinePage, LoggedTrail, Question
from graveler.core import limits
from graveler.core.aws import FAILURES, AwsSession, CallPolicy, Client, failure_of, unavailable
from graveler.core.clock import Clock
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT

_MILLISECOND_NS: Final = 1_000_000
_POLICY: Final = CallPolicy(read_seconds=10.0, attempts=2)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.@-]{1,100}", re.ASCII)  # no wildcard, nothing to quote
_TOKEN_LENGTH_MAX: Final = 4_096


class LogGroupTrail(LoggedTrail):
    """A trail that is read from a log group."""

    def __init__(self, session: AwsSession, group: str, clock: Clock) -> None:
        self._session = session
        self._group = group
        self._clock = clock
        self._client: Client = None  # made by the first question: most processes get none

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        """As `Trail.read`.  At most `limits.audit_calls_max` requests, each one begun within
        `limits.page_seconds_max`.  A line is seen some seconds after its request."""
        if self._client is None:
            self._client = self._session.client("logs", _POLICY)
        begun = self._clock.steady_seconds()
        results: list[trail.Line] = []
        token = _token(after)
        for _ in range(limits.audit_calls_max):
            answer = self._filtered(question, token, count_max - len(results))
            for event in answer.get("events", ()):
                line = _line(event.get("message", ""))
                if line is not ABSENT and question.admits(line):
                    results.append(line)
            token = answer.get("nextToken", "")
            late = self._clock.steady_seconds() - begun >= limits.page_seconds_max
            if not token or late or len(results) >= count_max:
                break
        return LinePage(tuple(results), base64.urlsafe_b64encode(token.encode()).decode())

    def _filtered(self, question: Question, token: str, count_max: int) -> Mapping[str, Any]:
        named = {"nextToken": token} if token else {}
        try:
            answer: Mapping[str, Any] = self._client.filter_log_events(
                logGroupName=self._group,
                startTime=question.since_ns // _MILLISECOND_NS,
                endTime=_end(question),
                filterPattern=pattern(question),
                limit=count_max,
                **named,
            )
        except FAILURES as error:
            failure = failure_of(error)
            if failure.code == "InvalidParameterException" and token:
                raise Invalid("page not found: ask for the first page again") from error
            raise unavailable(failure, "read the audit trail", write=False) from error
        return answer


def pattern(question: Question) -> str:
    """The filter of CloudWatch: it passes every line that the question admits, and few others."""
    texts = {"operation": question.operation, "user": question.user}
    if question.outcome is not ABSENT:
        texts["outcome"] = question.outcome
    terms = [f"($.message.audit = {VERSION})"]
    terms += [f'($.message.{name} = "{text}")' for name, text in texts.items()
              if _PLAIN.fullmatch(text)]  # fmt: skip
    return "{ " + " && ".join(terms) + " }"


def _end(question: Question) -> int:
    """The end of the span, rounded up: the log knows a time after the line does, by what it takes
    to write it."""
    return question.until_ns // _MILLISECOND_NS + limits.audit_delay_milliseconds


def _line(message: str) -> Any:
    """The line in an event of the log.  The logger puts it into an object of its own."""
    try:
        entry = json.loads(message)
    except (ValueError, RecursionError):
        return ABSENT
    return trail.read_line(entry.get("message")) if isinstance(entry, dict) else ABSENT


def _token(after: str) -> str:
    if len(after) > _TOKEN_LENGTH_MAX:
        raise Invalid("page not found: use the next_offset of the page before")
    try:
        return base64.b64decode(after.encode(), b"-_", validate=True).decode("ascii")
    except ValueError as error:
        raise Invalid("page not found: use the next_offset of the page before") from error
