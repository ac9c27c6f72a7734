"""Parses notifications of a storage service: the events in one message of a queue.

A message comes from S3 itself, from EventBridge, or from either of them through SNS.  Keys may
contain anything; those of S3 are form-encoded.  A message of an unknown form is refused as a whole.
Pure; used by intake.py.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

from graveler import limits
from graveler.errors import Invalid

_CREATED: Final = "ObjectCreated:"
_REMOVED: Final = ("ObjectRemoved:", "LifecycleExpiration:")
_SEQUENCER: Final = re.compile(r"[0-9A-Fa-f]{1,64}", re.ASCII)
_TEST: Final = "s3:TestEvent"
_TIME_NS_MAX: Final = 2**63 - 1  # records hold 64 bits
_SNS: Final = ("SubscriptionConfirmation", "UnsubscribeConfirmation")
_EVENTBRIDGE: Final = {"Object Created": False, "Object Deleted": True}  # whether it is a removal


class Notification(NamedTuple):
    """One event of one object.  Of a removal only `bucket`, `key`, `sequencer` and `told_ns` are
    meaningful.  `told_ns`: the time of the event.
    """

    bucket: str
    key: str
    sequencer: str
    removed: bool
    told_ns: int
    size: int = 0
    checksum: str = ""


def parse(message: str) -> tuple[Notification, ...]:
    """The events in a message; none for the test message of S3.  Raises `Invalid`, which names the
    remedy for a message that another service sent."""
    document = _object(message)
    kind = document.get("Type")
    if kind in _SNS:
        raise Invalid(
            f"notification is a {kind} of SNS: subscribe the queue with the account of the topic, "
            "which confirms it at once, and delete this message"
        )
    if kind == "Notification":  # SNS wraps once, whatever the inner message is
        document = _object(document.get("Message"))
    if document.get("Event") == _TEST:
        return ()
    if "detail-type" in document:
        return tuple(_of_eventbridge(document))
    records = document.get("Records")
    if not isinstance(records, list):
        fields = [name[:40] for name in sorted(document)[:10]]
        raise Invalid(
            "notification has no Records: the queue takes those of S3, directly, through SNS, or "
            f"through EventBridge without an input transformer: {fields=}"
        )
    return tuple(event for record in records for event in _of_s3(record))


def _object(text: Any) -> dict[str, Any]:
    """The JSON object in `text`."""
    if not isinstance(text, str):
        raise Invalid("notification of SNS has no Message")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"notification is not JSON: length={len(text)}") from error
    if not isinstance(document, dict):
        raise Invalid("notification is not a JSON object")
    return document


def _of_s3(record: Any) -> Iterator[Notification]:
    """The event of a record; none for kinds of events that change no object (a restore, a tag)."""
    with _refused():
        name = str(record["eventName"]).removeprefix("s3:")
        removed = name.startswith(_REMOVED)
        if not removed and not name.startswith(_CREATED):
            return
        bucket, fields = record["s3"]["bucket"]["name"], record["s3"]["object"]
        key = unquote_plus(fields["key"], errors="strict")
        checksum = "" if removed else str(fields["eTag"])
        event = _event(bucket, key, fields, _ns(record["eventTime"]), removed, checksum)
    yield _checked(event)


def _of_eventbridge(document: Mapping[str, Any]) -> Iterator[Notification]:
    """The event of a document of EventBridge, whose keys are not encoded; none for kinds that
    change no object."""
    if document.get("source") != "aws.s3":
        raise Invalid(
            "notification of EventBridge is not one of S3: give the rule the pattern "
            '{"source": ["aws.s3"]}'
        )
    with _refused():
        removed = _EVENTBRIDGE.get(document["detail-type"])
        if removed is None:
            return
        detail = document["detail"]
        bucket, fields = detail["bucket"]["name"], detail["object"]
        key, checksum = fields["key"], "" if removed else str(fields["etag"])
        event = _event(bucket, key, fields, _ns(document["time"]), removed, checksum)
    yield _checked(event)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Invalid(f"notification lacks a field, or has a wrong one: {error!r}") from error


def _event(
    bucket: Any, key: Any, fields: Mapping[str, Any], told_ns: int, removed: bool, checksum: str
) -> Notification:
    if not isinstance(bucket, str) or not isinstance(key, str):
        raise TypeError("bucket and key are texts")
    size = 0 if removed else int(fields.get("size", 0))
    sequencer = str(fields["sequencer"])
    return Notification(bucket, key, sequencer, removed, told_ns, size, checksum.strip('"'))


def _checked(event: Notification) -> Notification:
    """The event, if all of its values are such as an object can have."""
    if not _SEQUENCER.fullmatch(event.sequencer):
        raise Invalid("notification lacks its sequencer")
    if not 0 <= event.size <= limits.object_size_bytes_max:
        raise Invalid(f"notification has a size out of bounds: size={event.size}")
    if len(event.checksum.encode(errors="replace")) > limits.checksum_length_bytes_max:
        raise Invalid("notification has an etag that is too long")
    if len(event.key.encode(errors="replace")) > limits.kv_key_length_bytes_max:
        raise Invalid("notification has a key that is too long")
    if not 0 <= event.told_ns <= _TIME_NS_MAX:
        raise Invalid("notification has a time out of bounds")
    return event


def _ns(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp() * 1_000) * 1_000_000
