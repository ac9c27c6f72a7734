"""Checkpoints of a job (`Step`): progress that one attempt stores and the next continues from.

    <namespace>/_graveler/steps/<job>.<creation time of the job, in nanoseconds>/<name>.json.gz
Checkpoints save work; correctness does not depend on them: one that is absent, damaged or names
something else is ignored.  Several workers may write one name, so a reader of consecutive
checkpoints checks that each begins where the one before it ended.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, Literal, NamedTuple, Protocol

from graveler.block import address
from graveler.block.drivers import list_all
from graveler.core import limits
from graveler.core.errors import GravelerError, NotFound, StorageFull
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, Absent, Job, Repository
from graveler.engine.jobs.record import Heartbeat
from graveler.engine.ports import OpenRepository
from graveler.refs import job_records

_FOLDER: Final = "_graveler/steps/"
_ENDING: Final = ".json.gz"
_GZIP_BITS: Final = 31


class Step(NamedTuple):
    """One checkpoint: its header `said` and its rows, both JSON that the reader must check."""

    said: Mapping[str, Any]
    rows: Sequence[Any]


class Steps(Protocol):
    """The checkpoints of one job."""

    @property
    def row_count(self) -> int:
        """How many rows fill a checkpoint; 0: no checkpoint is stored."""
        ...

    def names(self, kind: str) -> list[str]:
        """The names that begin with `kind`, in order: those that existed when this object was
        opened, and those that were added to it since.  No request.
        """
        ...

    def read(self, name: str) -> Step | Literal[Absent.ABSENT]:
        """One checkpoint; ABSENT if it does not exist or is damaged.

        Errors: `Unavailable`, `Stopped`.  Cost: a heartbeat and a get; none if it did not exist
        when this object was opened.
        """
        ...

    def add(self, name: str, step: Step) -> None:
        """Store a checkpoint, over another of the same name.

        If the storage is full, nothing is stored: the job can then not continue from this point.
        Errors: `Unavailable`, `Stopped`.  Cost: a put and a heartbeat.
        """
        ...


class _NoSteps:
    """`Steps` of work that no later attempt continues."""

    row_count = 0

    def names(self, kind: str) -> list[str]:
        return []

    def read(self, name: str) -> Literal[Absent.ABSENT]:
        return ABSENT

    def add(self, name: str, step: Step) -> None:
        """Stores nothing."""


NO_STEPS: Final[Steps] = _NoSteps()


class _JobSteps:
    """`Steps`, as files in the repository's namespace."""

    def __init__(self, repo: OpenRepository, job: Job, pulse: Heartbeat) -> None:
        life = f"{job.id}.{job.created_ns:020}"
        self.row_count = repo.settings.step_row_count
        self._blocks = repo.blocks
        self._repo = repo.record
        self._life = life
        self._pulse = pulse
        self._progress = job.progress
        self._found = {stored.name for stored in _stored(repo, f"{life}/")}

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
        fields, rows = whole.get("said"), whole.get("rows")
        sound = isinstance(fields, dict) and isinstance(rows, list)
        return Step(fields or {}, rows or []) if sound else ABSENT

    def add(self, name: str, step: Step) -> None:
        whole = {**self._claim(name), "said": step.said, "rows": step.rows}
        body = gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), 6, mtime=0)
        try:
            self._blocks.put(_address(self._repo, self._life, name), [body])
        except StorageFull:  # the job continues: a collection, for example, frees storage
            return
        self._found.add(name)
        self._progress += 1
        self._pulse.beat(self._progress, always=True)

    def _claim(self, name: str) -> dict[str, str]:
        return {"repository": self._repo.uid, "job": self._life, "step": name}


def _decoded(raw: bytes, size_max: int) -> object:
    """The content of a file; None if it is not valid.  The checksum of gzip detects damage."""
    unpacked = zlib.decompressobj(_GZIP_BITS)
    try:
        text = unpacked.decompress(raw, size_max)
        return json.loads(text) if unpacked.eof else None
    except (zlib.error, ValueError, RecursionError):
        return None


def add_next(steps: Steps, kind: str, step: Step) -> None:
    """Store a checkpoint under the first free name of its kind.  Errors and cost: those of
    `Steps.add`.
    """
    known = frozenset(steps.names(kind))
    free = next(name for number in count() if (name := f"{kind}{number:05}") not in known)
    steps.add(free, step)


def opened(repo: OpenRepository, job: Job, pulse: Heartbeat) -> Steps:
    """The checkpoints of a job.  `pulse` sends its heartbeats; each added checkpoint adds 1
    to the progress of the job.  A checkpoint with `step_row_count` rows is full.

    Errors: `Unavailable`.  Cost: a list for each 1,000 checkpoints.
    """
    return _JobSteps(repo, job, pulse)


def forget(repo: OpenRepository, job: JobId) -> None:
    """Remove the checkpoints of a job that has ended.  Failed deletions are ignored.

    Errors: `Unavailable`.  Cost: as `forget_ended`, for one job.
    """
    _forget(repo, _stored(repo, f"{job}."))


def forget_ended(repo: OpenRepository) -> None:
    """Remove the checkpoints of jobs that have ended or are no longer on record.  Failed deletions
    are ignored.

    Errors: `Unavailable`.  Cost: a list for each 1,000 checkpoints; 1 KV request for each job that
    has checkpoints, and a deletion for each checkpoint to remove.
    """
    _forget(repo, _stored(repo, ""))


class _Checkpoint(NamedTuple):
    """A stored checkpoint: its folder and its name."""

    life: str
    name: str


def _forget(repo: OpenRepository, stored: Sequence[_Checkpoint]) -> None:
    ended = set()
    for life in sorted({step.life for step in stored}):
        job, _, began = life.rpartition(".")
        seen = job_records.find(repo.kv, repo.record, JobId(job))
        if seen is ABSENT or seen.job.ended or f"{seen.job.created_ns:020}" != began:
            ended.add(life)

    def drop(step: _Checkpoint) -> None:
        with suppress(GravelerError):
            repo.blocks.delete(_address(repo.record, step.life, step.name))

    repo.fanout.map(drop, [step for step in stored if step.life in ended])


def _stored(repo: OpenRepository, below: str) -> list[_Checkpoint]:
    """Every checkpoint; other files are ignored."""
    folder = address.join(repo.namespace, _FOLDER)
    checkpoints = []
    for line in list_all(repo.blocks, folder + below):
        life, slash, name = line.address.removeprefix(folder).partition("/")
        if slash and name.endswith(_ENDING) and "/" not in name:
            checkpoints.append(_Checkpoint(life, name.removesuffix(_ENDING)))
    return checkpoints


def _address(repo: Repository, life: str, name: str) -> str:
    return address.join(repo.namespace, f"{_FOLDER}{life}/{name}{_ENDING}")
