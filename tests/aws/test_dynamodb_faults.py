"""What the DynamoDB driver says when answers are lost, late, cut, wrong, or "too busy"."""

from collections.abc import Callable, Iterator

import pytest

from graveler.core.aws import AwsSession, AwsSettings, CallPolicy
from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.requests import RetryPolicy
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Declined,
    Guarded,
    Matches,
    Outcome,
    Paired,
    Row,
    Store,
    Write,
    scan_all,
)
from tests.aws.conftest import PATIENT, local
from tests.fault_proxy import (
    Fault,
    FaultProxy,
    Forward,
    Reply,
    Request,
    cut,
    error_after,
    error_before,
    fault_proxy,
    lost_answer,
    lost_request,
    refusal,
    slow_answer,
    throttle,
    unprocessed,
)
from tests.support.clockwork import TickingClock

GUARD = (b"g", b"record")
OLD, NEW = Row(b"old", b"1", 3), Row(b"new", b"2", 5)
EXTRA = Write(b"e", b"extra", b"also", b"x")

busy = refusal(503, "ThrottlingException")


def canceled(row: str, other: str) -> Fault:
    """A transaction that was not carried out, for these reasons."""
    reasons = [{"Code": row}, {"Code": other}]
    return refusal(400, "TransactionCanceledException", CancellationReasons=reasons)


APPLIED = {"lost_answer": lost_answer, "error_after": error_after, "cut": cut}
NOT_APPLIED = {"lost_request": lost_request, "error_before": error_before}
TURNED_AWAY = {"throttle": throttle, "busy": busy}

Call = Callable[[Store], Outcome | None]
CONDITIONAL: dict[str, Call] = {
    "set_if": lambda store: store.set_if(b"p", b"k", b"new", b"2", Matches(b"1"), 5),
    "set_newer": lambda store: store.set_newer(b"p", b"k", b"new", b"2", 5),
}
TWO_ROWS: dict[str, Call] = {
    "guarded": lambda store: store.set_if(
        b"p", b"k", b"new", b"2", Guarded(Matches(b"1"), GUARD, b"r"), 5
    ),
    "paired": lambda store: store.set_if(
        b"p", b"k", b"new", b"2", Paired(Matches(b"1"), ABSENT, EXTRA), 5
    ),
}
BLIND: dict[str, Call] = {
    "set": lambda store: store.set(b"p", b"k", b"new", b"2"),
    "set_many": lambda store: store.set_many([Write(b"p", b"k", b"new", b"2")]),
    "delete": lambda store: store.delete(b"p", [b"k"]),
}


@pytest.fixture(scope="module")
def one_proxy(engine: str) -> Iterator[FaultProxy]:
    with fault_proxy(engine) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def faulty(one_proxy: FaultProxy) -> AwsSession:
    """The session of all tests: making one takes a quarter of a second."""
    return AwsSession(local(one_proxy.url))


@pytest.fixture(scope="module")
def one_store(faulty: AwsSession, suite_store: DynamoStore) -> Iterator[DynamoStore]:
    store = DynamoStore(faulty, suite_store.table, policy=PATIENT, clock=TickingClock())
    yield store
    store.close()


@pytest.fixture
def proxy(one_proxy: FaultProxy) -> Iterator[FaultProxy]:
    one_proxy.operations.clear()
    yield one_proxy
    assert one_proxy.pending() == 0, "the test planned a fault that nothing met"


@pytest.fixture
def store(proxy: FaultProxy, one_store: DynamoStore, dynamo: DynamoStore) -> DynamoStore:
    """A store through the proxy, on the table of `dynamo`, which sees what is really there."""
    dynamo.set_newer(b"p", b"k", *OLD)
    dynamo.set(*GUARD, b"guard", b"r")
    return one_store


@pytest.fixture
def retrying(store: DynamoStore) -> Store:
    return retrying_store(store, TickingClock(), RetryPolicy())


def changed(dynamo: DynamoStore) -> bool:
    return dynamo.get(b"p", b"k") != OLD


# ---- one row -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [*CONDITIONAL, *BLIND])
@pytest.mark.parametrize("fault", [*APPLIED, *NOT_APPLIED, *TURNED_AWAY])
def test_a_write_is_sent_once_and_says_what_is_known_of_it(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy, verb: str, fault: str
) -> None:
    proxy.plan({**APPLIED, **NOT_APPLIED, **TURNED_AWAY}[fault])
    with pytest.raises(Unavailable) as raised:
        {**CONDITIONAL, **BLIND}[verb](store)
    assert type(raised.value) is (Unavailable if fault in TURNED_AWAY else OutcomeUnknown)
    assert len(proxy.operations) == 1
    assert changed(dynamo) == (fault in APPLIED)


@pytest.mark.parametrize("verb", CONDITIONAL)
@pytest.mark.parametrize("fault", [*APPLIED, *TURNED_AWAY])
def test_an_own_write_is_recognised_after_its_answer_was_lost(
    retrying: Store, dynamo: DynamoStore, proxy: FaultProxy, verb: str, fault: str
) -> None:
    proxy.plan({**APPLIED, **TURNED_AWAY}[fault])
    assert CONDITIONAL[verb](retrying) is WRITTEN
    assert dynamo.get(b"p", b"k") == NEW


@pytest.mark.parametrize("verb", CONDITIONAL)
@pytest.mark.parametrize("fault", NOT_APPLIED)
def test_a_write_that_may_still_land_is_not_called_a_failure(
    retrying: Store, proxy: FaultProxy, verb: str, fault: str
) -> None:
    proxy.plan(NOT_APPLIED[fault])
    with pytest.raises(OutcomeUnknown):
        CONDITIONAL[verb](retrying)
    assert proxy.operations == ["PutItem", "GetItem"]


@pytest.mark.parametrize("verb", BLIND)
@pytest.mark.parametrize("fault", [*APPLIED, *NOT_APPLIED, *TURNED_AWAY])
def test_blind_writes_are_repeated_until_they_are_known_to_be_there(
    retrying: Store, dynamo: DynamoStore, proxy: FaultProxy, verb: str, fault: str
) -> None:
    proxy.plan({**APPLIED, **NOT_APPLIED, **TURNED_AWAY}[fault])
    BLIND[verb](retrying)
    assert dynamo.get(b"p", b"k") == (ABSENT if verb == "delete" else Row(b"new", b"2"))


@pytest.mark.parametrize("verb", CONDITIONAL)
def test_a_request_that_arrives_late_finds_the_newer_row_and_does_nothing(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy, verb: str
) -> None:
    proxy.plan(proxy.hold)
    with pytest.raises(OutcomeUnknown):
        CONDITIONAL[verb](store)
    assert dynamo.set_newer(b"p", b"k", b"newest", b"3", 9) is WRITTEN
    assert [reply.status for reply in proxy.deliver()] == [400]
    assert dynamo.get(b"p", b"k") == Row(b"newest", b"3", 9)


def test_a_late_answer_is_a_lost_one(
    faulty: AwsSession, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    store = DynamoStore(faulty, dynamo.table, policy=CallPolicy(read_seconds=0.5))
    proxy.plan(slow_answer(1.0))
    with pytest.raises(OutcomeUnknown):
        store.set_if(b"p", b"late", b"v", b"1", ABSENT)
    assert dynamo.get(b"p", b"late") == Row(b"v", b"1")
    store.close()


# ---- two rows ------------------------------------------------------------------------------------

CONFLICT = canceled("None", "TransactionConflict")


@pytest.mark.parametrize("verb", TWO_ROWS)
@pytest.mark.parametrize(
    "fault",
    [
        *APPLIED.values(),
        *NOT_APPLIED.values(),
        *TURNED_AWAY.values(),
        CONFLICT,
        canceled("ThrottlingError", "None"),
        refusal(400, "TransactionInProgressException"),
    ],
)
def test_a_transaction_is_sent_again_under_its_token(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy, verb: str, fault: Fault
) -> None:
    proxy.plan(fault)
    assert TWO_ROWS[verb](store) is WRITTEN
    assert proxy.operations == ["TransactWriteItems"] * 2
    assert dynamo.get(b"p", b"k") == NEW
    extra = Row(EXTRA.value, EXTRA.version) if verb == "paired" else ABSENT
    assert dynamo.get(EXTRA.partition, EXTRA.key) == extra


@pytest.mark.parametrize("verb", TWO_ROWS)
def test_a_transaction_that_arrives_late_is_not_applied_again(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy, verb: str
) -> None:
    proxy.plan(proxy.hold)
    assert TWO_ROWS[verb](store) is WRITTEN
    assert dynamo.set_if(b"p", b"k", b"back", b"1", Matches(b"2"), 7) is WRITTEN
    dynamo.delete(EXTRA.partition, [EXTRA.key])
    assert [reply.status for reply in proxy.deliver()] == [200]
    assert dynamo.get(b"p", b"k") == Row(b"back", b"1", 7)


def test_what_only_load_turned_away_was_not_applied(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    proxy.plan(*[CONFLICT] * 4)
    with pytest.raises(Unavailable) as raised:
        TWO_ROWS["guarded"](store)
    assert type(raised.value) is Unavailable
    assert not changed(dynamo)


def test_an_unknown_transaction_that_meets_another_row_stays_unknown(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    def others_come_first(request: Request, forward: Forward) -> Reply | None:
        dynamo.set(b"p", b"k", b"theirs", b"t")
        return forward(request)

    proxy.plan(error_before, others_come_first)
    with pytest.raises(OutcomeUnknown):
        TWO_ROWS["guarded"](store)
    proxy.plan(others_come_first)
    assert TWO_ROWS["guarded"](store) == Declined(Row(b"theirs", b"t"))


def test_an_unknown_transaction_stays_unknown_if_nothing_can_be_read_back(
    store: DynamoStore, proxy: FaultProxy
) -> None:
    proxy.plan(error_after, canceled("None", "ConditionalCheckFailed"))
    proxy.plan(throttle, operation="GetItem")
    with pytest.raises(OutcomeUnknown):
        TWO_ROWS["guarded"](store)
    proxy.plan(canceled("None", "ConditionalCheckFailed"))
    proxy.plan(throttle, operation="GetItem")
    with pytest.raises(Unavailable) as raised:
        TWO_ROWS["guarded"](store)
    assert type(raised.value) is Unavailable


# ---- batches and reads ---------------------------------------------------------------------------

KEYS = [b"%03d" % number for number in range(60)]
PLACES = [(b"b", key) for key in KEYS]
WRITES = [Write(b"b", key, b"v" + key, b"1") for key in KEYS]
ROWS = {(b"b", key): Row(b"v" + key, b"1") for key in KEYS}
PARTLY = (unprocessed(10), unprocessed(0), unprocessed(1), unprocessed(0))


def test_what_a_batch_left_is_written_again(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    proxy.plan(*PARTLY)
    store.set_many(WRITES)
    assert dynamo.get_many(PLACES) == ROWS
    proxy.plan(*PARTLY)
    store.delete(b"b", KEYS[1:])
    assert [key for key, _ in scan_all(dynamo, b"b")] == KEYS[:1]


def test_what_a_batch_left_is_read_again(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    dynamo.set_many(WRITES)
    proxy.plan(*PARTLY)
    assert store.get_many([*PLACES, (b"b", b"none")]) == ROWS


def test_a_batch_that_gets_nothing_done_gives_up(store: DynamoStore, proxy: FaultProxy) -> None:
    for batch in (lambda: store.set_many(WRITES[:3]), lambda: store.get_many(PLACES[:3])):
        proxy.plan(*[unprocessed(0)] * 8)
        with pytest.raises(Unavailable, match="throttling"):
            batch()


def test_one_lost_answer_among_many_makes_the_whole_batch_unknown(
    store: DynamoStore, dynamo: DynamoStore, proxy: FaultProxy
) -> None:
    proxy.plan(throttle, lost_answer)
    with pytest.raises(OutcomeUnknown):
        store.set_many(WRITES)


READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(b"p", b"k"),
    "get_many": lambda store: store.get_many([(b"p", b"k")]),
    "scan": lambda store: store.scan(b"p", b"", b"", 10).rows,
}


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("fault", [*APPLIED, *NOT_APPLIED, *TURNED_AWAY])
def test_a_read_fails_or_is_right_but_never_finds_less(
    store: DynamoStore, retrying: Store, proxy: FaultProxy, verb: str, fault: str
) -> None:
    planned = {**APPLIED, **NOT_APPLIED, **TURNED_AWAY}[fault]
    proxy.plan(planned)
    with pytest.raises(Unavailable) as raised:
        READS[verb](store)
    assert type(raised.value) is Unavailable
    proxy.plan(planned)
    assert READS[verb](retrying) in (OLD, {(b"p", b"k"): OLD}, ((b"k", OLD),))


# ---- deployments that are not whole --------------------------------------------------------------


def test_a_missing_table_is_named(session: AwsSession) -> None:
    store = DynamoStore(session, "no-such-table")
    for call in (*READS.values(), *CONDITIONAL.values(), *TWO_ROWS.values(), *BLIND.values()):
        with pytest.raises(Unavailable, match="no-such-table") as raised:
            call(store)
        assert type(raised.value) is Unavailable
    store.close()


def test_missing_credentials_and_regions_are_told(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    store = DynamoStore(AwsSession(AwsSettings("us-east-1", engine)), "table")
    with pytest.raises(Unavailable, match="credentials") as raised:
        store.set(b"p", b"k", b"v", b"1")
    assert type(raised.value) is Unavailable
    store.close()
    with pytest.raises(Unavailable, match="region"):
        DynamoStore(AwsSession(), "table")


def test_a_service_that_is_not_there_applied_nothing() -> None:
    store = DynamoStore(AwsSession(local("http://127.0.0.1:1")), "table")
    with pytest.raises(Unavailable) as raised:
        store.set(b"p", b"k", b"v", b"1")
    assert type(raised.value) is Unavailable
    store.close()
