"""One repository to a namespace: who claims it, and when a claim may be taken over."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from graveler.assembly.drivers import Drivers, ports_of
from graveler.block import address
from graveler.block.adapter import OVERWRITE, ObjectHead
from graveler.block.memory import MemoryBlocks
from graveler.committed.memory import MemoryRangeStore
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Contended,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.records import ABSENT, BreakParameters, Repository
from graveler.engine import namespaces
from graveler.engine.ports import Ports, Sequential, open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository, create
from graveler.kv.memory import MemoryStore
from graveler.refs import lifecycle, repositories
from graveler.refs.cache import RefCache
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import InterposedStore, Script

PLACE = "mem://bucket/one"
LONG = 4 * limits.operation_seconds_max + 1


class Observed(MemoryBlocks):
    """Objects in memory; `after_head` acts once, after the next look at an object."""

    after_head: Callable[[], object] | None = None

    def head(self, address: str) -> ObjectHead:
        found = super().head(address)
        act, self.after_head = self.after_head, None
        if act is not None:
            act()
        return found


@dataclass
class World:
    """Ports whose time passes when it is asked to."""

    ports: Ports
    blocks: Observed
    clock: TickingClock

    def make(self, name: str, namespace: str = PLACE) -> Repository:
        return create(self.ports, NewRepository(name, namespace))

    def dies_after_its_claim(self, name: str) -> None:
        """A creation whose first rows behind its claim do not get through."""

        def plan(_: int, verb: str) -> Fault:  # the note before it is a single row
            return Fault.REFUSED if verb == "set_many" else Fault.NONE

        broken = FaultyStore(self.ports.kv, plan)
        with pytest.raises(Unavailable):
            create(replace(self.ports, kv=broken), NewRepository(name, PLACE))

    def elsewhere(self) -> Ports:
        """Another deployment in the same bucket: only claims tell of it."""
        return replace(self.ports, kv=MemoryStore(), cache=RefCache(self.clock))

    def interposed(self) -> tuple[Ports, Script]:
        script = Script()
        kv = InterposedStore(self.ports.kv, script)
        return replace(self.ports, kv=kv, cache=RefCache(self.clock)), script


@pytest.fixture
def world() -> World:
    clock = TickingClock()
    blocks = Observed(clock)
    drivers = Drivers(MemoryStore(), blocks, MemoryRangeStore(), clock, SeededIds(1), Sequential())
    return World(ports_of(drivers, bytes(32)), blocks, clock)


# ---- a name that is used again -------------------------------------------------------------------


def test_nobody_uses_the_record_of_a_deleted_repository_when_its_name_is_used_again(
    world: World,
) -> None:
    """Not even a process that had it cached: what it writes there would be lost."""
    settings = world.ports.settings._replace(repository_cached_seconds=10)
    world.ports = replace(world.ports, settings=settings)
    other = replace(world.ports, cache=RefCache(world.clock))
    old = world.make("first")
    assert repository.get(other, "first") == old
    repository.delete(open_repository(world.ports, old))
    world.clock.sleep(4)
    new = world.make("first", "mem://bucket/two")
    assert repository.get(other, "first") == new != old
    repository.delete(open_repository(world.ports, new))
    world.clock.sleep(71)
    begun = world.clock.steady_seconds()
    world.make("first", "mem://bucket/three")
    assert world.clock.steady_seconds() - begun < 1


def test_one_process_alone_does_not_wait(world: World) -> None:
    repository.delete(open_repository(world.ports, world.make("first")))
    begun = world.clock.steady_seconds()
    new = world.make("first", "mem://bucket/two")
    assert world.clock.steady_seconds() - begun < 1
    assert repository.get(world.ports, "first") == new


# ---- claims --------------------------------------------------------------------------------------


def test_a_claim_of_a_creation_that_died_is_taken_over_when_nobody_can_be_alive(
    world: World,
) -> None:
    world.dies_after_its_claim("first")
    with pytest.raises(Invalid, match="in use"):
        world.make("second")
    world.clock.sleep(LONG)
    assert repository.get(world.ports, world.make("second").id).namespace == PLACE


def test_the_namespace_of_a_deleted_repository_stays_taken(world: World) -> None:
    repository.delete(open_repository(world.ports, world.make("first")))
    world.clock.sleep(LONG)
    with pytest.raises(Invalid, match="in use"):
        world.make("second")


def test_the_namespace_of_an_earlier_repository_of_a_name_stays_taken(world: World) -> None:
    repository.delete(open_repository(world.ports, world.make("first")))
    world.make("first", "mem://bucket/two")
    world.clock.sleep(LONG)
    with pytest.raises(Invalid, match="in use"):
        world.make("second")


def test_a_dead_claim_of_a_name_that_lives_elsewhere_is_taken_over(world: World) -> None:
    world.dies_after_its_claim("first")
    world.make("first", "mem://bucket/two")
    world.clock.sleep(LONG)
    assert world.make("second").namespace == PLACE


@pytest.mark.parametrize("nth", [1, 2])
def test_a_creation_that_died_behind_its_first_commit_does_not_keep_the_namespace(
    world: World, nth: int
) -> None:
    """The branch is not stored, or the record is not; then the name is made elsewhere."""
    calls: list[str] = []

    def plan(_: int, verb: str) -> Fault:
        calls.append(verb)
        return Fault.REFUSED if calls.count("set_if") >= nth else Fault.NONE

    broken = FaultyStore(world.ports.kv, plan)
    with pytest.raises(Unavailable):
        create(replace(world.ports, kv=broken), NewRepository("first", PLACE))
    world.make("first", "mem://bucket/two")
    with pytest.raises(Invalid, match="in use"):
        world.make("second")
    world.clock.sleep(LONG)
    assert world.make("second").namespace == PLACE


def test_of_two_who_create_a_name_the_loser_does_not_keep_its_namespace(world: World) -> None:
    ports, script = world.interposed()
    script.before("set_if", lambda: world.make("name", "mem://bucket/two"), 2)
    with pytest.raises(AlreadyExists):
        create(ports, NewRepository("name", PLACE))
    world.clock.sleep(LONG)
    assert world.make("second").namespace == PLACE


def test_a_repository_that_was_replaced_twice_keeps_its_namespace(world: World) -> None:
    for number in range(3):
        repository.delete(
            open_repository(world.ports, world.make("first", f"mem://bucket/{number}"))
        )
    world.clock.sleep(LONG)
    for number in range(3):
        with pytest.raises(Invalid, match="in use"):
            world.make("second", f"mem://bucket/{number}")


def test_a_creation_that_dies_over_a_deleted_repository_takes_nothing_from_it(
    world: World,
) -> None:
    repository.delete(open_repository(world.ports, world.make("first")))
    broken = FaultyStore(
        world.ports.kv, lambda _, verb: Fault.REFUSED if verb == "set_if" else Fault.NONE
    )
    with pytest.raises(Unavailable):
        create(
            replace(world.ports, kv=broken), NewRepository("first", "mem://bucket/two", bare=True)
        )
    world.clock.sleep(LONG)
    with pytest.raises(Invalid, match="in use"):
        world.make("second")
    assert world.make("third", "mem://bucket/two").namespace == "mem://bucket/two"


@pytest.mark.parametrize("content", [b"", b"dummy", b"No.Name uid", b"\xff\xfe uid"])
def test_a_mark_of_another_system_is_never_taken_over(world: World, content: bytes) -> None:
    world.blocks.put(address.marker(PLACE), [content], OVERWRITE)
    world.clock.sleep(LONG)
    with pytest.raises(Invalid, match="in use"):
        world.make("first")


def test_of_two_who_take_over_a_claim_one_gets_it(world: World) -> None:
    world.dies_after_its_claim("first")
    world.clock.sleep(LONG)
    world.blocks.after_head = lambda: create(world.elsewhere(), NewRepository("faster", PLACE))
    with pytest.raises(Invalid, match="in use"):
        world.make("slower")
    assert world.blocks.read(address.marker(PLACE), 0, 6) == b"faster"


def test_of_two_who_have_both_seen_that_a_claim_is_dead_one_gets_it(world: World) -> None:
    world.dies_after_its_claim("first")
    world.clock.sleep(LONG)
    ports, script = world.interposed()
    script.after("get", lambda: create(world.elsewhere(), NewRepository("faster", PLACE)), 2)
    with pytest.raises(Invalid, match="in use"):
        create(ports, NewRepository("slower", PLACE))
    assert script.finished
    assert world.blocks.read(address.marker(PLACE), 0, 6) == b"faster"


@pytest.mark.parametrize("kind", [{"bare": True}, {"read_only": True}])
@pytest.mark.parametrize("place", [PLACE, "mem://bucket", "mem://bucket/one/inside"])
def test_no_kind_of_repository_shares_a_namespace(
    world: World, kind: dict[str, bool], place: str
) -> None:
    """A guest with a commit record of its own making would read its host's objects."""
    host = world.make("host")
    with pytest.raises(Invalid, match="in use"):
        create(world.ports, NewRepository("guest", place, **kind))
    assert namespaces.collectable(open_repository(world.ports, host)).record.uid == host.uid


@pytest.mark.parametrize("segment", ["_lakefs", "_graveler"])
@pytest.mark.parametrize("where", ["mem://bucket/one/{}", "mem://bucket/{}/one", "mem://{}"])
def test_no_namespace_lies_among_a_repositorys_own_files(
    world: World, segment: str, where: str
) -> None:
    with pytest.raises(Invalid, match=f"no segment may be '{segment}'"):
        world.make("inside", where.format(segment))
    assert world.make("beside", where.format(segment + "-old")).id == "beside"


def test_a_repository_that_has_such_a_namespace_already_keeps_it(world: World) -> None:
    """An earlier version allowed it.  Nobody may create another one around it."""
    old = replace(world.make("old"), namespace="mem://bucket/lake/_graveler")
    repositories.change(world.ports.kv, old.id, world.ports.ids, lambda _found, _lost: old)
    lifecycle.note_namespace(world.ports.kv, old, world.ports.ids.stamp())
    with pytest.raises(Invalid, match="in use"):
        world.make("around", "mem://bucket/lake")
    assert repositories.get(world.ports.kv, old.id).namespace == old.namespace


@pytest.mark.parametrize("kind", [{"bare": True}, {"read_only": True}])
def test_every_kind_of_repository_claims_its_namespace(world: World, kind: dict[str, bool]) -> None:
    first = create(world.ports, NewRepository("first", PLACE, **kind))
    assert namespaces.collectable(open_repository(world.ports, first)).record.uid == first.uid
    with pytest.raises(Invalid, match="in use"):
        world.make("second")
    # The claim holds without the record, too: another deployment may share the bucket.
    with pytest.raises(Invalid, match="in use"):
        create(world.elsewhere(), NewRepository("second", PLACE, **kind))


def _noted(world: World) -> list[str]:
    """The repositories that have a note on the bucket."""
    return [note.id for note in lifecycle.notes_on(world.ports.kv, "mem://bucket")]


NESTED = [(PLACE, f"{PLACE}/inside"), (f"{PLACE}/inside", PLACE), (PLACE, PLACE)]


@pytest.mark.parametrize(("slow", "fast"), NESTED)
@pytest.mark.parametrize("moment", ["before its note", "behind its note", "behind its look"])
def test_of_two_nested_ones_at_the_same_moment_one_comes_to_be(
    world: World, slow: str, fast: str, moment: str
) -> None:
    """Their claims differ, so that notes and records tell."""
    ports, script = world.interposed()
    tried: list[str] = []

    def other() -> None:
        try:
            tried.append(world.make("fast", fast).id)
        except Invalid as error:
            assert "in use" in str(error)

    if moment == "before its note":
        script.before("set", other)
    elif moment == "behind its note":
        script.after("set", other)
    else:
        script.before("set_if", other)
    try:
        tried.append(create(ports, NewRepository("slow", slow)).id)
    except Invalid as error:
        assert "in use" in str(error)
    assert script.finished
    assert tried == (["fast"] if moment == "before its note" else ["slow"])
    live = [found.id for found in repository.list_page(world.ports, "", bool, "", 9)[0]]
    assert live == tried == _noted(world)


@pytest.mark.parametrize("at", range(1, 10))
def test_a_creation_that_dies_anywhere_leaves_no_nested_ones(world: World, at: int) -> None:
    """Another one begins at that moment, a third when the first cannot be alive any more."""
    blocked, struck = [], []

    def plan(number: int, _: str) -> Fault:
        if number == at:
            struck.append(number)
            with suppress(Invalid):
                world.make("inside", f"{PLACE}/inside")
        return Fault.REFUSED if number >= at else Fault.NONE

    with suppress(Unavailable):
        create(
            replace(world.ports, kv=FaultyStore(world.ports.kv, plan)),
            NewRepository("dies", PLACE),
        )
    assert struck, "a creation has fewer requests"
    for _ in range(2):
        try:
            world.make("later", f"{PLACE}/inside/later")
        except Invalid as error:
            blocked.append(str(error))
        world.clock.sleep(LONG)
    live = [found.id for found in repository.list_page(world.ports, "", bool, "", 9)[0]]
    assert len(live) == 1, (live, blocked)


def test_a_creation_without_an_answer_keeps_others_away_until_it_cannot_land(
    world: World,
) -> None:
    calls: list[str] = []

    def plan(_: int, verb: str) -> Fault:
        calls.append(verb)
        return Fault.LATE if calls.count("set_if") == 2 else Fault.NONE

    broken = FaultyStore(world.ports.kv, plan)
    with pytest.raises(OutcomeUnknown):
        create(replace(world.ports, kv=broken), NewRepository("slow", PLACE))
    with pytest.raises(Invalid, match="in use"):
        world.make("fast", f"{PLACE}/inside")
    broken.land()
    world.clock.sleep(LONG)
    with pytest.raises(Invalid, match="in use"):
        world.make("fast", f"{PLACE}/inside")
    assert repository.get(world.ports, "slow").namespace == PLACE
    assert _noted(world) == ["slow"]


# ---- creation and deletion -----------------------------------------------------------------------


def test_of_two_who_create_a_name_one_gets_it(world: World) -> None:
    ports, script = world.interposed()
    script.before("set_if", lambda: world.make("name", "mem://bucket/two"))
    with pytest.raises(AlreadyExists):
        create(ports, NewRepository("name", PLACE))
    assert repository.get(world.ports, "name").namespace == "mem://bucket/two"


def test_a_creation_whose_branch_is_not_stored_has_not_happened(world: World) -> None:
    broken = FaultyStore(
        world.ports.kv, lambda _, verb: Fault.DROPPED if verb == "set_if" else Fault.NONE
    )
    with pytest.raises(Unavailable):
        create(replace(world.ports, kv=broken), NewRepository("name", PLACE))
    with pytest.raises(NotFound):
        repository.get(world.ports, "name")


@pytest.mark.parametrize(
    "new",
    [
        NewRepository("name", PLACE, breaks=BreakParameters(min_size=-1)),
        NewRepository("name", PLACE, breaks=BreakParameters(min_size=2, max_size=1)),
        NewRepository("name", PLACE, breaks=BreakParameters(raggedness=0)),
        NewRepository("name", PLACE, staging_shards=0),
        NewRepository("name", PLACE, staging_shards=limits.staging_shard_count_max + 1),
    ],
)
def test_parameters_out_of_bounds_are_refused_before_anything_is_claimed(
    world: World, new: NewRepository
) -> None:
    with pytest.raises(Invalid):
        create(world.ports, new)
    assert world.make("other").namespace == PLACE


def test_what_was_deleted_cannot_be_deleted_again(world: World) -> None:
    old = world.make("name")
    repository.delete(open_repository(world.ports, old))
    with pytest.raises(NotFound):
        repository.delete(open_repository(world.ports, old))
    world.make("name", "mem://bucket/two")
    with pytest.raises(NotFound):
        repository.delete(open_repository(world.ports, old))


def test_a_deletion_whose_answer_is_lost_has_happened(world: World) -> None:
    made = world.make("name")
    lossy = FaultyStore(
        world.ports.kv, lambda _, verb: Fault.LOST if verb == "set_if" else Fault.NONE
    )
    repository.delete(open_repository(replace(world.ports, kv=lossy), made))
    with pytest.raises(NotFound):
        repository.delete(open_repository(world.ports, made))


def test_a_deletion_whose_record_keeps_changing_gives_up(world: World) -> None:
    made = world.make("name")
    ports, script = world.interposed()

    def change() -> None:
        seen = repositories.find(world.ports.kv, made.id)
        assert seen is not ABSENT
        changed = replace(seen.repository, collected=not seen.repository.collected)
        repositories.swap(world.ports.kv, seen, changed, world.ports.ids.stamp())
        script.before("set_if", change)

    script.before("set_if", change)
    with pytest.raises((Contended, OutcomeUnknown)):
        repository.delete(open_repository(ports, made))
    assert repositories.get(world.ports.kv, made.id).uid == made.uid


def test_a_key_of_metadata_that_no_row_can_hold_is_refused(world: World) -> None:
    made = world.make("name")
    with pytest.raises(Invalid, match="too long"):
        repository.set_metadata(
            open_repository(world.ports, made), {"k" * limits.path_length_bytes_max: "v"}
        )
    assert repository.metadata(open_repository(world.ports, made)) == {}


# ---- all namespaces at once ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_namespaces_that_lie_on_one_another_are_found_among_many(seed: int) -> None:
    chance = random.Random(seed)
    stems = ["mem://b", "mem://c", "s3://b", "s3a://b", "local://x", "local:///x", "local:///x/y"]
    named: list[tuple[str, str]] = []
    for number in range(20):
        folders = [chance.choice(["a", "b", "ab", "a/"]) for _ in range(chance.randrange(4))]
        named.append((f"repo-{number}", "/".join([chance.choice(stems), *folders])))
    everyone = namespaces.Namespaces(named)
    for id, namespace in named:
        others = {
            other for other, place in named if other != id and address.overlaps(namespace, place)
        }
        found = everyone.other_on(id, namespace)
        assert found in others if others else found is ABSENT, (id, namespace, seed)
