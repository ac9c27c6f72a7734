"""What verbs cost in requests, against the table of the protocol.

Counted at the ports, with warm caches of repository, branch record, commits and ranges: what a
cache answers is no request.  One shard, unless the test says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from graveler.committed import reader, writer
from graveler.committed.ranges import Keyspace
from graveler.core import limits
from graveler.core.errors import DirtyBranch, NoChanges, PreconditionFailed
from graveler.core.ids import MetarangeId
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine import names, staged_rows
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.streams import Batch
from graveler.engine.commits import diff, log, merge, reset
from graveler.engine.gc import root_pages
from graveler.engine.objects import addresses, read, write
from graveler.engine.ports import keyspace
from graveler.engine.repositories import repository
from graveler.refs.cache import RefCache
from tests.engine import bulk_world
from tests.engine.lake import COMMITTER, Lake, new_lake


class Counted:
    """A lake whose requests are counted."""

    def __init__(self, shards: int = 1) -> None:
        lake = new_lake(shards)
        self.kv, self.blocks = Counts(), Counts()
        ports = replace(
            lake.ports,
            kv=counted_store(lake.ports.kv, self.kv),
            blocks=counted_blocks(lake.ports.blocks, self.blocks),
        )
        self.lake = Lake(ports, lake.repo)

    def of(self, call: Callable[[], object]) -> Mapping[str, int]:
        """Key-value requests of one call."""
        before = self.kv.snapshot()
        call()
        return self.kv.since(before)

    def blocks_of(self, call: Callable[[], object]) -> Mapping[str, int]:
        """Object storage requests of one call."""
        before = self.blocks.snapshot()
        call()
        return self.blocks.since(before)


@pytest.fixture
def counted() -> Counted:
    """A committed path, warm caches, nothing staged."""
    counted = Counted()
    counted.lake.commit_of(a="1", b="2")
    counted.lake.tree()
    return counted


@pytest.fixture
def grown(counted: Counted) -> Counted:
    """Also a staged row, a branch `dev` that has diverged, and a tag."""
    lake = counted.lake
    lake.branch("dev")
    lake.commit_of("dev", c="3")
    lake.commit_of(d="4")
    lake.branch("clean")
    names.create_tag(lake.opened, "v1", lake.head())
    lake.put("p", "1")
    lake.tree("dev@"), lake.tree()
    return counted


def _refused(kind: type[Exception], call: Callable[[Lake], object]) -> Callable[[Lake], None]:
    def refused(lake: Lake) -> None:
        with pytest.raises(kind):
            call(lake)

    return refused


def _linked(lake: Lake) -> Callable[[], object]:
    address = addresses.hand_out(lake.opened, "main", "linked")
    lake.ports.blocks.put(address, [b"bytes"])
    return lambda: addresses.link(
        lake.opened, "main", "linked", addresses.Link(address, "checksum", 5)
    )


_QUERY, _REPLAY = diff.DiffQuery(), merge.ReplayRequest(COMMITTER, message="again")
_UPLOAD = write.Upload([b"bytes"])
_PATHS = [f"p/{number}" for number in range(50)]
COSTS: dict[str, tuple[Callable[[Lake], object], Mapping[str, int] | int]] = {
    "write": (lambda lake: lake.put("p", "2"), {"set_newer": 1, "get": 1}),
    "delete": (lambda lake: lake.delete("a"), {"set_newer": 1, "get": 1}),
    "upload": (
        lambda lake: write.upload(lake.opened, "main", "u", _UPLOAD),
        {"set_newer": 1, "get": 1},
    ),
    "list": (lambda lake: lake.tree(), 2),
    "list a commit": (lambda lake: lake.tree("dev@"), {"get": 1}),
    "commit nothing": (
        _refused(NoChanges, lambda lake: lake.commit("m", "dev")),
        {"get": 2, "scan": 1},
    ),
    "merge by name": (lambda lake: lake.merge("dev", "clean"), 5),
    "cherry-pick": (
        lambda lake: merge.cherry_pick(lake.opened, "clean", "dev", _REPLAY),
        {"get": 2, "scan": 1, "set_if": 1, "set_many": 1},
    ),
    "revert": (
        lambda lake: merge.revert(lake.opened, "clean", "clean", _REPLAY),
        {"get": 2, "scan": 1, "set_if": 1, "set_many": 1},
    ),
    "hard reset": (
        lambda lake: reset.hard_reset(lake.opened, "clean", "dev"),
        {"get": 2, "scan": 1, "delete": 1, "set_if": 1},
    ),
    "reset": (
        lambda lake: reset.reset(lake.opened, "main"),
        {"get": 1, "set_many": 1, "set_if": 1},
    ),
    "create a branch": (
        lambda lake: lake.branch("new", "dev"),
        {"get": 1, "get_many": 1, "set_if": 1},
    ),
    "delete a branch": (  # the scan: its pull requests
        lambda lake: names.delete_branch(lake.opened, "dev"),
        {"get": 1, "set_many": 1, "delete": 1, "set_if": 1, "scan": 1},
    ),
    "get a branch": (lambda lake: names.get_branch(lake.opened, "main"), {"get": 1}),
    "create a tag": (lambda lake: names.create_tag(lake.opened, "v2", "dev"), 3),
    "get a tag": (lambda lake: names.get_tag(lake.opened, "v1"), 1),
    "delete a tag": (
        lambda lake: names.delete_tag(lake.opened, "v1"),
        {"get": 1, "delete": 1, "set_if": 1},
    ),
    "put if absent": (lambda lake: lake.put_if_absent("n", "1"), {"get": 2, "set_if": 1}),
    "put if absent, refused": (
        _refused(PreconditionFailed, lambda lake: lake.put_if_absent("a", "9")),
        3,
    ),
    "put over": (lambda lake: lake.put_over("p", "2", "1"), {"get": 2, "set_if": 1}),
    "put over, refused": (
        _refused(PreconditionFailed, lambda lake: lake.put_over("p", "2", "0")),
        {"get": 3},
    ),
    "delete many": (
        lambda lake: write.delete_many(lake.opened, "main", _PATHS),
        {"get": 2, "set_newer": 50},
    ),
    "diff of commits": (
        lambda lake: diff.diff_refs(lake.opened, "dev", "clean", _QUERY),
        {"get": 2},
    ),
    "diff of a branch": (lambda lake: diff.diff_branch(lake.opened, "main", _QUERY), 2),
    "preview": (lambda lake: merge.preview(lake.opened, "dev", "clean", _QUERY), {"get": 2}),
    "conflicts": (lambda lake: merge.conflicts(lake.opened, "dev", "clean", _QUERY), {"get": 2}),
    "log": (lambda lake: log.log(lake.opened, "dev", log.LogRequest()), {"get": 1}),
}


@pytest.mark.parametrize("verb", COSTS)
def test_a_verb_costs(grown: Counted, verb: str) -> None:
    call, cost = COSTS[verb]
    spent = grown.of(lambda: call(grown.lake))
    assert (sum(spent.values()) if isinstance(cost, int) else spent) == cost


def test_an_upload_is_one_put_and_a_link_a_look(grown: Counted) -> None:
    lake = grown.lake
    upload = lambda: write.upload(lake.opened, "main", "q", _UPLOAD)  # noqa: E731
    assert grown.blocks_of(upload) == {"put": 1}
    assert sum(grown.of(_linked(lake)).values()) <= 4


@pytest.mark.parametrize("state", ["staged", "sealed", "committed"])
def test_read(counted: Counted, state: str) -> None:
    lake = counted.lake
    if state != "committed":
        lake.put("a", "9")
    if state == "sealed":
        for number in range(20):
            lake.put(f"other/{number}", "1")
            reset.reset_path(lake.opened, "main", f"other/{number}")
        assert len(lake.record().sealed) == 40  # two for each reset
    assert sum(counted.of(lambda: read.stat(lake.opened, "main", "a")).values()) == 2
    assert counted.blocks_of(lambda: read.stat(lake.opened, "main", "a")) == {}


@pytest.mark.parametrize("shards", [1, 4])
def test_list_page_costs_a_query_for_each_shard(shards: int) -> None:
    counted = Counted(shards)
    counted.lake.commit_of(a="1")
    counted.lake.put("p", "1")
    assert sum(counted.of(counted.lake.tree).values()) == 1 + shards


def test_a_page_over_many_tombstones_is_no_request_for_each() -> None:
    counted = Counted()
    for number in range(3_000):
        counted.lake.delete(f"gone/{number:04}")
    counted.lake.put("z", "1")
    query = read.ListQuery(amount=1)
    lake = counted.lake
    spent = counted.of(lambda: read.list_objects(lake.opened, "main", query))
    assert sum(spent.values()) <= 12


@pytest.mark.parametrize("shards", [1, 3])
def test_commit(shards: int) -> None:
    counted = Counted(shards)
    counted.lake.commit_of(a="1")
    for number in range(100):
        counted.lake.put(f"p/{number}", "1")
    spent = counted.of(lambda: counted.lake.commit())
    assert sum(spent.values()) <= 4 + 2 * shards
    assert spent == {"get": 1, "scan": spent["scan"], "set_if": 2, "set_many": 1}
    if shards == 1:
        assert sum(spent.values()) == 6


def test_commit_with_sealed_tokens_looks_for_nothing_first(counted: Counted) -> None:
    lake = counted.lake
    lake.put("p", "1")
    lake.put("q", "1")
    reset.reset_path(lake.opened, "main", "q")
    spent = counted.of(lambda: lake.commit())
    # three tokens are scanned: the one written to, the one the reset filled, the one open since;
    # and a look for a bulk job that waits for what is sealed
    assert spent == {"get": 1, "scan": 4, "set_if": 2, "set_many": 1}


def _diverged(counted: Counted) -> Lake:
    lake = counted.lake
    lake.branch("dev")
    lake.commit_of("dev", c="3")
    lake.commit_of(d="4")
    return lake


def test_a_merge_looks_at_staged_rows_batch_by_batch(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds 1,000 rows at a time, in each of its two looks; none behind one that differs."""
    lake, sizes, get_many = _diverged(counted), list[int](), reader.get_many

    def noted(space: Keyspace, id: MetarangeId, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        sizes.append(len(keys))
        return get_many(space, id, keys)

    def stage_what_the_head_says() -> None:
        for number in range(2_500):
            lake.put(f"none/{number:04}", "1")
            lake.delete(f"none/{number:04}")
        sizes.clear()

    monkeypatch.setattr(reader, "get_many", noted)
    stage_what_the_head_says()
    lake.merge("dev")
    assert sizes == [1_000, 1_000, 500] * 2
    lake.commit_of("dev", e="5")
    stage_what_the_head_says()
    lake.put("none/1500", "1")
    with pytest.raises(DirtyBranch):
        lake.merge("dev")
    assert sizes == [1_000, 1_000]


def test_a_reset_of_a_prefix_writes_batch_by_batch(counted: Counted) -> None:
    """Rows are covered in batches; small resets are read once, larger ones twice."""
    lake, batch = counted.lake, limits.kv_batch_count_max
    lake.commit_of(**{"p1": "1", "p2": "1", "q": "1"})
    spent = []
    for rows in (batch, batch * 5 // 2):
        for number in range(rows):
            lake.put(f"p{number}", "2")
        lake.put("q", f"{rows}")
        spent.append(counted.of(lambda: reset.reset_prefix(lake.opened, "main", "p")))
        assert lake.tree() == {"a": "1", "b": "2", "p1": "1", "p2": "1", "q": f"{rows}"}
    assert [each["set_many"] for each in spent] == [1 + 1, 1 + 3]
    assert lake.uncommitted() == [("changed", "q")]


def test_a_deep_page_of_the_log(counted: Counted) -> None:
    """Behind 20 commits or 180: the branch, then jumps along the line, then the page itself."""
    lake = counted.lake
    for _ in range(200):
        lake.commit(allow_empty=True)
    spent: dict[int, int] = {}
    for depth in (20, 60, 180):
        cold = lake.another_process()
        after = log.get_commit(lake.opened, f"main~{depth}").id
        request = log.LogRequest(after=after, amount=5)
        page = partial(log.log, cold.opened, "main", request)
        spent[depth] = sum(counted.of(page).values())
    assert max(spent.values()) <= 30, spent


# ---- bulk jobs -----------------------------------------------------------------------------------


def test_bulk_jobs(counted: Counted) -> None:
    lake = counted.lake
    repo = lake.opened
    new = bulk.NewBulk(bulk.Mode.REPLACE, "in/", "load-1")
    assert counted.of(lambda: bulk.begin(repo, "main", new)) == {"get": 2, "set_if": 1}
    assert counted.of(lambda: bulk.begin(repo, "main", new)) == {"get": 3}
    unnamed = replace(new, id="")
    assert counted.of(lambda: bulk.begin(repo, "main", unnamed)) == {"get": 1, "set_if": 1}
    job = bulk.status(repo, "main", "load-1")
    assert counted.of(lambda: bulk.status(repo, "main", "load-1")) == {"get": 2}
    beat = lambda: bulk.heartbeat(repo, "main", "load-1", 1)  # noqa: E731
    assert counted.of(beat) == {"get": 2, "set_if": 1}
    written = bulk_world.write(lake, {"in/a": "1", "in/b": "1"})
    land = lambda: bulk_world.finish(lake, job, written)  # noqa: E731
    assert counted.of(land) == {"get": 6, "scan": 1, "set_if": 4, "set_many": 1}
    assert counted.of(land) == {"get": 2}
    other = bulk.begin(repo, "main", unnamed)
    cancel = lambda: bulk.cancel(repo, "main", other.job.id)  # noqa: E731
    assert counted.of(cancel) == {"get": 3, "set_if": 1}


def test_batches_of_streams(counted: Counted) -> None:
    """A batch costs one read more at its begin and one at its landing, however old the stream; the
    first one asks whether the repository was restored."""
    lake = counted.lake
    written = bulk_world.write(lake, {"in/a": "1"})
    for number in range(3):
        new = bulk.NewBulk(bulk.Mode.SPLICE, batch=Batch("s", number))
        begun = counted.of(lambda new=new: bulk.begin(lake.opened, "main", new))
        assert begun == {"get": 2 if number else 3, "set_if": 1}
        job = bulk.begin(lake.opened, "main", new)
        land = lambda job=job: bulk_world.finish(lake, job, written)  # noqa: E731
        assert counted.of(land) == {"get": 7, "scan": 1, "set_if": 4, "set_many": 1}
        assert counted.of(lambda new=new: bulk.begin(lake.opened, "main", new)) == {"get": 2}
        lake.commit_of(other=str(number))


def test_bulk_commits(counted: Counted) -> None:
    lake = counted.lake
    lake.put("p", "1")
    new = bulk.NewBulk(bulk.Mode.COMMIT)
    begun = counted.of(lambda: bulk.begin(lake.opened, "main", new))
    assert begun == {"get": 1, "scan": 1, "set_if": 2}
    lake.put("q", "1")
    job = bulk.begin(lake.opened, "main", replace(new, id="c"))
    token = job.tokens[0].token
    page = counted.of(lambda: staged_rows.page(lake.opened, "main", token, 0, "", 9))
    assert page == {"get": 1, "scan": 1}
    assert counted.of(lambda: staged_rows.tokens(lake.opened, "main")) == {"get": 1}
    written = bulk_world.change(lake, job, {"p": "1", "q": "1"})
    land = lambda: bulk_world.finish(lake, job, written)  # noqa: E731
    assert counted.of(land) == {"get": 6, "set_if": 4, "set_many": 1}


def test_packing(counted: Counted) -> None:
    lake = counted.lake
    repo = lake.opened
    breaks = replace(repo.record.breaks, min_size=1_000)
    new = bulk.NewBulk(bulk.Mode.PACK, breaks=breaks)
    begun = counted.of(lambda: bulk.begin(repo, "main", new))
    assert begun == {"get": 1, "scan": 1, "set_if": 1}
    job = bulk.begin(repo, "main", replace(new, id="packed"))
    space = keyspace(repo)
    records = reader.scan(space, job.base.commit.metarange)
    written = writer.write(space._replace(breaks=breaks), records)
    land = lambda: bulk_world.finish(lake, job, written)  # noqa: E731
    assert counted.of(land) == {"get": 6, "scan": 1, "set_if": 4, "set_many": 1}
    swap = lambda: repository.swap_breaks(repo, repo.record.breaks, breaks)  # noqa: E731
    assert counted.of(swap) == {"get": 1, "set_if": 1}
    assert counted.of(swap) == {"get": 1}


def test_roots(counted: Counted) -> None:
    lake = counted.lake
    lake.put("p", "1")
    after: list[str] = [""]

    def page() -> None:
        after.append(root_pages.page(lake.opened, after[-1], 10).following)

    scans = [counted.of(page).get("scan", 0) for _ in range(5)]
    assert (scans, after[-1]) == ([6, 1, 0, 1, 10], "")


def test_the_second_search_for_a_merge_base_reads_two_heads() -> None:
    counted = Counted()
    lake = counted.lake
    lake = Lake(replace(lake.ports, cache=RefCache(lake.ports.clock, 2)), lake.repo)
    lake.branch("dev")
    for number in range(20):
        lake.commit_of(**{f"main{number}": "1"})
        lake.commit_of("dev", **{f"dev{number}": "1"})
        if number % 5 == 0:
            lake.merge("dev")  # no jump leads over it
    first = counted.of(lambda: log.merge_base(lake.opened, "dev", "main"))
    second = counted.of(lambda: log.merge_base(lake.opened, "dev", "main"))
    assert second["get"] <= 4 < 10 <= first["get"]
