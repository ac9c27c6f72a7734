"""How files of tasks become one commit of a table's folder, and what every landing returns.

    begin (splice) ──► make: tasks store files ──► the driver links exactly these in a metarange
          ▲                                                 │
          └──── a guarded prefix has changed: again ◄──── finish: prefixes emptied, files put
Nothing is renamed and no folder is listed.  No entry names the objects of an attempt that lost.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Final, NamedTuple

from graveler.committed import writer
from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import Conflict, Invalid, NotFound
from graveler.core.ids import MetarangeId
from graveler.core.records import Entry
from graveler.core.wire import encode_entry
from graveler.lake import bulk, show
from graveler.lake.bulk import BulkJob
from graveler.lake.dataset import is_data
from graveler.lake.session import below
from graveler.spark.bulk_jobs import (
    JobTerms,
    cancelled_on_error,
    check_nothing_staged,
    heartbeats,
)
from graveler.spark.lake import Lake, Pin, Target, commit_at, place_of
from graveler.spark.phases import commit_address, tell
from graveler.spark.places import Place, opened
from graveler.spark.tasks import Report

_ROUNDS: Final = 5
_NO_PROGRESS: Final = -1  # heartbeats leave the job's progress as it is
_ID_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Landed:
    """What landed: the commit, how many rows the call wrote or took in, how many files it stored,
    their bytes, and how long it took.

    Of a job that had landed before: its commit and its rows (0 from a day after its end), and 0
    files.  If there was nothing to do: the commit that the branch had, 0 rows, and `is_unchanged`.
    `report`: of an import, the rows that were left out.
    """

    commit: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    report: Report = field(default_factory=Report, repr=False)
    is_unchanged: bool = field(default=False, repr=False)

    def _repr_html_(self) -> str:
        cells = (
            self.commit[:_ID_SHOWN],
            f"{self.rows:,}",
            f"{self.files:,}",
            show.size(self.bytes),
            f"{self.seconds:.1f}",
        )
        return show.rows_html("landed", ("commit", "rows", "files", "size", "seconds"), [cells])


class Watch:
    """How long something took."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._began = self._clock.steady_seconds()

    @property
    def seconds(self) -> float:
        """Since this was made."""
        return round(self._clock.steady_seconds() - self._began, 3)


class StoredFile(NamedTuple):
    """A file that a task has stored, as a row of `store.STORED`: its path below the table's folder,
    its address below the repository's storage namespace."""

    path: str
    address: str
    size: int
    checksum: str
    mtime: int
    rows: int


@dataclass(frozen=True, slots=True)
class Patch:
    """What a landing changes below the table's folder.

    `replace`: paths or folders, relative to the table's, that are emptied first ("" is the whole
    folder).  `guard`: those that must be as they were at the base.  `files`: what is put then.
    `rows`: for `Landed`; -1: those of the files.
    """

    files: Sequence[StoredFile] = ()
    replace: Sequence[str] = ()
    guard: Sequence[str] = ()
    rows: int = -1

    @property
    def data(self) -> list[StoredFile]:
        """The files with rows, without the one of the schema."""
        return [file for file in self.files if is_data(file.path)]

    @property
    def rows_count(self) -> int:
        """How many rows the landing wrote or took in."""
        return self.rows if self.rows >= 0 else sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Of the files with rows."""
        return sum(file.size for file in self.data)


class Base(NamedTuple):
    """The job of a landing, and the commit that it builds on."""

    job: BulkJob
    pin: Pin


def land_patch(
    lake: Lake,
    where: Target,
    verb: str,
    terms: JobTerms,
    make: Callable[[Base], Patch | None],
    *,
    is_stored: bool = False,
) -> Landed:
    """Land what `make` makes of the base, in one commit; None: there is nothing to do.

    If a guarded prefix changes meanwhile, `make` is called again with the new base.  `terms.id`: a
    name for the job; if it has landed, nothing is done again.  The name of a job of another `verb`
    or folder is a `Conflict`.  `is_stored`: the files are there already, so nothing is gained by a
    look for uncommitted changes before `make`.  Errors: those of `make`; `Conflict` (the folder has
    uncommitted changes; others changed what is guarded again and again); `NotFound`; `Refused`;
    `OutcomeUnknown`.  Cost: 3 requests to the API (2 with `is_stored`), one more for a job with a
    name; 2 puts to the object store.
    """
    watch = Watch()
    for round_number in range(1, _ROUNDS + 1):
        try:
            job = begun(lake, where, verb, terms, round_number)
        except Conflict:
            if not _is_followed(lake, where, terms, round_number):
                raise
            continue
        if job.commit:
            return Landed(job.commit, job.progress, seconds=watch.seconds)
        is_named = bool(terms.id)
        try:
            with cancelled_on_error(lake.session, where.repository, job, is_named=is_named):
                if not is_stored:
                    check_nothing_staged(lake, where, job)
                patch, commit = _landed(lake, where, job, verb, terms, make)
        except _Moved as moved:
            if round_number == _ROUNDS:
                raise moved.reason from moved
            continue
        if patch is None:
            return Landed(commit, seconds=watch.seconds, is_unchanged=True)
        files, size = len(patch.data), patch.size_bytes
        return Landed(commit, patch.rows_count, files, size, watch.seconds)
    raise AssertionError("the last round returns or raises")


def begun(lake: Lake, where: Target, verb: str, terms: JobTerms, round_number: int) -> BulkJob:
    """The job of a round.  A named one has the name and the number of the round, for its base stays
    that of the round.  The run that comes after a crash begins with the first round again.  All
    rounds are one batch of a stream, whose mark outlives the records of jobs."""
    id = terms.id if round_number == 1 or not terms.id else f"{terms.id}.{round_number}"
    purpose = f"{verb} below {where.prefix!r}"
    stream, on_rewind = terms.stream, terms.on_rewind
    if terms.id and not stream:
        work = hashlib.sha256(purpose.encode()).hexdigest()[:_ID_SHOWN]
        stream, on_rewind = f"job:{terms.id}:{work}", "accept"
    return bulk.begin(
        *(lake.session, where.repository, where.branch, "splice"),
        prefix=where.prefix,
        id=id,
        purpose=purpose,
        stream=stream,
        batch=terms.batch,
        on_rewind=on_rewind,
    )


def _is_followed(lake: Lake, where: Target, terms: JobTerms, round_number: int) -> bool:
    """Whether a named job has begun another round, so that one which cannot land any more does not
    count.  One request."""
    if not terms.id or round_number == _ROUNDS:
        return False
    id = f"{terms.id}.{round_number + 1}"
    try:
        jobs = ("branches", where.branch, "bulk", id)
        lake.session.call("GET", below("repositories", where.repository, *jobs))
    except NotFound:
        return False
    return True


class _Moved(Exception):
    """The landing was refused, and the branch has another commit than the job's base: another round
    may succeed."""

    def __init__(self, reason: Conflict) -> None:
        super().__init__(str(reason))
        self.reason: Final = reason


def _finished(lake: Lake, where: Target, job: BulkJob, landing: bulk.Landing) -> str:
    try:
        return bulk.finish(lake.session, where.repository, job, landing)
    except Conflict as error:
        state = bulk.status(lake.session, where.repository, job).state
        head = commit_at(lake, where.repository, where.branch)["id"]
        if state == "running" and head != job.base_commit:
            raise _Moved(error) from error
        raise


def _landed(
    lake: Lake,
    where: Target,
    job: BulkJob,
    verb: str,
    terms: JobTerms,
    make: Callable[[Base], Patch | None],
) -> tuple[Patch | None, str]:
    place = place_of(lake, job.storage_namespace, job.breaks)
    metarange = MetarangeId(job.base_metarange)
    base = Base(job, Pin(where.repository, job.base_commit, metarange, where.prefix, place))
    with heartbeats(lake, where, job, verb, lambda: _NO_PROGRESS):
        patch = make(base)
        if patch is None:
            bulk.cancel(lake.session, where.repository, job)
            return None, job.base_commit
        files, size, rows = len(patch.data), patch.size_bytes, patch.rows_count
        tell("stored", where, job, files=files, bytes=size, rows=rows)
        linked = link(place, where.prefix, patch.files)
        if terms.id:  # whoever runs it again is told the rows
            bulk.heartbeat(lake.session, where.repository, job, rows)
    replace, guard = (
        sorted({where.prefix + path for path in paths}) for paths in (patch.replace, patch.guard)
    )
    length = sum(len(path.encode()) + 8 for path in (*replace, *guard))
    if length > limits.bulk_splice_length_bytes_max:
        raise Invalid(
            "the change touches too many files for one commit: give where= and do it part by part, "
            f"or compact the table first: paths={len(replace)}"
        )
    landing = bulk.Landing(linked, job.id, terms.message, terms.metadata, replace, guard)
    commit = _finished(lake, where, job, landing)
    tell("landed", where, job, commit=commit_address(lake, where.repository, commit))
    return patch, commit


def link(place: Place, prefix: str, files: Sequence[StoredFile]) -> MetarangeId:
    """A metarange with an entry for each of these files and no other.  Cost: a put for each range,
    and one."""
    entries = (
        (
            (prefix + file.path).encode(),
            encode_entry(Entry(file.address, file.size, file.checksum, file.mtime * 1_000)),
        )
        for file in files
    )
    return writer.write(opened(place).space, sorted(entries))


def prefixes_of(gone: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Few prefixes below which all of the paths `gone` lie and none of `kept`: one for each folder
    if none of its other files begins so, else the paths.  Raises `Invalid` if a path of `kept`
    begins with one of `gone`."""
    stay = sorted(kept)

    def is_free(prefix: str) -> bool:
        at = bisect_left(stay, prefix)
        return at == len(stay) or not stay[at].startswith(prefix)

    folders: dict[str, list[str]] = {}
    for path in gone:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    prefixes: list[str] = []
    for paths in folders.values():
        common = commonprefix(paths)  # noqa: RUF071 (prefixes of keys, not folders)
        prefixes += [common] if is_free(common) else paths
    for prefix in prefixes:
        if not is_free(prefix):
            raise Invalid(f"another file has a name that begins with this one: path={prefix!r}")
    return prefixes


def terms_of(default: str, message: str, metadata: Mapping[str, str] | None, job: str) -> JobTerms:
    """The keywords of a verb as one record."""
    return JobTerms(message or default, dict(metadata or {}), job)
