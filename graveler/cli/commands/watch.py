"""`graveler watch`: commits, runs of hooks and uncommitted changes, as they come.

The client asks again and again, because the API tells nobody of changes: two requests a round, and
one for each branch whose uncommitted changes are counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support.address import Address
from graveler.cli.support.command import client
from graveler.cli.support.failures import DONE
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, count
from graveler.cli.support.output import Output, dumped, first_line, plain, plural
from graveler.core.clock import SystemClock
from graveler.core.errors import NotFound, Throttled, Unavailable, Unsupported

if TYPE_CHECKING:
    from graveler.lake.ref import Commit

_BRANCHES_COUNTED_MAX: Final = 20
_CHANGES_COUNTED_MAX: Final = 1_000
_COMMITS_SHOWN_MAX: Final = 100  # of one branch in one round
_RUNS_MAX: Final = 20
Event = dict[str, Any]


@dataclass
class _Memory:
    """What earlier rounds have shown."""

    heads: dict[str, str] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    has_runs: bool = True  # whether the server knows runs of hooks
    is_first: bool = True


@client(
    "watch",
    examples=(
        "graveler watch lake",
        "graveler watch lake/main --interval 10",
        "graveler watch lake/main --jsonl >events.jsonl",
    ),
)
@address_argument("address", metavar="REPOSITORY[/BRANCH]")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    metavar="SECONDS",
    help="between two rounds of questions (default: 2)",
)
@count
def watch(invocation: Invocation, address: str, interval: float, amount: int | None) -> int:
    """Show commits, runs of hooks and counts of uncommitted changes, as they come.

    It begins with the heads as they are, and ends with Ctrl-C.  Without BRANCH it watches all
    branches, and counts the uncommitted changes of the first 20.  With --json it prints a JSON
    object a line.
    """
    place = invocation.address(address)
    clock, memory, shown = SystemClock(), _Memory(), 0
    try:
        while True:
            for event in _round(invocation, place, memory):
                _print(invocation.output, event)
                shown += 1
                if shown == amount:
                    return DONE
            clock.sleep(interval)
    except KeyboardInterrupt:
        return DONE


def _round(invocation: Invocation, place: Address, memory: _Memory) -> Iterator[Event]:
    """What is new.  A server that does not answer is asked again in the next round."""
    try:
        yield from _heads(invocation, place, memory)
        yield from _uncommitted(invocation, place, memory)
        yield from _runs(invocation, place, memory)
        memory.is_first = False
    except (Unavailable, Throttled) as error:
        if memory.is_first:
            raise
        invocation.output.note(f"no answer: {error.fields.get('reason', '') or error}")


def _heads(invocation: Invocation, place: Address, memory: _Memory) -> Iterator[Event]:
    name = place.repository
    if place.ref:
        heads = {place.ref: invocation.branch(place).head}
    else:
        heads = {each.name: each.head for each in invocation.repo(name).branches()}
    for branch in sorted(memory.heads.keys() - heads.keys()):
        yield _event("deleted", branch, memory.heads.pop(branch), "branch deleted")
    for branch, head in heads.items():
        before = memory.heads.get(branch, "")
        if before == head:
            continue
        memory.heads[branch] = head
        if not before:
            text = "head" if memory.is_first else "branch created"
            yield _event("head", branch, head, text)
            continue
        fresh = _between(invocation, name, before, head)
        if not fresh:
            yield _event("head", branch, head, "branch moved back")
        for commit in reversed(fresh):
            subject, time = first_line(commit.message), int(commit.created.timestamp())
            yield _event("commit", branch, commit.id, subject, time) | {
                "committer": commit.committer
            }


def _between(invocation: Invocation, name: str, before: str, head: str) -> "list[Commit]":
    """The newest commits that `head` leads to along first parents, down to `before`."""
    newest = invocation.repo(name).ref(head)
    fresh: list[Commit] = []
    for commit in newest.log(_COMMITS_SHOWN_MAX, first_parent=True):
        if commit.id == before:
            return fresh
        fresh.append(commit)
    return [] if newest.merge_base(before).base == head else fresh[:1]


def _uncommitted(invocation: Invocation, place: Address, memory: _Memory) -> Iterator[Event]:
    for branch in list(memory.heads)[:_BRANCHES_COUNTED_MAX]:
        known = invocation.repo(place.repository).branch(branch)
        changes = known.status(limit=_CHANGES_COUNTED_MAX + 1)
        try:
            number = sum(1 for _ in changes)
        except NotFound:  # deleted meanwhile: the next round tells
            continue
        if number != memory.changes.get(branch, 0):
            memory.changes[branch] = number
            words = plural(number, "uncommitted change")
            if number > _CHANGES_COUNTED_MAX:
                words = f"more than {_CHANGES_COUNTED_MAX:,} uncommitted changes"
            yield _event("uncommitted", branch, "", words) | {"uncommitted": number}


def _runs(invocation: Invocation, place: Address, memory: _Memory) -> Iterator[Event]:
    if not memory.has_runs:
        return
    try:
        runs = invocation.repo(place.repository).runs(limit=_RUNS_MAX).all()
    except (NotFound, Unsupported):
        memory.has_runs = False
        return
    for run in reversed(runs):
        is_new = memory.runs.get(run.id) != run.status
        memory.runs[run.id] = run.status
        if is_new and not memory.is_first and place.ref in ("", run.branch):
            yield _event("run", run.branch, run.id, f"{run.event} {run.status}")


def _event(kind: str, branch: str, id: str, text: str, time: int | None = None) -> Event:
    moment = SystemClock().now_ns() // 10**9 if time is None else time
    return {"event": kind, "time": moment, "branch": branch, "id": id, "text": text}


def _print(output: Output, event: Event) -> None:
    """Print an event at once, whatever reads it."""
    if output.form != "human":
        print(dumped({"graveler": event}), flush=True)
        return
    id = output.id(event["id"]) if event["event"] != "run" else event["id"]
    cells = (output.time(event["time"]), event["event"], event["branch"], id, event["text"])
    if output.terminal:
        print("  ".join(plain(cell) for cell in cells if cell), flush=True)
    else:
        print("\t".join(plain(cell) for cell in cells), flush=True)
