"""What is tried again, how often, and what is recognised after an answer was lost."""

from collections.abc import Callable, Mapping

import pytest

from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable
from graveler.core.requests import RetryPolicy
from graveler.kv.memory import MemoryStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import ABSENT, WRITTEN, Declined, Matches, Newer, Row, Store, Write
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.kv_suite import KvSuite

ATTEMPTS = 3
VERBS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(b"p", b"k"),
    "get_many": lambda store: store.get_many([(b"p", b"k")]),
    "scan": lambda store: store.scan(b"p", b"", b"", 10),
    "set": lambda store: store.set(b"p", b"k", b"v", b"mine"),
    "set_many": lambda store: store.set_many([Write(b"p", b"k", b"v", b"mine")]),
    "set_if": lambda store: store.set_if(b"p", b"k", b"v", b"mine", ABSENT),
    "set_newer": lambda store: store.set_newer(b"p", b"k", b"v", b"mine", 5),
    "delete": lambda store: store.delete(b"p", [b"k"]),
}
CONDITIONAL = ("set_if", "set_newer")
PLAIN = ("set", "set_many", "delete")


class Bench:
    """A retrying store over one that fails by plan over memory."""

    def __init__(self, faults: Mapping[int, Fault], policy: RetryPolicy | None = None) -> None:
        self.memory = MemoryStore()
        self.clock = TickingClock()
        self.faulty = FaultyStore(self.memory, nth(faults))
        self.store = retrying_store(
            self.faulty, self.clock, policy or RetryPolicy(ATTEMPTS, 10.0, 0.1)
        )

    def rows(self) -> list[tuple[bytes, Row]]:
        return list(self.memory.scan(b"p", b"", b"", 10).rows)


class TestRetryingStore(KvSuite):
    recognises_stamps = True

    @pytest.fixture
    def store(self) -> Store:
        return Bench({}).store


class TestRetryingStoreWhoseRequestsAreRefusedNowAndThen(KvSuite):
    recognises_stamps = True

    @pytest.fixture
    def store(self) -> Store:
        faulty = FaultyStore(
            MemoryStore(), lambda number, verb: Fault.REFUSED if number % 3 == 0 else Fault.NONE
        )
        return retrying_store(faulty, TickingClock(), RetryPolicy(16, 10.0, 0.001))


class TestFaultyStoreWithoutFaults(KvSuite):
    @pytest.fixture
    def store(self) -> FaultyStore:
        return FaultyStore(MemoryStore(), nth({}))


@pytest.mark.parametrize("verb", VERBS)
def test_k8_the_last_attempt_may_succeed(verb: str) -> None:
    bench = Bench({n: Fault.REFUSED for n in range(1, ATTEMPTS)})
    VERBS[verb](bench.store)
    assert bench.faulty.requests == ATTEMPTS


@pytest.mark.parametrize("verb", VERBS)
def test_k8_no_attempt_follows_the_last(verb: str) -> None:
    bench = Bench({n: Fault.REFUSED for n in range(1, ATTEMPTS + 1)})
    with pytest.raises(Unavailable) as raised:
        VERBS[verb](bench.store)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert bench.faulty.requests == ATTEMPTS
    assert bench.rows() == []


def test_one_attempt_is_no_retry() -> None:
    bench = Bench({1: Fault.REFUSED}, RetryPolicy(1, 10.0, 0.1))
    with pytest.raises(Unavailable):
        bench.store.get(b"p", b"k")
    assert bench.faulty.requests == 1


def test_no_attempt_begins_after_the_deadline() -> None:
    always = {n: Fault.REFUSED for n in range(1, 100)}
    bench = Bench(always, RetryPolicy(50, 1.0, 0.1))
    begun = bench.clock.steady_seconds()
    with pytest.raises(Unavailable):
        bench.store.get(b"p", b"k")
    assert bench.faulty.requests == 4  # after 0, 0.1, 0.3 and 0.7 s; the next would be at 1.5 s
    assert bench.clock.steady_seconds() - begun < 1.0


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_device_is_not_tried_again(verb: str) -> None:
    bench = Bench({1: Fault.FULL})
    with pytest.raises(StorageFull):
        VERBS[verb](bench.store)
    assert bench.faulty.requests == 1


@pytest.mark.parametrize("verb", CONDITIONAL)
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REPEATED])
def test_k9_an_own_stamp_means_written(verb: str, fault: Fault) -> None:
    bench = Bench({1: fault})
    assert VERBS[verb](bench.store) is WRITTEN
    assert bench.faulty.requests == (2 if fault is Fault.LOST else 1)
    assert [row.version for _, row in bench.rows()] == [b"mine"]


@pytest.mark.parametrize("verb", CONDITIONAL)
def test_k9_reading_back_is_itself_tried_again(verb: str) -> None:
    bench = Bench({1: Fault.LOST, 2: Fault.REFUSED, 3: Fault.DROPPED})
    assert VERBS[verb](bench.store) is WRITTEN
    assert bench.faulty.requests == 1 + ATTEMPTS


@pytest.mark.parametrize("verb", CONDITIONAL)
def test_k8_an_outcome_that_reading_back_cannot_tell_stays_unknown(verb: str) -> None:
    bench = Bench({1: Fault.LOST, **{n: Fault.REFUSED for n in range(2, ATTEMPTS + 2)}})
    with pytest.raises(OutcomeUnknown):
        VERBS[verb](bench.store)
    assert bench.faulty.requests == 1 + ATTEMPTS


@pytest.mark.parametrize("verb", CONDITIONAL)
@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LATE])
def test_k8_a_write_that_is_not_found_may_land_yet_and_is_not_sent_again(
    verb: str, fault: Fault
) -> None:
    bench = Bench({1: fault})
    with pytest.raises(OutcomeUnknown):
        VERBS[verb](bench.store)
    assert bench.faulty.requests == 2
    assert bench.rows() == []
    bench.faulty.land()
    assert len(bench.rows()) == (1 if fault is Fault.LATE else 0)


def test_k8_a_write_that_landed_and_was_overwritten_is_unknown() -> None:
    bench = Bench({})
    overwriting = _OverwrittenAfter(bench.memory)
    store = retrying_store(overwriting, bench.clock, RetryPolicy(ATTEMPTS, 10.0, 0.1))
    with pytest.raises(OutcomeUnknown):
        store.set_if(b"p", b"k", b"v", b"mine", ABSENT)
    assert bench.rows() == [(b"k", Row(b"theirs", b"theirs"))]


def test_an_unknown_row_of_many_stands_in_its_place_and_the_others_are_written() -> None:
    bench = Bench({2: Fault.DROPPED, 4: Fault.LOST})
    rows = [Newer(b"p", b"%d" % n, b"v", b"mine%d" % n, 5) for n in range(3)]
    first, second, third = bench.store.set_newer_many(rows)
    assert first is WRITTEN
    assert isinstance(second, OutcomeUnknown)
    assert third is WRITTEN  # it was found by its stamp
    assert [key for key, _ in bench.rows()] == [b"0", b"2"]


def test_after_a_row_that_is_not_written_the_others_are_not_sent() -> None:
    faults = dict.fromkeys(range(2, 2 + ATTEMPTS), Fault.REFUSED)
    bench = Bench(faults)
    rows = [Newer(b"p", b"%d" % n, b"v", b"mine%d" % n, 5) for n in range(3)]
    first, *others = bench.store.set_newer_many(rows)
    assert first is WRITTEN and [type(each) for each in others] == [Unavailable] * 2
    assert [key for key, _ in bench.rows()] == [b"0"]
    assert bench.faulty.requests == 1 + ATTEMPTS


def test_a_real_refusal_passes_through() -> None:
    bench = Bench({})
    theirs = Row(b"x", b"theirs", 9)
    bench.memory.set_newer(b"p", b"k", b"x", b"theirs", 9)
    for verb in CONDITIONAL:
        assert VERBS[verb](bench.store) == Declined(theirs)
    assert bench.store.set_if(b"p", b"none", b"", b"mine", Matches(b"1")) == Declined(ABSENT)
    assert bench.faulty.requests == 3


@pytest.mark.parametrize("verb", PLAIN)
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.LATE])
def test_plain_writes_are_sent_again_after_an_unknown_outcome(verb: str, fault: Fault) -> None:
    bench = Bench({1: fault})
    VERBS[verb](bench.store)
    assert bench.faulty.requests == 2
    found = bench.rows()
    bench.faulty.land()
    assert bench.rows() == found
    assert len(found) == (0 if verb == "delete" else 1)


@pytest.mark.parametrize("verb", PLAIN)
@pytest.mark.parametrize("last", [Fault.REFUSED, Fault.FULL, Fault.DROPPED])
def test_k8_a_later_error_does_not_hide_an_unknown_outcome(verb: str, last: Fault) -> None:
    bench = Bench({1: Fault.LATE, 2: last, 3: last})
    with pytest.raises(OutcomeUnknown):
        VERBS[verb](bench.store)


class _OverwrittenAfter(FaultyStore):
    """Loses the answer of a conditional write, which somebody else overwrites before it is read
    back."""

    def __init__(self, memory: MemoryStore) -> None:
        super().__init__(memory, self._lose)
        self._memory = memory

    def _lose(self, number: int, verb: str) -> Fault:
        if verb == "get":
            self._memory.set(b"p", b"k", b"theirs", b"theirs")
        return Fault.LOST if verb == "set_if" else Fault.NONE
