"""Connecting a bucket to a queue: one entry of our own, whatever else the bucket tells whom."""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.block.s3_notices import changed, connect, disconnect
from graveler.core.aws import AwsSession
from graveler.core.errors import Invalid, NotFound
from graveler.core.records import ABSENT

QUEUE = "arn:aws:sqs:us-east-1:000000000000:"
OTHER = {
    "Id": "theirs",
    "TopicArn": "arn:aws:sns:us-east-1:000000000000:theirs",
    "Events": ["s3:ObjectCreated:Put"],
    "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "theirs/"}]}},
}


@pytest.fixture
def queue(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    session.client("sqs").create_queue(QueueName=name)
    return QUEUE + name


@pytest.fixture
def bucket(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    session.client("s3").create_bucket(Bucket=name)
    return name


def told(session: AwsSession, bucket: str) -> dict[str, Any]:
    found: dict[str, Any] = session.client("s3").get_bucket_notification_configuration(
        Bucket=bucket
    )
    found.pop("ResponseMetadata")
    return found


def test_a_bucket_is_connected_once_and_disconnected(
    session: AwsSession, bucket: str, queue: str
) -> None:
    assert connect(session, bucket, queue, "in/")
    assert not connect(session, bucket, queue, "in/")
    (entry,) = told(session, bucket)["QueueConfigurations"]
    assert entry["QueueArn"] == queue
    assert connect(session, bucket, queue, "also/")
    assert len(told(session, bucket)["QueueConfigurations"]) == 2
    assert disconnect(session, bucket, queue, "in/")
    assert not disconnect(session, bucket, queue, "in/")
    assert len(told(session, bucket)["QueueConfigurations"]) == 1


def test_the_entries_of_others_stay(session: AwsSession, bucket: str, queue: str) -> None:
    session.client("sns").create_topic(Name="theirs")
    session.client("s3").put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"TopicConfigurations": [OTHER]}
    )
    before = told(session, bucket)
    assert connect(session, bucket, queue, "in/")
    assert told(session, bucket)["TopicConfigurations"] == before["TopicConfigurations"]
    for prefix in ("theirs/more/", "the"):
        with pytest.raises(Invalid, match="id=theirs"):
            connect(session, bucket, queue, prefix)
    assert disconnect(session, bucket, queue, "in/")
    assert told(session, bucket) == before


def test_an_entry_that_was_narrowed_by_hand_is_made_whole_again(
    session: AwsSession, bucket: str, queue: str
) -> None:
    connect(session, bucket, queue, "in/")
    document = told(session, bucket)
    (entry,) = document["QueueConfigurations"]
    entry["Filter"]["Key"]["FilterRules"].append({"Name": "Suffix", "Value": ".csv"})
    session.client("s3").put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration=document
    )
    assert connect(session, bucket, queue, "in/")
    assert not connect(session, bucket, queue, "in/")


def test_a_queue_that_is_not_there_is_refused(session: AwsSession, bucket: str) -> None:
    with pytest.raises(Invalid, match="S3 refuses"):
        connect(session, bucket, QUEUE + "nowhere")
    assert told(session, bucket) == {}


def test_a_bucket_that_is_not_there_is_named(session: AwsSession, queue: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        connect(session, "nowhere-at-all", queue)


def test_nothing_else_of_the_document_is_touched() -> None:
    document = {"EventBridgeConfiguration": {}, "TopicConfigurations": [OTHER]}
    entry = {"Id": "ours", "QueueArn": QUEUE, "Events": ["s3:ObjectRemoved:*"]}
    with_ours = changed({**document, "ResponseMetadata": {}}, "ours", entry)
    assert with_ours == {**document, "QueueConfigurations": [entry]}
    assert changed(with_ours, "ours", ABSENT) == document
