"""Operations for clusters: bulk jobs, staged rows, roots of a collection.  No data passes here."""

from base64 import b64encode
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, repositories, shapes
from graveler.api.answers import (
    Checksum,
    Integer,
    Message,
    Moment,
    Page,
    Pairs,
    Seconds,
    Shape,
    Size,
    matching,
)
from graveler.api.operation import BRANCH, NOTHING, REPO, Body, Query, Resource
from graveler.api.repositories import Breaks, NewBreaks
from graveler.api.shapes import Commit
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid, Refused
from graveler.core.ids import NO_COMMIT
from graveler.core.records import ABSENT, TOMBSTONE, CommitEntry, Staged
from graveler.engine import staged_rows
from graveler.engine.bulk import entries, land
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.entries import NewEntry
from graveler.engine.bulk.job import Bulk, Holder, Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.bulk.streams import Batch
from graveler.engine.gc import root_pages
from graveler.engine.ports import OpenRepository
from graveler.engine.staged_rows import StagedToken
from graveler.http import permissions
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import ARN, BRANCH_ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs.handover import run_or_enqueue
from graveler.jobs.orders import land_asked

_bulk: Final = Resource("bulk")
_staging: Final = Resource("staging")
_retention: Final = Resource("retention")

_BULK: Final = BRANCH + "/bulk"
_JOB: Final = _BULK + "/{id}"
_COMMIT: Final = Permission("fs:CreateCommit", BRANCH_ARN)
_IMPORT: Final = Permission("fs:ImportFromStorage", ARN + "namespace/", below=True)
_MAY_LIST: Final = (Permission("fs:ListObjects", REPO_ARN),)

ModeName = Literal["replace", "merge", "commit", "pack", "splice"]
PrefixList = Annotated[list[str], Meta(max_length=limits.bulk_splice_prefixes_count_max)]
BulkState = Literal["running", "landing", "done", "failed", "cancelled", "expired"]
Many = Annotated[
    int,
    Meta(
        ge=1,
        le=limits.bulk_page_count_max,
        description="the greatest number of results; a page may have fewer, even if more follow",
    ),
]


class BulkJobCreation(Body, frozen=True):
    """A new bulk job."""

    mode: ModeName
    prefix: str = ""
    breaks: NewBreaks | UnsetType = UNSET
    id: Annotated[
        str,
        Meta(
            max_length=64, description="An id that the caller chooses, to begin the same job again"
        ),
    ] = ""
    purpose: Annotated[
        str,
        Meta(
            max_length=limits.bulk_purpose_length_max,
            description="Free text; 409: a job with the same id was begun for another purpose",
        ),
    ] = ""
    force: bool = False
    stream: Annotated[
        str,
        Meta(
            max_length=limits.stream_length_bytes_max,
            description="The stream whose batch the job lands; each batch lands once on a branch",
        ),
    ] = ""
    batch: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=(1 << 62) - 1,
                description="The number of the batch in its stream",
                extra_json_schema={"format": "int64"},
            ),
        ]
        | UnsetType
    ) = UNSET
    on_rewind: Annotated[
        Literal["fail", "accept"],
        Meta(description="If a hard reset has moved the branch behind the last batch"),
    ] = "fail"
    token: Annotated[
        bool,
        Meta(description="Whether the answer has a token: a bearer that may land this job alone"),
    ] = False


class BulkJobProgress(Body, frozen=True):
    """How far a cluster is."""

    progress: (
        Annotated[int, Meta(ge=0, le=1 << 62, extra_json_schema={"format": "int64"})] | UnsetType
    ) = UNSET


class BulkJobEntry(Body, frozen=True):
    """A path, and the object that it will point to."""

    path: str
    physical_address: Annotated[str, Meta(description="In the repository's storage namespace")]
    checksum: Checksum
    size_bytes: Size
    content_type: str = ""
    mtime: Seconds | UnsetType = UNSET
    metadata: Pairs = field(default_factory=dict)


class BulkJobFinish(Body, frozen=True):
    """The result of a bulk job: the metarange that it wrote, or a few entries."""

    request_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="Equal in every attempt")
    ]
    message: Message
    metadata: Pairs = field(default_factory=dict)
    replace: Annotated[
        PrefixList,
        Meta(description="Of a splice: prefixes below the job's, which are emptied first"),
    ] = field(default_factory=list)
    guard: Annotated[
        PrefixList,
        Meta(
            description="Of a splice: prefixes below the job's; 409 if a commit since the job's "
            "base has changed one of them"
        ),
    ] = field(default_factory=list)
    metarange: (
        Annotated[
            str, matching("^[0-9a-f]{64}$", description="Its file is in the repository's folder")
        ]
        | UnsetType
    ) = UNSET
    entries: (
        Annotated[
            list[BulkJobEntry],
            Meta(
                max_length=limits.bulk_entries_count_max,
                description="Of a splice or replace: the service writes their metarange",
            ),
        ]
        | UnsetType
    ) = UNSET


class StagingToken(Shape, frozen=True):
    """Where uncommitted rows are."""

    token: str
    shards: Integer
    sealed: bool


class BulkJob(Shape, frozen=True):
    """A bulk job."""

    id: str
    state: BulkState
    branch: str
    mode: ModeName
    prefix: str
    base_commit: str
    base_metarange: str
    storage_namespace: str
    breaks: Breaks
    staging_tokens: list[StagingToken]
    creation_date: Integer
    expiration_date: Integer
    update_time: Moment
    heartbeat_seconds: Integer
    progress: Integer
    message: (
        Annotated[str, Meta(description="The message of a commit that was handed over")] | UnsetType
    ) = UNSET
    metadata: Pairs | UnsetType = UNSET
    purpose: str | UnsetType = UNSET
    stream: str | UnsetType = UNSET
    batch: Integer | UnsetType = UNSET
    token: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    commit: str | UnsetType = UNSET


@_bulk.post(
    "beginBulkJob",
    _BULK,
    {201: BulkJob},
    _COMMIT,
    _IMPORT,
    Permission("fs:WriteObject", REPO_ARN + "/object/{prefix}", below=True),
    Permission("fs:DeleteObject", REPO_ARN + "/object/{prefix}", below=True),
    errors=(Conflict, Refused),
)
def begin(call: Call, body: BulkJobCreation) -> Answer:
    """Begin a bulk job: a cluster writes ranges, and the service commits them."""
    breaks = ABSENT if body.breaks is UNSET else repositories.parsed(body.breaks)
    if (body.stream == "") != (body.batch is UNSET):
        raise Invalid("stream and batch belong together: give both or none")
    batch = (
        ABSENT
        if body.batch is UNSET
        else Batch(body.stream, body.batch, body.on_rewind == "accept")
    )
    new = NewBulk(Mode(body.mode), body.prefix, body.id, breaks, purpose=body.purpose, batch=batch)
    begun = bulk.begin(call.repo, call.arguments["branch"], new, force=body.force)
    token = _token_of(call, begun) if body.token else ""
    return answers.json(_shape(call, begun, token), 201)


def _token_of(call: Call, begun: Bulk) -> str:
    account = call.account
    assert account is not ABSENT, "the operation needs credentials"
    holder = Holder(account.user, account.record.uid, account.epoch)
    return bulk.with_token(call.repo, begun, holder)


@_bulk.get("getBulkJob", _JOB, BulkJob, ("fs:ReadBranch", BRANCH_ARN), runs=Runs.POINT)
def status(call: Call) -> Answer:
    """The state of a bulk job."""
    return answers.json(_shape(call, bulk.status(call.repo, *_named(call))))


@_bulk.put("beatBulkJob", _JOB, BulkJob, _COMMIT, errors=(Conflict,))
def beat(call: Call, body: BulkJobProgress) -> Answer:
    """Send the heartbeat of a bulk job; 409: the job must stop."""
    progress = -1 if body.progress is UNSET else body.progress
    beaten = bulk.heartbeat(call.repo, *_named(call), progress)
    return answers.json(_shape(call, beaten))


@_bulk.delete("cancelBulkJob", _JOB, NOTHING, _COMMIT, errors=(Conflict,))
def cancel(call: Call) -> Answer:
    """Cancel a bulk job; nothing of it is committed."""
    bulk.cancel(call.repo, *_named(call))
    return NO_CONTENT


@_bulk.put(
    "finishBulkJob", _JOB + "/finish", {201: Commit}, _COMMIT, _IMPORT, errors=(Conflict, Refused)
)
def finish(call: Call, body: BulkJobFinish) -> Answer:
    """Commit the ranges of a bulk job, as one commit, once.

    The caller, who may be another than who began the job, needs the same rights below the job's
    prefix.  They cost the 2 KV requests of `bulk.status`.
    """
    branch, job_id = _named(call)
    prefix = bulk.status(call.repo, branch, job_id).prefix
    permissions.require_below(call, "fs:WriteObject", f"object/{prefix}")
    permissions.require_below(call, "fs:DeleteObject", f"object/{prefix}")
    landing = Finish(
        metarange=_metarange(call, body),
        request_id=body.request_id,
        message=body.message,
        committer=call.committer,
        metadata=body.metadata,
        replace=body.replace,
        guard=body.guard,
    )

    def direct(repo: OpenRepository) -> CommitEntry:
        return land.finish(repo, branch, job_id, landing)

    landed = run_or_enqueue(call.scheduler, land_asked(branch, job_id, landing), call.due, direct)
    return answers.json(shapes.commit(landed), 201)


def _metarange(call: Call, body: BulkJobFinish) -> str:
    """What lands, in the repository's folder."""
    if (body.metarange is UNSET) == (body.entries is UNSET):
        raise Invalid("metarange or entries: give one of the two")
    if body.metarange is not UNSET:
        return body.metarange
    given = () if body.entries is UNSET else body.entries
    return entries.write(call.repo, *_named(call), [_entry(each) for each in given])


def _entry(new: BulkJobEntry) -> NewEntry:
    modified_ns = ABSENT if new.mtime is UNSET else new.mtime * limits.SECOND_NS
    return NewEntry(
        new.path,
        new.physical_address,
        new.size_bytes,
        new.checksum,
        new.metadata,
        new.content_type,
        modified_ns,
    )


def _named(call: Call) -> tuple[str, str]:
    return call.arguments["branch"], call.arguments["id"]


def _shape(call: Call, bulk_job: Bulk, token: str = "") -> BulkJob:
    job, new = bulk_job.job, bulk_job.new
    breaks = call.repo.record.breaks if new.breaks is ABSENT else new.breaks
    expired = bulk.is_expired(call.ports, bulk_job)
    state: Any = "expired" if expired else job.state.name.lower()
    return BulkJob(
        job.id,
        state,
        job.branch,
        bulk_job.mode.value,
        bulk_job.prefix,
        bulk_job.base.id,
        bulk_job.base.commit.metarange,
        call.repo.namespace,
        repositories.shape(breaks),
        [_token(each) for each in bulk_job.tokens],
        shapes.seconds(job.created_ns),
        shapes.seconds(bulk_job.expires_ns),
        shapes.moment(job.updated_ns),
        limits.bulk_heartbeat_seconds,
        job.progress,
        new.message or UNSET,
        dict(new.metadata) if new.message else UNSET,
        new.purpose or UNSET,
        UNSET if new.batch is ABSENT else new.batch.stream,
        UNSET if new.batch is ABSENT else new.batch.number,
        token or UNSET,
        job.error or UNSET,
        UNSET if job.commit == NO_COMMIT else job.commit,
    )


# ---- uncommitted rows ----------------------------------------------------------------------------


class StagingTokenList(Shape, frozen=True):
    """The staging tokens of a branch."""

    results: list[StagingToken]


class StagedRow(Shape, frozen=True):
    """An uncommitted row."""

    path: str
    order: Integer
    value: (
        Annotated[
            str, Meta(description="The framed entry as in a range, in Base64; absent: a deletion")
        ]
        | UnsetType
    ) = UNSET


class StagedRowList(Page, frozen=True):
    """A page of uncommitted rows."""

    results: list[StagedRow]


class RowsQuery(Query, frozen=True):
    """Which page of the rows."""

    amount: Many = 1_000
    after: Annotated[str, Meta(description="only paths greater than this")] = ""


@_staging.get("listStagingTokens", BRANCH + "/staging/tokens", StagingTokenList, *_MAY_LIST)
def tokens(call: Call) -> Answer:
    """The staging tokens of a branch, newest first."""
    tokens_of_branch = staged_rows.tokens(call.repo, call.arguments["branch"])
    return answers.json(StagingTokenList([_token(each) for each in tokens_of_branch]))


@_staging.get(
    "listStagedRows",
    BRANCH + "/staging/tokens/{token}/{shard}",
    StagedRowList,
    *_MAY_LIST,
    runs=Runs.POOL,
)
def rows(call: Call, query: RowsQuery) -> Answer:
    """The uncommitted rows of one shard, as they are stored."""
    shard = call.arguments["shard"]
    if not (shard.isascii() and shard.isdecimal() and len(shard) <= 4):
        raise Invalid(f"shard must be a number: shard={shard!r:.80}")
    branch, token = call.arguments["branch"], call.arguments["token"]
    page = staged_rows.page(call.repo, branch, token, int(shard), query.after, query.amount)
    last = page.rows[-1][0] if page.rows else ""
    return answers.page([_row(path, staged) for path, staged in page.rows], page.more, last)


def _token(token: StagedToken) -> StagingToken:
    return StagingToken(token.token, token.shards, token.sealed)


def _row(path: str, staged: Staged) -> StagedRow:
    value = UNSET if staged.value is TOMBSTONE else b64encode(staged.value).decode()
    return StagedRow(path, staged.order, value)


# ---- roots of a garbage collection ---------------------------------------------------------------


class CollectionRoot(Shape, frozen=True):
    """Something in use, which a collection keeps."""

    kind: Literal["address", "job", "metarange"]
    name: str
    kept: bool
    files: bool
    objects: Literal["kept", "expiring", "due", "gone"]


class CollectionRootList(Page, frozen=True):
    """A page of roots."""

    results: list[CollectionRoot]


class RootsQuery(Query, frozen=True):
    """Which page of the roots."""

    amount: Many = 1_000
    after: Annotated[str, Meta(description="next_offset of the previous page")] = ""


@_retention.get(
    "listCollectionRoots",
    REPO + "/gc/roots",
    CollectionRootList,
    ("retention:PrepareGarbageCollectionUncommitted", REPO_ARN),
    runs=Runs.POOL,
)
def roots(call: Call, query: RootsQuery) -> Answer:
    """The roots of a collection that runs on a cluster."""
    page = root_pages.page(call.repo, query.after, query.amount)
    shown = [CollectionRoot(**root._asdict()) for root in page.roots]
    return answers.page(shown, bool(page.following), page.following)
