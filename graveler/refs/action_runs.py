"""Runs of actions: what ran before or after a change, and how it ended.

    a/r/<run>               the run with its hooks
    a/b/<branch>/<run>      names a run of that branch
    a/c/<commit>/<run>      names a run for that commit

Run ids sort newest first.  A record is stored at the end of its run.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from graveler.core import wire
from graveler.core.errors import Code, NotFound
from graveler.core.ids import NO_BRANCH, NO_COMMIT, BranchId, CommitId
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.store import Row, Store, Write
from graveler.refs import rows
from graveler.refs.keys import (
    ACTION_RUNS,
    action_run_key,
    branch_runs_prefix,
    commit_runs_prefix,
    space,
)

_INDEX_VALUE = b""


class HookRun(NamedTuple):
    """One hook of a run.  `id` is unique within the run."""

    id: str
    action: str
    hook: str
    started_ns: int
    ended_ns: int
    passed: bool


class ActionRun(NamedTuple):
    """One run: the hooks of all actions that matched one event.

    `commit`: the commit that landed, or that a name means; `NO_COMMIT` until then.
    """

    id: str
    event: str
    branch: BranchId
    commit: CommitId
    started_ns: int
    ended_ns: int
    passed: bool
    hooks: tuple[HookRun, ...] = ()


def writes_of(repository: Repository, run: ActionRun, stamp: bytes) -> list[Write]:
    """The writes that store a run, and name it under its branch and its commit.  No request."""
    here = space(repository)
    pairs = {
        "event": run.event,
        "branch": run.branch,
        "commit": run.commit,
        "started_ns": str(run.started_ns),
        "ended_ns": str(run.ended_ns),
        "passed": "1" if run.passed else "",
        "hooks": json.dumps(run.hooks),
    }
    keys = _index_keys(run)
    return [
        Write(here, action_run_key(run.id), wire.encode_pairs(pairs), stamp),
        *(Write(here, key, _INDEX_VALUE, stamp) for key in keys),
    ]


def _index_keys(run: ActionRun) -> list[bytes]:
    keys = []
    if run.branch != NO_BRANCH:
        keys.append(branch_runs_prefix(run.branch) + run.id.encode())
    if run.commit != NO_COMMIT:
        keys.append(commit_runs_prefix(run.commit) + run.id.encode())
    return keys


def find(kv: Store, repository: Repository, run: str) -> ActionRun | Literal[Absent.ABSENT]:
    """The run; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), action_run_key(run))
    return ABSENT if row is ABSENT else _decoded(run, row)


def get(kv: Store, repository: Repository, run: str) -> ActionRun:
    """The run.  Raises `NotFound`.  One request."""
    record = find(kv, repository, run)
    if record is ABSENT:
        raise NotFound(f"run not found: {run=}", Code.RUN_NOT_FOUND, run=run)
    return record


def list_page(
    kv: Store, repository: Repository, after: str, amount: int
) -> tuple[tuple[ActionRun, ...], bool]:
    """At most `amount` runs, newest first, behind the run `after`; and whether more follow.  One
    request."""
    stretch = rows.Stretch(space(repository), ACTION_RUNS, "", after)
    return rows.page(kv, stretch, amount, _decoded)


def list_of_branch(
    kv: Store, repository: Repository, branch: BranchId, after: str, amount: int
) -> tuple[tuple[ActionRun, ...], bool]:
    """As `list_page`, of one branch.  Two requests."""
    return _named(kv, repository, branch_runs_prefix(branch), after, amount)


def list_of_commit(
    kv: Store, repository: Repository, commit: CommitId, after: str, amount: int
) -> tuple[tuple[ActionRun, ...], bool]:
    """As `list_page`, of one commit.  Two requests."""
    return _named(kv, repository, commit_runs_prefix(commit), after, amount)


def _named(
    kv: Store, repository: Repository, prefix: bytes, after: str, amount: int
) -> tuple[tuple[ActionRun, ...], bool]:
    here = space(repository)
    names, more = rows.page(kv, rows.Stretch(here, prefix, "", after), amount, _name)
    if not names:
        return (), False
    stored = kv.get_many([(here, action_run_key(name)) for name in names])
    places = {name: stored.get((here, action_run_key(name))) for name in names}
    return tuple(_decoded(name, row) for name, row in places.items() if row is not None), more


def every(kv: Store, repository: Repository) -> Iterator[ActionRun]:
    """Every run, newest first.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), ACTION_RUNS)):
        yield _decoded(name, row)


def forget(kv: Store, repository: Repository, runs: Sequence[ActionRun]) -> None:
    """Remove the records of runs.  One request for each 1,000 rows."""
    keys = [key for run in runs for key in (*_index_keys(run), action_run_key(run.id))]
    if keys:
        kv.delete(space(repository), keys)


def _name(name: str, _row: Row) -> str:
    return name


def _decoded(name: str, row: Row) -> ActionRun:
    pairs = wire.decode_pairs(row.value)
    hooks = tuple(HookRun(*fields) for fields in json.loads(pairs["hooks"]))
    return ActionRun(
        name,
        pairs["event"],
        BranchId(pairs["branch"]),
        CommitId(pairs["commit"]),
        int(pairs["started_ns"]),
        int(pairs["ended_ns"]),
        bool(pairs["passed"]),
        hooks,
    )
