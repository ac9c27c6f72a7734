"""Messages of a queue: the known kinds, and everything else as poison."""

import json
from typing import Any

import pytest

from graveler.core.errors import Invalid
from graveler.events.intake import Notification, parse


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


# ---- through other services ----------------------------------------------------------------------


def by_sns(message: Any, kind: str = "Notification") -> str:
    """What SNS puts into a queue that is subscribed without raw delivery."""
    return json.dumps(
        {
            "Type": kind,
            "MessageId": "da41e39f-ea4d-435a-b922-c6aae3915ebe",
            "TopicArn": "arn:aws:sns:us-east-1:123456789012:landing",
            "Subject": "Amazon S3 Notification",
            "Message": message,
            "Timestamp": "2026-01-02T03:04:06.000Z",
        }
    )


def by_eventbridge(kind: str = "Object Created", **told: Any) -> dict[str, Any]:
    """What a rule of EventBridge puts into a queue."""
    object_ = {"key": "in/a+b%20é.csv", "size": 7, "etag": "abc", "sequencer": "0055AED6DCD90281E5"}
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "123456789012",
        "time": "2026-01-02T03:04:05Z",
        "region": "us-east-1",
        "resources": ["arn:aws:s3:::landing"],
        "detail": {
            "version": "0",
            "bucket": {"name": "landing"},
            "object": {**object_, **told},
            "reason": "PutObject",
        },
    }


def test_what_comes_through_sns_is_what_s3_sent() -> None:
    assert parse(by_sns(message(record()))) == parse(message(record()))
    assert parse(by_sns(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"}))) == ()
    event = by_eventbridge()
    assert parse(by_sns(json.dumps(event))) == parse(json.dumps(event))


def test_what_comes_from_eventbridge_has_keys_that_are_not_encoded() -> None:
    told_ns = 1_767_323_045_000_000_000
    created = Notification(
        "landing", "in/a+b%20é.csv", "0055AED6DCD90281E5", False, told_ns, 7, "abc"
    )
    assert parse(json.dumps(by_eventbridge())) == (created,)
    removal = by_eventbridge("Object Deleted")
    del removal["detail"]["object"]["size"], removal["detail"]["object"]["etag"]
    assert parse(json.dumps(removal)) == (created._replace(removed=True, size=0, checksum=""),)
    assert parse(json.dumps(by_eventbridge("Object Tags Added"))) == ()


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        (by_sns("Hello", "SubscriptionConfirmation"), "account of the topic"),
        (json.dumps({**by_eventbridge(), "source": "aws.ec2"}), '"source": ."aws.s3"'),
        (json.dumps({"bucket": "landing", "key": "a"}), "without an input transformer"),
    ],
)
def test_what_no_storage_service_sent_is_refused_with_the_remedy(body: str, remedy: str) -> None:
    with pytest.raises(Invalid, match=remedy):
        parse(body)


@pytest.mark.parametrize(
    "body",
    [
        "",
        by_sns(by_sns(message(record()))),
        by_sns({"Records": []}),
        by_sns("[" * 100_000),
        json.dumps({"Type": "Notification"}),
        json.dumps({**by_eventbridge(), "detail-type": ["Object Created"]}),
        json.dumps({**by_eventbridge(), "detail": None}),
        json.dumps({**by_eventbridge(), "time": 7}),
        json.dumps(by_eventbridge(key=1)),
        json.dumps(by_eventbridge(key="k" * 1_025)),
        json.dumps(by_eventbridge(sequencer="no")),
        json.dumps(by_eventbridge(size=2**60)),
        json.dumps(by_eventbridge(etag="e" * 257)),
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
