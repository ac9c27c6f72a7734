"""From a queue's messages to staged changes: every event is matched with every rule.

    messages ──parse──► events ──rules──► for each rule: stage, note the batch ──full──► hand on

A message comes from S3 itself, from EventBridge, or from either through SNS; one of an unknown form
is refused as a whole.  It fails if any of its events fails, for any rule: the queue delivers it
again, and staged events are recognised.  So a message that cannot be taken in ends in the
dead-letter queue.  If handing a full batch on fails, the next tick finds the batch.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from math import inf
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import unquote_plus

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import GravelerError, HandedOver, Invalid, NotFound
from graveler.core.ids import CommitId, RepositoryId, parse_path
from graveler.core.records import ABSENT, TOMBSTONE, Absent, AddressType, Entry, StagedValue
from graveler.core.wire import encode_entry
from graveler.engine.events import batches
from graveler.engine.events import take_in as arrivals
from graveler.engine.events.batches import Delivery
from graveler.engine.events.take_in import ArrivedObject, IntakeResult
from graveler.engine.import_sources import check_no_action
from graveler.engine.ports import Deadline, OpenRepository, Ports, open_repository
from graveler.engine.protection import is_protected
from graveler.engine.repositories import repository
from graveler.refs import event_rules as event_rules
from graveler.refs import repositories
from graveler.refs.arrivals import is_newer
from graveler.refs.event_rules import EventRule

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


# ---- intake --------------------------------------------------------------------------------------

OBJECTS_AT_ONCE: Final = 100
_AGE_SECONDS_MAX: Final = limits.event_seconds - 24 * 60 * 60  # newer events are still recorded


class Message(NamedTuple):
    """A message and its id in the queue."""

    id: str
    body: str


class BatchJob(NamedTuple):
    """A closed batch that must be committed."""

    repository: str
    rule: str
    batch: str


Submit = Callable[[BatchJob], None]


class FailedMessage(NamedTuple):
    """A message that must be delivered again, and why."""

    id: str
    error: GravelerError


class _Match(NamedTuple):
    """One event that a rule takes: the address of the object, and the path at which it is
    staged.
    """

    message: str
    event: Notification
    source: str
    path: bytes


class _Taker(NamedTuple):
    rule: EventRule
    repo: OpenRepository


def take_in(
    ports: Ports, messages: Sequence[Message], submit: Submit, seconds: float = inf
) -> tuple[dict[IntakeResult, int], tuple[FailedMessage, ...]]:
    """Stage the events of the messages; returns how many events had which result, and the messages
    that failed.

    Nothing more is begun after `seconds`: the messages that are left fail.

    The rules are read in every call, so that an object that arrives right after its rule is taken.

    Cost: the rules (1 KV request for each 1,000); for each rule that takes an event, its repository
    (cached), `take_in.take_in` and `batches.note`; one storage request for each removal.
    """
    deadline = Deadline(ports.clock, seconds)
    failed: dict[str, GravelerError] = {}
    matched: dict[EventRule, list[_Match]] = defaultdict(list)
    repos = _Repositories(ports)
    rules = tuple(event_rules.every(ports.kv))
    for message in messages:
        taken_by, broken_by = _matches(ports, repos, rules, message)
        for rule, each in taken_by:
            matched[rule].append(each)
        if broken_by is not ABSENT:
            failed[message.id] = broken_by
    counts: dict[IntakeResult, int] = defaultdict(int)
    for rule, matches in matched.items():
        taker = _Taker(rule, cast(OpenRepository, repos.of(rule)))
        for start in range(0, len(matches), OBJECTS_AT_ONCE):
            part = matches[start : start + OBJECTS_AT_ONCE]
            try:
                deadline.check("taking in events")
                taken, broken = _stage(ports, taker, part, submit)
                failed |= broken
                for became in taken:
                    counts[became] += 1
            except GravelerError as error:
                failed |= {each.message: error for each in part}
    return counts, tuple(FailedMessage(id, error) for id, error in failed.items())


def tick(ports: Ports, submit: Submit, *, again_seconds: float = 0) -> int:
    """Close overdue batches and hand them on; returns how many.

    Also hand on batches that wait although nobody has taken them for `again_seconds`, because the
    process that closed, handed on or began them may have died.

    A rule that fails does not stop the others; the first failure is raised after the last rule.
    Batches of a read-only repository and of a protected branch wait.
    Cost: the rules, the repositories that have one, and the batches of each rule.
    """
    count = 0
    failures: list[GravelerError] = []
    repos = _Repositories(ports)
    for rule in event_rules.every(ports.kv):
        try:
            repo = repos.of(rule)
            if repo is None or repo.record.read_only or is_protected(repo, rule.branch):
                continue
            for closing in batches.tick(repo, rule, again_seconds=again_seconds):
                submit(BatchJob(rule.repository, rule.id, closing.batch))
                count += 1
        except GravelerError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return count


def run(ports: Ports, job: BatchJob) -> CommitId | Literal[Absent.ABSENT]:
    """Commit a closed batch; ABSENT if nothing is left to do, or if the rule is gone."""
    try:
        repo, rule = _rule_of(ports, job)
    except NotFound:
        return ABSENT
    return batches.commit_batch(repo, rule, job.batch)


def work(ports: Ports, job: BatchJob) -> CommitId | Literal[Absent.ABSENT]:
    """Like `run`, for a worker with limited time: it counts attempts, and after too many the batch
    is given up (`Unsupported`).  `HandedOver`: a cluster must commit it.
    """
    try:
        repo, rule = _rule_of(ports, job)
    except NotFound:
        return ABSENT
    batches.note_run(repo, rule, job.batch)
    try:
        return batches.commit_batch(repo, rule, job.batch)
    except HandedOver:
        batches.forget_runs(repo, rule, job.batch)
        raise


def _rule_of(ports: Ports, job: BatchJob) -> tuple[OpenRepository, EventRule]:
    record = repositories.get(ports.kv, RepositoryId(job.repository))
    return open_repository(ports, record), event_rules.get(ports.kv, record, job.rule)


def _stage(
    ports: Ports, taker: _Taker, matches: Sequence[_Match], submit: Submit
) -> tuple[Sequence[IntakeResult], dict[str, GravelerError]]:
    """Stage the newest event of each object.

    Returns what happened to each of these events, and the messages that failed.
    """
    rule, repo = taker
    newest: dict[str, _Match] = {}
    for match in matches:
        known = newest.get(match.event.key)
        if known is None or is_newer(match.event.sequencer, known.event.sequencer):
            newest[match.event.key] = match
    broken: dict[str, GravelerError] = {}
    objects: dict[str, ArrivedObject] = {}
    answers = ports.fanout.map(lambda each: _told(ports, each), list(newest.values()))
    for (key, match), answer in zip(newest.items(), answers, strict=True):
        if isinstance(answer, GravelerError):
            broken[match.message] = answer
        else:
            objects[key] = answer
    taken = arrivals.take_in(repo, rule, list(objects.values())) if objects else ()
    current = [
        key for key, became in zip(objects, taken, strict=True) if became is not IntakeResult.OLD
    ]
    if current:
        staged = sum(became is IntakeResult.STAGED for became in taken)
        delivery = Delivery(staged, marked=any(map(rule.marks, current)))
        closed = batches.note(repo, rule, delivery)
        if closed is not ABSENT:
            submit(BatchJob(rule.repository, rule.id, closed.batch))
    return taken, broken


class _Repositories:
    """The repositories of rules, each read once."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[RepositoryId, OpenRepository | None] = {}

    def of(self, rule: EventRule) -> OpenRepository | None:
        """The repository of a rule; None if it is gone, even if another one has its name now."""
        if rule.repository not in self._known:
            try:
                record = repository.get(self._ports, rule.repository)
                self._known[rule.repository] = open_repository(self._ports, record)
            except NotFound:
                self._known[rule.repository] = None
        repo = self._known[rule.repository]
        return repo if repo is not None and repo.record.uid == rule.uid else None


def _matches(
    ports: Ports, repos: _Repositories, rules: Sequence[EventRule], message: Message
) -> tuple[list[tuple[EventRule, _Match]], GravelerError | Literal[Absent.ABSENT]]:
    """The events of a message with the rules that take them, and an error if any event cannot be
    taken by any of its rules: that does not stop the other rules."""
    matches: list[tuple[EventRule, _Match]] = []
    broken_by: GravelerError | Literal[Absent.ABSENT] = ABSENT
    too_old_ns = ports.clock.now_ns() - _AGE_SECONDS_MAX * limits.SECOND_NS
    try:
        events = parse(message.body)
    except GravelerError as error:
        return [], error
    for event in events:
        for rule in rules:
            if not rule.takes(event.bucket, event.key):
                continue
            try:
                repo = repos.of(rule)
                if repo is None:
                    continue
                if event.told_ns < too_old_ns:
                    raise Invalid("notification is too old to be ordered against newer ones")
                matches.append((rule, _matched(_Taker(rule, repo), message, event)))
            except GravelerError as error:
                broken_by = error
    return matches, broken_by


def _matched(taker: _Taker, message: Message, event: Notification) -> _Match:
    """Raises `Invalid` for an object that no path or address can name."""
    namespace = taker.repo.namespace
    scheme = namespace.partition("://")[0]
    source = address.split(f"{scheme}://{event.bucket}/{event.key}").address
    if address.relative_to(namespace, source) is not ABSENT:
        raise Invalid(f"object lies in the repository's own namespace: address={source}")
    path = parse_path(taker.rule.path_of(event.key))
    check_no_action(path)
    return _Match(message.id, event, source, path)


def _told(ports: Ports, matched: _Match) -> ArrivedObject | GravelerError:
    try:
        value = _value(ports, matched.source, matched.event)
    except GravelerError as error:
        return error
    return ArrivedObject(matched.event.key.encode(), matched.event.sequencer, matched.path, value)


def _value(ports: Ports, source: str, event: Notification) -> StagedValue:
    """The value to stage.  A removal says only that something happened, so the current object is
    looked up.
    """
    if not event.removed:
        return _reference(source, event.size, event.checksum, event.told_ns)
    try:
        head = ports.blocks.head(source)
    except NotFound:
        return TOMBSTONE
    return _reference(source, head.size, head.etag.strip('"'), head.modified_ns)


def _reference(source: str, size: int, checksum: str, modified_ns: int) -> StagedValue:
    """An entry that refers to the object where it is; nothing is copied."""
    return encode_entry(Entry(source, size, checksum, modified_ns, address_type=AddressType.FULL))
