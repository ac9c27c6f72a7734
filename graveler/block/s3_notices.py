"""Adds or removes Graveler's entry in the notification configuration of an S3 bucket.

Of the document, only its own entry changes, whose id is a hash of queue and prefix.
"""

import hashlib
from typing import Any, Final, Literal

from graveler.block import s3_document
from graveler.core.aws import AwsSession
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent

EVENTS: Final = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*")
_QUEUES: Final = "QueueConfigurations"
_LISTS: Final = (_QUEUES, "TopicConfigurations", "LambdaFunctionConfigurations")
_WHAT: Final = "notifications"
Document = dict[str, Any]


def connect(session: AwsSession, bucket: str, queue: str, prefix: str = "") -> bool:
    """Make the bucket notify the queue of every object below `prefix`.  Returns False if it did
    already.

    Errors: `NotFound` (the bucket does not exist), `Invalid` (another entry overlaps, or the queue
    does not exist or does not let the bucket send), `Conflict` (another client changed the document
    at the same time: check it, and try again), `Unavailable`, `OutcomeUnknown`.  Cost: 3 requests,
    1 if nothing changes.
    """
    entry = _entry(queue, prefix)
    return _change(session, bucket, entry["Id"], entry)


def disconnect(session: AwsSession, bucket: str, queue: str, prefix: str = "") -> bool:
    """Remove Graveler's entry.  Returns False if there was none.  Errors and cost as `connect`."""
    return _change(session, bucket, _entry(queue, prefix)["Id"], ABSENT)


def changed(document: Document, id: str, entry: Document | Literal[Absent.ABSENT]) -> Document:
    """The document with `entry` under this id, or without one if `ABSENT`; all other entries are
    unchanged.  Raises `Invalid` if another entry overlaps."""
    new = {name: value for name, value in document.items() if name != "ResponseMetadata"}
    others = [each for each in new.get(_QUEUES, []) if each.get("Id") != id]
    if entry is not ABSENT:
        _check_apart({**new, _QUEUES: others}, entry)
        others.append(entry)
    new.pop(_QUEUES, None)
    return {**new, _QUEUES: others} if others else new


def _change(
    session: AwsSession, bucket: str, id: str, entry: Document | Literal[Absent.ABSENT]
) -> bool:
    client = s3_document.client_of(session)
    before = _read(client, bucket)
    new = changed(before, id, entry)
    if _same(new, before):
        return False
    put = client.put_bucket_notification_configuration
    s3_document.replace(
        lambda: put(Bucket=bucket, NotificationConfiguration=new),
        lambda: _read(client, bucket),
        lambda now: _same(now, new) or _same(now, before),
        bucket,
        _WHAT,
    )
    return True


def _read(client: Any, bucket: str) -> Document:
    get = client.get_bucket_notification_configuration
    document: Document = s3_document.read(lambda: get(Bucket=bucket), bucket, _WHAT)
    document.pop("ResponseMetadata", None)
    return document


def _entry(queue: str, prefix: str) -> Document:
    digest = hashlib.sha256(f"{queue}\0{prefix}".encode()).hexdigest()[:16]
    entry: Document = {"Id": f"graveler-{digest}", "QueueArn": queue, "Events": list(EVENTS)}
    if prefix:
        rules = [{"Name": "prefix", "Value": prefix}]
        entry["Filter"] = {"Key": {"FilterRules": rules}}
    return entry


def _check_apart(document: Document, entry: Document) -> None:
    prefix = _prefix(entry)
    for kind in _LISTS:
        for other in document.get(kind, []):
            other_prefix = _prefix(other)
            overlap = prefix.startswith(other_prefix) or other_prefix.startswith(prefix)
            if overlap and not _families(other).isdisjoint(_families(entry)):
                raise Invalid(
                    "another notification of the bucket covers the same objects, and S3 allows "
                    "only one: "
                    f"id={other.get('Id', '')} prefix={other_prefix!r}"
                )


def _filter(entry: Document) -> list[tuple[str, str]]:
    """The rules for keys: pairs of ("prefix" or "suffix", text)."""
    rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    return sorted((str(rule["Name"]).lower(), str(rule["Value"])) for rule in rules)


def _prefix(entry: Document) -> str:
    return dict(_filter(entry)).get("prefix", "")


def _families(entry: Document) -> set[str]:
    """The event families of an entry: `s3:ObjectCreated:Put` belongs to ObjectCreated."""
    return {event.split(":")[1] for event in entry["Events"]}


def _same(document: Document, other: Document) -> bool:
    """Whether two documents are equivalent.  Services change the order, and the case of names."""
    return _said(document) == _said(other)


def _said(document: Document) -> list[str]:
    entries = [
        repr((kind, entry.get("Id"), sorted(entry["Events"]), _target(entry), _filter(entry)))
        for kind in _LISTS
        for entry in document.get(kind, [])
    ]
    return sorted(entries)


def _target(entry: Document) -> str:
    names = ("QueueArn", "TopicArn", "LambdaFunctionArn")
    return next((str(entry[name]) for name in names if name in entry), "")
