"""What a deleted repository had is removed after the undo period, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.block import address
from graveler.core.errors import Code, Invalid, Refused, Unavailable, Unsupported
from graveler.core.records import ABSENT, Repository
from graveler.engine import import_sources, names, namespaces
from graveler.engine.commits import reset
from graveler.engine.events import rules
from graveler.engine.gc import retention
from graveler.engine.import_sources import ImportPath
from graveler.engine.objects import addresses, read, write
from graveler.engine.objects.addresses import Link
from graveler.engine.ports import open_repository
from graveler.engine.repositories import purge, repository
from graveler.engine.repositories.repository import NewRepository
from graveler.kv.memory import MemoryStore
from graveler.refs import arrivals, lifecycle, repositories
from graveler.refs.garbage import Retention
from tests.engine.storage import DAY, Storage
from tests.support.interposer import InterposedStore, Script

FOREIGN = ("data/readme", "tables/part-0", "_lakefs/UPPER")


def grown(storage: Storage) -> Repository:
    """A repository with some of everything, and files that are not its own."""
    repo = storage.repo
    storage.commit(a="1", b="2")
    names.create_branch(open_repository(storage.ports, repo), "side", "main")
    storage.put("side", c="staged")
    storage.put(d="dropped")
    reset.reset(open_repository(storage.ports, repo), "main")
    names.create_branch(open_repository(storage.ports, repo), "gone", "main")
    names.delete_branch(open_repository(storage.ports, repo), "gone")
    names.create_tag(open_repository(storage.ports, repo), "v1", "main")
    retention.set_rule(open_repository(storage.ports, repo), Retention(default_days=7))
    repository.set_metadata(open_repository(storage.ports, repo), {"k": "v"})
    storage.collect()
    for name in FOREIGN:
        storage.blocks.put(f"mem://bucket/lake/{name}", [b"not ours"])
    storage.blocks.put("mem://bucket/lake/_graveler/steps/x/y.json.gz", [b"ours"])
    return repo


def everything(storage: Storage) -> set[str]:
    page = storage.blocks.list("mem://bucket/lake/", "", 10_000)
    return {line.address.removeprefix("mem://bucket/lake/") for line in page.lines}


def partitions(storage: Storage) -> set[bytes]:
    kv = storage.ports.kv
    assert isinstance(kv, MemoryStore)
    return {partition for partition, stored in kv._partitions.items() if stored.rows}


def purged(storage: Storage, seconds: float = 1e9) -> list[bool]:
    return [purge.purge(storage.ports, gone, seconds) for gone in purge.list_due(storage.ports)]


def test_rows_and_files_go_after_the_undo_period_and_the_namespace_is_free(
    storage: Storage,
) -> None:
    repo = grown(storage)
    other = NewRepository("other", "mem://bucket/other")
    repository.create(storage.ports, other)
    repository.delete(open_repository(storage.ports, repo))
    before = everything(storage)
    storage.clock.sleep(DAY - 60)
    assert purged(storage) == [] and everything(storage) == before
    again = NewRepository("lake", "mem://bucket/lake")
    with pytest.raises(Invalid, match="already in use"):
        repository.create(storage.ports, again)
    storage.clock.sleep(120)
    assert purged(storage) == [True]
    assert everything(storage) == set(FOREIGN)
    mine = {each for each in partitions(storage) if repo.uid.encode() in each}
    assert mine == set() and not any(each.startswith(b"s/") for each in partitions(storage))
    assert list(lifecycle.list_deletions(storage.ports.kv)) == [] == purged(storage)
    assert repositories.find(storage.ports.kv, repo.id) is ABSENT
    made = repository.create(storage.ports, again)
    assert made.uid != repo.uid
    storage.put(a="new")
    assert storage.read("main", "a") == b"new"


@pytest.mark.parametrize("place", ["mem://bucket/lake", "mem://bucket/lake/data", "mem://bucket"])
@pytest.mark.parametrize("taken_over", [False, True])
def test_nobody_gets_the_namespace_of_a_deleted_repository_until_its_purge(
    storage: Storage, place: str, taken_over: bool
) -> None:
    """A guest inside it read the bytes of the deleted one, and kept its purge from running."""
    repository.delete(storage.opened)
    if taken_over:  # its record in the list of repositories is replaced
        repository.create(storage.ports, NewRepository("lake", "mem://elsewhere/lake"))
    due = namespaces.purge_due(storage.ports, next(lifecycle.list_deletions(storage.ports.kv)))
    assert due.startswith("due at ")
    guest = NewRepository("guest", place)
    with pytest.raises(Invalid, match=f"a deleted repository, {due}") as refused:
        repository.create(storage.ports, guest)
    assert refused.value.code is Code.NAMESPACE_OF_DELETED
    beside = repository.create(storage.ports, NewRepository("beside", "mem://bucket/lake-2"))
    storage.clock.sleep(2 * DAY)
    with pytest.raises(Invalid, match="already in use"):
        repository.create(storage.ports, guest)
    assert purged(storage) == [True]
    repository.delete(open_repository(storage.ports, beside))
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True]
    assert repository.create(storage.ports, guest).id == "guest"


def test_nobody_takes_in_objects_of_a_deleted_repository_until_its_purge(storage: Storage) -> None:
    storage.put(a="secret")
    old = storage.repo
    secret = read.physical_address(old, read.stat(storage.opened, "main", "a"))
    guest = open_repository(
        storage.ports, repository.create(storage.ports, NewRepository("guest", "mem://far/guest"))
    )
    repository.delete(storage.opened)
    folder = ImportPath("common_prefix", "mem://bucket/lake/data/", "in/")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: addresses.link_any(guest, "main", "mine", Link(secret, "c", 6)),
        lambda: import_sources.check(guest, folder),
        lambda: rules.create(guest, rules.NewRule("main", "bucket", "lake/data/")),
    )
    for attempt in attempts:
        with pytest.raises(Invalid, match=r"inside a deleted repository until|would watch another"):
            attempt()
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True]
    storage.blocks.put(secret, [b"public"])
    for attempt in attempts:
        attempt()


def test_a_repository_that_is_deleted_while_namespaces_are_read_is_a_holder(
    storage: Storage,
) -> None:
    """Between the read of the live ones and that of the deleted ones, and before both."""
    repo = storage.opened
    for moment in (1, 2):
        script = Script()
        ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
        if moment == 1:
            script.before("scan", lambda: repository.delete(repo), 2)
        assert {holder.uid for holder in namespaces.holders(ports)} == {repo.record.uid}


def test_a_repository_of_the_same_name_keeps_what_it_has(storage: Storage) -> None:
    old = grown(storage)
    repository.delete(open_repository(storage.ports, old))
    new = repository.create(storage.ports, NewRepository("lake", "mem://bucket/new"))
    write.upload(open_repository(storage.ports, new), "main", "a", write.Upload([b"new"]))
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True]
    assert everything(storage) == set(FOREIGN)
    assert storage.read("main", "a") == b"new"
    assert not [each for each in partitions(storage) if old.uid.encode() in each]


def test_rules_of_events_go_and_their_namespaces_are_watched_no_more(storage: Storage) -> None:
    repo = storage.repo
    storage.blocks.put("mem://source/in/x", [b"x"])
    rule = rules.create(
        open_repository(storage.ports, repo), rules.NewRule("main", "source", "in/")
    )
    arrivals.vouch(storage.ports.kv, repo, rule.id, b"call", storage.clock.now_ns())
    assert len([each for each in partitions(storage) if each.startswith(b"e/")]) == 1
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True]
    assert not [each for each in partitions(storage) if each[:2] in (b"e/", b"wa")]


def test_a_deletion_that_died_before_it_was_one_removes_nothing(storage: Storage) -> None:
    repo = grown(storage)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))

    def die() -> None:
        raise Unavailable("the process ends here")

    script.before("set_if", die)
    with pytest.raises(Unavailable):
        repository.delete(open_repository(ports, repo))
    assert [gone.id for gone in lifecycle.list_deletions(storage.ports.kv)] == ["lake"]
    before = everything(storage)
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True] and purged(storage) == []
    assert everything(storage) == before and storage.read("main", "a") == b"1"


def test_a_deletion_after_one_that_died_has_an_undo_period_of_its_own(storage: Storage) -> None:
    """The note of the first is due; the second comes between a purger's list and its look."""
    repo = grown(storage)
    lifecycle.note_deletion(
        storage.ports.kv, repo, storage.clock.now_ns(), storage.ports.ids.stamp()
    )
    storage.clock.sleep(2 * DAY)
    [due] = purge.list_due(storage.ports)
    repository.delete(open_repository(storage.ports, repo))
    before = everything(storage)
    purge.purge(storage.ports, due)
    assert everything(storage) == before and purged(storage) == []
    storage.clock.sleep(2 * DAY)
    assert purged(storage) == [True] and everything(storage) == set(FOREIGN)


def test_files_stay_where_the_claim_is_another_s_or_none(storage: Storage) -> None:
    place = address.marker("mem://bucket/lake")
    for claim in (b"other uid\n", b""):
        repo = grown(storage)
        storage.blocks.delete(place)
        if claim:
            storage.blocks.put(place, [claim])
        before = everything(storage)
        repository.delete(open_repository(storage.ports, repo))
        storage.clock.sleep(2 * DAY)
        assert purged(storage) == [True] and everything(storage) == before
        storage.blocks.delete(place)
        repository.create(storage.ports, NewRepository("lake", "mem://bucket/lake"))


def test_files_that_another_repository_lies_on_stay_until_it_is_gone(storage: Storage) -> None:
    """As an older release allowed."""
    repo = grown(storage)
    guest = repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest"))
    seen = repositories.find(storage.ports.kv, guest.id)
    assert seen is not ABSENT
    moved = replace(guest, namespace="mem://bucket/lake/inside")
    repositories.swap(storage.ports.kv, seen, moved, storage.ports.ids.stamp())
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    before = everything(storage)
    with pytest.raises(Refused, match="guest shares its files"):
        purged(storage)
    assert everything(storage) == before
    repository.delete(open_repository(storage.ports, moved))
    assert purged(storage) == [True] and everything(storage) == set(FOREIGN)


def test_a_purge_leaves_the_record_of_a_repository_that_took_the_name(storage: Storage) -> None:
    """Between the purge's look and its removal."""
    repository.delete(storage.opened)
    storage.clock.sleep(2 * DAY)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    again = NewRepository("lake", "mem://bucket/again")
    script.after("get", lambda: repository.create(storage.ports, again))
    [gone] = purge.list_due(ports)
    assert purge.purge(ports, gone) and script.finished
    assert repository.get(storage.ports, "lake").namespace == again.namespace
    assert list(lifecycle.list_deletions(storage.ports.kv)) == []


def test_a_creation_over_a_record_that_is_purged_meanwhile_succeeds(
    storage: Storage,
) -> None:
    repository.delete(storage.opened)
    storage.clock.sleep(2 * DAY)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    again = NewRepository("lake", "mem://bucket/again")
    script.before("set_if", lambda: purged(storage), 2)  # the branch is the first
    made = repository.create(ports, again)
    assert script.finished
    assert list(repositories.every(storage.ports.kv)) == [made]


def test_a_claim_stays_while_its_repository_waits_and_the_name_is_free(storage: Storage) -> None:
    """The later repository of the name is purged first."""
    kv = storage.ports.kv
    repository.delete(storage.opened)
    [first] = lifecycle.list_deletions(kv)
    again = repository.create(storage.ports, NewRepository("lake", "mem://bucket/again"))
    repository.delete(open_repository(storage.ports, again))
    storage.clock.sleep(2 * DAY)
    [second] = [gone for gone in purge.list_due(storage.ports) if gone.uid == again.uid]
    assert purge.purge(storage.ports, second)
    assert repositories.find(kv, again.id) is ABSENT
    lifecycle.forget_deletion(kv, first)  # only the claim is left to tell
    with pytest.raises(Invalid, match="already in use"):
        repository.create(storage.ports, NewRepository("next", "mem://bucket/lake"))


def test_the_claim_of_a_deletion_without_a_note_stays(storage: Storage) -> None:
    """Earlier releases deleted without one; the janitor notes them later."""
    repository.delete(storage.opened)
    [gone] = lifecycle.list_deletions(storage.ports.kv)
    lifecycle.forget_deletion(storage.ports.kv, gone)
    storage.clock.sleep(2 * DAY)
    with pytest.raises(Invalid, match="already in use"):
        repository.create(storage.ports, NewRepository("next", "mem://bucket/lake"))


def test_nothing_goes_while_no_versions_are_kept(storage: Storage) -> None:
    repo = grown(storage)
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    files, rows = everything(storage), partitions(storage)
    storage.blocks.keeps_versions = False
    with pytest.raises(Unsupported):
        purged(storage)
    assert everything(storage) == files and partitions(storage) == rows
    storage.blocks.keeps_versions = True
    assert purged(storage) == [True] and everything(storage) == set(FOREIGN)


def test_lists_that_the_store_keeps_end_no_purge(storage: Storage) -> None:
    repo = grown(storage)
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    real, kept = storage.blocks.delete, "_graveler/steps/x/y.json.gz"

    def denied(where: str, version: str = "") -> None:
        if where.endswith(kept):
            raise Refused("not allowed")
        real(where, version)

    assert purged(storage.with_blocks(delete=denied)) == [True] and everything(storage) == {
        *FOREIGN,
        kept,
    }


def test_a_purge_without_time_is_gone_on_with(storage: Storage) -> None:
    repo = grown(storage)
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    assert purged(storage, 0.0) == [False]
    script, slept = Script(), storage.clock.sleep
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    rounds = 0
    while list(lifecycle.list_deletions(storage.ports.kv)):
        script = Script()
        ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
        script.after("delete", lambda: slept(100))  # one batch of rows a round
        for gone in purge.list_due(ports):
            purge.purge(ports, gone, 50)
        rounds += 1
        assert rounds < 100
    assert rounds > 3
    assert not [each for each in partitions(storage) if repo.uid.encode() in each]


def test_a_purge_that_dies_anywhere_is_gone_on_with(storage: Storage) -> None:
    class Killed(Exception):
        pass

    def kill() -> None:
        raise Killed

    def killing(verb: str, nth: int) -> Callable[[], object]:
        script = Script()
        script.before(verb, kill, nth)
        ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
        return lambda: [purge.purge(ports, gone) for gone in purge.list_due(ports)]

    repo = grown(storage)
    repository.delete(open_repository(storage.ports, repo))
    storage.clock.sleep(2 * DAY)
    for verb in ("delete", "scan"):
        for nth in range(12, 0, -1):
            try:
                killing(verb, nth)()
            except Killed:
                continue
    purged(storage)
    assert everything(storage) == set(FOREIGN)
    assert not [each for each in partitions(storage) if repo.uid.encode() in each]


def test_a_purge_that_stalls_takes_nothing_from_the_next_owner(storage: Storage) -> None:
    """It has seen its claim; then another purge ends, and the namespace is claimed and filled."""
    old = grown(storage)
    repository.delete(open_repository(storage.ports, old))
    storage.clock.sleep(2 * DAY)
    [gone] = purge.list_due(storage.ports)
    script = Script()
    slow = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    kept: list[set[str]] = []

    def next_owner() -> None:
        assert purged(storage) == [True]
        repository.create(storage.ports, NewRepository("lake", "mem://bucket/lake"))
        storage.commit(a="new", b="newer")
        storage.collect()
        storage.blocks.put("mem://bucket/lake/_graveler/dumps/new.json", [b"of the next"])
        kept.append(everything(storage))

    script.after("scan", next_owner)  # that of the repositories, behind the look at the claim
    assert purge.purge(slow, gone)
    assert script.finished and everything(storage) == kept[0]
    assert storage.restarted().read("main@", "a") == b"new"
