"""What the library returns: frozen records with times that know their zone and sizes in bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

from graveler.lake.answers import Record, moment, moment_of, told
from graveler.lake.session import having

ChangeType = Literal["added", "changed", "removed", "conflict"]


@dataclass(frozen=True)
class Entry(Record):
    """An object at a ref.  `checksum`: as the object store has it, mostly the MD5 of the bytes.
    `address`: where the bytes are."""

    path: str
    size: int
    checksum: str = ""
    modified: datetime | None = None
    content_type: str = ""
    address: str = field(default="", repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """Whether this stands for all objects below a path, in a list of one level."""
        return self.answer.get("path_type") == "common_prefix"


@dataclass(frozen=True)
class Change(Record):
    """A path that differs.  `size`: of the object that is new, or that was removed; None if the
    server does not say it."""

    type: ChangeType
    path: str
    size: int | None = None


@dataclass(frozen=True)
class Conflict:
    """A path that both sides of a merge changed, in three versions; None: it is not there."""

    path: str
    base: Entry | None = None
    source: Entry | None = None
    destination: Entry | None = None


@dataclass(frozen=True)
class Preview:
    """What a merge would do.  `conflicts`: the first of them; all, if `complete`."""

    source: str
    destination: str
    base: str
    added: int
    changed: int
    removed: int
    conflicts: tuple[Conflict, ...]
    complete: bool

    @property
    def can_merge(self) -> bool:
        """Whether no path conflicts."""
        return not self.conflicts


@dataclass(frozen=True)
class MergeBase(Record):
    """The ids of the commits that a merge would compare."""

    base: str
    source: str = ""
    destination: str = ""


@dataclass(frozen=True)
class Summary:
    """The objects below a folder, or one object."""

    path: str
    objects: int
    size: int


@dataclass(frozen=True)
class ChangeSummary:
    """How many paths below a folder differ, or whether one path does.  `bytes_added`: of what is
    new; `bytes_removed`: of what was there before."""

    path: str
    added: int
    changed: int
    removed: int
    conflicts: int
    bytes_added: int
    bytes_removed: int


@dataclass(frozen=True)
class Run(Record):
    """One run of the hooks of a repository."""

    id: str
    event: str
    branch: str
    commit: str
    status: str
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class HookRun(Record):
    """One hook of a run.  `hook`: its id in the action file."""

    run: str
    id: str
    action: str
    hook: str
    status: str
    started: datetime | None = None
    ended: datetime | None = None


class BranchRule(TypedDict):
    """The days of one branch; 0: forever."""

    branch_id: str
    retention_days: int


class RetentionRules(TypedDict):
    """The days of branches, and of all others; 0: forever."""

    branches: list[BranchRule]
    default_retention_days: int


def entry(stats: Mapping[str, Any]) -> Entry:
    """An entry from the answer of the API."""
    is_folder = stats.get("path_type") == "common_prefix"  # servers tell 0 as its time
    made = Entry(
        stats["path"],
        int(stats.get("size_bytes") or 0),
        str(stats.get("checksum", "")),
        None if is_folder else moment(stats.get("mtime")),
        str(stats.get("content_type", "")),
        str(stats.get("physical_address", "")),
        dict(stats.get("metadata") or {}),
    )
    return told(made, stats)


def change(line: Mapping[str, Any]) -> Change:
    """A difference from the answer of the API."""
    having(line, "type", "path")
    kind: ChangeType = "changed" if line["type"] == "prefix_changed" else line["type"]
    size = line.get("size_bytes")
    return told(Change(kind, line["path"], None if size is None else int(size)), line)


def change_summary(line: Mapping[str, Any]) -> ChangeSummary:
    """A line of a summary of differences from the answer of the API."""
    names = ("added", "changed", "removed", "conflict", "bytes_added", "bytes_removed")
    having(line, "path", *names)
    return ChangeSummary(line["path"], *(int(line[name]) for name in names))


def merge_base(answer: Mapping[str, Any]) -> MergeBase:
    """A merge base from the answer of the API."""
    base = having(answer, "base_commit_id")["base_commit_id"]
    sides = (answer.get(f"{side}_commit_id", "") for side in ("source", "destination"))
    return told(MergeBase(base, *sides), answer)


def conflict(versions: Mapping[str, Any]) -> Conflict:
    """A conflict from the answer of the API."""
    sides = (versions.get(name) for name in ("base", "source", "destination"))
    return Conflict(versions["path"], *(None if side is None else entry(side) for side in sides))


def run(answer: Mapping[str, Any]) -> Run:
    """A run of hooks from the answer of the API."""
    having(answer, "run_id", "event_type", "branch", "status")
    made = Run(
        answer["run_id"],
        answer["event_type"],
        answer["branch"],
        answer.get("commit_id", ""),
        answer["status"],
        moment_of(answer.get("start_time")),
        moment_of(answer.get("end_time")),
    )
    return told(made, answer)


def hook_run(run: str, answer: Mapping[str, Any]) -> HookRun:
    """A hook of a run from the answer of the API."""
    having(answer, "hook_run_id", "action", "hook_id", "status")
    start, end = (moment_of(answer.get(name)) for name in ("start_time", "end_time"))
    named = HookRun(
        run,
        answer["hook_run_id"],
        answer["action"],
        answer["hook_id"],
        answer["status"],
        start,
        end,
    )
    return told(named, answer)
