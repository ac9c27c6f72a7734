"""Events of a bucket, as simulated workers get them, and the batches that they become.

A message carries one event or two.  There are only few different events, so each event comes often,
late, and in any order.  The result of a call is the commits that it made, by batch.  For
`calls.py`.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from graveler.core.records import ABSENT
from graveler.engine.events.rules import NewRule
from graveler.events import intake
from graveler.events.intake import BatchJob, Message
from simulator.schedule import Call

RULE = NewRule("main", "landing", objects_max=2, seconds_max=1, marker="k2")
SEQUENCES = 4
REMOVAL = 3  # the event with this sequence number is a deletion of the object
Made = dict[str, str]


class Event(NamedTuple):
    """One event of one object; `sequence` orders the events of an object."""

    key: str
    sequence: int

    @property
    def value(self) -> str | None:
        """The value of the path after the event was taken in."""
        return None if self.sequence == REMOVAL else f"{self.key}-event-{self.sequence}"


def drawn(key: str, serial: int, chance: float) -> tuple[Event, ...]:
    """The events of a message: one of `key`, and sometimes one of another object."""
    event = Event(key, 1 + int(chance * SEQUENCES))
    if serial % 4:
        return (event,)
    return (event, Event("k1" if key != "k1" else "k2", 1 + serial % SEQUENCES))


def arrive(client: Any, call: Call) -> Made:
    """Take a message in, and sometimes commit the batches that it closed.  Raises if the message
    fails."""
    jobs: list[BatchJob] = []
    said = Message("message", _body(client, call.arguments))
    _, failed = intake.take_in(client.ports, [said], jobs.append)
    if failed:
        raise failed[0].error
    made: Made = {}
    if sum(event.sequence for event in call.arguments) % 2:
        for job in jobs:
            _run(client, job, made)
    return made


def tick(client: Any, call: Call) -> Made:
    """Close overdue batches, and commit all batches that wait."""
    made: Made = {}
    intake.tick(client.ports, lambda job: _run(client, job, made))
    return made


def _run(client: Any, job: BatchJob, made: Made) -> None:
    commit = intake.run(client.ports, job)
    if commit is not ABSENT:
        made[job.batch] = commit


def _body(client: Any, events: tuple[Event, ...]) -> str:
    moment = datetime.fromtimestamp(client.ports.clock.now_ns() // 1_000_000_000, UTC)
    return json.dumps({"Records": [_record(event, moment.isoformat()) for event in events]})


def _record(event: Event, moment: str) -> dict[str, Any]:
    kind = "ObjectRemoved:Delete" if event.value is None else "ObjectCreated:Put"
    told = {"key": event.key, "size": 1, "eTag": event.value or "", "sequencer": _text(event)}
    return {
        "eventName": kind,
        "eventTime": moment,
        "s3": {"bucket": {"name": RULE.bucket}, "object": told},
    }


def _text(event: Event) -> str:
    """A sequencer; sequencers have no common length."""
    return f"{event.sequence:02X}" + "0" * (event.sequence % 3)


ARRIVAL_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "arrive": arrive,
    "tick": tick,
}
