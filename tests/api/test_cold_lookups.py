"""Cold look-ups of a real server: tables are opened by threads, never by the event loop.

Every request to the object store is counted with the kind of thread that sends it.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from graveler.api.app import open_service
from graveler.api.service import ServiceSettings
from graveler.assembly.embedded import Embedded, open_embedded
from graveler.auth import accounts
from graveler.block.counter import ObservedBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.requests import Counts
from tests.api.serving import ADMINISTRATOR, USER, Client, Reply, listening
from tests.engine.lake import Lake

REF = "/repositories/lake/refs/main"
CONTENT = "content"


class ThreadCounts(Counts):
    """Counts requests by verb, and by whether the thread of the event loop sends them."""

    def add(self, verb: str, requests: int = 1) -> None:
        is_loop = threading.current_thread().name == "server"
        super().add(f"{'loop' if is_loop else 'thread'} {verb}", requests)


@dataclass(frozen=True)
class World:
    client: Client
    counts: ThreadCounts

    def spent(self, method: str, path: str, query: Mapping[str, str]) -> tuple[Reply, set[str]]:
        """The answer, and the verbs that it took of the object store."""
        before = self.counts.snapshot()
        reply = self.client.send(method, REF + path, query)
        assert reply.status == 200, reply.body
        return reply, set(self.counts.since(before))


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    """A store with a repository whose branch has a commit of some objects."""
    store = open_embedded(tmp_path / "store", synced=False)
    ports = store.ports
    keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, store.secret)
    accounts.create(keeper, USER, "", ADMINISTRATOR)
    lake = Lake(ports, repository.create(ports, NewRepository("lake", "local://lake/x")))
    for number in range(20):
        lake.put(f"a/{number:02}", CONTENT)
    lake.commit()
    yield store
    store.close()


@contextmanager
def started(embedded: Embedded, scratch: Path, *, is_remote: bool = False) -> Iterator[World]:
    """A server over the store that has opened no table yet."""
    counts = ThreadCounts()
    blocks: Any = ObservedBlocks(embedded.ports.blocks, counts)
    ranges = SstRangeStore(StoredFiles(blocks, scratch), is_near=True)
    ports = replace(embedded.ports, blocks=blocks, ranges=ranges)
    settings = ServiceSettings(is_remote=is_remote)
    service = open_service(ports, embedded.signer, embedded.secret, settings)
    with listening(service) as (client, _):
        yield World(client, counts)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/objects/stat"), ("HEAD", "/objects"), ("GET", "/objects/ls")]
)
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_thread_opens_the_tables_of_a_cold_look_up(
    embedded: Embedded, tmp_path: Path, method: str, path: str, is_remote: bool
) -> None:
    query = {"path": "a/07"} if path != "/objects/ls" else {"prefix": "a/"}
    with started(embedded, tmp_path, is_remote=is_remote) as world:
        first, cold = world.spent(method, path, query)
        assert cold and all(verb.startswith("thread ") for verb in cold), cold
        second, warm = world.spent(method, path, query)
        assert not warm
        assert first.body == second.body
        assert CONTENT in (first.headers.get("etag", "") + first.body.decode())
