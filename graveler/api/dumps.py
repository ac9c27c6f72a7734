"""Operations of dumps and restores of refs: synchronous, or as a job."""

import json
from typing import Any, Final

from msgspec import UNSET, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Answer, Content, Shape
from graveler.api.field_types import Moment
from graveler.api.operation import REPO, REPO_ARN, Body, Query, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import TaskCreation
from graveler.auth.permissions import Permission
from graveler.engine import dump, restore
from graveler.engine.jobs import record
from graveler.engine.ports import operation_deadline
from graveler.errors import Conflict, Refused
from graveler.jobs import handover
from graveler.jobs.heartbeat import beating
from graveler.jobs.orders import DUMP, RESTORE
from graveler.jobs.requests import ask_dump, ask_restore
from graveler.records import Job, JobState
from graveler.refs.names.restores import DumpIds

_DUMP: Final = REPO + "/dump"
_RESTORE: Final = REPO + "/restore"
_MAY_DUMP: Final = (Permission("fs:DumpRefs", REPO_ARN),)
_MAY_RESTORE: Final = (Permission("fs:RestoreRefs", REPO_ARN),)


class RefsDump(Shape, frozen=True):
    """The tables of a dump."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class RefsRestore(Body, frozen=True):
    """The tables of the dump to restore."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str
    force: bool = False


class TaskQuery(Query, frozen=True):
    """Which task."""

    task_id: str


class RepositoryRestoreStatus(Shape, frozen=True):
    """How far a restore is."""

    id: str
    done: bool
    update_time: Moment
    error: str | UnsetType = UNSET


class RepositoryDumpStatus(RepositoryRestoreStatus, frozen=True):
    """How far a dump is."""

    refs: RefsDump | UnsetType = UNSET


@operation(
    "dumpSubmit",
    "POST",
    _DUMP,
    tag="repositories",
    permissions=_MAY_DUMP,
    answers={202: TaskCreation},
    runs=Runs.POOL,
)
def dump_submit(call: Call) -> Answer:
    """Begin a dump of refs and commits into tables in the repository's folder."""
    return answers.json(TaskCreation(ask_dump(call.desk).id), 202)


@operation(
    "dumpStatus",
    "GET",
    _DUMP,
    tag="repositories",
    permissions=_MAY_DUMP,
    answers={200: RepositoryDumpStatus},
    runs=Runs.POOL,
)
def dump_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a dump."""
    job = handover.status(call.desk, DUMP, query.task_id)
    refs: RefsDump | UnsetType = UNSET
    if job.state is JobState.DONE:
        refs = _refs(**json.loads(record.ordered(call.repo, job.id).result))
    return answers.json(RepositoryDumpStatus(*_status(job), refs))


@operation(
    "dumpRefs",
    "PUT",
    REPO + "/refs/dump",
    tag="refs",
    permissions=_MAY_DUMP,
    answers={201: RefsDump},
    runs=Runs.POOL,
)
def dump_refs(call: Call) -> Answer:
    """Dump refs and commits now.

    The dump stops when the deadline of the request passes.  An unfinished dump does not count.
    """
    deadline = operation_deadline(call.repo)
    repo = beating(call.repo, lambda: deadline.check("dump"))
    return answers.json(_refs(**dump.dump(repo)._asdict()), 201)


@operation(
    "restoreSubmit",
    "POST",
    _RESTORE,
    tag="repositories",
    permissions=_MAY_RESTORE,
    answers={202: TaskCreation},
    errors=(Conflict, Refused),
    runs=Runs.POOL,
)
def restore_submit(call: Call, body: RefsRestore) -> Answer:
    """Begin to restore refs and commits from a dump, into a bare repository."""
    job = ask_restore(call.desk, _dump(body), force=body.force)
    return answers.json(TaskCreation(job.id), 202)


@operation(
    "restoreStatus",
    "GET",
    _RESTORE,
    tag="repositories",
    permissions=_MAY_RESTORE,
    answers={200: RepositoryRestoreStatus},
    runs=Runs.POOL,
)
def restore_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a restore."""
    job = handover.status(call.desk, RESTORE, query.task_id)
    return answers.json(RepositoryRestoreStatus(*_status(job)))


@operation(
    "restoreRefs",
    "PUT",
    REPO + "/refs/restore",
    tag="refs",
    permissions=_MAY_RESTORE,
    answers={200: Content.NOTHING},
    errors=(Conflict, Refused),
    runs=Runs.POOL,
)
def restore_refs(call: Call, body: RefsRestore) -> Answer:
    """Restore refs and commits from a dump now, into a bare repository.

    The restore stops when the deadline of the request passes.  The same request, or a restore as a
    job, then continues it.
    """
    deadline = operation_deadline(call.repo)
    repo = beating(call.repo, lambda: deadline.check("restore"))
    restore.restore(repo, _dump(body), force=body.force)
    return Answer(200)


def _dump(body: RefsRestore) -> DumpIds:
    return restore.parse_ids(
        body.commits_meta_range_id, body.tags_meta_range_id, body.branches_meta_range_id
    )


def _status(job: Job) -> tuple[str, bool, str, str | UnsetType]:
    return job.id, job.ended, shapes.moment(job.updated_ns), job.error or UNSET


def _refs(commits: str, tags: str, branches: str, **_others: Any) -> RefsDump:
    return RefsDump(commits, tags, branches)
