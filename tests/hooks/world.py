"""A repository with action files, and another side that answers its hooks, for this folder."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from graveler.core.web import Outgoing, Reply
from graveler.engine.hooks import Hooks
from graveler.engine.objects import write
from graveler.engine.objects.write import Upload
from graveler.hooks.calls import Caller, Variables
from graveler.hooks.gate import Gate
from graveler.jobs import worker
from graveler.jobs.queue import JobMessage, Message, announcing
from graveler.refs import action_runs
from graveler.refs.action_runs import ActionRun
from tests.engine.lake import Lake, new_lake

KEY = b"k" * 32
URL = "https://hooks.example.com/"
Answer = Callable[[dict[str, Any]], int]


@dataclass
class OtherSide:
    """Answers every request by `answer`, which maps the JSON body to a status."""

    answer: Answer = lambda _: 200
    requests: list[Outgoing] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    body: bytes = b"heard"

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.requests.append(request)
        self.seconds.append(seconds)
        return Reply(self.answer(json.loads(request.body)), self.body)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.requests]

    @property
    def events(self) -> list[str]:
        return [told["event_type"] for told in self.told]


@dataclass
class Held:
    """A queue that keeps what it is given."""

    messages: list[Message] = field(default_factory=list)

    def enqueue(self, message: Message) -> None:
        self.messages.append(message)


@dataclass
class World:
    """`lake` has hooks, which reach `side`; `queue` has the jobs that were announced."""

    lake: Lake
    side: OtherSide
    queue: Held

    @property
    def runs(self) -> list[ActionRun]:
        return list(action_runs.every(self.lake.ports.kv, self.lake.repo))

    def work(self) -> None:
        """A worker runs every announced job."""
        while self.queue.messages:
            worker.run(self.lake.another_process().ports, self.queue, self.queue.messages.pop(0))

    def run_job(self, job: str) -> None:
        message = JobMessage(self.lake.repo.id, job)
        worker.run(self.lake.another_process().ports, self.queue, message)

    def run_job_here(self, message: Message) -> None:
        """A worker with the ports of this world runs the job."""
        worker.run(self.lake.ports, self.queue, message)

    def action(self, file: str, text: str, branch: str = "main") -> None:
        upload(self.lake, f"_lakefs_actions/{file}", text, branch)


def upload(lake: Lake, path: str, text: str, branch: str = "main") -> None:
    """An object with real bytes."""
    write.upload(lake.opened, branch, path, Upload([text.encode()]))


def new_world(side: OtherSide | None = None, **variables: str) -> World:
    lake, side, queue = new_lake(), side or OtherSide(), Held()
    return hooked(lake, side, queue, **variables)


def hooked(lake: Lake, side: OtherSide, queue: Held, **variables: str) -> World:
    caller = Caller(side, lake.ports.clock, Variables(variables), KEY)
    hooks: Hooks = Gate(caller)
    ports = announcing(replace(lake.ports, hooks=hooks), queue)
    return World(Lake(ports, lake.repo), side, queue)


def action(*events: str, **more: str) -> str:
    """An action file with one webhook for all these events."""
    lines = ["name: check", "on:"]
    lines += [f"  {event}:" for event in events]
    lines += ["hooks:", "  - id: first", "    type: webhook"]
    lines += [f"    {key}: {value}" for key, value in more.items()]
    lines += ["    properties:", f"      url: {URL}"]
    return "\n".join(lines) + "\n"
