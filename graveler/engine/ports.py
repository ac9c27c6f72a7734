"""What every verb is given: a frozen record of ports, without behaviour.

`graveler/assembly/` or a simulator fills it.  Verbs only call what stands in it, so the same flow
runs on a laptop, in a function and in a simulation.  Layers 3 and 4 may import this.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from graveler import limits
from graveler.block.adapter import Blocks
from graveler.block.partitions import Partitions
from graveler.clock import Clock, Ids
from graveler.committed.ranges import Keyspace, RangeStore, unchecked
from graveler.errors import OutcomeUnknown, Refused, Unavailable
from graveler.fanout import Fanout as Fanout
from graveler.fanout import Sequential as Sequential
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.cache import RefCache


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a deployment may choose.

    `signing_key`: 32 secret bytes for upload addresses; what `signing_key_before` signed, before
    the secret was rotated, is accepted too.  `staging_shards_max`: as far as tokens of
    busy branches grow; 1 where one partition bears all that the store bears.
    `commit_rows_max`: a commit of more staged rows is left to a bulk job (handover.py).
    """

    signing_key: bytes = b""
    token_grace_seconds: int = limits.token_grace_seconds
    operation_seconds_max: float = limits.operation_seconds_max
    commit_seconds_max: float = limits.commit_seconds_max
    commit_rows_max: float = limits.commit_rows_max
    staging_shards_max: int = 1
    staging_shard_rows: int = limits.staging_shard_rows_count
    signing_key_before: bytes = b""
    unnamed_token_seconds: int = limits.unnamed_token_seconds


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of a verb."""

    kv: Store
    blocks: Blocks
    ranges: RangeStore
    clock: Clock
    ids: Ids
    fanout: Fanout
    cache: RefCache
    settings: EngineSettings
    partitions: Partitions = field(default_factory=Partitions)


def keyspace(ports: Ports, repo: Repository, check: Callable[[], None] = unchecked) -> Keyspace:
    """The committed layer's view of a repository.  `check`: see `Keyspace`."""
    return Keyspace(ports.ranges, repo.namespace, repo.breaks, check)


def check_writable(repo: Repository, force: bool) -> None:
    """Raises `Refused` for a read-only repository, unless forced."""
    if repo.read_only and not force:
        raise Refused(f"read-only repository: repository={repo.id}")


def within(ports: Ports, seconds: float) -> Ports:
    """The same ports for one request of which `seconds` are left: no verb begins a step after them.
    No request."""
    settings = ports.settings
    shorter = replace(
        settings,
        operation_seconds_max=min(settings.operation_seconds_max, seconds),
        commit_seconds_max=min(settings.commit_seconds_max, seconds),
    )
    return replace(ports, settings=shorter)


def given_or_now(ports: Ports, given_ns: int | Literal[Absent.ABSENT]) -> int:
    """The time that a caller gave; 0 is the epoch.  Without one: now."""
    return ports.clock.now_ns() if given_ns is ABSENT else given_ns


class Deadline:
    """The end of one operation's life: clean-up relies on no operation outliving it."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.steady_seconds() + seconds

    def check(self, what: str, remedy: str = "try again") -> None:
        """Raises `Unavailable` once the time is over; its text ends with the remedy."""
        if self._clock.steady_seconds() > self._end:
            raise Unavailable(f"{what} took too long and was given up; {remedy}")

    def checking(self, what: str, remedy: str = "try again") -> Callable[[], None]:
        """`check` as a call without arguments, for walks that know no clock."""
        return lambda: self.check(what, remedy)


class Unconfirmed:
    """Whether a write that decides was sent and not confirmed.

    From `note` on, nobody may say any more that nothing was applied: what fails inside the block
    because the services do not answer is raised as `OutcomeUnknown`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._noted = False

    def note(self) -> None:
        """Such a write was sent."""
        self._noted = True

    def __enter__(self) -> "Unconfirmed":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        surely_not = isinstance(error, Unavailable) and not isinstance(error, OutcomeUnknown)
        if self._noted and surely_not:
            raise OutcomeUnknown(f"{self._what} not confirmed; outcome unknown") from error


def operation_deadline(ports: Ports) -> Deadline:
    """For everything that a request waits for."""
    return Deadline(ports.clock, ports.settings.operation_seconds_max)
