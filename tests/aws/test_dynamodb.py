"""The DynamoDB driver keeps the contract: on ministack, and on moto where moto can."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from graveler.auth import sessions
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock
from graveler.core.requests import RetryPolicy
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import ABSENT, Paired, Row, Store, Write, scan_all
from tests.aws import engines
from tests.aws.conftest import PATIENT, local
from tests.aws.tables import new_table, wipe
from tests.support.dynamodb_table import create_table
from tests.support.kv_suite import (
    ConditionClauses,
    KvSuite,
    LimitClauses,
    RowClauses,
    ScanClauses,
)

THOROUGH = bool(os.environ.get("GRAVELER_AWS_THOROUGH"))


class TestDynamoStore(KvSuite):
    bounds_step = 1 if THOROUGH else 12
    random_steps = 20_000 if THOROUGH else 250
    deleted_rows = 10_000 if THOROUGH else 2_000

    @pytest.fixture
    def store(self, dynamo: DynamoStore) -> Store:
        return dynamo


class TestDynamoStoreRetrying(ConditionClauses):
    """As assembly puts it together: an own stamp is recognised."""

    recognises_stamps = True

    @pytest.fixture
    def store(self, dynamo: DynamoStore) -> Store:
        return retrying_store(dynamo, SystemClock(), RetryPolicy())


def test_a_page_ends_at_a_megabyte_and_the_next_goes_on(dynamo: DynamoStore) -> None:
    rows = [(b"%02d" % number, Row(b"v" * 300_000, b"1")) for number in range(8)]
    dynamo.set_many([Write(b"p", key, row.value, row.version) for key, row in rows])
    page = dynamo.scan(b"p", b"", b"", 1_000)
    assert 1 <= len(page.rows) < len(rows)
    assert page.more
    assert list(scan_all(dynamo, b"p")) == rows


def test_a_scan_goes_on_behind_the_longest_key(dynamo: DynamoStore) -> None:
    keys = [b"a" * 1_023, b"a" * 1_024, b"a" * 1_023 + b"b", b"b"]
    dynamo.set_many([Write(b"p", key, b"", b"1") for key in keys])
    assert [key for key, _ in scan_all(dynamo, b"p", page=1)] == keys
    bounded = scan_all(dynamo, b"p", end=keys[2] + b"\0", page=1)
    assert [key for key, _ in bounded] == keys[:3]


def test_only_events_and_ended_sessions_expire(dynamo: DynamoStore, session: AwsSession) -> None:
    event = Paired(ABSENT, ABSENT, Write(b"e/bucket", b"key", b"v", b"1"))
    dynamo.set_if(b"s/token/0", b"path", b"v", b"1", event)
    dynamo.set(sessions.PARTITION, b"id", b"v", b"1")
    client = session.client("dynamodb")
    items = client.scan(TableName=dynamo.table)["Items"]
    client.close()
    lives = {item["p"]["B"]: int(item["ttl"]["N"]) for item in items if "ttl" in item}
    in_15_days = time.time() + 15 * 24 * 3600
    assert lives.keys() == {b"e/bucket", sessions.PARTITION}
    assert lives[sessions.PARTITION] > time.time() + sessions.LIFE_SECONDS
    assert in_15_days - 300 < lives[b"e/bucket"] <= in_15_days
    assert dynamo.get(b"e/bucket", b"key") == Row(b"v", b"1")


@pytest.fixture(scope="module")
def moto(moto_url: str) -> AwsSession:
    return AwsSession(local(moto_url))


@pytest.fixture(scope="module")
def moto_store(moto: AwsSession) -> Iterator[DynamoStore]:
    new_table(moto, "suite")
    store = DynamoStore(moto, "suite", policy=PATIENT)
    yield store
    store.close()


@pytest.mark.xdist_group("moto")
class TestDynamoStoreOnMoto(ConditionClauses, ScanClauses):
    """A second engine.  Its rows and limits are not asked: it counts the base64 of a value, so
    that it refuses the longest, and its pages of 1 MB are not those of the service."""

    bounds_step = 12
    random_steps = 150
    deleted_rows = 1_000

    @pytest.fixture
    def store(self, moto: AwsSession, moto_store: DynamoStore) -> Store:
        wipe(moto, moto_store)
        return moto_store


if os.environ.get("GRAVELER_DYNALITE"):

    @pytest.fixture(scope="module")
    def dynalite() -> Iterator[tuple[AwsSession, DynamoStore]]:
        with engines.dynalite() as url:
            session = AwsSession(local(url))
            new_table(session, "suite")
            store = DynamoStore(session, "suite", policy=PATIENT)
            yield session, store
            store.close()

    @pytest.mark.xdist_group("dynalite")
    class TestDynamoStoreOnDynalite(RowClauses, LimitClauses, ConditionClauses, ScanClauses):
        """By other hands.  It has no transactions, so nothing that asks for two rows at once; and
        it does not show the row that refused, so the driver reads it."""

        bounds_step = 6
        test_k10_a_guarded_write_needs_both_rows = None
        test_k10_a_paired_write_writes_both_rows_or_neither = None
        test_agrees_with_a_sorted_dictionary = None

        @pytest.fixture
        def store(self, dynalite: tuple[AwsSession, DynamoStore]) -> Store:
            wipe(*dynalite)
            return dynalite[1]


if os.environ.get("GRAVELER_REAL_AWS"):

    @pytest.fixture(scope="module")
    def real(fresh_name: Callable[[], str]) -> Iterator[tuple[AwsSession, DynamoStore]]:
        session, name = AwsSession(), f"graveler-contract-{fresh_name()}"
        create_table(session, name)
        store = DynamoStore(session, name, policy=PATIENT)
        yield session, store
        store.close()
        session.client("dynamodb").delete_table(TableName=name)

    @pytest.mark.xdist_group("real")
    class TestDynamoStoreOnAws(KvSuite):
        """The service itself, in a table of its own that is removed afterwards."""

        bounds_step = 6
        random_steps = 1_000

        @pytest.fixture
        def store(self, real: tuple[AwsSession, DynamoStore]) -> Store:
            wipe(*real)
            return real[1]
