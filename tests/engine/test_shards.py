"""How many shards a branch's tokens have, and that every verb reads tokens of unlike numbers.

A lake in which a token has a shard for each three rows of its branch, and four at most, unless the
test says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from graveler.core import limits, wire
from graveler.core.errors import NoChanges
from graveler.core.ids import BranchId
from graveler.core.records import Entry, StagedValue
from graveler.core.requests import Counts, counted_store
from graveler.engine import janitor, names
from graveler.engine.commits import reset
from graveler.engine.events import take_in
from graveler.engine.events.take_in import ArrivedObject
from graveler.engine.objects import read, write
from graveler.engine.repositories import repository
from graveler.refs.event_rules import EventRule
from graveler.staging import area
from tests.engine.lake import Lake, new_lake
from tests.engine.storage import HOUR, Storage, new_storage

ROWS, MOST = 3, 4


def growing(lake: Lake, rows: int = ROWS, most: int = MOST) -> Lake:
    """The lake in a deployment whose branches grow so."""
    settings = lake.ports.settings._replace(staging_shards_max=most, staging_shard_rows=rows)
    return Lake(replace(lake.ports, settings=settings), lake.repo)


@pytest.fixture
def lake() -> Lake:
    return growing(new_lake())


def committed(lake: Lake, count: int, branch: str = "main") -> None:
    """A commit of so many new paths."""
    start = len(lake.tree(branch))
    for number in range(start, start + count):
        lake.put(f"p/{number:03}", f"{number}", branch)
    lake.commit(f"{start}", branch)


def shards(lake: Lake, branch: str = "main") -> int:
    """Those of the open token."""
    return area.shard_count(lake.record(branch).staging)


def mixed(lake: Lake) -> dict[str, str]:
    """Leaves a branch with sealed tokens of three shards and of one under an open one of two;
    what it then says."""
    committed(lake, 9)
    committed(lake, 1)  # puts a token of three shards in place, and the next has two
    for number in range(20):
        lake.put(f"p/{number:03}", f"new {number}")
    reset.reset_path(lake.opened, "main", "p/004")
    lake.put("p/004", "after")
    lake.delete("p/005")
    record = lake.record()
    counts = [area.shard_count(token) for token in record.tokens_newest_first]
    assert counts == [2, 1, 3]
    said = {f"p/{number:03}": f"new {number}" for number in range(20)}
    del said["p/005"]
    return said | {"p/004": "after"}


# ---- the rule ------------------------------------------------------------------------------------


def test_small_commits_stay_at_one_shard() -> None:
    lake = growing(new_lake(), limits.staging_shard_rows_count, limits.staging_shard_count_max)
    for _ in range(3):
        committed(lake, 100)
        assert shards(lake) == 1
    assert lake.record().recent_rows == 100


def test_a_branch_grows_with_its_commits_and_shrinks_over_some(lake: Lake) -> None:
    found = []
    for count in (3, 9, 1, 1, 1, 1):
        committed(lake, count)
        found.append((lake.record().recent_rows, shards(lake)))
    # The token that was made by a commit's seal knows the commits before.
    assert found == [(3, 1), (9, 1), (4, 3), (2, 2), (1, 1), (1, 1)]


def test_a_branch_grows_to_what_the_deployment_bears(lake: Lake) -> None:
    committed(lake, 50)
    committed(lake, 1)
    assert shards(lake) == MOST


def test_a_deployment_without_partitions_keeps_one_shard() -> None:
    lake = growing(new_lake(), rows=1, most=new_lake().ports.settings.staging_shards_max)
    for _ in range(2):
        committed(lake, 50)
        assert shards(lake) == 1


@pytest.mark.parametrize("most", [1, MOST])
def test_the_repository_says_how_many_there_are_at_least(most: int) -> None:
    lake = growing(new_lake(shards=3), most=most)
    assert shards(lake) == 3
    committed(lake, 12)
    committed(lake, 1)
    assert shards(lake) == max(3, most)


def test_a_commit_of_what_is_there_already_counts_too(lake: Lake) -> None:
    committed(lake, 9)
    for number in range(9):
        lake.put(f"p/{number:03}", f"{number}")
    with pytest.raises(NoChanges):
        lake.commit()
    assert (lake.record().recent_rows, shards(lake)) == (9, 3)


def test_deletions_count(lake: Lake) -> None:
    committed(lake, 2)
    write.delete_many(lake.opened, "main", [f"gone/{number}" for number in range(9)])
    lake.delete("p/000")
    lake.commit()
    assert lake.record().recent_rows == 10


def test_a_commit_that_lost_its_swap_counts_what_it_folds_in(lake: Lake) -> None:
    rival = lake.another_process()
    mine, script = lake.interposed()
    for number in range(9):
        lake.put(f"p/{number}", "1")

    def other() -> None:
        rival.put("q", "1")
        rival.commit("rival")

    # The rival seals after us, folds our nine rows and its own, and is first.
    script.before("set_many", other)
    mine.commit("mine")
    assert lake.record().recent_rows == 10
    assert len(lake.tree("main@")) == 10


def test_resets_and_landings_leave_the_size_of_a_branch(lake: Lake) -> None:
    committed(lake, 9)
    lake.branch("dev")
    committed(lake, 1, "dev")
    lake.merge("dev")
    assert lake.record().recent_rows == 9
    lake.put("x", "1")
    reset.reset(lake.opened, "main")
    assert (lake.record().recent_rows, shards(lake)) == (9, 3)
    reset.hard_reset(lake.opened, "main", "main~1")
    assert lake.record().recent_rows == 9


def test_a_branch_begins_small_whatever_it_is_made_from(lake: Lake) -> None:
    committed(lake, 9)
    committed(lake, 9)
    assert shards(lake) == 3
    lake.branch("dev")
    assert (lake.record("dev").recent_rows, shards(lake, "dev")) == (0, 1)
    committed(lake, 9, "dev")
    names.delete_branch(lake.opened, "dev")
    lake.branch("dev")
    assert (lake.record("dev").recent_rows, shards(lake, "dev")) == (0, 1)


def test_a_repository_with_more_shards_is_made_by_its_maker() -> None:
    ports = new_lake().ports
    new = repository.NewRepository("busy", "mem://bucket/busy", staging_shards=8)
    busy = Lake(ports, repository.create(ports, new))
    assert shards(busy) == 8


# ---- tokens of unlike numbers --------------------------------------------------------------------


def test_reads_and_pages_over_unlike_tokens(lake: Lake) -> None:
    said = mixed(lake)
    assert lake.tree() == said
    for path, identity in said.items():
        assert read.stat(lake.opened, "main", path).checksum == identity
    listed = []
    after, more = "", True
    while more:
        query = read.ListQuery(after=after, amount=3)
        page = read.list_objects(lake.opened, "main", query)
        listed += [path for path, _ in page.lines]
        after, more = listed[-1], page.more
    assert listed == sorted(said)
    assert {path for _, path in lake.uncommitted()} == {*said, "p/005"}


def test_a_commit_over_unlike_tokens_folds_every_row(lake: Lake) -> None:
    said = mixed(lake)
    lake.commit()
    assert lake.tree("main@") == said
    assert lake.record().recent_rows == 23  # twenty, one that a reset put back, two since
    assert not lake.record().sealed


def test_a_reset_of_a_prefix_over_unlike_tokens(lake: Lake) -> None:
    mixed(lake)
    reset.reset_prefix(lake.opened, "main", "p/")
    assert lake.tree() == lake.tree("main@")
    newest = lake.record().sealed[-1]
    assert area.shard_count(newest) == MOST  # for twenty rows, though the branch says two


def test_a_bulk_deletion_over_unlike_tokens(lake: Lake) -> None:
    said = mixed(lake)
    write.delete_many(lake.opened, "main", sorted(said))
    assert lake.tree() == {}
    lake.commit()
    assert lake.tree("main@") == {}


def test_events_over_unlike_tokens(lake: Lake) -> None:
    said = mixed(lake)
    rule = EventRule("rule", lake.repo.id, lake.repo.uid, BranchId("main"), "landing")

    def told(number: int, sequencer: str, value: StagedValue) -> ArrivedObject:
        return ArrivedObject(b"k%d" % number, sequencer, b"e/%03d" % number, value)

    def value(identity: str) -> bytes:
        return wire.encode_entry(Entry("mem://landing/k", len(identity), identity, 1))

    first = [told(number, "01", value(f"{number}")) for number in range(12)]
    take_in.take_in(lake.opened, rule, first)
    lake.commit()
    then = [told(number, "02", value("again")) for number in range(6)]
    take_in.take_in(lake.opened, rule, then)
    known = take_in.take_in(lake.opened, rule, first)
    assert {each.value for each in known[:6]} == {"old"}
    assert {each.value for each in known[6:]} == {"known"}
    arrived = {f"e/{number:03}": "again" if number < 6 else f"{number}" for number in range(12)}
    assert lake.tree() == said | arrived


def test_the_janitor_and_collection_see_every_shard(tmp_path: Path) -> None:
    storage = new_storage(tmp_path)
    settings = storage.ports.settings._replace(staging_shards_max=MOST, staging_shard_rows=1)
    storage = replace(storage, ports=replace(storage.ports, settings=settings))
    storage.commit(**{f"a{number}": f"a{number}" for number in range(9)})
    storage.commit(b="b")
    contents = {f"c{number}": f"c{number}" for number in range(12)}
    storage.put(**contents)
    lake = Lake(storage.ports, storage.repo)
    grown = lake.record().staging
    assert area.shard_count(grown) == MOST
    storage.wait(48 * HOUR)
    assert storage.collected() == 0
    for path, content in contents.items():
        assert storage.read("main", path) == content.encode()
    lake.commit()
    assert rows_of(storage, grown) == 12
    storage.wait(8 * HOUR)
    assert rows_of(storage, grown) == 0
    assert janitor.sweep(lake.opened).waiting == 0


def rows_of(storage: Storage, token: str) -> int:
    """How many the store has, in whatever shard."""
    store = storage.ports.kv
    partitions = [f"s/{token}/{number}".encode() for number in range(MOST)]
    pages = [store.scan(each, b"", b"", 100).rows for each in partitions]
    assert sum(bool(rows) for rows in pages) != 1, "the rows are spread"
    return sum(map(len, pages))


# ---- what it costs -------------------------------------------------------------------------------


def counted(lake: Lake) -> tuple[Lake, Callable[[Callable[[], object]], Mapping[str, int]]]:
    """The lake, and what a call of it asks of the store."""
    counts = Counts()
    seen = Lake(replace(lake.ports, kv=counted_store(lake.ports.kv, counts)), lake.repo)

    def of(call: Callable[[], object]) -> Mapping[str, int]:
        before = counts.snapshot()
        call()
        return counts.since(before)

    return seen, of


def test_the_size_of_a_branch_costs_no_request(lake: Lake) -> None:
    seen, of = counted(lake)
    committed(seen, 1)
    for count in (1, 9):  # the second is what the branch grows by
        for number in range(count):
            seen.put(f"q/{number}", f"{count}")
        assert of(seen.commit) == {"get": 1, "scan": 2, "set_if": 2, "set_many": 1}


def test_a_grown_branch_costs_a_query_for_each_shard(lake: Lake) -> None:
    seen, of = counted(lake)
    committed(seen, 9)
    committed(seen, 9)
    assert shards(seen) == 3
    for number in range(9):
        seen.put(f"q/{number}", "1")
    assert of(seen.tree) == {"get": 1, "scan": 3}
    spent = of(seen.commit)
    assert spent == {"get": 1, "scan": spent["scan"], "set_if": 2, "set_many": 1}
    assert 4 <= spent["scan"] <= 6
