"""Operations of imports.  An import answers at once and runs as a job that reports its progress."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer, Content, Error, Shape
from graveler.api.field_types import Integer, Moment
from graveler.api.new_commits import CommitCreation
from graveler.api.operation import ARN, BRANCH, BRANCH_ARN, REPO_ARN, Body, Query, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import Commit
from graveler.auth.permissions import Permission
from graveler.engine import imports
from graveler.engine.commits import log
from graveler.engine.import_sources import spelled
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.errors import Conflict, Refused
from graveler.ids import NO_COMMIT
from graveler.jobs import handover
from graveler.records import Job, JobState

_IMPORT: Final = BRANCH + "/import"


class ImportLocation(Body, frozen=True):
    """What to import, and where to."""

    type: Literal["common_prefix", "object"]
    path: str
    destination: str

    def __post_init__(self) -> None:
        source = spelled(ImportPath(self.type, self.path, self.destination))
        force_setattr(self, "path", source.path)
        force_setattr(self, "destination", source.destination)

    @property
    def is_folder(self) -> bool:
        """Whether it names all objects below a prefix."""
        return self.type == "common_prefix"

    @property
    def is_object(self) -> bool:
        """Whether it names one object."""
        return self.type == "object"


class ImportCreation(Body, frozen=True):
    """A new import."""

    paths: Annotated[tuple[ImportLocation, ...], Meta(max_length=limits.import_paths_count_max)]
    commit: CommitCreation
    force: bool = False


class ImportCreationResponse(Shape, frozen=True):
    """The id of an import that was begun."""

    id: str


class ImportQuery(Query, frozen=True):
    """Which import."""

    id: str


class ImportStatus(Shape, frozen=True):
    """How far an import is."""

    completed: bool
    update_time: Moment
    ingested_objects: Integer
    error: Error | UnsetType = UNSET
    metarange_id: str | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET


@operation(
    "importStart",
    "POST",
    _IMPORT,
    tag="import",
    permissions=(
        Permission("fs:CreateCommit", BRANCH_ARN),
        Permission("fs:ImportFromStorage", ARN + "namespace/{paths[is_object].path}"),
        Permission("fs:ImportFromStorage", ARN + "namespace/{paths[is_folder].path}", below=True),
        Permission("fs:WriteObject", REPO_ARN + "/object/{paths[is_object].destination}"),
        Permission("fs:WriteObject", REPO_ARN + "/object/{paths[is_folder].destination}", True),
        Permission("fs:DeleteObject", REPO_ARN + "/object/{paths[is_folder].destination}", True),
    ),
    answers={202: ImportCreationResponse},
    errors=(Refused,),
    runs=Runs.POOL,
)
def import_start(call: Call, body: ImportCreation) -> Answer:
    """Import objects in place, as one commit."""
    branch, commit = call.arguments["branch"], body.commit
    paths = [ImportPath(each.type, each.path, each.destination) for each in body.paths]
    request = ImportRequest(paths, commit.message, call.committer, commit.metadata)
    job = imports.submit(call.repo, branch, request, owner=b"", force=body.force)
    handover.hand_on(call.desk, job)
    return answers.json(ImportCreationResponse(job.id), 202)


@operation(
    "importStatus",
    "GET",
    _IMPORT,
    tag="import",
    permissions=(Permission("fs:ReadBranch", BRANCH_ARN),),
    answers={200: ImportStatus},
    runs=Runs.POINT,
)
def import_status(call: Call, query: ImportQuery) -> Answer:
    """The progress of an import."""
    job = handover.status(call.desk, imports.KIND, query.id, call.arguments["branch"])
    return answers.json(_status(call, job))


@operation(
    "importCancel",
    "DELETE",
    _IMPORT,
    tag="import",
    permissions=(Permission("fs:ImportCancel", BRANCH_ARN),),
    answers={204: Content.NOTHING},
    errors=(Conflict,),
    runs=Runs.POOL,
)
def import_cancel(call: Call, query: ImportQuery) -> Answer:
    """Cancel an import."""
    imports.cancel(call.repo, call.arguments["branch"], query.id)
    return NO_CONTENT


def _status(call: Call, job: Job) -> ImportStatus:
    has_commit = job.commit != NO_COMMIT
    return ImportStatus(
        job.state is JobState.DONE,
        shapes.moment(job.updated_ns),
        job.progress,
        Error(job.error) if job.error else UNSET,
        job.metarange if has_commit else UNSET,
        shapes.commit(log.get_commit(call.repo, job.commit)) if has_commit else UNSET,
    )
