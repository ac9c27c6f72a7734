"""Steps of a job: what its runs have found out, kept for the run that goes on where they were.

    <namespace>/_graveler/steps/<job>.<when it was ordered, in nanoseconds>/<name>.json.gz

A job's id is given again, to the same request, once its record is forgotten; when it was ordered
tells the two apart.  A step says of which repository and job it is, and its name.  One that is
absent, damaged or says something else is not believed, and what it held is found out again: a step
saves work, and no answer hangs on it.  Several runners of one job may write a step of the same
name; whoever reads steps that belong together looks whether each begins where the one before it
ended.  They are removed when the job has ended, or else by the next collection of the repository,
which never takes them for garbage.

For collection and dumps, and for delivery.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, Literal, NamedTuple, Protocol

from graveler import limits
from graveler.block import address
from graveler.block.listing import list_all
from graveler.engine.jobs.record import Pulse
from graveler.engine.ports import Ports
from graveler.errors import GravelerError, NotFound, StorageFull
from graveler.ids import JobId
from graveler.records import ABSENT, Absent, Job, Repository
from graveler.refs.jobs import record

_FOLDER: Final = "_graveler/steps/"
_ENDING: Final = ".json.gz"
_GZIP_BITS: Final = 31


class Step(NamedTuple):
    """What a step says of itself, and its rows: both JSON that whoever reads them has to check."""

    said: Mapping[str, Any]
    rows: Sequence[Any]


class Steps(Protocol):
    """The steps of one job."""

    @property
    def row_count(self) -> int:
        """How many rows make a step full; 0: none is kept."""
        ...

    def names(self, kind: str) -> list[str]:
        """Those that were there when they were opened, or were added since, and whose names begin
        so, in order."""
        ...

    def read(self, name: str) -> Step | Literal[Absent.ABSENT]:
        """One step; ABSENT if it is not there, or is not what was written.  Errors: `Unavailable`,
        `Stopped`.  Cost: a beat and a get, none if it was not there when they were opened."""
        ...

    def add(self, name: str, step: Step) -> None:
        """Store a step, over another of that name, if there is room for it: without it the job only
        is not gone on with there.  Errors: `Unavailable`, `Stopped`.  Cost: a put and a beat."""
        ...


class _NoSteps:
    """`Steps` of a run that nobody else goes on with."""

    row_count = 0

    def names(self, kind: str) -> list[str]:
        return []

    def read(self, name: str) -> Literal[Absent.ABSENT]:
        return ABSENT

    def add(self, name: str, step: Step) -> None:
        """Nothing is kept."""


NO_STEPS: Final[Steps] = _NoSteps()


class _JobSteps:
    """`Steps`."""

    def __init__(
        self, ports: Ports, repo: Repository, life: str, pulse: Pulse, row_count: int
    ) -> None:
        self.row_count = row_count
        self._blocks = ports.blocks
        self._repo = repo
        self._life = life
        self._pulse = pulse
        self._found = {name for _, name in _stored(ports, repo, f"{life}/")}

    def names(self, kind: str) -> list[str]:
        return sorted(name for name in self._found if name.startswith(kind))

    def read(self, name: str) -> Step | Literal[Absent.ABSENT]:
        if name not in self._found:
            return ABSENT
        self._pulse.beat()
        size = limits.step_length_bytes_max
        try:
            raw = self._blocks.read(_address(self._repo, self._life, name), 0, size)
        except NotFound:
            return ABSENT
        whole = _decoded(raw, size)
        if not isinstance(whole, dict) or {**whole, **self._claim(name)} != whole:
            return ABSENT
        said, rows = whole.get("said"), whole.get("rows")
        sound = isinstance(said, dict) and isinstance(rows, list)
        return Step(said or {}, rows or []) if sound else ABSENT

    def add(self, name: str, step: Step) -> None:
        whole = {**self._claim(name), "said": step.said, "rows": step.rows}
        body = gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), 6, mtime=0)
        try:
            self._blocks.put(_address(self._repo, self._life, name), [body])
        except StorageFull:  # which collection is there to end
            return
        self._found.add(name)
        self._pulse.beat(0, always=True)

    def _claim(self, name: str) -> dict[str, str]:
        return {"repository": self._repo.uid, "job": self._life, "step": name}


def _decoded(raw: bytes, size_max: int) -> object:
    """None if it is no step; checked by the sum that gzip keeps."""
    unpacked = zlib.decompressobj(_GZIP_BITS)
    try:
        text = unpacked.decompress(raw, size_max)
        return json.loads(text) if unpacked.eof else None
    except (zlib.error, ValueError, RecursionError):
        return None


def add_next(steps: Steps, kind: str, step: Step) -> None:
    """Store a step under the first name of its kind that is free.  Errors and cost: those of
    `Steps.add`."""
    known = frozenset(steps.names(kind))
    free = next(name for number in count() if (name := f"{kind}{number:05}") not in known)
    steps.add(free, step)


def opened(ports: Ports, repo: Repository, job: Job, pulse: Pulse, *, row_count: int = 0) -> Steps:
    """The steps of a job that beats by `pulse`, and whose progress is 0 once one is added.
    `row_count`: of a full one; 0: `limits.step_row_count`.

    Errors: `Unavailable`.  Cost: a list for each 1,000 steps."""
    life = f"{job.id}.{job.created_ns:020}"
    return _JobSteps(ports, repo, life, pulse, row_count or limits.step_row_count)


def forget(ports: Ports, repo: Repository, job: JobId) -> None:
    """Remove the steps of a job if it has ended, as far as the store lets go.

    Errors: `Unavailable`.  Cost: as `forget_ended`, for one job."""
    _forget(ports, repo, _stored(ports, repo, f"{job}."))


def forget_ended(ports: Ports, repo: Repository) -> None:
    """Remove what jobs have left behind that have ended, or are known no more, as far as the store
    lets go.

    Errors: `Unavailable`.  Cost: a list for each 1,000 steps; 1 KV request for each job that has
    any, and a deletion for each of its steps."""
    _forget(ports, repo, _stored(ports, repo, ""))


def _forget(ports: Ports, repo: Repository, stored: Sequence[tuple[str, str]]) -> None:
    over = set()
    for life in sorted({life for life, _ in stored}):
        job, _, began = life.rpartition(".")
        seen = record.find(ports.kv, repo, JobId(job))
        if seen is ABSENT or seen.job.ended or f"{seen.job.created_ns:020}" != began:
            over.add(life)

    def drop(step: tuple[str, str]) -> None:
        with suppress(GravelerError):
            ports.blocks.delete(_address(repo, *step))

    ports.fanout.map(drop, [step for step in stored if step[0] in over])


def _stored(ports: Ports, repo: Repository, below: str) -> list[tuple[str, str]]:
    """Folder and name of every step; other files are nobody's business here."""
    folder = address.join(repo.namespace, _FOLDER)
    found = []
    for line in list_all(ports.blocks, folder + below):
        life, slash, name = line.address.removeprefix(folder).partition("/")
        if slash and name.endswith(_ENDING) and "/" not in name:
            found.append((life, name.removesuffix(_ENDING)))
    return found


def _address(repo: Repository, life: str, name: str) -> str:
    return address.join(repo.namespace, f"{_FOLDER}{life}/{name}{_ENDING}")
