"""Events of a bucket as simulated workers are told of them, and the batches that they become.

A message tells of one event or of two, each one of few, so that every event comes often, late, and
in any order.  Answers are the commits that were made, by batch.  For `calls.py`.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from graveler.engine.events.rules import NewRule
from graveler.events import intake
from graveler.events.intake import BatchJob, Message
from graveler.records import ABSENT
from simulator.schedule import Call

RULE = NewRule("main", "landing", objects_max=2, seconds_max=1, marker="k2")
SEQUENCES = 4
REMOVAL = 3  # the event of that number says that the object is gone
Made = dict[str, str]


class Event(NamedTuple):
    """One event of one object; `sequence` orders those of an object."""

    key: str
    sequence: int

    @property
    def value(self) -> str | None:
        """What the path says once the event was taken in."""
        return None if self.sequence == REMOVAL else f"{self.key}-event-{self.sequence}"


def drawn(key: str, serial: int, chance: float) -> tuple[Event, ...]:
    """What a delivery tells: of `key`, and sometimes of another object."""
    event = Event(key, 1 + int(chance * SEQUENCES))
    if serial % 4:
        return (event,)
    return (event, Event("k1" if key != "k1" else "k2", 1 + serial % SEQUENCES))


def arrive(client: Any, call: Call) -> Made:
    """Take a message in, and perhaps commit the batches that it closed; fails as the message."""
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
    """Close what is overdue, and commit all that waits."""
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
    """Sequencers have no common length."""
    return f"{event.sequence:02X}" + "0" * (event.sequence % 3)


ARRIVAL_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "arrive": arrive,
    "tick": tick,
}
