"""The records that every verb receives: `Ports`, and `OpenRepository` for a verb of one repository.

Both are frozen and have no behaviour.  A verb reaches the outside world only through them, so the
same code runs on a laptop, in a function and in a simulation.  Also here: the deadline of a
request, and the checks that most verbs begin with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from graveler.block.adapter import Blocks
from graveler.block.address import Partitions
from graveler.committed.ranges import Keyspace, RangeStore, unchecked
from graveler.core import limits
from graveler.core.clock import Clock, Ids
from graveler.core.errors import Code, Invalid, OutcomeUnknown, Refused, Unavailable
from graveler.core.fanout import Fanout as Fanout
from graveler.core.fanout import Sequential as Sequential
from graveler.core.ids import RepositoryId
from graveler.core.records import ABSENT, Absent, Repository, without
from graveler.core.turns import FREE, Turns
from graveler.engine.hooks import NO_HOOKS, Hooks
from graveler.kv.store import Store
from graveler.refs.cache import RefCache

P = TypeVar("P", bound="Ports")  # ports alone, or those of an open repository


class EngineSettings(NamedTuple):
    """The settings that a deployment may choose; `limits.py` explains those that are not here.

    - `signing_key`, `signing_key_before`: secrets that sign upload addresses, before the last
      rotation too (empty: none).
    - `staging_shards_max`: the most shards that a token gets because of the load on its branch; 1
      for a store whose partitions have no limit of their own.
    - `commit_rows_max`: the most staged rows that one process commits; a bulk job commits more.
    - `walk_count_max`: how many commits a verb looks through for its own one.
    - `repository_cached_seconds`: how long another process may use the record of a repository that
      was deleted; 0 if there is no other process.
    - `turn_seconds_max`: how long verbs wait for one that moves the head of a branch.
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
    walk_count_max: int = limits.walk_count_max
    step_row_count: int = limits.step_row_count
    dump_seconds_max: int = limits.dump_seconds_max
    bulk_checked_records_max: int = limits.bulk_checked_records_max
    event_rules_max: int = limits.event_rules_max
    sweep_records_count_max: int = limits.sweep_records_count_max
    hook_runs_max: int = limits.hook_runs_max
    restore_batch_count: int = limits.kv_batch_count_max
    restore_records_max: int = limits.restore_records_max
    restore_bytes_max: int = limits.restore_bytes_max
    part_copy_bytes_max: int = limits.part_copy_bytes_max
    turn_seconds_max: float = limits.turn_seconds_max
    repository_cached_seconds: float = 0

    def __repr__(self) -> str:
        return without(self, "signing_key", "signing_key_before")


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside a verb that it uses: stores, time, ids, and the turns of its process."""

    kv: Store
    blocks: Blocks
    ranges: RangeStore
    clock: Clock
    ids: Ids
    fanout: Fanout
    cache: RefCache
    settings: EngineSettings
    partitions: Partitions = field(default_factory=Partitions)
    hooks: Hooks = NO_HOOKS
    turns: Turns = FREE


@dataclass(frozen=True, slots=True)
class OpenRepository(Ports):
    """The ports, and one repository that is reached through them.  `record`: its record, as it was
    read before the call.

    Verbs of one repository receive it as `repo`.  A function that needs the ports alone takes it,
    too.
    """

    record: Repository = field(kw_only=True)

    @property
    def id(self) -> RepositoryId:
        return self.record.id

    @property
    def namespace(self) -> str:
        return self.record.namespace


def open_repository(ports: Ports, record: Repository) -> OpenRepository:
    """The repository of `record`, reached through `ports`.  Makes no request."""
    return OpenRepository(
        ports.kv,
        ports.blocks,
        ports.ranges,
        ports.clock,
        ports.ids,
        ports.fanout,
        ports.cache,
        ports.settings,
        ports.partitions,
        ports.hooks,
        ports.turns,
        record=record,
    )


def keyspace(repo: OpenRepository, check: Callable[[], None] = unchecked) -> Keyspace:
    """The ranges of a repository, as the committed layer reads and writes them.

    `check` is called before each range is opened; it raises to stop a long walk.
    """
    return Keyspace(repo.ranges, repo.record.namespace, repo.record.breaks, check)


def check_writable(repo: Repository, force: bool) -> None:
    """Raises `Refused` for a read-only repository, unless forced."""
    if repo.read_only and not force:
        raise Refused(
            f"read-only repository: repository={repo.id}",
            Code.READ_ONLY_REPOSITORY,
            repository=repo.id,
        )


def within(ports: P, seconds: float) -> P:
    """The same ports with shorter deadlines, for a request that has `seconds` left.

    A verb starts no step after its deadline.  Cost: no request.
    """
    settings = ports.settings
    shorter = settings._replace(
        operation_seconds_max=min(settings.operation_seconds_max, seconds),
        commit_seconds_max=min(settings.commit_seconds_max, seconds),
    )
    return replace(ports, settings=shorter)


def given_or_now(ports: Ports, given_ns: int | Literal[Absent.ABSENT]) -> int:
    """The time that the caller gave, in nanoseconds (0 is the epoch); if it is `ABSENT`, now."""
    return ports.clock.now_ns() if given_ns is ABSENT else given_ns


class Deadline:
    """The time at which an operation must stop.

    Clean-up deletes rows and files after a grace period.  That is safe because an operation starts
    no step after its deadline.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.steady_seconds() + seconds

    def remaining_seconds(self) -> float:
        """The time that is left; negative after the deadline."""
        return self._end - self._clock.steady_seconds()

    def check(self, action: str, remedy: str = "try again") -> None:
        """Raises `Unavailable` after the deadline.

        `action` names the operation in the error text; `remedy` ends the text.
        """
        if self._clock.steady_seconds() > self._end:
            raise Unavailable(f"{action} took too long and was given up; {remedy}")

    @property
    def is_over(self) -> bool:
        """Whether the time has come."""
        return self._clock.steady_seconds() > self._end

    def checking(self, action: str, remedy: str = "try again") -> Callable[[], None]:
        """`check` as a function without arguments, for code that has no clock."""
        return partial(self.check, action, remedy)


class UnconfirmedWrite:
    """A context for an operation whose decisive write may be applied without a confirmation.

    The block calls `mark_unconfirmed` when a decisive write got no confirmation, or `note` with
    what it knows by now.  As long as a write may be applied, the caller must not conclude that
    nothing was: an `Unavailable` that leaves the block is raised as `OutcomeUnknown`.  Other errors
    pass unchanged.
    """

    def __init__(self, action: str) -> None:
        self._what = action
        self._is_unconfirmed = False

    def mark_unconfirmed(self) -> None:
        """Record that a decisive write may be applied, now or later, without a confirmation."""
        self._is_unconfirmed = True

    def note(self, *, is_unconfirmed: bool) -> None:
        """Record whether a decisive write may be applied, now or later, without a confirmation."""
        self._is_unconfirmed = is_unconfirmed

    def __enter__(self) -> "UnconfirmedWrite":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        surely_not = isinstance(error, Unavailable) and not isinstance(error, OutcomeUnknown)
        if self._is_unconfirmed and surely_not:
            raise OutcomeUnknown(f"{self._what} not confirmed; outcome unknown") from error


def operation_deadline(ports: Ports) -> Deadline:
    """The deadline of an operation that a request waits for: `operation_seconds_max` from now."""
    return Deadline(ports.clock, ports.settings.operation_seconds_max)


def page_end(ports: Ports) -> Deadline:
    """When a page that can be continued ends early, with what it has found so far.

    That is well before the deadline of the operation, which ends without an answer.
    """
    seconds = min(limits.page_seconds_max, ports.settings.operation_seconds_max / 2)
    return Deadline(ports.clock, seconds)


def check_message(message: str) -> None:
    """Raises `Invalid` for a message that is too long or is not valid Unicode."""
    if _length_of(message, "message") > limits.message_length_bytes_max:
        raise Invalid(f"message is too long: at most {limits.message_length_bytes_max} bytes")


def check_metadata(
    metadata: Mapping[str, str],
    field: str = "metadata",
    length_bytes_max: int = limits.metadata_length_bytes_max,
) -> None:
    """Raises `Invalid` for metadata with too many pairs, an empty key, too many bytes in all keys
    and values, or text that is not valid Unicode.  `field` names the metadata in the error text."""
    if not metadata:
        return
    if len(metadata) > limits.metadata_pairs_max:
        raise Invalid(f"{field} has too many pairs: at most {limits.metadata_pairs_max}")
    if "" in metadata:
        raise Invalid(f"{field} has an empty key")
    length = sum(
        _length_of(key, field) + _length_of(value, field) for key, value in metadata.items()
    )
    if length > length_bytes_max:
        raise Invalid(f"{field} is too large: at most {length_bytes_max} bytes: length={length}")


def _length_of(text: str, field: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} is not valid Unicode") from error
