"""From a queue's messages to staged changes: every rule of every repository is asked.

    messages ──parse──► events ──rules──► for each rule: stage, note the batch ──full──► hand on

A message has failed if any of its events has, for any rule; it is then delivered again, and what
had been staged is known.  A batch that this closed is handed on to be committed; if handing on
fails, or the process dies before, the next tick finds it.  For the functions and the local service.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from graveler.block import address
from graveler.engine import arriving, batching
from graveler.engine.arriving import Taken, Told
from graveler.engine.batching import Delivery
from graveler.engine.ports import Ports
from graveler.errors import GravelerError, Invalid, NotFound
from graveler.events.notification import Notification, parse
from graveler.ids import RepositoryId, parse_path
from graveler.records import ABSENT, TOMBSTONE, Entry, Repository, StagedValue
from graveler.refs import event_rules, repositories
from graveler.refs.event_rules import EventRule
from graveler.wire import encode_entry

OBJECTS_AT_ONCE = 100


class Message(NamedTuple):
    """A message and the name by which the queue knows it."""

    id: str
    body: str


class BatchJob(NamedTuple):
    """A closed batch that is to be committed."""

    repository: str
    rule: str
    batch: str


HandOn = Callable[[BatchJob], None]


class Failed(NamedTuple):
    """A message that is to be delivered again, and why."""

    id: str
    error: GravelerError


class _Matched(NamedTuple):
    """One event that a rule takes: where the object lies, and the path that it gets."""

    message: str
    event: Notification
    source: str
    path: bytes


class _Taker(NamedTuple):
    rule: EventRule
    repo: Repository


def take_in(
    ports: Ports, messages: Sequence[Message], hand_on: HandOn
) -> tuple[dict[Taken, int], tuple[Failed, ...]]:
    """Stage what the messages tell; how many events became what, and the messages that failed.

    Cost: the rules (1 KV request for each 1,000) and the repositories that have one, and for each
    rule that takes something `arriving.take_in` and `batching.note`; a removal asks the storage
    once.
    """
    failed: dict[str, GravelerError] = {}
    matched: dict[EventRule, list[_Matched]] = defaultdict(list)
    takers = {rule: _Taker(rule, repo) for rule, repo in _rules(ports)}
    for message in messages:
        try:
            events = parse(message.body)
            for rule, each in [
                (taker.rule, _matched(taker, message, event))
                for event in events
                for taker in takers.values()
                if taker.rule.takes(event.bucket, event.key)
            ]:
                matched[rule].append(each)
        except GravelerError as error:
            failed[message.id] = error
    counts: dict[Taken, int] = defaultdict(int)
    for rule, found in matched.items():
        for start in range(0, len(found), OBJECTS_AT_ONCE):
            part = found[start : start + OBJECTS_AT_ONCE]
            try:
                for taken in _stage(ports, takers[rule], part, hand_on):
                    counts[taken] += 1
            except GravelerError as error:
                failed |= {each.message: error for each in part}
    return counts, tuple(Failed(id, error) for id, error in failed.items())


def tick(ports: Ports, hand_on: HandOn) -> int:
    """Close the batches whose time is over, hand on all that wait; how many.

    Cost: the rules, the repositories that have one, and the batches of each rule.
    """
    count = 0
    for rule, repo in _rules(ports):
        for closing in batching.tick(ports, repo, rule):
            hand_on(BatchJob(rule.repository, rule.id, closing.batch))
            count += 1
    return count


def commit_now(ports: Ports) -> HandOn:
    """The hand-on of a process that commits batches itself."""

    def hand_on(job: BatchJob) -> None:
        run(ports, job)

    return hand_on


def run(ports: Ports, job: BatchJob) -> None:
    """Commit a closed batch; nothing is left to do for a rule that is gone."""
    try:
        repo = repositories.get(ports.kv, RepositoryId(job.repository))
        rule = event_rules.get(ports.kv, repo, job.rule)
    except NotFound:
        return
    batching.commit_batch(ports, repo, rule, job.batch)


def _stage(
    ports: Ports, taker: _Taker, found: Sequence[_Matched], hand_on: HandOn
) -> Sequence[Taken]:
    rule, repo = taker
    newest: dict[str, _Matched] = {}
    for each in found:
        known = newest.get(each.event.key)
        if known is None or _is_newer(each.event, known.event):
            newest[each.event.key] = each
    told = ports.fanout.map(lambda each: _told(ports, each), list(newest.values()))
    taken = arriving.take_in(ports, repo, rule, told)
    current = [key for key, became in zip(newest, taken, strict=True) if became is not Taken.OLD]
    if current:
        staged = sum(became is Taken.STAGED for became in taken)
        delivery = Delivery(staged, marked=any(map(rule.marks, current)))
        closed = batching.note(ports, repo, rule, delivery)
        if closed is not ABSENT:
            hand_on(BatchJob(rule.repository, rule.id, closed.batch))
    return taken


def _is_newer(event: Notification, other: Notification) -> bool:
    length = max(len(event.sequencer), len(other.sequencer))
    return event.sequencer.ljust(length, "0") > other.sequencer.ljust(length, "0")


def _rules(ports: Ports) -> Iterator[tuple[EventRule, Repository]]:
    """The rules of the repositories that are there; another one of the same name is not meant."""
    known: dict[RepositoryId, Repository | None] = {}
    for rule in event_rules.every(ports.kv):
        if rule.repository not in known:
            try:
                known[rule.repository] = repositories.get(ports.kv, rule.repository)
            except NotFound:
                known[rule.repository] = None
        repo = known[rule.repository]
        if repo is not None and repo.uid == rule.uid:
            yield rule, repo


def _matched(taker: _Taker, message: Message, event: Notification) -> _Matched:
    """Raises `Invalid` for an object that no path or address can name."""
    namespace = taker.repo.namespace
    scheme = namespace.partition("://")[0]
    source = address.split(f"{scheme}://{event.bucket}/{event.key}").address
    if address.relative_to(namespace, source) is not ABSENT:
        raise Invalid(f"object lies in the repository's own namespace: address={source}")
    return _Matched(message.id, event, source, parse_path(taker.rule.path_of(event.key)))


def _told(ports: Ports, matched: _Matched) -> Told:
    value = _value(ports, matched.source, matched.event)
    return Told(matched.event.key.encode(), matched.event.sequencer, matched.path, value)


def _value(ports: Ports, source: str, event: Notification) -> StagedValue:
    """A removal says only that something happened: what is there now is asked."""
    if not event.removed:
        return encode_entry(Entry(source, event.size, event.checksum, event.modified_ns))
    try:
        head = ports.blocks.head(source)
    except NotFound:
        return TOMBSTONE
    return encode_entry(Entry(source, head.size, head.etag.strip('"'), head.modified_ns))
