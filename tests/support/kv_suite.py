"""The contract of key-value stores as tests, clause by clause of kv/store.py.

The tests of a driver or wrapper subclass `KvSuite` and supply the fixture `store`, an empty store.
They redefine no test.  A random test that fails names its seed.  K6 needs a second life of the
store, and K8 a network that fails: the drivers' own tests and those of kv/retry.py check them.
"""

import random
import threading
from collections.abc import Callable, Iterator

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Declined,
    Guarded,
    Matches,
    Moved,
    Newer,
    Paired,
    Place,
    Row,
    RowVersion,
    Store,
    Write,
    scan_all,
)
from tests.support.kv_oracle import compare_at_random

VALUES = (b"", b"\0", b"\xff", b"\0" * 300, b"\xff" * 300, bytes(range(256)))
VERSIONS = (b"\0" * 16, b"\xff" * 16, bytes(range(16)))
PARTITIONS = (b"p", b"p\0", b"pp", b"p\xff", b"\0", b"\xff", b"\xff\xff")


class RowClauses:
    """Single rows and batches."""

    @pytest.mark.parametrize("value", VALUES)
    @pytest.mark.parametrize("version", VERSIONS)
    def test_k1_bytes_come_back(self, store: Store, value: bytes, version: bytes) -> None:
        for key in (b"\0", b"\xff", b"k", value[:1000] or b"-"):
            store.set(b"p", key, value, version)
            assert store.get(b"p", key) == Row(value, version, 0)

    def test_k1_partitions_never_mix(self, store: Store) -> None:
        for partition in PARTITIONS:
            store.set(partition, b"k", partition, b"1")
            store.set(partition, b"\xff", partition, b"1")
        for partition in PARTITIONS:
            row = Row(partition, b"1")
            assert list(scan_all(store, partition)) == [(b"k", row), (b"\xff", row)]

    def test_k2_a_write_is_seen_at_once(self, store: Store) -> None:
        for number in range(20):
            store.set(b"p", b"k", b"%d" % number, b"%d" % number)
            assert store.get(b"p", b"k") == Row(b"%d" % number, b"%d" % number)
            store.delete(b"p", [b"k"])
            assert store.get(b"p", b"k") is ABSENT

    def test_k2_batches_of_more_than_one_request(self, store: Store) -> None:
        count = 2 * limits.kv_batch_count_max + 1
        writes = [Write(b"p", b"%06d" % n, b"%d" % n, b"v%d" % n) for n in range(count)]
        store.set_many(writes)
        places = [(w.partition, w.key) for w in writes]
        expected = {(w.partition, w.key): Row(w.value, w.version) for w in writes}
        assert store.get_many([*places, (b"p", b"none"), (b"none", b"000000")]) == expected
        store.delete(b"p", [w.key for w in writes[1:]])
        assert [key for key, _ in scan_all(store, b"p")] == [b"000000"]

    def test_batches_may_be_empty_and_repeat_themselves(self, store: Store) -> None:
        store.set_many([])
        store.delete(b"p", [])
        assert store.get_many([]) == {}
        store.set_many([Write(b"p", b"k", b"v", b"1"), Write(b"q", b"k", b"w", b"2")])
        twice: list[Place] = [(b"p", b"k"), (b"p", b"k")]
        assert store.get_many(twice) == {(b"p", b"k"): Row(b"v", b"1")}
        store.delete(b"p", [b"none", b"k", b"k"])
        assert store.get_many([*twice, (b"q", b"k")]) == {(b"q", b"k"): Row(b"w", b"2")}

    def test_k11_a_removal_that_names_versions_removes_only_those(self, store: Store) -> None:
        for key in (b"a", b"b", b"c"):
            store.set(b"p", key, key, b"1")
        store.set(b"p", b"b", b"new", b"2")
        keys = [b"a", b"b", b"none", b"a"]
        store.delete(b"p", keys, [b"1"] * 4)
        assert [key for key, _ in scan_all(store, b"p")] == [b"b", b"c"]
        store.delete(b"p", [b"b"], [b"2"])
        assert store.get(b"p", b"b") is ABSENT
        store.set(b"p", b"b", b"anew", b"3")
        store.delete(b"p", [b"b"], [b"2"])  # a delayed duplicate
        assert store.get(b"p", b"b") == Row(b"anew", b"3")
        assert store.set_if(b"p", b"b", b"x", b"4", Matches(b"3")) is WRITTEN
        with pytest.raises(Invalid):
            store.delete(b"p", [b"b", b"c"], [b"1"])

    def test_k4_a_row_is_never_seen_half_written(self, store: Store) -> None:
        stop = threading.Event()
        torn: list[Row] = []
        store.set(b"p", b"k", b"0" * 500, b"0")

        def write() -> None:
            for number in range(100):
                version = b"%d" % (number % 10)
                store.set(b"p", b"k", version * 500, version)
            stop.set()

        def read() -> None:
            while not stop.is_set():
                row = store.get(b"p", b"k")
                if row is ABSENT:
                    torn.append(Row(b"", b""))
                elif row.value != row.version * 500:
                    torn.append(row)

        in_threads(write, read, read)
        assert not torn


class ConditionClauses:
    """Conditional writes."""

    recognises_stamps = False  # True: a write that meets its own stamp returns WRITTEN

    def test_set_if_absent(self, store: Store) -> None:
        assert store.set_if(b"p", b"k", b"v", b"1", ABSENT) is WRITTEN
        assert store.get(b"p", b"k") == Row(b"v", b"1")

    def test_k3_k9_a_refusal_leaves_no_trace_and_shows_the_row(self, store: Store) -> None:
        row = Row(b"old", b"1", 7)
        store.set_newer(b"p", b"k", *row)
        for refused in (
            store.set_if(b"p", b"k", b"new", b"2", ABSENT),
            store.set_if(b"p", b"k", b"new", b"2", Matches(b"old")),
            store.set_if(b"p", b"k", b"new", b"2", Matches(b""), 9),
            store.set_newer(b"p", b"k", b"new", b"2", 7),
            store.set_newer(b"p", b"k", b"new", b"2", 6),
        ):
            assert refused == Declined(row)
        assert store.get(b"p", b"k") == row
        assert store.set_if(b"p", b"other", b"new", b"2", Matches(b"1")) == Declined(ABSENT)
        assert store.get(b"p", b"other") is ABSENT

    def test_k10_a_guarded_write_needs_both_rows(self, store: Store) -> None:
        guard = (b"g", b"record")
        new = (b"p", b"k", b"v", b"1")
        assert store.set_if(*new, Guarded(ABSENT, guard, b"r")) == Declined(ABSENT)
        store.set(*guard, b"value", b"r")
        assert store.set_if(*new, Guarded(ABSENT, guard, b"q")) == Declined(ABSENT)
        assert store.set_if(b"p", b"k", b"v", b"1", Guarded(ABSENT, guard, b"r"), 4) is WRITTEN
        row = Row(b"v", b"1", 4)
        assert store.set_if(b"p", b"k", b"w", b"2", Guarded(ABSENT, guard, b"r")) == Declined(row)
        matching = Guarded(Matches(b"1"), guard, b"q")
        assert store.set_if(b"p", b"k", b"w", b"2", matching) == Declined(row)
        matching = Guarded(Matches(b"1"), guard, b"r")
        assert store.set_if(b"p", b"k", b"w", b"2", matching) is WRITTEN
        assert store.get(*guard) == Row(b"value", b"r")

    def test_k10_a_guard_may_be_a_row_that_is_absent(self, store: Store) -> None:
        guard, new = (b"g", b"record"), (b"p", b"k", b"v", b"1")
        store.set(*guard, b"value", b"r")
        assert store.set_if(*new, Guarded(ABSENT, guard, ABSENT)) == Declined(ABSENT)
        store.delete(guard[0], [guard[1]])
        assert store.set_if(*new, Guarded(ABSENT, guard, ABSENT)) is WRITTEN
        again = Guarded(ABSENT, guard, ABSENT)
        assert store.set_if(b"p", b"k", b"w", b"2", again) == Declined(Row(b"v", b"1"))
        assert store.get(*guard) is ABSENT

    def test_k10_a_moved_row_leaves_its_place_in_the_step_that_writes(self, store: Store) -> None:
        old, new = (b"p", b"live"), (b"p", b"gone", b"v", b"1")
        assert store.set_if(*new, Moved(old, b"r")) == Declined(ABSENT)
        store.set(*old, b"value", b"r")
        assert store.set_if(*new, Moved(old, b"q")) == Declined(ABSENT)
        assert store.get(*old) == Row(b"value", b"r")
        assert store.set_if(*new, Moved(old, b"r")) is WRITTEN
        assert store.get_many([old, (b"p", b"gone")]) == {(b"p", b"gone"): Row(b"v", b"1")}
        assert [key for key, _ in scan_all(store, b"p")] == [b"gone"]
        newer = (b"p", b"gone", b"w", b"2")
        assert store.set_if(*newer, Moved(old, b"r")) == Declined(Row(b"v", b"1"))
        store.set(*old, b"next", b"s")
        assert store.set_if(*newer, Moved(old, b"s")) is WRITTEN
        assert store.get(b"p", b"gone") == Row(b"w", b"2")
        with pytest.raises(Invalid):
            store.set_if(b"p", b"gone", b"w", b"3", Moved((b"p", b"gone"), b"2"))

    def test_k10_a_paired_write_writes_both_rows_or_neither(self, store: Store) -> None:
        record = Write(b"e", b"record", b"value", b"r")
        both = Paired(ABSENT, ABSENT, record)
        assert store.set_if(b"p", b"k", b"v", b"1", both, 4) is WRITTEN
        row, also = Row(b"v", b"1", 4), Row(b"value", b"r")
        for refused in (
            both,
            Paired(ABSENT, Matches(b"r"), record),
            Paired(Matches(b"1"), ABSENT, record),
            Paired(Matches(b"1"), Matches(b"q"), record),
        ):
            newer = refused._replace(write=record._replace(value=b"newer", version=b"s"))
            assert store.set_if(b"p", b"k", b"w", b"2", newer, 5) == Declined(row)
            assert store.get_many([(b"p", b"k"), (b"e", b"record")]) == {
                (b"p", b"k"): row,
                (b"e", b"record"): also,
            }
        changed = Paired(Matches(b"1"), Matches(b"r"), record._replace(version=b"s"))
        assert store.set_if(b"p", b"k", b"w", b"2", changed, 5) is WRITTEN
        assert store.get(b"p", b"k") == Row(b"w", b"2", 5)
        assert store.get(b"e", b"record") == Row(b"value", b"s")
        with pytest.raises(Invalid):
            store.set_if(b"e", b"record", b"w", b"2", changed)

    def test_k10_a_paired_write_may_have_a_guard(self, store: Store) -> None:
        guard, record = (b"g", b"record"), Write(b"e", b"record", b"value", b"r")
        guarded = Paired(ABSENT, ABSENT, record, RowVersion(guard, b"g1"))
        new = (b"p", b"k", b"v", b"1")
        assert store.set_if(*new, guarded) == Declined(ABSENT)
        store.set(*guard, b"value", b"g2")
        assert store.set_if(*new, guarded) == Declined(ABSENT)
        matching = guarded._replace(guard=RowVersion(guard, b"g2"))
        for refused in (
            matching._replace(row=Matches(b"1")),
            matching._replace(other=Matches(b"1")),
        ):
            assert store.set_if(*new, refused) == Declined(ABSENT)
        assert store.get_many([(b"p", b"k"), (b"e", b"record")]) == {}
        assert store.set_if(*new, matching, 4) is WRITTEN
        assert store.get_many([(b"p", b"k"), (b"e", b"record"), guard]) == {
            (b"p", b"k"): Row(b"v", b"1", 4),
            (b"e", b"record"): Row(b"value", b"r"),
            guard: Row(b"value", b"g2"),
        }
        for same in ((b"p", b"k"), (b"e", b"record")):
            with pytest.raises(Invalid):
                store.set_if(*new, matching._replace(guard=RowVersion(same, b"1")))

    def test_k9_an_own_stamp_is_shown(self, store: Store) -> None:
        assert store.set_if(b"p", b"k", b"v", b"mine", ABSENT) is WRITTEN
        assert store.set_newer(b"p", b"n", b"v", b"mine", 3) is WRITTEN
        again = (
            store.set_if(b"p", b"k", b"v", b"mine", ABSENT),
            store.set_newer(b"p", b"n", b"v", b"mine", 3),
        )
        if self.recognises_stamps:
            assert again == (WRITTEN, WRITTEN)
        else:
            assert again == (Declined(Row(b"v", b"mine")), Declined(Row(b"v", b"mine", 3)))

    def test_an_old_version_stays_refused_when_the_value_is_back(self, store: Store) -> None:
        assert store.set_if(b"p", b"k", b"a", b"1", ABSENT) is WRITTEN
        assert store.set_if(b"p", b"k", b"b", b"2", Matches(b"1")) is WRITTEN
        assert store.set_if(b"p", b"k", b"a", b"3", Matches(b"2")) is WRITTEN
        assert store.set_if(b"p", b"k", b"c", b"4", Matches(b"1")) == Declined(Row(b"a", b"3"))
        store.delete(b"p", [b"k"])
        assert store.set_if(b"p", b"k", b"c", b"4", Matches(b"3")) == Declined(ABSENT)

    def test_set_newer_goes_by_order_alone(self, store: Store) -> None:
        assert store.set_newer(b"p", b"k", b"a", b"1", 256) is WRITTEN
        assert store.set_newer(b"p", b"k", b"b", b"2", 255) == Declined(Row(b"a", b"1", 256))
        assert store.set_newer(b"p", b"k", b"b", b"2", 1 << 62) is WRITTEN
        assert store.get(b"p", b"k") == Row(b"b", b"2", 1 << 62)
        store.set(b"p", b"k", b"c", b"3")
        assert store.get(b"p", b"k") == Row(b"c", b"3", 0)
        assert store.set_newer(b"p", b"k", b"d", b"4", 1) is WRITTEN

    def test_set_newer_many_answers_for_each_row(self, store: Store) -> None:
        store.set_newer(b"p", b"old", b"a", b"1", 5)
        store.set_newer(b"p", b"new", b"b", b"2", 9)
        rows = [
            Newer(b"p", b"old", b"c", b"3", 6),
            Newer(b"p", b"new", b"c", b"4", 6),
            Newer(b"p", b"none", b"c", b"5", 6),
            Newer(b"q", b"old", b"c", b"6", 6),
        ]
        assert list(store.set_newer_many(rows)) == [
            WRITTEN,
            Declined(Row(b"b", b"2", 9)),
            WRITTEN,
            WRITTEN,
        ]
        assert store.get(b"p", b"old") == Row(b"c", b"3", 6)
        assert store.get(b"p", b"new") == Row(b"b", b"2", 9)
        assert store.get(b"p", b"none") == Row(b"c", b"5", 6)
        assert store.get(b"q", b"old") == Row(b"c", b"6", 6)
        again = [row._replace(version=b"7") for row in rows]
        assert not any(outcome is WRITTEN for outcome in store.set_newer_many(again))
        assert list(store.set_newer_many([])) == []

    def test_set_if_writes_its_order(self, store: Store) -> None:
        assert store.set_if(b"p", b"k", b"a", b"1", ABSENT, 5) is WRITTEN
        assert store.set_newer(b"p", b"k", b"b", b"2", 5) == Declined(Row(b"a", b"1", 5))
        assert store.set_if(b"p", b"k", b"b", b"2", Matches(b"1")) is WRITTEN
        assert store.get(b"p", b"k") == Row(b"b", b"2", 0)

    def test_k4_one_of_many_creators_wins(self, store: Store) -> None:
        for key in (b"%d" % n for n in range(10)):
            won: list[bytes] = []
            in_threads(*[_creator(store, key, b"%d" % n, won) for n in range(8)])
            assert len(won) == 1
            row = store.get(b"p", key)
            assert row is not ABSENT
            assert row.version == won[0]

    def test_k4_no_increment_is_lost(self, store: Store) -> None:
        store.set(b"p", b"n", b"0", b"start")
        in_threads(*[_counter(store, b"%d" % n, 15) for n in range(4)])
        row = store.get(b"p", b"n")
        assert row is not ABSENT
        assert row.value == b"60"


class ScanClauses:
    """Scans, page by page.  A store whose requests take milliseconds can reduce the numbers
    below."""

    bounds_step = 1  # one in this many keys is a bound of a scan
    random_steps = 20_000
    deleted_rows = 10_000

    @pytest.mark.parametrize("page", [1, 2, 3, 7, 1_000])
    def test_k7_every_page_size_shows_the_same(self, store: Store, page: int) -> None:
        keys = sorted({bytes(KEY_BYTES[i] for i in (a, b)) for a in range(5) for b in range(5)})
        keys = sorted({*keys, *(key[:1] for key in keys), b"\xff" * 20})
        store.set_many([Write(b"p", key, key, b"1") for key in reversed(keys)])
        store.set(b"o\xff", b"before", b"", b"1")
        store.set(b"p\0", b"behind", b"", b"1")
        bounds = (b"", *keys[:: self.bounds_step])
        for start in bounds:
            for end in bounds:
                expected = [k for k in keys if start <= k and (not end or k < end)]
                rows = list(scan_all(store, b"p", start, end, page))
                assert [key for key, _ in rows] == expected
                assert all(row == Row(key, b"1") for key, row in rows)

    def test_k7_a_page_keeps_its_limit_and_tells_of_more(self, store: Store) -> None:
        store.set_many([Write(b"p", b"%d" % n, b"", b"1") for n in range(5)])
        page = store.scan(b"p", b"", b"", 3)
        assert 1 <= len(page.rows) <= 3
        assert page.more
        assert not store.scan(b"p", b"4\0", b"", 3).more
        assert store.scan(b"p", b"3", b"3", 3).rows == ()
        assert store.scan(b"p", b"4", b"1", 3).rows == ()
        assert store.scan(b"none", b"", b"", 3).rows == ()

    def test_k7_rows_that_stay_are_shown_once_while_others_come_and_go(self, store: Store) -> None:
        fixed = [b"%04d" % n for n in range(0, 400, 2)]
        store.set_many([Write(b"p", key, b"", b"1") for key in fixed])
        chance = random.Random(7)
        shown = []
        for key, _ in scan_all(store, b"p", page=9):
            shown.append(key)
            moved = b"%04d" % (2 * chance.randrange(200) + 1)
            if chance.random() < 0.3:
                store.set(b"p", moved, b"", b"2")
            elif chance.random() < 0.3:
                store.delete(b"p", [moved])
        assert [key for key in shown if key in set(fixed)] == fixed
        assert len(shown) == len(set(shown))

    def test_a_long_run_of_deleted_rows_costs_one_request(self, store: Store) -> None:
        count = self.deleted_rows
        store.set_many([Write(b"p", b"%06d" % n, b"v", b"1") for n in range(count)])
        store.delete(b"p", [b"%06d" % n for n in range(count - 1)])
        page = store.scan(b"p", b"", b"", 1)
        assert [key for key, _ in page.rows] == [b"%06d" % (count - 1)]

    def test_agrees_with_a_sorted_dictionary(self, store: Store) -> None:
        compare_at_random(store, seed=random.randrange(1 << 32), steps=self.random_steps)


class LimitClauses:
    """K5: what is outside the limits is refused before anything happens."""

    def test_k5_places(self, store: Store) -> None:
        key_max, partition_max = (
            limits.kv_key_length_bytes_max,
            limits.kv_partition_length_bytes_max,
        )
        for partition, key in (
            (b"", b"k"),
            (b"p", b""),
            (b"p" * (partition_max + 1), b"k"),
            (b"p", b"k" * (key_max + 1)),
        ):
            for call in _calls_at(store, partition, key):
                with pytest.raises(Invalid):
                    call()
        store.set(b"\xff" * partition_max, b"\xff" * key_max, b"v", b"1")
        assert store.get(b"\xff" * partition_max, b"\xff" * key_max) == Row(b"v", b"1")
        assert len(store.scan(b"\xff" * partition_max, b"\xff" * key_max, b"", 5).rows) == 1

    def test_k5_values(self, store: Store) -> None:
        longest = b"v" * limits.kv_value_length_bytes_max
        too_long = longest + b"v"
        for call in (
            lambda: store.set(b"p", b"k", too_long, b"1"),
            lambda: store.set_if(b"p", b"k", too_long, b"1", ABSENT),
            lambda: store.set_newer(b"p", b"k", too_long, b"1", 1),
            lambda: store.set_many(
                [Write(b"p", b"j", b"", b"1"), Write(b"p", b"k", too_long, b"")]
            ),
        ):
            with pytest.raises(Invalid):
                call()
        assert store.scan(b"p", b"", b"", 10).rows == ()
        store.set(b"p", b"k", longest, b"1")
        assert store.get(b"p", b"k") == Row(longest, b"1")

    def test_k5_set_newer_many_refuses_two_rows_at_one_place(self, store: Store) -> None:
        row = Newer(b"p", b"k", b"v", b"1", 1)
        with pytest.raises(Invalid, match="different places"):
            store.set_newer_many([row, row._replace(version=b"2", order=2)])
        with pytest.raises(Invalid):
            store.set_newer_many([row, row._replace(key=b"")])
        assert store.get(b"p", b"k") is ABSENT

    def test_k5_scan_limits(self, store: Store) -> None:
        for limit in (0, -1, limits.scan_page_count_max + 1):
            with pytest.raises(Invalid):
                store.scan(b"p", b"", b"", limit)
        with pytest.raises(Invalid):
            store.scan(b"", b"", b"", 1)


class KvSuite(RowClauses, ConditionClauses, ScanClauses, LimitClauses):
    """All clauses; subclass it and supply the fixture `store`."""


KEY_BYTES = b"\0\x01a\xfe\xff"


def in_threads(*calls: Callable[[], None]) -> None:
    """Run all calls at once and wait for them.  Raises the first error of any of them."""
    raised: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def _creator(store: Store, key: bytes, version: bytes, won: list[bytes]) -> Callable[[], None]:
    def create() -> None:
        if store.set_if(b"p", key, b"v", version, ABSENT) is WRITTEN:
            won.append(version)

    return create


def _counter(store: Store, name: bytes, increments: int) -> Callable[[], None]:
    def count() -> None:
        done = 0
        for attempt in range(10_000):
            row = store.get(b"p", b"n")
            assert row is not ABSENT
            version = b"%s-%d" % (name, attempt)
            more = b"%d" % (int(row.value) + 1)
            if store.set_if(b"p", b"n", more, version, Matches(row.version)) is WRITTEN:
                done += 1
            if done == increments:
                return
        raise AssertionError("a counter starved")

    return count


def _calls_at(store: Store, partition: bytes, key: bytes) -> Iterator[Callable[[], object]]:
    yield lambda: store.get(partition, key)
    yield lambda: store.get_many([(b"p", b"k"), (partition, key)])
    yield lambda: store.set(partition, key, b"v", b"1")
    yield lambda: store.set_many([Write(partition, key, b"v", b"1")])
    yield lambda: store.set_if(partition, key, b"v", b"1", ABSENT)
    yield lambda: store.set_newer(partition, key, b"v", b"1", 1)
    yield lambda: store.delete(partition, [key])
    yield lambda: store.delete(partition, [key], [b"1"])
