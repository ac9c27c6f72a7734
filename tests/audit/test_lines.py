"""Lines of the audit trail: bytes and back, questions, requests with very many resources."""

import json

import pytest

from graveler.audit.trail import Line, Outcome, Question, decode, encode, line_parts, moment
from graveler.core import limits
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT

AT = 1_769_903_999 * SECOND_NS + 123_456_789
LINE = Line(
    moment(AT), "r1", "ada", "u1", "192.0.2.1", "commit", ("arn:x/a", "arn:y"), Outcome.DONE, 201
)
ALL = Question(0, 2 * AT)


def test_a_line_is_one_json_object_and_comes_back() -> None:
    full = LINE._replace(
        code="refused", missing="a on b", unrecorded=7, left_out=2, user='a"\n\u2028é'
    )
    for line in (LINE, full):
        assert encode(line).count(b"\n") == 1 and decode(encode(line)) == line
    assert set(json.loads(encode(full))) == {"audit", *Line._fields}
    assert "missing" not in json.loads(encode(LINE))
    odd = LINE._replace(resources=("\ud800",))
    assert b"?" in encode(odd)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"1", b"{}", b'{"audit": 2}', b'{"audit": 1}', b"\xff", b"[" * 10_000),
        encode(LINE)[:50],
        encode(LINE).replace(b'"done"', b'"other"'),
        encode(LINE).replace(b"201", b'"x"'),
        encode(LINE).replace(b'["arn:x/a","arn:y"]', b"3"),
    ],
)
def test_what_is_no_line_is_none(text: bytes) -> None:
    assert decode(text) is ABSENT


def test_times_sort_as_texts() -> None:
    times = [0, 1, 10**9 - 1, 10**9, AT, AT + 10**3, AT * 2]
    assert sorted(map(moment, times)) == [moment(each) for each in times]
    assert moment(AT) == "2026-01-31T23:59:59.123456Z"


@pytest.mark.parametrize(
    ("changed", "admitted"),
    [
        ({}, True),
        ({"user": "ada", "operation": "commit", "outcome": Outcome.DONE}, True),
        ({"user": "ad"}, False),
        ({"operation": "merge"}, False),
        ({"outcome": Outcome.DENIED}, False),
        ({"resource": "arn:y"}, True),
        ({"resource": "arn:x/"}, True),
        ({"resource": "x"}, False),
        ({"since_ns": AT}, True),
        ({"since_ns": AT + 1_000}, False),
        ({"until_ns": AT}, False),
        ({"until_ns": AT + 1_000}, True),
    ],
)
def test_a_question_admits(changed: dict[str, object], admitted: bool) -> None:
    assert ALL._replace(**changed).admits(LINE) is admitted  # type: ignore[arg-type]


def test_many_resources_make_many_lines_of_one_request() -> None:
    most = limits.audit_line_resources_max
    names = tuple(f"arn:{number}" for number in range(2 * most + 1))
    made = list(line_parts(LINE._replace(resources=names, unrecorded=3)))
    assert [len(each.resources) for each in made] == [most, most, 1]
    assert tuple(name for each in made for name in each.resources) == names
    assert {each.request_id for each in made} == {"r1"}
    assert [each.unrecorded for each in made] == [3, 0, 0]
    assert list(line_parts(LINE._replace(resources=()))) == [LINE._replace(resources=())]
