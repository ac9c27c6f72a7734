"""What a function writes to its log about a change is what `GET /audit` reads again."""

import json
import logging
from collections.abc import Iterator

import pytest

from graveler.audit.logs import LogGroupTrail
from graveler.audit.trail import Line, Outcome, Question, moment
from graveler.core.limits import SECOND_NS
from tests.audit.test_logs import Logs
from tests.functions.test_gateway import shared

AT = 1_769_000_000 * SECOND_NS


@pytest.fixture
def product_log() -> Iterator[logging.Logger]:
    """The logger of the product, as it was before a test."""
    log = logging.getLogger("graveler")
    handlers, level, propagate = log.handlers[:], log.level, log.propagate
    yield log
    log.handlers[:], log.propagate = handlers, propagate
    log.setLevel(level)


def test_a_line_of_the_log_is_a_line_of_the_trail(
    product_log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    shared("bootstrap").open_log()
    hostile = ('arn:a"\n{"audit": 1}', "arn:é\u2028")
    lines = [
        Line(moment(AT), "r1", "ada", "u1", "192.0.2.1", "commit", hostile, Outcome.DONE, 201),
        Line(moment(AT), "r2", "", "", "", "getObject", (), Outcome.DENIED, 401, "unauthenticated"),
    ]
    writer = LogGroupTrail(Logs(), "group", Logs().clock)
    for line in lines:
        writer.write(line)
    printed = capsys.readouterr().out.split("\n")
    events = [{"message": each} for each in printed if '"audit"' in each]
    assert len(events) == 2 and all(json.loads(each["message"]) for each in events)
    logs = Logs({"events": events})
    page = LogGroupTrail(logs, "group", logs.clock).read(Question(0, 2 * AT), "", 9)
    assert list(page.lines) == lines
