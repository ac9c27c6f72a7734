"""Writers and committers over HTTP who remember what they were told, so that it can be asked for.

Every path has one writer.  It numbers its writes, and every third of them is a deletion; so
whatever is found at a path says how far the history of that path was known.
"""

import threading
from dataclasses import dataclass, field

import httpx

from tests.cli.service import KEY, SECRET, WAIT_SECONDS

BRANCH = "/repositories/lake/branches/main"
GONE = (httpx.TransportError,)


def is_deletion(number: int) -> bool:
    return number % 3 == 0


@dataclass
class Path:
    """One path: the number of the last write that was sent, and of the last one acknowledged."""

    name: str
    sent: int = 0
    acknowledged: int = 0

    def allows(self, found: int | None, acknowledged: int) -> bool:
        """Whether this may be found: the write `found` (None: nothing is there) although number
        `acknowledged` was acknowledged before."""
        if found is not None:
            return acknowledged <= found <= self.sent and not is_deletion(found)
        return acknowledged <= self.last_deletion()

    def last_deletion(self) -> int:
        """The last deletion that was sent; 0, nothing yet, counts as one."""
        return next(number for number in range(self.sent, -1, -1) if is_deletion(number))


@dataclass
class Committed:
    """A commit that was acknowledged, and what was acknowledged before it began."""

    id: str
    before: dict[str, int]


@dataclass
class Load:
    """What all threads know.  `failures` holds answers that should never be given."""

    url: str
    paths: list[Path]
    commits: list[Committed] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", auth=(KEY, SECRET), timeout=WAIT_SECONDS)

    def writer(self, mine: list[Path]) -> None:
        with self.client() as client:
            while not self.ended.is_set():
                for path in mine:
                    if not self._write(client, path):
                        return

    def committer(self, name: str) -> None:
        with self.client() as client:
            while not self.ended.is_set():
                if not self._commit(client, name):
                    return

    def _write(self, client: httpx.Client, path: Path) -> bool:
        path.sent += 1
        where = {"path": path.name}
        try:
            if is_deletion(path.sent):
                answer = client.delete(f"{BRANCH}/objects", params=where)
            else:
                body = str(path.sent).encode()
                answer = client.post(f"{BRANCH}/objects", params=where, content=body)
        except GONE as error:
            self._gone(f"write {path.name}", error)
            return False
        if answer.status_code not in (201, 204):
            self.failures.append(f"write {path.name}: {answer.status_code} {answer.text}")
        else:
            path.acknowledged = path.sent
        return True

    def _gone(self, request: str, error: httpx.TransportError) -> None:
        """A server that was killed closes its connections; one that does not answer has failed."""
        if isinstance(error, httpx.TimeoutException):
            self.failures.append(f"{request}: {error!r}")

    def _commit(self, client: httpx.Client, name: str) -> bool:
        before = {path.name: path.acknowledged for path in self.paths}
        try:
            answer = client.post(f"{BRANCH}/commits", json={"message": name})
        except GONE as error:
            self._gone("commit", error)
            return False
        if answer.status_code == 201:
            self.commits.append(Committed(answer.json()["id"], before))
        elif not (answer.status_code == 400 and "no changes" in answer.text):
            self.failures.append(f"commit: {answer.status_code} {answer.text}")
        return True


def found_at(client: httpx.Client, ref: str, path: Path) -> int | None:
    """The number of the write that is found."""
    answer = client.get(f"/repositories/lake/refs/{ref}/objects", params={"path": path.name})
    if answer.status_code == 404:
        return None
    assert answer.status_code == 200, answer.text
    return int(answer.content)


def started(load: Load, writers: int, committers: int) -> list[threading.Thread]:
    """All threads, running."""
    threads = [
        threading.Thread(target=load.writer, args=(load.paths[at::writers],))
        for at in range(writers)
    ]
    threads += [
        threading.Thread(target=load.committer, args=(f"committer {at}",))
        for at in range(committers)
    ]
    for thread in threads:
        thread.start()
    return threads
