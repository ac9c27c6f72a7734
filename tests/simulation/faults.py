"""Ports that break one rule of the protocol each, put in the place of a client's ports.

A `Breach` gets the name of a port and the port, and returns what the client gets for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from graveler.block.adapter import Target
from graveler.core import wire
from graveler.core.errors import HookFailed, OutcomeUnknown
from graveler.core.records import ABSENT, TOMBSTONE
from graveler.engine.hooks import NOTHING_PENDING
from graveler.kv.store import WRITTEN, Declined, Guarded, Matches, Newer, Paired, Write
from simulator.schedule import Breach, World

RECORDS, STAGED, EVENTS = b"r/", b"s/", b"e/"  # how partitions begin
BRANCHES, DELETED, TAGS, COMMITS, FOLDS = (
    b"b/",
    b"z/",
    b"t/",
    b"c/",
    b"f/",
)  # how keys of records begin
PAIRS, JOBS, CLEANUPS, PULLS, BATCHES = b"m/", b"j/", b"x/", b"p/", b"w/"
CONDEMNED, UNREACHED, ORDERS = b"g/", b"u/", b"q/"
DAY_NS = 24 * 3_600 * 10**9

Change = Callable[[bytes], bytes]


class Broken:
    """A port that passes every call on; a fault overrides some."""

    def __init__(self, port: Any, world: World) -> None:
        self.port = port
        self.world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)


def at(name: str, kind: Callable[..., Any], *given: Any) -> Breach:
    """The breach that puts a `kind` in the place of the port of this name."""

    def breach(port_name: str, port: Any, world: World) -> Any:
        return kind(port, world, *given) if port_name == name else port

    return breach


class BrokenRows(Broken):
    """A store that does something wrong with the rows of some partitions and keys, both by how
    they begin."""

    def __init__(self, port: Any, world: World, partition: bytes, key: bytes = b"") -> None:
        super().__init__(port, world)
        self._partition, self._key = partition, key

    def hits(self, partition: bytes, key: bytes) -> bool:
        return partition.startswith(self._partition) and key.startswith(self._key)


# ---- writes --------------------------------------------------------------------------------------


class BlindSwaps(BrokenRows):
    """A compare-and-swap ignores the row that it expects."""

    def set_if(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, condition: Any,
        order: int = 0,
    ) -> Any:  # fmt: skip
        while self.hits(partition, key) and not isinstance(condition, Paired):
            found = self.port.get(partition, key)
            present = ABSENT if found is ABSENT else Matches(found.version)
            outcome = self.port.set_if(partition, key, value, version, present, order)
            if outcome is WRITTEN:
                return outcome
        return self.port.set_if(partition, key, value, version, condition, order)


class UnguardedSwaps(Broken):
    """A guarded write looks at its own row alone."""

    def set_if(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, condition: Any,
        order: int = 0,
    ) -> Any:  # fmt: skip
        own = condition.row if isinstance(condition, Guarded) else condition
        return self.port.set_if(partition, key, value, version, own, order)


class LoneSwaps(BrokenRows):
    """A paired write of these rows writes only its own row."""

    def set_if(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, condition: Any,
        order: int = 0,
    ) -> Any:  # fmt: skip
        is_halved = isinstance(condition, Paired) and self.hits(partition, key)
        own = condition.row if is_halved else condition
        return self.port.set_if(partition, key, value, version, own, order)


class BaseForgotten(Broken):
    """The order of a job names the present head as its base."""

    def get(self, partition: bytes, key: bytes) -> Any:
        found = self.port.get(partition, key)
        if found is ABSENT or not (partition.startswith(RECORDS) and key.startswith(ORDERS)):
            return found
        branch = self.port.get(partition, BRANCHES + b"main")
        head = wire.decode_branch(branch.value).commit
        pairs = {**wire.decode_pairs(found.value), "since": head}
        return found._replace(value=wire.encode_pairs(pairs))


class HalvedPairs(Broken):
    """A paired write writes one of its two rows."""

    def set_if(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, condition: Any,
        order: int = 0,
    ) -> Any:  # fmt: skip
        own = condition.row if isinstance(condition, Paired) else condition
        return self.port.set_if(partition, key, value, version, own, order)


class Unkept(BrokenRows):
    """Writes are acknowledged, but not kept."""

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        if not self.hits(partition, key):
            self.port.set(partition, key, value, version)

    def set_many(self, writes: Sequence[Write]) -> None:
        self.port.set_many([each for each in writes if not self.hits(each.partition, each.key)])

    def set_if(self, partition: bytes, key: bytes, *given: Any, **named: Any) -> Any:
        if self.hits(partition, key):
            return WRITTEN
        return self.port.set_if(partition, key, *given, **named)

    def set_newer(self, partition: bytes, key: bytes, *given: Any) -> Any:
        if self.hits(partition, key):
            return WRITTEN
        return self.port.set_newer(partition, key, *given)


class UnkeptRemovals(BrokenRows):
    """Removals are acknowledged, but the rows stay."""

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        if not self.hits(partition, keys[0]):
            self.port.delete(partition, keys, versions)


class LastUnkept(Broken):
    """Of several rows of one request, the last is acknowledged, but not kept."""

    def set_newer_many(self, rows: Sequence[Newer]) -> Any:
        if len(rows) < 2:
            return self.port.set_newer_many(rows)
        return [*self.port.set_newer_many(rows[:-1]), WRITTEN]


class UnknownIsWritten(Broken):
    """Of several rows of one request, those without an answer are reported as written."""

    def set_newer_many(self, rows: Sequence[Newer]) -> Any:
        outcomes = self.port.set_newer_many(rows)
        return [WRITTEN if isinstance(each, OutcomeUnknown) else each for each in outcomes]


class OrderIgnored(Broken):
    """A row is written whatever its order is."""

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Any:
        self.port.set(partition, key, value, version)
        return WRITTEN


class OlderIsWritten(Broken):
    """A row of smaller order is refused, and reported as written."""

    def set_newer(self, *given: Any) -> Any:
        self.port.set_newer(*given)
        return WRITTEN


class FalselyDeclined(BrokenRows):
    """A swap lands, and is reported as refused by the row of before."""

    def set_if(self, partition: bytes, key: bytes, *given: Any, **named: Any) -> Any:
        before = self.port.get(partition, key) if self.hits(partition, key) else ABSENT
        outcome = self.port.set_if(partition, key, *given, **named)
        return Declined(before) if self.hits(partition, key) else outcome


class Rewritten(BrokenRows):
    """A record is stored with a change."""

    def __init__(
        self, port: Any, world: World, partition: bytes, key: bytes, change: Change
    ) -> None:
        super().__init__(port, world, partition, key)
        self._change = change

    def _stored(self, partition: bytes, key: bytes, value: bytes) -> bytes:
        return self._change(value) if self.hits(partition, key) else value

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self.port.set(partition, key, self._stored(partition, key, value), version)

    def set_many(self, writes: Sequence[Write]) -> None:
        self.port.set_many(
            [each._replace(value=self._stored(each.partition, each.key, each.value))
             for each in writes]
        )  # fmt: skip

    def set_if(self, partition: bytes, key: bytes, value: bytes, *given: Any, **named: Any) -> Any:
        stored = self._stored(partition, key, value)
        return self.port.set_if(partition, key, stored, *given, **named)


class TokensDropped(Broken):
    """The rows of a token go at once when the branch names it no more."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, *given: Any, **named: Any) -> Any:
        if not (partition.startswith(RECORDS) and key.startswith(BRANCHES)):
            return self.port.set_if(partition, key, value, *given, **named)
        before = self.port.get(partition, key)
        outcome = self.port.set_if(partition, key, value, *given, **named)
        if outcome is WRITTEN and before is not ABSENT:
            kept = wire.decode_branch(value).tokens_newest_first
            for token in wire.decode_branch(before.value).tokens_newest_first:
                if token not in kept:
                    self._drop(token)
        return outcome

    def _drop(self, token: str) -> None:
        for shard in range(int(token.rpartition(".")[2])):
            partition = f"s/{token}/{shard}".encode()
            page = self.port.scan(partition, b"", b"", 100)
            if page.rows:
                self.port.delete(partition, [key for key, _ in page.rows])


class HeadLeftBehind(Broken):
    """A branch record is stored with the head of before, and without the tokens of the new one."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, *given: Any, **named: Any) -> Any:
        if partition.startswith(RECORDS) and key.startswith(BRANCHES):
            before = self.port.get(partition, key)
            if before is not ABSENT and wire.decode_branch(before.value).live:
                head = wire.decode_branch(before.value).commit
                value = wire.encode_branch(wire.decode_branch(value)._replace(commit=head))
        return self.port.set_if(partition, key, value, *given, **named)


class RemovedWhenDeleted(BrokenRows):
    """The record of something deleted is removed, and leaves no row."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, *given: Any, **named: Any) -> Any:
        outcome = self.port.set_if(partition, key, value, *given, **named)
        if outcome is WRITTEN and self.hits(partition, key) and _is_deleted(key, value):
            self.port.delete(partition, [key])
        return outcome


def _is_deleted(key: bytes, value: bytes) -> bool:
    if key.startswith(DELETED):
        return True
    return wire.decode_tag(value).deleted if key.startswith(TAGS) else not wire.decode_pairs(value)


# ---- reads ---------------------------------------------------------------------------------------


class StaleReads(BrokenRows):
    """Every second read of a record answers what this client read before."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._read: dict[bytes, Any] = {}

    def get(self, partition: bytes, key: bytes) -> Any:
        if self.hits(partition, key) and key in self._read:
            return self._read.pop(key)
        found = self.port.get(partition, key)
        self._read[key] = found
        return found


class Unseen(BrokenRows):
    """A read finds nothing."""

    def get(self, partition: bytes, key: bytes) -> Any:
        found = self.port.get(partition, key)
        return ABSENT if self.hits(partition, key) else found

    def get_many(self, places: Sequence[Any]) -> Any:
        found = self.port.get_many(places)
        return {place: row for place, row in found.items() if not self.hits(*place)}

    def scan(self, partition: bytes, *given: Any) -> Any:
        page = self.port.scan(partition, *given)
        return page._replace(
            rows=tuple(row for row in page.rows if not self.hits(partition, row[0]))
        )


class RowMissed(BrokenRows):
    """A page of a scan misses its first row, if it has another one."""

    def scan(self, partition: bytes, *given: Any) -> Any:
        page = self.port.scan(partition, *given)
        if len(page.rows) > 1 and self.hits(partition, page.rows[0][0]):
            return page._replace(rows=page.rows[1:])
        return page


class DeletionsUnseen(Broken):
    """A scan of staged rows shows no deletion."""

    def scan(self, partition: bytes, *given: Any) -> Any:
        page = self.port.scan(partition, *given)
        if not partition.startswith(STAGED):
            return page
        rows = [row for row in page.rows if not _is_tombstone(row[1])]
        return page._replace(rows=tuple(rows))


def _is_tombstone(row: Any) -> bool:
    return wire.decode_staged(row.value, row.order, row.version).value is TOMBSTONE


# ---- records -------------------------------------------------------------------------------------


def newest_sealed_first(value: bytes) -> bytes:
    branch = wire.decode_branch(value)
    return wire.encode_branch(branch._replace(sealed=branch.sealed[::-1]))


def resets_uncounted(value: bytes) -> bytes:
    return wire.encode_branch(wire.decode_branch(value)._replace(rewinds=0))


def newest_token_only(value: bytes) -> bytes:
    fold = wire.decode_fold(value)
    return wire.encode_fold(fold._replace(tokens=fold.tokens[-1:]))


def unmarked(value: bytes) -> bytes:
    return wire.encode_commit(wire.decode_commit(value)._replace(mark=""))


def swaps_unnoted(value: bytes) -> bytes:
    return wire.encode_pull(wire.decode_pull(value)._replace(sent=()))


# ---- other ports ---------------------------------------------------------------------------------


class FastClock(Broken):
    """The time of day of one client runs ahead, by a day at each look."""

    def __init__(self, port: Any, world: World, client: int) -> None:
        super().__init__(port, world)
        self._client = client
        self._ahead_ns = 0

    def now_ns(self) -> int:
        if self.world.client == self._client:
            self._ahead_ns += DAY_NS
        return self.port.now_ns() + self._ahead_ns


class StoppedClock(Broken):
    """The steady clock stands still."""

    def steady_seconds(self) -> float:
        return 0.0


class SameStamp(Broken):
    """All stamps are one."""

    def stamp(self) -> bytes:
        return bytes(16)


class ObjectMissed(Broken):
    """A list of several objects misses the last one."""

    def list(self, *given: Any) -> Any:
        page = self.port.list(*given)
        return page._replace(lines=page.lines[:-1]) if len(page.lines) > 1 else page


class AnyObjectDeleted(Broken):
    """A deletion of one version of an object takes whatever version there is."""

    def delete_all(self, targets: Sequence[Target]) -> None:
        self.port.delete_all([Target(each.address) for each in targets])


class MetarangeMistaken(Broken):
    """The answer to a new metarange is the id of the one that was written before it."""

    _before: Any = None

    def write_metarange(self, *given: Any) -> Any:
        made = self.port.write_metarange(*given)
        before, self._before = self._before, made
        return made if before is None else before


class VetoIgnored(Broken):
    """The veto of a hook is not passed on."""

    def before(self, *given: Any) -> Any:
        try:
            return self.port.before(*given)
        except HookFailed:
            return NOTHING_PENDING


class ResultsKept(Broken):
    """A caller gets the result of work that began before it came."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kept: list[Any] = []

    def run(self, key: Any, call: Any, *given: Any) -> Any:
        shares = call.unite(call.request, call.request) is not None
        if shares and self._kept:
            return self._kept.pop()
        result = self.port.run(key, call, *given)
        self._kept.append(result)
        return result
