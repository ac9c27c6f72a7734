"""Operations on repositories: metadata, break parameters, sample data, dumps."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from zipfile import ZipFile

from msgspec import UNSET, Meta, UnsetType, structs
from msgspec.structs import force_setattr

from graveler.api import answers, shapes
from graveler.api.answers import Bytes64, Integer, MediaType, Moment, Pairs, Shape, matching
from graveler.api.operation import NOTHING, REPO, Body, Query, Resource
from graveler.api.shapes import (
    ForceQuery,
    Paging,
    Repository,
    RepositoryList,
    StorageURI,
    TaskCreation,
)
from graveler.auth.access import seeing
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.core.ids import parse_namespace
from graveler.core.records import ABSENT, BreakParameters, Job, JobState
from graveler.engine import dump, restore
from graveler.engine.commits import adopt
from graveler.engine.jobs import record
from graveler.engine.ports import operation_deadline
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import InitialContent, InitialFile, NewRepository
from graveler.http import permissions
from graveler.http.answers import NO_CONTENT, Answer, text_header
from graveler.http.dispatch import Runs
from graveler.http.permissions import ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs import schedule
from graveler.jobs.orders import DUMP, RESTORE
from graveler.jobs.schedule import ask_dump, ask_restore
from graveler.jobs.task import beating
from graveler.refs.lifecycle import DumpIds

_repositories: Final = Resource("repositories")
_metadata: Final = Resource("metadata")
_refs: Final = Resource("refs")

_ARCHIVE: Final = Path(__file__).with_name("sample.zip")
_MESSAGE: Final = "Add sample data"
_TYPES: Final = {
    ".csv": "text/csv",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".png": "image/png",
}


def content(committer: str) -> InitialContent:
    """All files of the archive, read into memory: 1.5 MB."""
    with ZipFile(_ARCHIVE) as archive:
        files = [
            InitialFile(name, archive.read(name), _TYPES[Path(name).suffix])
            for name in archive.namelist()
        ]
    return InitialContent(files, committer, _MESSAGE)


# ---- where ranges end ----------------------------------------------------------------------------

_PATH: Final = REPO + "/settings/breaks"


def _size(least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, extra_json_schema={"format": "int64"})


class Breaks(Shape, frozen=True):
    """Where the ranges of a repository end."""

    min_size: Integer
    max_size: Integer
    raggedness: Integer
    salt: Bytes64


class NewBreaks(Body, frozen=True):
    """Where new ranges end."""

    min_size: Annotated[int, _size(0, limits.range_size_bytes_max)]
    max_size: Annotated[int, _size(1, limits.range_size_bytes_max)]
    raggedness: Annotated[int, _size(1, limits.range_raggedness_max)]
    salt: Annotated[str, Meta(max_length=limits.range_salt_bytes_max * 2, description="Base64")]


class BreakParametersSet(Body, frozen=True):
    """New break parameters, and the present ones."""

    expected: NewBreaks
    breaks: NewBreaks
    force: bool = False


def shape(breaks: BreakParameters) -> Breaks:
    return Breaks(**breaks.as_json())


def parsed(body: NewBreaks) -> BreakParameters:
    """Raises `Invalid` for a salt that is not Base64."""
    return BreakParameters.of_json(structs.asdict(body))


@_repositories.get(
    "getBreakParameters", _PATH, Breaks, ("fs:ReadRepository", REPO_ARN), runs=Runs.POINT
)
def get_break_parameters(call: Call) -> Answer:
    """Get the break parameters."""
    return answers.json(shape(repository.read_breaks(call.repo)))


@_repositories.put(
    "setBreakParameters",
    _PATH,
    Breaks,
    ("fs:UpdateRepository", REPO_ARN),
    errors=(PreconditionFailed,),
)
def set_break_parameters(call: Call, body: BreakParametersSet) -> Answer:
    """Change the break parameters of new ranges; 412: the present ones differ from `expected`."""
    new = parsed(body.breaks)
    repository.swap_breaks(call.repo, parsed(body.expected), new, force=body.force)
    return answers.json(shape(new))


# ---- repositories --------------------------------------------------------------------------------

_DEFAULT_BRANCH: Final = "main"
_METADATA: Final = REPO + "/metadata"
_READ: Final = Permission("fs:ReadRepository", REPO_ARN)
_UPDATE: Final = Permission("fs:UpdateRepository", REPO_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)


class RepositoryPaging(Paging, frozen=True):
    """Which page of the repositories."""

    search: str = ""


class BareQuery(Query, frozen=True):
    """How a repository begins."""

    bare: Annotated[bool, Meta(description="create no branch and no commit")] = False


class RepositoryCreation(Body, frozen=True):
    """A new repository."""

    name: Annotated[str, matching("^[a-z0-9][a-z0-9-]{2,62}$")]
    storage_namespace: Annotated[
        str,
        matching(
            "^(s3|gs|https?|mem|local|transient)://.*$",
            max_length=limits.address_length_bytes_max,
            description="The place of the repository's files: scheme://bucket/prefix",
        ),
    ]
    default_branch: str = ""
    storage_id: str = ""
    sample_data: bool = False
    read_only: bool = False

    def __post_init__(self) -> None:
        with suppress(Invalid):  # the endpoint refuses it, and says why
            # One spelling for what is authorized and what is attached.
            force_setattr(self, "storage_namespace", parse_namespace(self.storage_namespace))


class RepositoryMetadataSet(Body, frozen=True):
    """Pairs to add or to replace."""

    metadata: Pairs


class RepositoryMetadataKeys(Body, frozen=True):
    """Keys of the pairs to remove."""

    keys: Annotated[tuple[str, ...], Meta(max_length=limits.metadata_pairs_max)]


@_repositories.get(
    "listRepositories", "/repositories", RepositoryList, ("fs:ListRepositories", "*")
)
def list_repositories(call: Call, query: RepositoryPaging) -> Answer:
    """List the repositories that the caller may see."""
    caller = call.account
    assert caller is not ABSENT

    def is_shown(name: str) -> bool:
        return query.search in name and not caller.lacks((seeing(name),))

    repos, more = repository.list_page(call.ports, query.prefix, is_shown, query.after, query.count)
    return answers.page(
        [shapes.repository(each) for each in repos], more, repos[-1].id if repos else ""
    )


@_repositories.post(
    "createRepository",
    "/repositories",
    {201: Repository},
    ("fs:CreateRepository", ARN + "repository/{name}"),
    ("fs:AttachStorageNamespace", ARN + "namespace/{storage_namespace}"),
    errors=(AlreadyExists,),
)
def create_repository(call: Call, query: BareQuery, body: RepositoryCreation) -> Answer:
    """Create a repository."""
    inside = f"{ARN}namespace/{body.storage_namespace}/"
    permissions.refuse_denied_below(call, "fs:AttachStorageNamespace", inside)
    scheme = f"{call.service.settings.blockstore_type}://"
    if not body.storage_namespace.startswith(scheme):
        raise Invalid(f"failed to match required regex ^{scheme}: invalid namespace")
    if body.storage_id:
        raise Invalid("storage_id invalid: it must be empty, because there is only one storage")
    new = NewRepository(
        name=body.name,
        namespace=body.storage_namespace,
        default_branch=body.default_branch or _DEFAULT_BRANCH,
        read_only=body.read_only,
        bare=query.bare,
        content=content(call.committer) if body.sample_data else ABSENT,
        protected=body.sample_data,
    )
    created = repository.create(call.ports, new)
    return answers.json(shapes.repository(created, bare=query.bare), 201)


@_repositories.get("getRepository", REPO, Repository, _READ, errors=(NotFound,), runs=Runs.POINT)
def get_repository(call: Call) -> Answer:
    """Get a repository."""
    return answers.json(shapes.repository(call.repo.record))


@_repositories.delete(
    "deleteRepository", REPO, NOTHING, ("fs:DeleteRepository", REPO_ARN), errors=(Refused,)
)
def delete_repository(call: Call, query: ForceQuery) -> Answer:
    """Delete a repository; its objects stay."""
    repository.delete(call.repo, force=query.force)
    return NO_CONTENT


@_repositories.get("getRepositoryMetadata", _METADATA, dict[str, str], _READ, runs=Runs.POINT)
def get_repository_metadata(call: Call) -> Answer:
    """Get the metadata of a repository."""
    return answers.json(repository.metadata(call.repo))


@_repositories.post("setRepositoryMetadata", _METADATA, NOTHING, _UPDATE)
def set_repository_metadata(call: Call, body: RepositoryMetadataSet) -> Answer:
    """Add or replace metadata pairs."""
    repository.set_metadata(call.repo, body.metadata)
    return NO_CONTENT


@_repositories.delete("deleteRepositoryMetadata", _METADATA, NOTHING, _UPDATE)
def delete_repository_metadata(call: Call, body: RepositoryMetadataKeys) -> Answer:
    """Remove metadata pairs by key."""
    repository.delete_metadata(call.repo, list(body.keys))
    return NO_CONTENT


@_metadata.get(
    "getMetaRange", _METADATA + "/meta_range/{meta_range}", StorageURI, _READ, _LIST, runs=Runs.POOL
)
def get_meta_range(call: Call) -> Answer:
    """The address of a metarange."""
    return _location(adopt.metarange_location(call.repo, call.arguments["meta_range"]))


@_metadata.get("getRange", _METADATA + "/range/{range}", StorageURI, _READ, _LIST, runs=Runs.POOL)
def get_range(call: Call) -> Answer:
    """The address of a range."""
    return _location(adopt.range_location(call.repo, call.arguments["range"]))


def _location(location: str) -> Answer:
    header = text_header(b"location", location)
    return answers.json(StorageURI(location), 200, (header,))


# ---- dumps ---------------------------------------------------------------------------------------

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


@_repositories.post("dumpSubmit", _DUMP, {202: TaskCreation}, *_MAY_DUMP)
def dump_submit(call: Call) -> Answer:
    """Begin a dump of refs and commits into tables in the repository's folder."""
    return answers.json(TaskCreation(ask_dump(call.scheduler).id), 202)


@_repositories.get("dumpStatus", _DUMP, RepositoryDumpStatus, *_MAY_DUMP, runs=Runs.POOL)
def dump_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a dump."""
    job = schedule.status(call.scheduler, DUMP, query.task_id)
    refs: RefsDump | UnsetType = UNSET
    if job.state is JobState.DONE:
        refs = _dumped(**json.loads(record.ordered(call.repo, job.id).result))
    return answers.json(RepositoryDumpStatus(*_status(job), refs))


@_refs.put("dumpRefs", REPO + "/refs/dump", {201: RefsDump}, *_MAY_DUMP)
def dump_refs(call: Call) -> Answer:
    """Dump refs and commits now.

    The dump stops when the deadline of the request passes.  An unfinished dump does not count.
    """
    deadline = operation_deadline(call.repo)
    repo = beating(call.repo, lambda: deadline.check("dump"))
    return answers.json(_dumped(**dump.dump(repo)._asdict()), 201)


@_repositories.post(
    "restoreSubmit", _RESTORE, {202: TaskCreation}, *_MAY_RESTORE, errors=(Conflict, Refused)
)
def restore_submit(call: Call, body: RefsRestore) -> Answer:
    """Begin to restore refs and commits from a dump, into a bare repository."""
    job = ask_restore(call.scheduler, _dump(body), force=body.force)
    return answers.json(TaskCreation(job.id), 202)


@_repositories.get(
    "restoreStatus", _RESTORE, RepositoryRestoreStatus, *_MAY_RESTORE, runs=Runs.POOL
)
def restore_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a restore."""
    job = schedule.status(call.scheduler, RESTORE, query.task_id)
    return answers.json(RepositoryRestoreStatus(*_status(job)))


@_refs.put(
    "restoreRefs",
    REPO + "/refs/restore",
    MediaType.NOTHING,
    *_MAY_RESTORE,
    errors=(Conflict, Refused),
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


def _dumped(commits: str, tags: str, branches: str, **_others: Any) -> RefsDump:
    return RefsDump(commits, tags, branches)
