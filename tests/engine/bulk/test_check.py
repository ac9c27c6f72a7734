"""Metaranges that others wrote: what is refused before it may land, and what is taken."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from graveler.committed import writer
from graveler.core import limits
from graveler.core.errors import Gone, Invalid, NotFound
from graveler.core.identity import frame
from graveler.core.ids import NO_METARANGE, MetarangeId, RangeId
from graveler.core.records import AddressType, Entry, RangeRef, Record
from graveler.core.requests import Counts, counted_store
from graveler.core.wire import encode_entry
from graveler.engine.bulk import check, land
from graveler.engine.bulk.job import Mode
from graveler.engine.ports import keyspace, open_repository
from graveler.engine.repositories import repository
from graveler.refs import garbage
from graveler.refs.garbage import Mark
from tests.engine.bulk_world import begin, finish, write
from tests.engine.lake import Lake

GOOD = Entry("data/p/u", 3, "e", 1)
FULL = AddressType.FULL


def checked(lake: Lake, metarange: str, known: str = "", prefix: bytes = b"") -> MetarangeId:
    return check.check(lake.opened, metarange, MetarangeId(known), prefix)


def of_records(lake: Lake, records: Sequence[Record]) -> MetarangeId:
    return writer.write(keyspace(lake.opened), records)


def of_ranges(lake: Lake, *refs: RangeRef) -> MetarangeId:
    return lake.ports.ranges.write_metarange(lake.repo.namespace, refs)


def a_range(lake: Lake, *keys: bytes) -> RangeRef:
    records = [(key, encode_entry(GOOD)) for key in keys]
    return lake.ports.ranges.write_range(lake.repo.namespace, records)


@pytest.mark.parametrize("text", ["", "x", "0" * 63, "G" * 64, "../../etc/passwd"])
def test_an_id_that_is_none_is_refused(lake: Lake, text: str) -> None:
    with pytest.raises(Invalid, match="metarange"):
        checked(lake, text)


def test_what_is_not_there_is_named(lake: Lake) -> None:
    with pytest.raises(NotFound, match=f"_lakefs/{'0' * 64}"):
        checked(lake, "0" * 64)
    ref = replace(a_range(lake, b"a"), id=RangeId("1" * 64))
    with pytest.raises(NotFound, match=f"range not found.*{'1' * 64}"):
        checked(lake, of_ranges(lake, ref))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ref: replace(ref, count=ref.count + 1),
        lambda ref: replace(ref, count=0),
        lambda ref: replace(ref, count=limits.table_records_count_max + 1),
        lambda ref: replace(ref, id=RangeId("../x")),
        lambda ref: replace(ref, size=ref.size + 1),
        lambda ref: replace(ref, min_key=b"0"),
        lambda ref: replace(ref, max_key=b"z"),
    ],
)
def test_ranges_that_are_not_what_is_said_are_refused(
    lake: Lake, wrong: Callable[[RangeRef], RangeRef]
) -> None:
    good = a_range(lake, b"a", b"b")
    assert checked(lake, of_ranges(lake, good))
    with pytest.raises(Invalid, match="range refused"):
        checked(lake, of_ranges(lake, wrong(good)))


@pytest.mark.parametrize(
    "entry",
    [
        GOOD._replace(address="data/../../other/x"),
        GOOD._replace(address="/etc/passwd"),
        GOOD._replace(address="_lakefs/" + "0" * 64),
        GOOD._replace(address="_graveler/jobs/x"),
        GOOD._replace(address=""),
        GOOD._replace(address="mem://bucket/lake/data/p/u", address_type=FULL),
        GOOD._replace(address="mem://bucket//lake/data/p/u", address_type=FULL),
        GOOD._replace(address="mem://bucket/other/data/p/u", address_type=FULL),
        GOOD._replace(address="mem://bucket/other/x", address_type=AddressType.BY_PREFIX),
        GOOD._replace(address="nowhere", address_type=FULL),
        GOOD._replace(size=-1),
        GOOD._replace(checksum=""),
        GOOD._replace(checksum="c" * 257),
    ],
)
def test_entries_that_may_not_be_are_refused(lake: Lake, entry: Entry) -> None:
    repository.create(lake.ports, repository.NewRepository("other", "mem://bucket/other"))
    record = b"a", encode_entry(entry)
    with pytest.raises(Invalid, match=r"range refused.*key=b'a'"):
        checked(lake, of_records(lake, [record]))
    # What the branch has just so was accepted before.
    known = of_records(lake, [record, (b"b", encode_entry(GOOD))])
    again = of_records(lake, [record, (b"b", encode_entry(GOOD)), (b"c", encode_entry(GOOD))])
    assert checked(lake, again, known) == again


@pytest.mark.parametrize(
    "record",
    [
        (b"\xff", encode_entry(GOOD)),
        (b"a\0", encode_entry(GOOD)),
        (b"a" * (limits.path_length_bytes_max + 1), encode_entry(GOOD)),
        (b"a", b""),
        (b"a", frame(b"i" * 32, b"\xff\xff\xff")),
        (b"a", frame(b"i" * 32, b"")),
    ],
)
def test_records_that_are_no_entries_are_refused(lake: Lake, record: Record) -> None:
    with pytest.raises(Invalid, match="range refused"):
        checked(lake, of_records(lake, [record]))


@pytest.mark.parametrize(
    "entry",
    [
        GOOD,
        GOOD._replace(address="sub/folder/file.csv"),
        GOOD._replace(address="data/p/u", address_type=AddressType.BY_PREFIX),
        GOOD._replace(address="s3://far/away/x", address_type=FULL),
        GOOD._replace(address="mem://bucket/lake-of-others/x", address_type=FULL),
        GOOD._replace(address="s3://far/x", address_type=AddressType.BY_PREFIX),
        GOOD._replace(metadata={"k": "v"}, content_type="text/plain"),
    ],
)
def test_entries_that_may_be_land(lake: Lake, entry: Entry) -> None:
    metarange = of_records(lake, [(b"a", encode_entry(entry))])
    assert checked(lake, metarange) == metarange


def test_full_addresses_are_judged_by_one_look_at_the_repositories(lake: Lake) -> None:
    repository.create(lake.ports, repository.NewRepository("other", "mem://bucket/other"))

    def scans(*places: str) -> int:
        entries = [GOOD._replace(address=place, address_type=FULL) for place in places]
        metarange = of_records(
            lake, [(b"%d" % at, encode_entry(entry)) for at, entry in enumerate(entries)]
        )
        counts = Counts()
        counted = lake.with_kv(lambda kv: counted_store(kv, counts))
        checked(counted, metarange)
        return counts.snapshot()["scan"]

    assert scans("s3://far/x") == scans("s3://far/x", "s3://far/y", "s3://far/z") == 2
    with pytest.raises(Invalid, match=r"inside a repository.*key=b'2'"):
        scans("s3://far/x", "s3://far/y", "mem://bucket/other/z")
    repository.delete(open_repository(lake.ports, repository.get(lake.ports, "other")))
    with pytest.raises(Invalid, match=r"inside a repository.*key=b'2'"):
        scans("s3://far/x", "s3://far/y", "mem://bucket/other/z")


def test_all_lies_below_the_prefix(lake: Lake) -> None:
    inside = write(lake, {"in/a": "1", "in/b": "1"})
    assert checked(lake, inside, "", b"in/") == inside
    for tree in ({"a": "1", "in/a": "1"}, {"in/a": "1", "z": "1"}, {"in": "1"}):
        with pytest.raises(Invalid, match="below the prefix"):
            checked(lake, write(lake, tree), "", b"in/")


def test_what_is_condemned_is_not_landed(lake: Lake) -> None:
    metarange = write(lake, {"a": "1"})
    garbage.put_mark(lake.ports.kv, lake.repo, [metarange], Mark("run", 1), lake.ports.ids)
    collected = replace(lake.repo, collected=True)
    with pytest.raises(Gone, match="condemned"):
        check.check(open_repository(lake.ports, collected), metarange, NO_METARANGE, b"")


class Looks:
    """Counts how often each range is opened: each is once, and once more to be read."""

    def __init__(self, ranges: Any) -> None:
        self.ranges = ranges
        self.counts = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ranges, name)

    def open_range(self, namespace: str, id: RangeId) -> Any:
        self.counts[id] += 1
        return self.ranges.open_range(namespace, id)


@pytest.mark.parametrize("records_max", [1, 30, 300])
def test_of_many_records_whole_ranges_are_read_spread_evenly(lake: Lake, records_max: int) -> None:
    tree = {f"{number:04}": "1" for number in range(300)}
    metarange = write(lake, tree)
    refs = keyspace(lake.opened).metarange(metarange).ranges
    looks: Any = Looks(lake.ports.ranges)
    settings = lake.ports.settings._replace(bulk_checked_records_max=records_max)
    watched = replace(lake.opened, ranges=looks, settings=settings)
    check.check(watched, metarange, NO_METARANGE, b"")
    places = [at for at, ref in enumerate(refs) if looks.counts[ref.id] == 2]
    assert len(places) == {1: 1, 300: len(refs)}.get(records_max, len(places))
    if records_max == 30:
        assert 15 <= sum(refs[at].count for at in places) <= 30
        assert places[0] < len(refs) / 4 and places[-1] > len(refs) * 3 / 4


def test_where_ranges_are_sampled_every_eighth_record_is_judged(lake: Lake) -> None:
    good, bad = (encode_entry(GOOD._replace(checksum=text)) for text in ("e", ""))

    def accepts(lake: Lake, wrong: int) -> bool:
        records = [(b"%04d" % at, bad if at == wrong else good) for at in range(20)]
        first = lake.ports.ranges.write_range(lake.repo.namespace, records)
        try:
            checked(lake, of_ranges(lake, first, a_range(lake, b"a", b"b")))
        except Invalid:
            return False
        return True

    assert not any(accepts(lake, at) for at in range(20))  # all of them are read
    sampling = lake.with_settings(bulk_checked_records_max=20)
    assert [at for at in range(20) if not accepts(sampling, at)] == [0, 8, 16]


def test_a_refused_metarange_leaves_the_job_running(lake: Lake) -> None:
    job = begin(lake, Mode.REPLACE, "in/")
    with pytest.raises(Invalid):
        finish(lake, job, write(lake, {"out": "1"}))
    finish(lake, job, write(lake, {"in/a": "1"}), "another request")
    assert lake.tree() == {"in/a": "1"}


@pytest.mark.parametrize("more", [{"request_id": ""}, {"request_id": "r" * 129},
                                  {"message": "m" * 70_000}, {"metadata": {"": "v"}}])  # fmt: skip
def test_what_a_finish_may_not_say(lake: Lake, more: dict[str, Any]) -> None:
    job = begin(lake)
    asked = replace(land.Finish(write(lake, {}), "r", "m", "c"), **more)
    with pytest.raises(Invalid):
        land.finish(lake.opened, "main", job.job.id, asked)
