"""Many threads on one embedded store, directly and over HTTP, and what they were promised."""

import contextlib
import hashlib
import http.client
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from graveler import assembly
from graveler.block.adapter import CREATE
from graveler.core.errors import Conflict, Invalid, NoChanges, NotFound
from graveler.core.records import Absent, Entry, Repository
from graveler.engine import names
from graveler.engine.commits import commit, log, merge
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from tests import draws
from tests.api.serving import basic
from tests.cli.service import KEY, SECRET, serving
from tests.engine.history import NOTHING
from tests.engine.load import FEATURE, REACHED, SINK, Load, Refused, judged
from tests.waiting import PATIENCE_SECONDS

WRITERS, COMMITTERS = 8, 4
ENGINE_SECONDS, HTTP_SECONDS = 2, 4


@dataclass
class EngineDoor:
    """The verbs themselves."""

    ports: Ports
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Invalid, Conflict) as refusal:
            text = "no changes" if isinstance(refusal, NoChanges) else type(refusal).__name__
            raise Refused(text) from refusal

    def _entry(self, value: str) -> Entry:
        return Entry(f"data/{self.ports.ids.unique(20)}", len(value), value, 1)

    def put(self, branch: str, key: str, value: str) -> None:
        entry = self._entry(value)
        self._ask(lambda: write.stage(self.opened, branch, key, entry))

    def create(self, key: str, value: str) -> None:
        entry = self._entry(value)
        self._ask(lambda: write.stage(self.opened, "main", key, entry, CREATE))

    def delete(self, key: str) -> None:
        self._ask(lambda: write.delete(self.opened, "main", key))

    def get(self, key: str) -> str:
        try:
            return read.stat(self.opened, "main", key).checksum
        except NotFound:
            return NOTHING

    def tree(self, ref: str) -> dict[str, str]:
        query = read.ListQuery(amount=10_000)
        page = read.list_objects(self.opened, ref, query)
        assert not page.more
        return {p: entry.checksum for p, entry in page.lines if not isinstance(entry, Absent)}

    def commit(self, branch: str, message: str) -> str:
        request = commit.CommitRequest(message, "load")
        made = self._ask(lambda: commit.commit(self.opened, branch, request))
        return str(made.id)

    def merge(self, source: str, destination: str) -> str:
        request = merge.MergeRequest("load")
        made = self._ask(lambda: merge.merge(self.opened, source, destination, request))
        return str(made)

    def line(self, branch: str) -> set[str]:
        request = log.LogRequest(amount=1_000_000, first_parent=True)
        entries, more = log.log(self.opened, branch, request)
        assert not more
        return {entry.id for entry in entries}

    def close(self) -> None:
        """Nothing of its own."""


@dataclass
class HttpDoor:
    """The service, over a connection of its own.  An object's content is its value."""

    url: str
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        place = urlsplit(self.url)
        self.connection = http.client.HTTPConnection(
            place.hostname or "", place.port, timeout=PATIENCE_SECONDS
        )

    def _ask(
        self, method: str, path: str, query: dict[str, str], body: Any = None, **headers: str
    ) -> Any:
        """The JSON of a 2xx; `Refused` for a 4xx; whatever else is wrong."""
        target = f"/api/v1/repositories/lake{quote(path, safe='/@')}?{urlencode(query)}"
        if not isinstance(body, bytes) and body is not None:
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        headers["Authorization"] = basic(KEY, SECRET)
        self.connection.request(method, target, body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if 400 <= answer.status < 500:
            raise Refused(f"{answer.status} {json.loads(content).get('message', '')[:60]}")
        assert 200 <= answer.status < 300, f"{method} {path}: {answer.status} {content!r}"
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return json.loads(content) if content and is_json else None

    def put(self, branch: str, key: str, value: str, **headers: str) -> None:
        where = f"/branches/{branch}/objects"
        self._ask("POST", where, {"path": key}, value.encode(), **headers)

    def create(self, key: str, value: str) -> None:
        self.put("main", key, value, **{"If-None-Match": "*"})

    def delete(self, key: str) -> None:
        self._ask("DELETE", "/branches/main/objects", {"path": key})

    def get(self, key: str) -> str:
        try:
            found = self._ask("GET", "/refs/main/objects/stat", {"path": key})
        except Refused as refusal:
            assert "404" in str(refusal), str(refusal)
            return NOTHING
        return str(found["checksum"])

    def tree(self, ref: str) -> dict[str, str]:
        found: dict[str, str] = {}
        query = {"amount": "1000"}
        while True:
            page = self._ask("GET", f"/refs/{ref}/objects/ls", query)
            found |= {line["path"]: line["checksum"] for line in page["results"]}
            if not page["pagination"]["has_more"]:
                return found
            query["after"] = page["pagination"]["next_offset"]

    def commit(self, branch: str, message: str) -> str:
        made = self._ask("POST", f"/branches/{branch}/commits", {}, {"message": message})
        return str(made["id"])

    def merge(self, source: str, destination: str) -> str:
        made = self._ask("POST", f"/refs/{source}/merge/{destination}", {}, {})
        return str(made["reference"])

    def line(self, branch: str) -> set[str]:
        found: set[str] = set()
        query = {"amount": "1000", "first_parent": "true"}
        while True:
            page = self._ask("GET", f"/refs/{branch}/commits", query)
            found |= {line["id"] for line in page["results"]}
            if not page["pagination"]["has_more"]:
                return found
            query["after"] = page["pagination"]["next_offset"]

    def close(self) -> None:
        self.connection.close()


def _report(load: Load, wrong: list[str]) -> None:
    answers = load.history.answers
    print(*(f"{kind} {answers[kind]}" for kind in sorted(answers)), sep="\n")
    assert not wrong, "\n".join([f"{load.seed=}: {len(wrong)} wrong", *wrong[:20]])
    for kind in REACHED:
        assert answers.get(kind), f"the load must reach this: {kind}"


@pytest.fixture
def brisk_threads() -> Iterator[None]:
    """Threads take turns often, so that they meet within requests, not only between them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("brisk_threads")
def test_threads_on_the_engine(fast_folder: Path) -> None:
    store = assembly.open_embedded(fast_folder / "store")
    try:
        new = repository.NewRepository("lake", "local://lake/x")
        repo = repository.create(store.ports, new)
        for branch in (FEATURE, SINK):
            names.create_branch(open_repository(store.ports, repo), branch, "main")
        door = EngineDoor(store.ports, repo)
        load = Load(lambda: door, ENGINE_SECONDS, draws.seed())
        load.run(WRITERS, COMMITTERS)
        _report(load, judged(load.history, door))
    finally:
        store.close()


@pytest.mark.slow
def test_threads_over_http(fast_folder: Path) -> None:
    with serving(fast_folder / "store") as service:
        with service.client() as client:
            body = {"name": "lake", "storage_namespace": "local://lake/x"}
            client.post("/repositories", json=body).raise_for_status()
            for branch in (FEATURE, SINK):
                body = {"name": branch, "source": "main"}
                client.post("/repositories/lake/branches", json=body).raise_for_status()
        load = Load(lambda: HttpDoor(service.url), HTTP_SECONDS, draws.seed())
        _in_digests(load.run(WRITERS, COMMITTERS))
        with contextlib.closing(HttpDoor(service.url)) as door:
            _report(load, judged(load.history, door))


def _in_digests(load: Any) -> None:
    """Over HTTP a value is seen as the digest of the object that holds it."""

    def digest(value: str) -> str:
        return hashlib.md5(value.encode()).hexdigest() if value else NOTHING

    load.writes = {
        key: [(span, digest(value)) for span, value in writes]
        for key, writes in load.writes.items()
    }
    load.refused = {digest(value) for value in load.refused}
    load.creations = {
        key: [digest(value) for value in values] for key, values in load.creations.items()
    }
