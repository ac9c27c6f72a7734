"""Keys are replaced while processes use them; only a key outside the store makes them readable."""

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from graveler.auth import secrets
from graveler.auth.keyrings import PARTITION, Keyring, RingKey, SecretWrapper, Wrapper, Wrappers
from graveler.core import limits, wire
from graveler.core.clock import SystemIds
from graveler.core.errors import Corrupt, Invalid, OutcomeUnknown, Unavailable
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Store
from tests.auth.bench import FAULTS
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import FaultyStore, nth
from tests.support.interposer import InterposedStore, Script
from tests.waiting import PATIENCE_SECONDS

OLD, NEW, NEXT = b"o" * 32, b"n" * 32, b"x" * 32
RETIRED = 3_600
MONTH = 30 * 24 * 3_600


class World:
    """A store and a clock, and processes that know one or two secrets of the store."""

    def __init__(self) -> None:
        self.kv = MemoryStore()
        self.clock = TickingClock()
        self.ids = SeededIds(3)

    def process(self, *known: bytes, kv: Store | None = None) -> Keyring:
        wrappers = [SecretWrapper(secret, self.ids) for secret in known]
        return self.ring(wrappers, kv)

    def ring(self, wrappers: Sequence[Wrapper], kv: Store | None = None) -> Keyring:
        return self.named("sessions", Wrappers(self.clock, wrappers), kv)

    def named(self, name: str, wrappers: Wrappers, kv: Store | None = None) -> Keyring:
        store = kv or self.kv
        return Keyring(name, wrappers, RETIRED, kv=store, clock=self.clock, ids=self.ids)

    @property
    def stored(self) -> list[str]:
        """The ids on the ring, oldest first."""
        return [key[0] for key in self._keys()]

    @property
    def wrappings(self) -> list[set[str]]:
        """By whom each key on the ring is wrapped, oldest first: ids of wrappers."""
        return [set(key[2]) for key in self._keys()]

    def id_of(self, secret: bytes) -> str:
        return SecretWrapper(secret, self.ids).id

    def _keys(self) -> list[list[Any]]:
        row = self.kv.get(PARTITION, b"sessions")
        found: list[list[Any]] = []
        return found if row is ABSENT else json.loads(wire.decode_pairs(row.value)["keys"])


def test_a_text_decrypts_only_with_its_key_and_in_its_context() -> None:
    ids = SystemIds()
    text = secrets.encrypt(OLD, b"plain", ("a", "b"), ids)
    assert secrets.decrypt(OLD, text, ("a", "b")) == b"plain"
    assert text != secrets.encrypt(OLD, b"plain", ("a", "b"), ids)  # a fresh nonce
    for context in (("a",), ("a", "c"), ("ab", ""), ("a,b",), ("b", "a")):
        with pytest.raises(Corrupt):
            secrets.decrypt(OLD, text, context)
    with pytest.raises(Corrupt):
        secrets.decrypt(NEW, text, ("a", "b"))
    first, last = bytes([text[0] ^ 1]), bytes([text[-1] ^ 1])
    for spoiled in (b"", text[:11], text[:12], text[:-1], text[:-1] + last, first + text[1:]):
        with pytest.raises(Corrupt):
            secrets.decrypt(OLD, spoiled, ("a", "b"))


def test_processes_share_one_key() -> None:
    world = World()
    key = world.process(OLD).current()
    assert len(key.secret) == 32 and world.stored == [key.id]
    assert world.process(OLD).current() == key
    assert world.process(OLD).find(key.id) == key.secret
    assert world.process(OLD).find("nothing") is ABSENT


def test_a_key_is_not_in_the_store_and_opens_only_on_its_ring() -> None:
    world = World()
    key = world.process(OLD).current()
    row = world.kv.get(PARTITION, b"sessions")
    assert row is not ABSENT and key.secret not in row.value
    assert key.secret.hex().encode() not in row.value
    assert world.process(NEW).find(key.id) is ABSENT
    world.kv.set(PARTITION, b"secrets", row.value, b"v" * 16)
    other = world.named("secrets", Wrappers(world.clock, [SecretWrapper(OLD, world.ids)]))
    assert other.find(key.id) is ABSENT  # moved to another ring


def test_old_keys_verify_until_nothing_can_name_them() -> None:
    world = World()
    process, other = world.process(OLD), world.process(OLD)
    first = process.current()
    assert other.find(first.id) == first.secret
    second = process.rotate()
    assert process.current() == second != first
    assert other.find(second.id) == second.secret  # at once: it does not know the id
    assert other.find(first.id) == first.secret
    world.clock.sleep(RETIRED + 1)
    third = process.rotate()
    assert world.stored == [second.id, third.id]
    world.clock.sleep(limits.access_seconds_max + 1)
    assert other.find(first.id) is ABSENT and other.find(second.id) == second.secret


def test_a_key_that_is_still_used_stays() -> None:
    world = World()
    process = world.process(OLD)
    first, second = process.current(), process.rotate()
    world.clock.sleep(RETIRED + 1)
    third = process.rotate(used=[first.id])
    assert world.stored == [first.id, second.id, third.id]
    world.clock.sleep(RETIRED + 1)
    fourth = process.rotate(used=[first.id])
    assert world.stored == [first.id, third.id, fourth.id]


def test_a_key_that_is_too_old_is_replaced_once_by_many_processes() -> None:
    world, script = World(), Script()
    first = world.process(OLD).current(MONTH)
    world.clock.sleep(MONTH - 10)
    assert world.process(OLD).current(MONTH) == first
    world.clock.sleep(20)
    other = world.process(OLD)
    script.before("set_if", lambda: other.current(MONTH), 1)
    key = world.process(OLD, kv=InterposedStore(world.kv, script)).current(MONTH)
    assert key != first and key == other.current(MONTH)
    assert world.stored == [first.id, key.id]


def test_a_ring_has_a_greatest_number_of_keys() -> None:
    world = World()
    process = world.process(OLD)
    keys = [process.rotate() for _ in range(limits.ring_keys_count_max + 3)]
    assert world.stored == [key.id for key in keys[3:]]


def test_requests_are_counted() -> None:
    world, counts = World(), Counts()
    process = world.process(OLD, kv=counted_store(world.kv, counts))

    def cost(verb: object) -> int:
        before = counts.total()
        verb()  # type: ignore[operator]
        return counts.total() - before

    assert cost(process.current) == 2  # read, and make the first one
    key = process.current()
    assert cost(process.current) == 0 and cost(lambda: process.find(key.id)) == 0
    assert cost(lambda: process.find("nothing")) == 1
    world.clock.sleep(limits.access_seconds_max + 1)
    assert cost(lambda: process.find(key.id)) == 1 and cost(process.current) == 0
    assert cost(process.rotate) == 2


# ---- the store's secret is rotated ---------------------------------------------------------------


def test_a_rotation_of_the_secret_keeps_every_key_for_old_and_new_processes() -> None:
    world = World()
    old = world.process(OLD)
    first = old.current()
    new = world.process(NEW, OLD)
    assert new.current() == first  # which wraps it again
    assert world.process(NEW).find(first.id) == first.secret  # after the next rotation, too
    assert world.process(OLD).find(first.id) == first.secret  # a process that started before
    latest = new.rotate()
    assert world.process(OLD).current() == first  # which it can unwrap: it goes on
    assert world.process(NEW, OLD).find(first.id) == first.secret
    assert new.current() == latest


def test_a_fresh_key_after_a_rotation_of_the_secret_leaves_no_older_key_behind() -> None:
    world = World()
    first = world.process(OLD).current()
    world.process(NEW, OLD).rotate()
    assert world.process(b"3" * 32, NEW).find(first.id) == first.secret


def test_keys_of_a_lost_secret_are_replaced_and_stay() -> None:
    world = World()
    first = world.process(OLD).current()
    fresh = world.process(NEW).current()
    assert world.stored == [first.id, fresh.id]
    assert world.process(NEW).find(first.id) is ABSENT
    assert world.process(OLD).find(first.id) == first.secret  # the secret came back


def test_wrappings_that_no_process_knows_go() -> None:
    world = World()
    world.process(OLD).current()
    for secret, before in ((b"1" * 32, OLD), (b"2" * 32, b"1" * 32), (b"3" * 32, b"2" * 32)):
        world.process(secret, before).current()
    assert [len(each) for each in world.wrappings] == [2]


def outlived(world: World) -> tuple[Keyring, RingKey]:
    """A process that lives across two rotations of the secret, and the key that it holds.  What it
    has read of the ring is out of date."""
    process = world.process(OLD)
    key = process.current()
    world.process(NEW, OLD).current()
    world.process(NEXT, NEW).current()
    world.clock.sleep(limits.access_seconds_max)
    return process, key


def test_a_process_that_cannot_read_a_secret_that_is_rotated_twice_leaves_all_wrappings() -> None:
    world = World()
    process, key = outlived(world)
    wrappings = world.wrappings
    assert wrappings == [{world.id_of(NEW), world.id_of(NEXT)}]
    assert process.current() == key  # which it holds in memory
    assert world.wrappings == wrappings
    assert world.process(NEXT, NEW).find(key.id) == key.secret
    with pytest.raises(Invalid, match="not known here"):
        process.rotate()
    assert world.stored == [key.id]


def test_a_fresh_key_of_a_process_that_knows_an_old_secret_costs_no_key_its_wrappings() -> None:
    world = World()
    process, key = outlived(world)
    fresh = process.current(1)
    assert world.stored == [key.id, fresh.id]
    assert world.process(NEXT, NEW).find(key.id) == key.secret


class Rotating:
    """A secret that is rotated while processes run: what reads it again, and how often."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.known: tuple[bytes, ...] = (OLD,)
        self.readings = 0
        self.answers = True

    def read(self) -> Sequence[Wrapper]:
        self.readings += 1
        if not self.answers:
            raise Unavailable("no answer")
        return [SecretWrapper(secret, self.world.ids) for secret in self.known]

    def process(self) -> Keyring:
        known = [SecretWrapper(OLD, self.world.ids)]
        return self.world.named("sessions", Wrappers(self.world.clock, known, self.read))


def test_a_process_that_started_before_a_rotation_unwraps_the_keys_that_came_after_it() -> None:
    world = World()
    secret = Rotating(world)
    process, encrypting = secret.process(), secret.process()
    assert process.current() == encrypting.current() and secret.readings == 0
    secret.known = (NEW, OLD)
    latest = world.process(NEW, OLD).rotate()
    assert process.find(latest.id) == latest.secret and secret.readings == 1
    assert process.find(latest.id) == latest.secret and secret.readings == 1
    world.clock.sleep(limits.access_seconds_max + 1)
    assert encrypting.current() == latest  # else the key that it uses would retire
    secret.known = (b"3" * 32, NEW)
    last = world.process(b"3" * 32, NEW).rotate()
    world.clock.sleep(limits.secret_again_seconds)
    assert process.find(last.id) == last.secret


def test_a_key_that_nobody_can_unwrap_makes_a_process_read_the_secret_once_in_a_while() -> None:
    world = World()
    lost = world.process(NEW).current()
    secret = Rotating(world)
    process = secret.process()
    assert [process.find(lost.id) for _ in range(5)] == [ABSENT] * 5 and secret.readings == 1
    secret.known = (NEW, OLD)
    world.clock.sleep(limits.secret_again_seconds - 1)
    assert process.find(lost.id) is ABSENT and secret.readings == 1
    world.clock.sleep(2)
    assert process.find(lost.id) == lost.secret and secret.readings == 2


def test_a_secret_that_cannot_be_read_again_leaves_the_known_keys() -> None:
    world = World()
    secret = Rotating(world)
    process = secret.process()
    first = process.current()
    latest = world.process(NEW, OLD).rotate()
    secret.known, secret.answers = (NEW, OLD), False
    for _ in range(5):
        with pytest.raises(Unavailable, match="no answer"):
            process.find(latest.id)
    assert secret.readings == 1
    assert process.find(first.id) == first.secret and process.find("nothing") is ABSENT
    secret.answers = True
    world.clock.sleep(limits.secret_retry_seconds)
    assert process.find(latest.id) == latest.secret and secret.readings == 2
    assert limits.secret_retry_seconds <= 3


def test_no_key_is_made_under_a_secret_that_may_be_an_old_one() -> None:
    world = World()
    latest = world.process(NEW).current()
    secret = Rotating(world)
    secret.known, secret.answers = (NEW, OLD), False
    process, stored = secret.process(), world.stored
    with pytest.raises(Unavailable, match="no answer"):
        process.current()
    assert world.stored == stored
    secret.answers = True
    world.clock.sleep(limits.secret_retry_seconds)
    assert process.current() == latest and world.stored == stored


def test_nobody_waits_for_a_secret_whose_last_reading_failed() -> None:
    world = World()
    lost = world.process(NEW).current()
    ring: list[Keyring] = []
    seen: list[str] = []
    secret = Rotating(world)
    secret.answers = False

    def find() -> None:
        try:
            ring[0].find(lost.id)
        except Unavailable as error:
            seen.append(str(error))

    def read() -> Sequence[Wrapper]:
        if secret.readings:  # the second reading lasts until another caller has its answer
            other = threading.Thread(target=find, daemon=True)
            other.start()
            other.join(PATIENCE_SECONDS)
            assert not other.is_alive()
        return secret.read()

    known = [SecretWrapper(OLD, world.ids)]
    ring.append(world.named("sessions", Wrappers(world.clock, known, read)))
    find()
    world.clock.sleep(limits.secret_retry_seconds)
    find()
    assert secret.readings == 2 and len(seen) == 3


def test_a_reading_that_fails_slowly_is_not_repeated_at_once() -> None:
    world = World()
    lost = world.process(NEW).current()
    secret = Rotating(world)
    secret.answers = False

    def read() -> Sequence[Wrapper]:
        world.clock.sleep(10 * limits.secret_retry_seconds)
        return secret.read()

    known = [SecretWrapper(OLD, world.ids)]
    process = world.named("sessions", Wrappers(world.clock, known, read))
    for _ in range(5):
        with pytest.raises(Unavailable):
            process.find(lost.id)
    assert secret.readings == 1


def test_a_process_that_lives_across_two_rotations_leaves_the_key_readable() -> None:
    """It holds the key in memory, so it reads the secret again only because no wrapping of its own
    is left."""
    world = World()
    secret = Rotating(world)
    process = secret.process()
    key = process.current()
    world.process(NEW, OLD).current()
    world.process(NEXT, NEW).current()
    secret.known = (NEXT, NEW)
    world.clock.sleep(limits.access_seconds_max)
    assert process.current() == key and secret.readings == 1
    assert world.process(NEXT, NEW).current() == key
    assert world.process(NEXT, NEW).find(key.id) == key.secret
    assert world.wrappings == [{world.id_of(NEW), world.id_of(NEXT)}]


def test_a_key_in_memory_that_no_known_secret_unwraps_is_wrapped_again() -> None:
    """Two rotations, and no process that knew both: whoever still holds the key hands it on."""
    world = World()
    secret = Rotating(world)
    process = secret.process()
    key = process.current()
    secret.known = (NEXT, NEW)
    latest = world.process(NEXT, NEW).current()
    world.clock.sleep(limits.access_seconds_max)
    assert process.current() == latest
    process.rotate()
    assert world.process(NEXT, NEW).find(key.id) == key.secret


class Unreachable:
    """A service of keys that does not answer."""

    id = "remote"

    def wrap(self, key: bytes, ring: str, id: str) -> bytes:
        raise Unavailable("no answer")

    def unwrap(self, wrapped: bytes, ring: str, id: str) -> bytes:
        raise Unavailable("no answer")


def test_a_wrapper_that_does_not_answer_makes_no_key() -> None:
    world = World()
    with pytest.raises(Unavailable):
        world.ring([Unreachable()]).current()
    assert world.stored == []
    first = world.process(OLD).current()
    with pytest.raises(Unavailable):  # to wrap it again
        world.ring([Unreachable(), SecretWrapper(OLD, world.ids)]).current()
    assert world.stored == [first.id]


# ---- faults --------------------------------------------------------------------------------------


def test_a_ring_whose_request_goes_wrong_is_whole_after_a_retry() -> None:
    for number in (1, 2):
        for fault in FAULTS:
            world = World()
            store = FaultyStore(world.kv, nth({number: fault}))
            process = world.process(OLD, kv=store)
            with suppress(Unavailable, OutcomeUnknown):
                process.current()
            key = process.current()
            store.land()
            assert world.process(OLD).current() == key == process.current()
            assert world.stored == [key.id]


@pytest.mark.parametrize(
    "value", ["", "[", "7", '[["a"]]', '[["a", 1, {"w": "!"}]]', '[["a", 1, 2]]']
)
def test_a_damaged_ring_is_reported(value: str) -> None:
    world = World()
    world.kv.set(PARTITION, b"sessions", wire.encode_pairs({"keys": value}), b"v" * 16)
    with pytest.raises(Corrupt):
        world.process(OLD).current()
