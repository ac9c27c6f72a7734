"""Reads runs of actions: pages, single runs, and the logs of their hooks.

It loads nothing that runs hooks.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, Absent
from graveler.engine.ports import OpenRepository
from graveler.refs import action_runs
from graveler.refs.action_runs import ActionRun

_RUN: Final = re.compile(r"[0-9a-v]{20}", re.ASCII)
_LOG_LENGTH_MAX: Final = 16 * limits.hook_answer_length_bytes_max


def page(
    repo: OpenRepository,
    branch: BranchId | Literal[Absent.ABSENT],
    commit: CommitId | Literal[Absent.ABSENT],
    after: str,
    amount: int,
) -> tuple[Sequence[ActionRun], bool]:
    """One page of runs, newest first, of a branch, of a commit, or all; and whether more follow.

    Errors: `Invalid` for an `after` that is no id of a run.
    Cost: 1 KV request; 2 for a branch or a commit.
    """
    if after and not _RUN.fullmatch(after):
        raise Invalid(
            f"after invalid: it must be next_offset of a page before: after={after[:80]!r}"
        )
    kv, record = repo.kv, repo.record
    if branch is not ABSENT:
        return action_runs.list_of_branch(kv, record, branch, after, amount)
    if commit is not ABSENT:
        return action_runs.list_of_commit(kv, record, commit, after, amount)
    return action_runs.list_page(kv, record, after, amount)


def get(repo: OpenRepository, run_id: str) -> ActionRun:
    """One run.  `NotFound`.  Cost: 1 KV request."""
    if not _RUN.fullmatch(run_id):
        raise NotFound("run not found: its id has another form", Code.RUN_NOT_FOUND)
    return action_runs.get(repo.kv, repo.record, run_id)


def output(repo: OpenRepository, run_id: str, hook_run_id: str) -> bytes:
    """The log of one hook of a run.  `NotFound`.  Cost: 1 KV request and 1 read."""
    if hook_run_id in [hook.id for hook in get(repo, run_id).hooks]:
        place = address.hook_log(repo.namespace, run_id, hook_run_id)
        with suppress(NotFound):
            return repo.blocks.read(place, 0, _LOG_LENGTH_MAX)
    raise NotFound(f"log of the hook not found: run={run_id}", Code.RUN_NOT_FOUND, run=run_id)
