"""One ministack for each test process, and the session, table and store that tests use on it.

Processes of a parallel run have one engine each (it starts in half a second), so tests need no
group; names are never used twice, so nothing is reset between tests but the table of contract
suites, which is wiped.
"""

from collections.abc import Callable, Iterator

import pytest

from graveler.block.ranged_get import ReadingOptions
from graveler.block.s3 import S3Options
from graveler.core.aws import AwsSession, AwsSettings, CallPolicy
from graveler.core.clock import SystemIds
from graveler.kv.dynamodb import DynamoStore
from tests.aws import engines
from tests.aws.tables import new_table, wipe

# A loaded machine answers late; what a late answer means has tests of its own.
PATIENT = CallPolicy(connect_seconds=10.0, read_seconds=60.0)
PATIENT_S3 = S3Options(ReadingOptions(connect_seconds=10.0, read_seconds=60.0), PATIENT)


def local(url: str) -> AwsSettings:
    """Settings for an engine on this machine."""
    return AwsSettings("us-east-1", url, "test", "test")


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The URL of this process's ministack."""
    with engines.ministack() as url:
        yield url


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """The URL of a moto.  Tests that use it are in the group `moto`, so that a run starts one."""
    with engines.locked_moto() as url:
        yield url


@pytest.fixture(scope="session")
def settings(engine: str) -> AwsSettings:
    return local(engine)


@pytest.fixture(scope="session")
def session(settings: AwsSettings) -> AwsSession:
    return AwsSession(settings)


@pytest.fixture(scope="session")
def fresh_name() -> Callable[[], str]:
    """Names for tables and buckets that nobody else has."""
    ids = SystemIds()
    return lambda: f"t{ids.unique(20)}"


@pytest.fixture
def table(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    """A new, empty table."""
    name = fresh_name()
    new_table(session, name)
    return name


@pytest.fixture(scope="session")
def suite_store(session: AwsSession, fresh_name: Callable[[], str]) -> Iterator[DynamoStore]:
    """The store of the contract suite; wiped before each use by `dynamo`."""
    name = fresh_name()
    new_table(session, name)
    store = DynamoStore(session, name, policy=PATIENT)
    yield store
    store.close()


@pytest.fixture
def dynamo(suite_store: DynamoStore, session: AwsSession) -> DynamoStore:
    """An empty store on ministack."""
    wipe(session, suite_store)
    return suite_store
