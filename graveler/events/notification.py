"""Parses notifications of a storage service: the events in one message of a queue.

Keys are form-encoded and may contain anything.  A message of an unknown form is refused as a whole.
Pure; used by intake.py.
"""

import json
import re
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
    """The events in a message; none for the test message of S3.  Raises `Invalid`."""
    try:
        document = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"notification is not JSON: length={len(message)}") from error
    if not isinstance(document, dict):
        raise Invalid("notification is not a JSON object")
    if document.get("Event") == _TEST:
        return ()
    records = document.get("Records")
    if not isinstance(records, list):
        raise Invalid("notification has no Records")
    events = (_event(record) for record in records)
    return tuple(event for event in events if event is not None)


def _event(record: Any) -> Notification | None:
    """The event of a record; None for kinds of events that change no object (a restore, a tag)."""
    try:
        name = str(record["eventName"]).removeprefix("s3:")
        removed = name.startswith(_REMOVED)
        if not removed and not name.startswith(_CREATED):
            return None
        bucket, fields = record["s3"]["bucket"]["name"], record["s3"]["object"]
        key, sequencer = unquote_plus(fields["key"], errors="strict"), str(fields["sequencer"])
        told_ns = _ns(record["eventTime"])
        size, checksum = 0, ""
        if not removed:
            size, checksum = int(fields.get("size", 0)), str(fields["eTag"]).strip('"')
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Invalid(f"notification lacks a field, or has a wrong one: {error!r}") from error
    if not isinstance(bucket, str) or not _SEQUENCER.fullmatch(sequencer):
        raise Invalid("notification lacks its bucket or its sequencer")
    if not 0 <= size <= limits.object_size_bytes_max:
        raise Invalid(f"notification has a size out of bounds: {size=}")
    if len(checksum.encode(errors="replace")) > limits.checksum_length_bytes_max:
        raise Invalid("notification has an etag that is too long")
    if len(key.encode(errors="replace")) > limits.kv_key_length_bytes_max:
        raise Invalid("notification has a key that is too long")
    if not 0 <= told_ns <= _TIME_NS_MAX:
        raise Invalid("notification has a time out of bounds")
    return Notification(bucket, key, sequencer, removed, told_ns, size, checksum)


def _ns(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp() * 1_000) * 1_000_000
