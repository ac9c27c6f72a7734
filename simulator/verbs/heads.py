"""More ways to move a branch: imports that others cancel, relative resets, commits made elsewhere.

For `calls.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from graveler.engine import imports
from graveler.engine.commits import adopt as adopting
from graveler.engine.commits import reset
from graveler.engine.jobs import record as jobs
from graveler.errors import (
    OUTCOME_UNKNOWN,
    Conflict,
    DirtyBranch,
    NotFound,
    OutcomeUnknown,
    Refused,
)
from graveler.identity import commit_id
from graveler.records import Commit, JobState
from graveler.refs.jobs import record as records
from simulator.schedule import Call
from simulator.stage import SOURCE, Stage

ELSEWHERE = "elsewhere"  # the committer of commits made elsewhere
JOB = "job"  # metadata of the commit that an import makes


def import_job(client: Any, call: Call) -> str:
    """Import as a job that other clients may cancel; the commit's metadata names the job."""
    repo = client.opened
    paths = (imports.ImportPath("common_prefix", SOURCE, "i/"),)
    asked = imports.ImportRequest(paths, "import", "sim")
    job = imports.submit(repo, call.branch, asked, owner=b"sim")
    noted = imports.ImportRequest(paths, "import", "sim", {JOB: job.id})
    imports.run(repo, job.branch, noted, job.id)
    ended = imports.status(repo, job.id)
    if ended.state is JobState.DONE:
        return ended.commit
    if ended.state is JobState.CANCELLED:
        raise Refused("cancelled")
    if OUTCOME_UNKNOWN in ended.error:  # it may also name the last refusal
        raise OutcomeUnknown(ended.error)
    if "dirty branch" in ended.error:
        raise DirtyBranch(ended.error)
    if "not found" in ended.error:
        raise NotFound(ended.error)
    raise OutcomeUnknown(ended.error or "the job never ended")


def cancel(client: Any, call: Call) -> tuple[str, ...]:
    """Cancel every running job; return the ids of the jobs whose cancellation was acknowledged."""
    done = []
    for seen in list(records.list_all(client.ports.kv, client.repo)):
        with suppress(Conflict):
            jobs.cancel(client.opened, seen.job.id, seen.job.kind, seen.job.branch)
            done.append(str(seen.job.id))
    return tuple(done)


def elsewhere(stage: Stage, call: Call) -> tuple[str, Commit]:
    """A commit made elsewhere: the content of `other`, with the parent `base`."""
    made = Commit(
        committer=ELSEWHERE,
        message=f"{call.client} {call.arguments[1]}",
        created_ns=stage.commits[stage.base].created_ns,
        metarange=stage.commits[stage.other].metarange,
        parents=(stage.base,),
        generation=stage.commits[stage.base].generation + 1,
    )
    return commit_id(made), made


def record(client: Any, call: Call) -> str:
    """Store a commit made elsewhere."""
    id, made = elsewhere(client.stage, call)
    adopting.add_record(client.opened, adopting.NewCommitRecord(id, made))
    return id


def adopt(client: Any, call: Call) -> str:
    """Store a commit made elsewhere, and put the branch on it."""
    id = record(client, call)
    reset.hard_reset(client.opened, call.branch, id)
    return id


def hard_back(client: Any, call: Call) -> str:
    """Put the branch on the first parent of its head."""
    ref = f"{call.branch}~1"
    return reset.hard_reset(client.opened, call.branch, ref).id


HEAD_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "import_job": import_job,
    "cancel": cancel,
    "record": record,
    "adopt": adopt,
    "hard_back": hard_back,
}
