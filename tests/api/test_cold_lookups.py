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

from graveler.api.local import open_service
from graveler.assembly.embedded import Embedded, open_embedded
from graveler.auth import accounts
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.requests import Counts, counted_blocks
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, USER, Client, Reply, listening
from tests.engine.lake import Lake

REF = "/repositories/lake/refs/main"
CONTENT = "content"


class ThreadCounts(Counts):
    """Counts requests by verb, and by whether the thread of the event loop sends them."""

    loop = 0

    def add(self, verb: str, requests: int = 1) -> None:
        is_loop = threading.get_ident() == self.loop
        super().add(f"{'loop' if is_loop else 'thread'} {verb}", requests)


class Told(SstRangeStore):
    """Tells the counts which thread is that of the event loop."""

    def __init__(self, counts: ThreadCounts, files: StoredFiles) -> None:
        super().__init__(files, is_near=True)
        self._counts = counts

    def forbid_waiting(self, thread: int) -> None:
        super().forbid_waiting(thread)
        self._counts.loop = thread


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
def started(embedded: Embedded, scratch: Path) -> Iterator[World]:
    """A server over the store that has opened no table yet."""
    counts = ThreadCounts()
    blocks: Any = counted_blocks(embedded.ports.blocks, counts)
    ranges = Told(counts, StoredFiles(blocks))
    ports = replace(embedded.ports, blocks=blocks, ranges=ranges)
    service = open_service(ports, embedded.signer, embedded.secret, ServiceSettings())
    with listening(service) as (client, _):
        yield World(client, counts)


@pytest.mark.parametrize(("method", "path"), [("GET", "/objects/stat"), ("HEAD", "/objects")])
def test_a_thread_opens_the_tables_of_a_cold_look_up(
    embedded: Embedded, tmp_path: Path, method: str, path: str
) -> None:
    query = {"path": "a/07"}
    with started(embedded, tmp_path) as world:
        assert world.counts.loop
        first, cold = world.spent(method, path, query)
        assert cold and all(verb.startswith("thread ") for verb in cold), cold
        second, warm = world.spent(method, path, query)
        assert not warm
        assert first.body == second.body
        assert CONTENT in (first.headers.get("etag", "") + first.body.decode())
