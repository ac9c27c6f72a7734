"""The audit trail in a log group: what CloudWatch is asked, and what becomes of its answers."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from graveler.audit.logs import LogGroupTrail, pattern
from graveler.audit.trail import Line, Outcome, Question, mapping, moment
from graveler.core import limits
from graveler.core.aws import AwsSession, CallPolicy
from graveler.core.errors import Invalid, Unavailable
from graveler.core.limits import SECOND_NS
from tests.audit.standing import StandingClock

AT = 1_769_000_000 * SECOND_NS
ALL = Question(AT - SECOND_NS, AT + SECOND_NS)


def line(request: str, user: str = "ada") -> Line:
    return Line(moment(AT), request, user, "", "", "commit", ("arn:a",), Outcome.DONE, 201)


def event(of: Any) -> dict[str, str]:
    """What the log keeps of a line that the logger of a function has written."""
    message = mapping(of) if isinstance(of, Line) else of
    return {"message": json.dumps({"level": "INFO", "service": "lake", "message": message}) + "\n"}


class Logs(AwsSession):
    """CloudWatch: answers in order, and what was asked."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.clock = StandingClock(AT)
        self.seconds = 0.0  # that an answer takes

    def client(
        self,
        service: str,
        policy: CallPolicy | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        assert service == "logs"
        return self

    def filter_log_events(self, **asked: Any) -> Mapping[str, Any]:
        self.asked.append(asked)
        self.clock.go_on(self.seconds)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def trail(logs: Logs) -> LogGroupTrail:
    return LogGroupTrail(logs, "/aws/lambda/lake-api", logs.clock)


def test_one_request_reads_a_span_of_its_own_log_group() -> None:
    logs = Logs({"events": [event(line("a")), event(line("b"))]})
    page = trail(logs).read(ALL, "", 7)
    assert [each.request_id for each in page.lines] == ["a", "b"] and page.following == ""
    assert logs.asked == [
        {
            "logGroupName": "/aws/lambda/lake-api",
            "startTime": (AT - SECOND_NS) // 10**6,
            "endTime": (AT + SECOND_NS) // 10**6 + limits.audit_delay_milliseconds,
            "filterPattern": "{ ($.message.audit = 1) }",
            "limit": 7,
        }
    ]


def test_pages_follow_until_there_are_enough_lines() -> None:
    logs = Logs(
        {"events": [event(line("a"))], "nextToken": "t1"},
        {"events": [], "nextToken": "t2"},
        {"events": [event(line("b"))], "nextToken": "t3/+="},
        {"events": [event(line("c"))]},
    )
    reader = trail(logs)
    page = reader.read(ALL, "", 2)
    assert [each.request_id for each in page.lines] == ["a", "b"]
    assert [each.get("nextToken") for each in logs.asked] == [None, "t1", "t2"]
    assert [each["limit"] for each in logs.asked] == [2, 1, 1]
    last = reader.read(ALL, page.following, 2)
    assert logs.asked[-1]["nextToken"] == "t3/+="
    assert ([each.request_id for each in last.lines], last.following) == (["c"], "")


def test_a_page_ends_after_some_requests_or_some_time() -> None:
    empty = {"events": [], "nextToken": "t"}
    logs = Logs(*[empty] * 99)
    assert trail(logs).read(ALL, "", 1).following
    assert len(logs.asked) == limits.audit_calls_max
    logs = Logs(*[empty] * 99)
    logs.seconds = limits.page_seconds_max / 2
    assert trail(logs).read(ALL, "", 1).following and len(logs.asked) == 2


def test_what_the_filter_lets_through_is_checked_again() -> None:
    """Another line of the log, a line of another user, half a line, a line of another time."""
    late = Question(AT + 1_000, AT + SECOND_NS)
    others = [event("text"), event({"audit": 2}), {"message": "{"}, {"message": "[]"}, {}]
    logs = Logs({"events": [*others, event(line("a")), event(line("b", "bob"))]})
    asked = Question(ALL.since_ns, ALL.until_ns, user="bob")
    assert [each.request_id for each in trail(logs).read(asked, "", 9).lines] == ["b"]
    assert trail(Logs({"events": [event(line("a"))]})).read(late, "", 9).lines == ()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (ALL, "{ ($.message.audit = 1) }"),
        (
            Question(0, 1, "ada.b@x-y", "commit", Outcome.DENIED, "arn:"),
            '{ ($.message.audit = 1) && ($.message.operation = "commit") && '
            '($.message.user = "ada.b@x-y") && ($.message.outcome = "denied") }',
        ),
        (Question(0, 1, 'a" || ($.x = "', "c*"), "{ ($.message.audit = 1) }"),
        (Question(0, 1, "é", "x" * 101), "{ ($.message.audit = 1) }"),
    ],
)
def test_only_plain_words_stand_in_the_filter(question: Question, expected: str) -> None:
    assert pattern(question) == expected


def _refused(code: str) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(answer, "FilterLogEvents")


def test_failures_are_told() -> None:
    with pytest.raises(Unavailable):
        trail(Logs(_refused("ThrottlingException"))).read(ALL, "", 1)
    with pytest.raises(Unavailable):
        trail(Logs(_refused("InvalidParameterException"))).read(ALL, "", 1)
    with pytest.raises(Invalid):  # a token that has expired
        trail(Logs(_refused("InvalidParameterException"))).read(ALL, "dG9rZW4=", 1)


@pytest.mark.parametrize("after", ["é", "x", "/w==", "A" * 5_000])
def test_an_unknown_page_is_invalid(after: str) -> None:
    with pytest.raises(Invalid):
        trail(Logs()).read(ALL, after, 1)


def test_a_line_is_written_to_the_log_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logs = Logs()
    trail(logs).write(line("a"))
    (record,) = caplog.records
    assert record.name == "graveler.audit" and record.msg == mapping(line("a"))
    assert logs.asked == []
