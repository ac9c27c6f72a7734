"""Messages of a queue: the known kinds, and everything else as poison."""

import json
from typing import Any

import pytest

from graveler.errors import Invalid
from graveler.events.notification import Notification, parse


def record(key: str = "in/a.csv", event: str = "ObjectCreated:Put", **told: Any) -> dict[str, Any]:
    object_ = {"key": key, "size": 7, "eTag": "abc", "sequencer": "0055AED6DCD90281E5"}
    return {
        "eventVersion": "2.6",
        "eventTime": "2026-01-02T03:04:05.678Z",
        "eventName": event,
        "s3": {"bucket": {"name": "landing"}, "object": {**object_, **told}},
    }


TOLD_NS = 1_767_323_045_678_000_000


def message(*records: Any) -> str:
    return json.dumps({"Records": records})


def test_a_created_object_is_described() -> None:
    (event,) = parse(message(record("in/a+b%2Bc/%C3%A9.txt")))
    assert event == Notification(
        "landing", "in/a b+c/é.txt", "0055AED6DCD90281E5", False, TOLD_NS, 7, "abc"
    )


@pytest.mark.parametrize(
    "event",
    ["ObjectRemoved:Delete", "ObjectRemoved:DeleteMarkerCreated", "LifecycleExpiration:Delete"],
)
def test_a_removed_object_is_named(event: str) -> None:
    told = record(event=event)
    del told["s3"]["object"]["size"], told["s3"]["object"]["eTag"]
    assert parse(message(told)) == (
        Notification("landing", "in/a.csv", "0055AED6DCD90281E5", True, TOLD_NS),
    )


def test_other_events_and_trial_messages_tell_nothing() -> None:
    assert parse(message(record(event="ObjectTagging:Put"))) == ()
    assert parse(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})) == ()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"Records": 1}',
        '{"Records": [1]}',
        message({**record(), "s3": None}),
        message(record(sequencer="no")),
        message(record(sequencer="")),
        message(record(size=-1)),
        message(record(size=2**60)),
        message(record(size="many")),
        message(record(key="%FF")),
        message(record(size=float("inf"))),
        message(record(key="k" * 1_025)),
        message(record(eTag="e" * 257)),
        "[" * 100_000,
        message({**record(), "eventTime": "yesterday"}),
        message({**record(), "eventTime": "9999-12-31T23:59:59Z"}),
        message({**record(), "eventTime": "0001-01-01T00:00:00Z"}),
        message({**record(), "s3": {"bucket": {"name": 1}, "object": record()["s3"]["object"]}}),
    ],
)
def test_anything_else_is_poison(body: str) -> None:
    with pytest.raises(Invalid, match="notification"):
        parse(body)
