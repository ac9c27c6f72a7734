"""Many uploads at once: each gets what it would get alone, and shares its requests with others."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from graveler.block.adapter import Blocks
from graveler.core import wire
from graveler.core.errors import (
    Code,
    Corrupt,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    StorageFull,
    Unavailable,
)
from graveler.core.ids import BranchId
from graveler.core.records import TOMBSTONE, Entry
from graveler.core.requests import Counts, counted_blocks, counted_store, preceded
from graveler.engine import names, protection
from graveler.engine.objects import read, write
from graveler.engine.objects.write import NewUpload, Upload
from graveler.engine.repositories import repository
from graveler.kv.store import Newer
from graveler.staging import area
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyBlocks, FaultyStore, nth
from tests.support.interposer import Script

MAIN = BranchId("main")


def new(lake: Lake, path: str, content: bytes = b"bytes", branch: str = "main") -> NewUpload:
    return NewUpload(lake.opened, branch, path, Upload((content,)))


def upload_many(*uploads: NewUpload) -> list[Entry | GravelerError]:
    return write.upload_many(uploads)


def bytes_of(lake: Lake, path: str, branch: str = "main") -> bytes:
    entry = read.stat(lake.opened, branch, path)
    body = lake.ports.blocks.get(f"{lake.repo.namespace}/{entry.address}")
    return b"".join(body.chunks)


def with_blocks(lake: Lake, wrap: Callable[[Blocks], Blocks]) -> Lake:
    return Lake(replace(lake.ports, blocks=wrap(lake.ports.blocks)), lake.repo)


def test_branches_and_repositories_may_differ(lake: Lake) -> None:
    lake.branch("dev")
    ports = lake.ports
    other = Lake(ports, repository.create(ports, repository.NewRepository("other", "mem://b/o")))
    results = upload_many(
        new(lake, "a", b"1"),
        new(lake, "a", b"2", "dev"),
        new(other, "a", b"3"),
        new(lake, "b", b""),
    )
    assert [each.size for each in results if isinstance(each, Entry)] == [1, 1, 1, 0]
    assert bytes_of(lake, "a") == b"1" and bytes_of(lake, "a", "dev") == b"2"
    assert bytes_of(other, "a") == b"3" and bytes_of(lake, "b") == b""
    assert upload_many() == []


def test_an_error_concerns_its_upload_alone(lake: Lake) -> None:
    lake.branch("closed")
    protection.add_rule(lake.opened, "closed")
    read_only = Lake(lake.ports, replace(lake.repo, read_only=True))
    classed = new(lake, "c")
    bad = classed._replace(upload=Upload((b"x",), metadata={"x" * 9_000: ""}))
    results = upload_many(
        new(lake, "a"),
        new(lake, ""),
        new(lake, "b", branch="none"),
        new(lake, "b", branch="closed"),
        new(read_only, "b"),
        bad,
        classed._replace(upload=Upload((b"x",), storage_class="?")),
        new(read_only, "d")._replace(force=True),
        new(lake, "e"),
    )
    kinds = [type(each) for each in results]
    assert kinds == [Entry, Invalid, NotFound, Refused, Refused, Invalid, Invalid, Entry, Entry]
    assert [each.code for each in results if isinstance(each, Refused)] == [
        Code.PROTECTED_WRITE,
        Code.READ_ONLY_REPOSITORY,
    ]
    assert sorted(lake.tree("main")) == ["a", "d", "e"]


def test_of_uploads_of_one_path_the_last_is_staged_and_all_have_its_outcome(lake: Lake) -> None:
    counts = Counts()
    counted = Lake(replace(lake.ports, kv=counted_store(lake.ports.kv, counts)), lake.repo)
    counted.put("warm", "1")
    before = counts.snapshot()
    results = upload_many(
        *(new(counted, "a", b"x" * number) for number in range(4)), new(counted, "b")
    )
    assert [each.size for each in results if isinstance(each, Entry)] == [0, 1, 2, 3, 5]
    assert bytes_of(lake, "a") == b"xxx"
    assert counts.since(before) == {"set_newer": 2, "get": 1}
    lake.branch("dev")
    names.delete_branch(lake.opened, "dev")
    assert {type(each) for each in upload_many(*(new(lake, "a", branch="dev") for _ in "12"))} == {
        NotFound
    }


def test_many_cost_no_more_requests_than_each_alone(lake: Lake) -> None:
    kv, blocks = Counts(), Counts()
    ports = replace(
        lake.ports,
        kv=counted_store(lake.ports.kv, kv),
        blocks=counted_blocks(lake.ports.blocks, blocks),
    )
    counted = Lake(ports, lake.repo)
    counted.put("warm", "1")
    for count in (1, 5):
        before, stored = kv.snapshot(), blocks.snapshot()
        upload_many(*(new(counted, f"{count}/{number}") for number in range(count)))
        assert kv.since(before) == {"set_newer": count, "get": 1}
        assert blocks.since(stored) == {"put": count}


def test_a_commit_between_row_and_record_makes_the_rows_be_sent_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("before", "1")
    mine, script = scripted
    mine.record()
    script.before("set_newer", lambda: rival.commit("rival"))
    assert all(isinstance(each, Entry) for each in upload_many(new(mine, "a"), new(mine, "b")))
    assert script.finished
    # the committer sealed the token after this writer had read its name
    assert sorted(lake.tree("main")) == ["a", "b", "before"]
    lake.commit("theirs")
    assert sorted(lake.tree(lake.head())) == ["a", "b", "before"]


def test_a_branch_that_is_deleted_meanwhile(lake: Lake, scripted: tuple[Lake, Script]) -> None:
    lake.branch("dev")
    mine, script = scripted
    script.after("set_newer", lambda: names.delete_branch(lake.opened, "dev"))
    results = upload_many(new(mine, "a", branch="dev"), new(mine, "a"))
    assert [type(each) for each in results] == [NotFound, Entry]


def test_a_rule_that_is_set_while_bodies_are_stored(lake: Lake) -> None:
    class Closing(FaultyBlocks):
        def put(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
            protection.add_rule(lake.opened, "main")
            return super().put(*arguments, **more)  # type: ignore[arg-type]

    closing = with_blocks(lake, lambda blocks: Closing(blocks, nth({})))
    assert [type(each) for each in upload_many(new(closing, "a"))] == [Refused]


@pytest.mark.parametrize(
    ("fault", "kind"), [(Fault.FULL, StorageFull), (Fault.DROPPED, OutcomeUnknown)]
)
def test_a_body_that_is_not_stored(lake: Lake, fault: Fault, kind: type[GravelerError]) -> None:
    faulty = with_blocks(lake, lambda blocks: FaultyBlocks(blocks, nth({2: fault})))
    results = upload_many(*(new(faulty, path) for path in "abc"))
    assert [type(each) for each in results] == [Entry, kind, Entry]
    assert sorted(lake.tree("main")) == ["a", "c"]


def rows_fail(lake: Lake, *faults: Fault) -> Lake:
    """The first rows that are sent have these faults."""
    left = list(faults)

    def plan(_: int, verb: str) -> Fault:
        return left.pop(0) if verb == "set_newer" and left else Fault.NONE

    return lake.with_kv(lambda kv: FaultyStore(kv, plan))


def test_a_row_that_is_known_not_to_be_written(lake: Lake) -> None:
    faulty = rows_fail(lake, Fault.NONE, Fault.FULL)
    results = upload_many(*(new(faulty, path) for path in "ab"))
    assert [type(each) for each in results] == [Entry, StorageFull]
    assert sorted(lake.tree("main")) == ["a"]


def test_deletions_that_a_full_device_refuses_are_named_or_the_answer(lake: Lake) -> None:
    for path in "abc":
        lake.put(path, "1")
    with pytest.raises(StorageFull):
        write.delete_many(rows_fail(lake, *[Fault.FULL] * 3).opened, "main", ["a", "b"])
    assert sorted(lake.tree("main")) == ["a", "b", "c"]
    failed = write.delete_many(rows_fail(lake, Fault.FULL).opened, "main", ["a", "b"])
    assert [(each.path, type(each.error)) for each in failed] == [("a", StorageFull)]
    assert sorted(lake.tree("main")) == ["a", "c"]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.REPEATED])
def test_a_row_whose_answer_is_lost_is_sent_again(lake: Lake, fault: Fault) -> None:
    faulty = rows_fail(lake, Fault.NONE, fault)
    assert all(isinstance(each, Entry) for each in upload_many(new(faulty, "a"), new(faulty, "b")))
    assert sorted(lake.tree("main")) == ["a", "b"]


def test_a_row_that_may_be_written_and_then_is_refused_is_unknown(lake: Lake) -> None:
    faulty = rows_fail(lake, Fault.NONE, Fault.DROPPED, Fault.REFUSED)
    results = upload_many(new(faulty, "a"), new(faulty, "b"))
    assert [type(each) for each in results] == [Entry, OutcomeUnknown]


def test_a_record_that_cannot_be_read_again_leaves_all_unknown(lake: Lake) -> None:
    lake.put("warm", "1")
    broken = [False]

    def plan(_: int, verb: str) -> Fault:
        broken[0] = broken[0] or verb == "set_newer"
        return Fault.REFUSED if broken[0] and verb == "get" else Fault.NONE

    faulty = lake.with_kv(lambda kv: FaultyStore(kv, plan))
    results = upload_many(new(faulty, "a"), new(faulty, "b"))
    assert [type(each) for each in results] == [OutcomeUnknown] * 2
    assert all(isinstance(each, Unavailable) for each in results)


def test_a_damaged_row_concerns_its_upload_alone(lake: Lake) -> None:
    token = lake.record().staging
    lake.ports.kv.set_newer(*area.place_of(token, b"b"), b"\xff", b"v", 1 << 62)
    results = upload_many(*(new(lake, path) for path in "abc"))
    assert [type(each) for each in results] == [Entry, Corrupt, Entry]


def test_rows_that_are_always_overtaken_are_given_up(lake: Lake) -> None:
    """Another writer is always a little newer."""
    kv = lake.ports.kv
    other = wire.encode_staged(TOMBSTONE, b"another writer")

    def overtake(rows: Sequence[Newer]) -> None:
        for row in rows:
            kv.set_newer_many([row._replace(value=other, order=row.order + 10)])

    overtaken = lake.with_kv(lambda kv: preceded(kv, {"set_newer_many": overtake}))
    results = upload_many(new(overtaken, "a"), new(overtaken, "b"))
    assert [type(each).__name__ for each in results] == ["KeptLosing"] * 2
