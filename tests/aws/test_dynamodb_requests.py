"""What verbs cost on DynamoDB, in requests that went over the wire: the table of the protocol.

Counted behind the driver, so that a hidden request of its own would be seen.  Caches of repository,
branch record and commits are warm; one shard, unless the test says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from graveler.assembly.drivers import ThreadFanout
from graveler.assembly.memory import open_memory
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock
from graveler.core.errors import NoChanges
from graveler.core.records import BreakParameters, CommitEntry
from graveler.core.requests import RetryPolicy
from graveler.engine import names
from graveler.engine.commits import log
from graveler.engine.commits import reset as resetting
from graveler.engine.commits.log import GraphPage, GraphQuery
from graveler.engine.objects import read, write
from graveler.engine.repositories import repository
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store
from graveler.refs import commits
from graveler.staging import area
from tests.aws.conftest import PATIENT, local
from tests.engine.lake import Lake
from tests.fault_proxy import FaultProxy, fault_proxy
from tests.refs.graphs import Table
from tests.support.clockwork import TickingClock


@pytest.fixture(scope="module")
def proxy(engine: str) -> Iterator[FaultProxy]:
    with fault_proxy(engine) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def store(proxy: FaultProxy, suite_store: DynamoStore) -> Iterator[DynamoStore]:
    store = DynamoStore(AwsSession(local(proxy.url)), suite_store.table, policy=PATIENT)
    yield store
    store.close()


@pytest.fixture(scope="module")
def fanout() -> Iterator[ThreadFanout]:
    fanout = ThreadFanout()
    yield fanout
    fanout.close()


class Counted:
    """A lake on DynamoDB, with a committed path, and what its verbs send."""

    def __init__(self, store: DynamoStore, proxy: FaultProxy, fanout: ThreadFanout) -> None:
        self._proxy = proxy
        kv = retrying_store(store, SystemClock(), RetryPolicy())
        # Its clock stands nearly still: what is cached stays cached, however slow the machine is.
        self._ports = replace(open_memory(TickingClock()), kv=kv, fanout=fanout)

    def growing(self, rows: int, most: int) -> Lake:
        """One shard for so many rows of the last commits."""
        settings = self._ports.settings._replace(staging_shards_max=most, staging_shard_rows=rows)
        return Lake(replace(self._ports, settings=settings), self.new(1).repo)

    def new(self, shards: int) -> Lake:
        new = repository.NewRepository(
            f"lake-{shards}",
            "mem://bucket/lake",
            breaks=BreakParameters(raggedness=3, salt=b"lake"),
            staging_shards=shards,
        )
        lake = Lake(self._ports, repository.create(self._ports, new))
        lake.commit_of(a="1", b="2")
        lake.tree()
        return lake

    def of(self, call: Callable[[], object]) -> dict[str, int]:
        before = len(self._proxy.operations)
        call()
        return dict(Counter(self._proxy.operations[before:]))


@pytest.fixture
def counted(
    store: DynamoStore, proxy: FaultProxy, fanout: ThreadFanout, dynamo: DynamoStore
) -> Counted:
    return Counted(store, proxy, fanout)


def test_requests_of_the_verbs(counted: Counted) -> None:
    lake = counted.new(1)
    one_write = {"PutItem": 1, "GetItem": 1}
    assert counted.of(lambda: lake.put("p", "1")) == one_write
    assert counted.of(lambda: lake.delete("b")) == one_write
    stat = counted.of(lambda: read.stat(lake.opened, "main", "a"))
    assert sum(stat.values()) == 2
    page = counted.of(lake.tree)
    assert (page["Query"], sum(page.values())) == (1, 2)
    commit = {"GetItem": 1, "Query": 2, "PutItem": 2, "BatchWriteItem": 1}
    assert counted.of(lake.commit) == commit

    def nothing() -> None:
        with pytest.raises(NoChanges):
            lake.commit()

    assert counted.of(nothing) == {"GetItem": 2, "Query": 1}
    head = lake.head()
    assert counted.of(lambda: lake.branch("dev", head)) == {
        "BatchGetItem": 1,
        "TransactWriteItems": 1,
    }
    lake.commit_of("dev", c="3")
    source = lake.head("dev")
    assert sum(counted.of(lambda: lake.merge(source)).values()) == 4
    reset = {"GetItem": 1, "BatchWriteItem": 1, "PutItem": 1}
    assert counted.of(lambda: resetting.reset(lake.opened, "main")) == reset
    # The moment since when the commit is unreachable goes; the pull requests are read.
    deletion = {"GetItem": 1, "BatchWriteItem": 2, "TransactWriteItems": 1, "Query": 1}
    assert counted.of(lambda: names.delete_branch(lake.opened, "dev")) == deletion
    assert sum(counted.of(lambda: lake.put_if_absent("new", "1")).values()) <= 4
    paths = [f"p/{number}" for number in range(20)]
    many = counted.of(lambda: write.delete_many(lake.opened, "main", paths))
    assert many == {"GetItem": 2, "PutItem": 20}


def test_requests_with_four_shards(counted: Counted) -> None:
    lake = counted.new(4)
    for number in range(12):
        lake.put(f"p/{number}", "1")
    page = counted.of(lake.tree)
    assert (page["Query"], sum(page.values())) == (4, 5)
    spent = counted.of(lake.commit)
    assert sum(spent.values()) <= 4 + 2 * 4
    assert spent == {"GetItem": 1, "Query": spent["Query"], "PutItem": 2, "BatchWriteItem": 1}


def test_a_branch_that_grows_sends_nothing_more_before_it_has_grown(counted: Counted) -> None:
    lake = counted.growing(rows=3, most=4)
    for round_, expected in enumerate((1, 1, 4)):
        for number in range(12):
            lake.put(f"p/{number:02}", f"{round_}")
        assert area.shard_count(lake.record().staging) == expected
        page = counted.of(lake.tree)
        assert (page["Query"], sum(page.values())) == (expected, 1 + expected)
        spent = counted.of(lake.commit)
        assert spent == {"GetItem": 1, "Query": spent["Query"], "PutItem": 2, "BatchWriteItem": 1}
        assert spent["Query"] <= 2 * expected
    committed = {f"p/{number:02}": "2" for number in range(12)}
    assert lake.tree("main@") == committed | {"a": "1", "b": "2"}


def test_a_cold_page_of_the_graph(counted: Counted) -> None:
    """2,000 commits, each on top of the one before, are one Query."""
    lake = counted.new(1)
    made = Table()
    last = made.add()
    made.add_line(2_100, last)
    entries = [CommitEntry(id, commit) for id, commit in made.commits.items()]
    newest = max(entries, key=lambda entry: entry.commit.generation)
    commits.put_many(lake.ports.kv, lake.repo, [newest], bytes(16))
    commits.put_lines(lake.ports.kv, lake.repo, entries, bytes(16))
    page = log.graph_page  # of a process that has cached nothing
    cold, found = lake.another_process(), list[GraphPage]()
    spent = counted.of(lambda: found.append(page(cold.opened, GraphQuery((newest.id,)))))
    assert len(found[0].commits) == 2_000 and found[0].following
    assert spent == {"GetItem": 1, "Query": 1}
    query = GraphQuery((), found[0].following)
    spent = counted.of(lambda: found.append(page(cold.opened, query)))
    assert len(found[1].commits) == 101 and not found[1].following
    assert spent == {"Query": 1}
