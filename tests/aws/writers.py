"""Writers of one branch through sandboxes, and what must be found there in the end.

Each writer has paths of its own and remembers, for each, the contents that may be there:

    acknowledged    this content, and no other
    refused         what was there before
    unknown         what was there before, or this content

That holds for what it reads meanwhile, for every commit that was acknowledged to it (it holds what
was acknowledged before the commit began), and for the branch in the end.  An answer that is not an
acknowledgement is unknown only if it says so.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final, NamedTuple

from tests.aws.lake import Answer, Lake, ask
from tests.functions.sandbox import Sandbox

REPOSITORY: Final = "/repositories/lake"
MAIN: Final = REPOSITORY + "/branches/main"
PATHS: Final = 8
GONE: Final = ""
LATE: Final = 300.0  # seconds: a machine that is busy otherwise does little in the time given

Contents = frozenset[str]  # checksums that may be there; GONE: nothing


class Committed(NamedTuple):
    """A commit that was acknowledged, and what its writer knew when it asked for it."""

    id: str
    known: Mapping[str, Contents]


@dataclass
class Writer:
    """One client, on one sandbox."""

    lake: Lake
    sandbox: Sandbox
    name: str
    chance: random.Random
    known: dict[str, Contents] = field(default_factory=dict)
    commits: list[Committed] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.known = {f"{self.name}/{n}": frozenset((GONE,)) for n in range(PATHS)}

    def work(self, over: Callable[[], bool]) -> None:
        """Write, delete, read and commit until it is over."""
        try:
            while not over():
                drawn = self.chance.random()
                if drawn < 0.15:
                    self.commit()
                elif drawn < 0.35:
                    self.read()
                elif drawn < 0.5:
                    self.delete()
                else:
                    self.upload()
        except BaseException as error:  # told by whoever joins the thread
            self.error = error

    def upload(self) -> None:
        path, content = self._path(), self.chance.randbytes(self.chance.choice((3, 300, 9_000)))
        answer = ask(self.lake, self.sandbox, "POST", MAIN + "/objects", {"path": path}, content)
        self._wrote("upload", path, md5(content).hexdigest(), answer)

    def delete(self) -> None:
        path = self._path()
        answer = ask(self.lake, self.sandbox, "DELETE", MAIN + "/objects", {"path": path})
        self._wrote("delete", path, GONE, answer)

    def read(self) -> None:
        path = self._path()
        where = REPOSITORY + "/refs/main/objects"
        answer = ask(self.lake, self.sandbox, "GET", where, {"path": path})
        self._count("read", answer)
        if answer.status in (200, 404):
            found = md5(answer.body).hexdigest() if answer.status == 200 else GONE
            if found not in self.known[path]:
                self.wrong.append(f"read: {path=} {found=} known={set(self.known[path])}")

    def commit(self) -> None:
        known = dict(self.known)
        body = json.dumps({"message": f"by {self.name}"}).encode()
        answer = ask(self.lake, self.sandbox, "POST", MAIN + "/commits", {}, body)
        if answer.status == 400 and b"no changes" in answer.body:
            self.told["commit nothing"] += 1
            return
        self._count("commit", answer)
        if answer.status == 201:
            self.commits.append(Committed(answer.json["id"], known))

    def _path(self) -> str:
        return self.chance.choice(sorted(self.known))

    def _wrote(self, verb: str, path: str, content: str, answer: Answer) -> None:
        self._count(verb, answer)
        if answer.status in (201, 204):
            self.known[path] = frozenset((content,))
        elif answer.unknown:
            self.known[path] |= {content}

    def _count(self, verb: str, answer: Answer) -> None:
        good = answer.status < 300 or (verb == "read" and answer.status == 404)
        what = "done" if good else "unknown" if answer.unknown else f"failed {answer.status}"
        self.told[f"{verb} {what}"] += 1
        if what.startswith("failed"):
            self.told[f"failed: {answer.body[:200].decode()}"] += 1


def run(
    writers: Sequence[Writer],
    seconds: float,
    commits: int,
    disturb: Callable[[], None],
    enough: Callable[[], bool] = lambda: True,
) -> Counter[str]:
    """Let all of them work at once, so long, until so many commits were acknowledged, and until it
    is enough; disturb them meanwhile.  What they were told."""
    end = time.monotonic() + seconds

    def over() -> bool:
        late = time.monotonic() - end
        committed = sum(len(each.commits) for each in writers)
        return late > 0 and ((committed >= commits and enough()) or late > LATE)

    threads = [threading.Thread(target=each.work, args=(over,)) for each in writers]
    for thread in threads:
        thread.start()
    while not over():
        disturb()
    for thread in threads:
        thread.join()
    for each in writers:
        if each.error is not None:
            raise each.error
    return sum((each.told for each in writers), Counter[str]())


def lost(writers: Sequence[Writer], lake: Lake, sandbox: Sandbox) -> list[str]:
    """What is not as it was acknowledged: on the branch, in each commit, in its log."""
    wrong = [each for writer in writers for each in writer.wrong]
    logged = _log(lake, sandbox)
    for writer in writers:
        wrong += _differences(lake, sandbox, "main", writer.known)
        for each in writer.commits:
            if each.id not in logged:
                wrong.append(f"commit is not in the log: writer={writer.name} id={each.id}")
            else:
                wrong += _differences(lake, sandbox, each.id, each.known)
    return wrong


def _differences(
    lake: Lake, sandbox: Sandbox, ref: str, known: Mapping[str, Contents]
) -> list[str]:
    prefix = min(known, default="").partition("/")[0] + "/"
    where = f"{REPOSITORY}/refs/{ref}/objects/ls"
    answer = ask(lake, sandbox, "GET", where, {"prefix": prefix, "amount": "1000"})
    assert answer.status == 200, answer
    found = {each["path"]: each["checksum"] for each in answer.json["results"]}
    return [
        f"{ref}: {path=} found={found.get(path, GONE)!r} known={set(contents)}"
        for path, contents in known.items()
        if found.get(path, GONE) not in contents
    ]


_LOG_TRIES = 10


def _log(lake: Lake, sandbox: Sandbox) -> set[str]:
    found: set[str] = set()
    query = {"amount": "1000", "first_parent": "true"}
    while True:
        for _ in range(_LOG_TRIES):
            answer = ask(lake, sandbox, "GET", REPOSITORY + "/refs/main/commits", query)
            if answer.status != 503:  # a connection that the disturbance broke may still be pooled
                break
        assert answer.status == 200, answer
        found |= {each["id"] for each in answer.json["results"]}
        if not answer.json["pagination"]["has_more"]:
            return found
        query["after"] = answer.json["pagination"]["next_offset"]
