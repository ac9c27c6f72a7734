"""What a collection that runs elsewhere is told: everything in use, rows before commits."""

import pytest

from graveler.block.adapter import OVERWRITE
from graveler.committed import writer
from graveler.core import limits
from graveler.core.errors import Gone, Invalid, NotFound
from graveler.core.records import ABSENT, AddressType, Entry
from graveler.core.wire import encode_entry
from graveler.engine import names as branches
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.commits import reset
from graveler.engine.gc import retention, root_pages
from graveler.engine.gc.root_pages import Root
from graveler.engine.objects import addresses, read, write
from graveler.engine.ports import keyspace
from graveler.engine.repositories import verify
from graveler.refs import garbage
from graveler.refs.garbage import DeletedContent, Retention
from tests.engine.lake import Lake, new_lake
from tests.engine.storage import DAY, HOUR, Storage


def roots(of: Storage | Lake, amount: int = 1_000) -> list[Root]:
    found: list[Root] = []
    after, pages = "", 0
    while pages == 0 or after:
        page = root_pages.page(of.opened, after, amount)
        assert len(page.roots) <= amount
        found += page.roots
        after, pages = page.following, pages + 1
        assert pages < 1_000
    return found


def names(found: list[Root], kind: str) -> list[str]:
    return [root.name for root in found if root.kind == kind]


def metarange(storage: Storage, commit: str) -> str:
    return bulk.commit_of(storage.opened, commit).metarange  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", [1, 2, 3, 1_000])
@pytest.mark.parametrize("shards", [1, 4])
def test_pages_of_any_size_tell_the_same(amount: int, shards: int) -> None:
    lake = new_lake(shards)
    lake.commit_of(a="1")
    lake.branch("dev")
    for number in range(5):
        lake.put(f"p/{number}", f"{number}")
        lake.put(f"d/{number}", f"{number}", "dev")
    lake.delete("a")
    reset.reset(lake.opened, "dev")  # its rows stand until the janitor comes
    handed = [addresses.hand_out(lake.opened, "main", f"u/{at}") for at in range(3)]
    full = Entry("mem://bucket/lake/data/x/y", 1, "c", 1, address_type=AddressType.FULL)
    far = full._replace(address="mem://far/x")
    for path, entry in (("full", full), ("far", far)):
        write.stage(lake.opened, "main", path, entry)
    for id in ("j1", "j2"):
        bulk.begin(lake.opened, "main", NewBulk(Mode.MERGE, "", id))
    found = roots(lake, amount)
    assert names(found, "job") == ["j1", "j2"]
    assert len(names(found, "metarange")) == 1
    staged = {f"data/{at}/{folder}/{at}" for at in range(5) for folder in "pd"}
    relative = {address.removeprefix("mem://bucket/lake/") for address in handed}
    assert sorted(names(found, "address")) == sorted(staged | relative | {"data/1/a", "data/x/y"})
    kinds = [root.kind for root in found]
    assert kinds == sorted(kinds, key=["address", "job", "metarange"].index)


def test_a_token_that_is_made_meanwhile_comes_later(storage: Storage) -> None:
    storage.put(a="1", b="2", c="3")
    first = root_pages.page(storage.opened, "", 2)
    storage.clock.sleep(1)
    storage.commit(d="4")  # seals; what is staged from now on stands in another token
    storage.put(e="5")
    late = read.stat(storage.opened, "main", "e").address
    found = list(first.roots)
    after = first.following
    while after:
        page = root_pages.page(storage.opened, after, 2)
        found, after = found + page.roots, page.following
    assert late in names(found, "address")


def test_many_tokens_that_hold_nothing_are_bounded_work() -> None:
    lake = new_lake(64)
    for number in range(5):
        lake.branch(f"b{number}")
    page = root_pages.page(lake.opened, "", 10)
    assert page.roots == [] and page.following
    assert roots(lake) == []  # the first commit has no content


@pytest.mark.parametrize(
    "after",
    ["x", "e30=", "WzFd", "WyJzdGFnZWQiLCAidCIsIDAsICJ6eiJd", "WyJ4IiwgInQiLCAwLCAiIl0=",
     "WyJzdGFnZWQiLCAidCIsIDY0LCAiIl0=", "WyJzdGFnZWQiLCAxLCAwLCAiIl0=",
     "W1tb" * 2_000],
)  # fmt: skip
def test_a_place_that_no_page_gave_is_refused(storage: Storage, after: str) -> None:
    with pytest.raises(Invalid, match="previous page"):
        root_pages.page(storage.opened, after, 10)


def test_content_stays_until_it_was_condemned_for_long(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=7))
    old, new = storage.commit(a="old"), storage.commit(a="new")
    one, two = metarange(storage, old), metarange(storage, new)

    def told() -> dict[str, str]:
        found = [root for root in roots(storage) if root.kind == "metarange"]
        assert all(root.files and root.kept is (root.objects == "kept") for root in found)
        return {root.name: root.objects for root in found}

    assert told() == {one: "kept", two: "kept"}
    storage.wait(8 * DAY)
    assert told() == {one: "expiring", two: "kept"}
    storage.collect()  # condemns
    assert told() == {one: "expiring", two: "kept"}
    storage.wait(DAY)
    assert told() == {one: "due", two: "kept"}
    retention.set_rule(storage.opened, Retention(default_days=0))
    assert told() == {one: "kept", two: "kept"}  # kept again, and still there
    retention.set_rule(storage.opened, Retention(default_days=7))
    storage.collect()  # deletes
    assert told() == {one: "gone", two: "kept"}
    retention.set_rule(storage.opened, Retention(default_days=0))
    assert told() == {one: "gone", two: "kept"}
    # As an older version would have left it, which deleted metaranges with the objects.
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{one}")
    storage.clock.sleep(1)
    mark = garbage.find_mark(storage.ports.kv, storage.repo, old)
    assert mark is not ABSENT and mark.spent is DeletedContent.OBJECTS
    unsaid = mark._replace(spent=DeletedContent.NOTHING)
    garbage.put_mark(storage.ports.kv, storage.repo, [old], unsaid, storage.ports.ids)
    assert told() == {two: "kept"}


def test_what_no_ref_leads_to_stays_until_it_was_condemned_for_long(storage: Storage) -> None:
    branches.create_branch(storage.opened, "side", "main")
    lost = metarange(storage, storage.commit("side", a="lost"))
    branches.delete_branch(storage.opened, "side")

    def told() -> list[Root]:
        return [root for root in roots(storage) if root.kind == "metarange"]

    storage.wait(30 * DAY)
    assert told() == [Root("metarange", lost)]  # no run has seen it yet
    storage.collect()
    storage.wait(8 * DAY)
    assert told() == [Root("metarange", lost, False, False, "expiring")]
    storage.collect()
    storage.wait(DAY)
    assert told() == [Root("metarange", lost, False, False, "due")]
    storage.collect()
    assert told() == []


def test_the_base_of_a_job_that_runs_stays(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.commit(a="0")
    storage.wait(3 * DAY)
    job = bulk.begin(storage.opened, "main", NewBulk(Mode.MERGE))
    assert (job.base.commit.metarange, True) in [(root.name, root.kept) for root in roots(storage)]
    storage.clock.sleep(limits.import_seconds_max)
    assert names(roots(storage), "job") == []


# ---- the collection that runs here ---------------------------------------------------------------


def test_what_a_running_job_wrote_is_not_collected(storage: Storage) -> None:
    storage.commit(a="1")
    job = bulk.begin(storage.opened, "main", NewBulk(Mode.REPLACE, "in/"))
    space = keyspace(storage.opened)
    entry = encode_entry(Entry("data/p/u", 1, "c", 1))
    written = writer.write(space, [(b"in/%02d" % number, entry) for number in range(50)])
    storage.wait(10 * HOUR)
    for _ in range(2):
        assert storage.collect().condemned == ()
    asked = Finish(written, "r", "m", "c")
    made = land.finish(storage.opened, "main", job.job.id, asked)
    storage.wait(10 * DAY)
    assert storage.collected() <= 2  # its metarange, and a range that another took in
    fresh = storage.restarted()
    assert not list(verify.verify(fresh.ports))
    stat = read.stat(fresh.opened, made.id, "in/07")
    assert stat.checksum == "c"


def test_what_an_expired_job_wrote_is_collected(storage: Storage) -> None:
    storage.commit(a="1")
    job = bulk.begin(storage.opened, "main", NewBulk(Mode.REPLACE, "in/"))
    before = storage.stored()
    space = keyspace(storage.opened)
    entry = encode_entry(Entry("s3://far/x", 1, "c", 1, address_type=AddressType.FULL))
    written = writer.write(space, [(b"in/%02d" % number, entry) for number in range(50)])
    assert storage.stored() - before
    storage.wait(2 * DAY)
    storage.collected()
    storage.wait(DAY)
    storage.collected()
    assert storage.stored() == before
    asked = Finish(written, "r", "m", "c")
    with pytest.raises((NotFound, Gone)):  # its record is forgotten by now
        land.finish(storage.opened, "main", job.job.id, asked)


def test_damaged_files_of_others_are_refused(storage: Storage) -> None:
    job = bulk.begin(storage.opened, "main", NewBulk(Mode.MERGE))
    before = storage.stored()
    entry = encode_entry(Entry("data/p/u", 1, "c", 1))
    written = writer.write(keyspace(storage.opened), [(b"a", entry)])
    for name in sorted(storage.stored() - before):
        place = f"mem://bucket/lake/{name}"
        whole = b"".join(storage.blocks.get(place).chunks)
        storage.blocks.put(place, [bytes(len(whole))], OVERWRITE)
        fresh = storage.restarted()
        with pytest.raises(Invalid, match="refused"):
            land.finish(fresh.opened, "main", job.job.id, Finish(written, "r", "m", "c"))
        storage.blocks.put(place, [whole], OVERWRITE)
