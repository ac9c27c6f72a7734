"""A served store that is killed again and again while clients write and commit.

Every path has one writer, which numbers its writes; every third write is a deletion.  So the value
of a path after a kill shows how much of its history survived: at least everything that was
acknowledged, at most everything that was sent.  Acknowledged commits must stay in the history, and
must hold everything that was acknowledged before they were requested.
"""

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from simulator.service.process import GONE, Client, LiveService, serving, verify

WRITERS, COMMITTERS, PATHS = 4, 2, 32
_BRANCH = "/repositories/killed/branches/main"
_LOOKED_AT = 4  # commits whose content is read after each kill


@dataclass(slots=True)
class Slot:
    """One path: the number of the last write that was sent, and of the last acknowledged one."""

    name: str
    sent: int = 0
    acknowledged: int = 0

    def allows(self, found: int, acknowledged: int) -> bool:
        """Whether write `found` (0: the path is absent) may be visible if write `acknowledged` was
        acknowledged."""
        if found:
            return acknowledged <= found <= self.sent and not is_deletion(found)
        return acknowledged <= self.last_deletion

    @property
    def last_deletion(self) -> int:
        return self.sent - self.sent % 3


def is_deletion(number: int) -> bool:
    return number % 3 == 0


@dataclass(frozen=True, slots=True)
class Promise:
    """An acknowledged commit, and for each path the last write acknowledged before the commit was
    requested."""

    commit: str
    before: dict[str, int]


@dataclass(slots=True)
class KillLoop:
    """The knowledge that survives kills, and the violations."""

    folder: Path
    random: Random
    slots: list[Slot] = field(
        default_factory=lambda: [Slot(f"p/{number:02}") for number in range(PATHS)]
    )
    promises: list[Promise] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    writes: int = 0

    def run(self, count: int, enough: Callable[[], bool] = lambda: False) -> None:
        """Kill the service `count` times, or until `enough` returns true; then check the whole
        store."""
        with self._serving() as service, service.client() as client:
            given = {"name": "killed", "storage_namespace": "local://killed/"}
            answer = client.send("POST", "/repositories", body=given)
            if answer.status != 201:
                raise RuntimeError(f"the repository was not made: {answer}")
            service.end()
        while self.kills < count and not self.wrong and not enough():
            with self._serving() as service:
                self._check(service)
                self._load(service, self.random.uniform(0.2, 1.2))
        with self._serving() as service:
            self._check(service)
            if service.end() != 0:
                self.wrong.append("the service did not stop gracefully")
        damage = verify(self.folder / "store")
        if damage:
            self.wrong.append(f"verify: {damage}")

    def _serving(self) -> AbstractContextManager[LiveService]:
        return serving(self.folder / "store", self.folder / "log")

    def _load(self, service: LiveService, seconds: float) -> None:
        ended = threading.Event()
        threads = [
            threading.Thread(target=self._write, args=(service, self.slots[at::WRITERS], ended))
            for at in range(WRITERS)
        ] + [
            threading.Thread(target=self._commit, args=(service, ended)) for _ in range(COMMITTERS)
        ]
        for thread in threads:
            thread.start()
        ended.wait(seconds)
        service.end(signal.SIGKILL)
        ended.set()
        self.kills += 1
        for thread in threads:
            thread.join()
        self.writes = sum(slot.acknowledged for slot in self.slots)

    def _write(self, service: LiveService, mine: list[Slot], ended: threading.Event) -> None:
        with service.client() as client:
            while not ended.is_set():
                for slot in mine:
                    if not self._written(client, slot):
                        return

    def _written(self, client: Client, slot: Slot) -> bool:
        slot.sent += 1
        where = {"path": slot.name}
        try:
            if is_deletion(slot.sent):
                answer = client.send("DELETE", f"{_BRANCH}/objects", where)
            else:
                content = str(slot.sent).encode()
                answer = client.send("POST", f"{_BRANCH}/objects", where, content)
        except GONE:
            return False
        if answer.status in (201, 204):
            slot.acknowledged = slot.sent
        else:
            self.wrong.append(f"write {slot.name}: {answer}")
        return True

    def _commit(self, service: LiveService, ended: threading.Event) -> None:
        with service.client() as client:
            while not ended.is_set():
                before = {slot.name: slot.acknowledged for slot in self.slots}
                try:
                    answer = client.send("POST", f"{_BRANCH}/commits", body={"message": "m"})
                except GONE:
                    return
                if answer.status == 201:
                    self.promises.append(Promise(answer.json["id"], before))
                elif not (answer.status == 400 and b"no changes" in answer.body):
                    self.wrong.append(f"commit: {answer}")

    # ---- looking ----

    def _check(self, service: LiveService) -> None:
        with service.client() as client:
            for slot in self.slots:
                found = _found(client, "main", slot)
                if not slot.allows(found, slot.acknowledged):
                    self.wrong.append(f"lost after kill {self.kills}: {slot} {found=}")
                # A dead process sends nothing more, so later writes continue from the value found
                # now.
                slot.acknowledged = found or slot.last_deletion
            history = _history(client)
            for promise in self.promises:
                if promise.commit not in history:
                    self.wrong.append(f"commit lost after kill {self.kills}: {promise.commit}")
            for promise in self.promises[-_LOOKED_AT:]:
                for slot in self.slots[::4]:
                    found = _found(client, promise.commit, slot)
                    if not slot.allows(found, promise.before[slot.name]):
                        self.wrong.append(f"not in its commit: {slot} {found=} {promise.commit}")


def _found(client: Client, ref: str, slot: Slot) -> int:
    answer = client.send("GET", f"/repositories/killed/refs/{ref}/objects", {"path": slot.name})
    if answer.status == 404:
        return 0
    if answer.status != 200:
        raise RuntimeError(f"reading {slot.name} of {ref}: {answer}")
    return int(answer.body)


def _history(client: Client) -> set[str]:
    found: set[str] = set()
    after = ""
    while True:
        query = {"amount": "1000", "after": after}
        page = client.send("GET", "/repositories/killed/refs/main/commits", query).json
        found |= {commit["id"] for commit in page["results"]}
        if not page["pagination"]["has_more"]:
            return found
        after = page["pagination"]["next_offset"]
