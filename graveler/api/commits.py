"""Operations that read the history, and those that revert or copy a commit."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, shapes
from graveler.api.answers import SECONDS_MAX, Integer, Message, Pagination, Pairs, Shape
from graveler.api.operation import BRANCH, NOTHING, REF, REPO, Body, Query, Resource
from graveler.api.shapes import (
    After,
    Amount,
    Commit,
    CommitList,
    Delimiter,
    DiffList,
    ObjectStats,
    Paging,
    moment_ns,
)
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Conflict, PreconditionFailed, Refused, Unsupported
from graveler.core.ids import CommitId, MetarangeId
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent, Entry
from graveler.core.records import Commit as CommitRecord
from graveler.engine.commits import adopt, diff, log, merge
from graveler.engine.commits.adopt import NewCommitRecord
from graveler.engine.commits.diff import DiffPage, DiffQuery
from graveler.engine.commits.log import GraphQuery, LogRequest
from graveler.engine.commits.merge import ConflictVersions as Versions
from graveler.engine.commits.merge import PreviewQuery, ReplayRequest
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import BRANCH_ARN, REPO_ARN
from graveler.http.service import Call

_commits: Final = Resource("commits")
_refs: Final = Resource("refs")
_branches: Final = Resource("branches")
_graveler: Final = Resource("graveler")

_MERGE: Final = REPO + "/refs/{sourceRef}/merge/{destinationBranch}"
_COMMIT: Final = Permission("fs:CreateCommit", BRANCH_ARN)
_READ: Final = Permission("fs:ReadCommit", REPO_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)
ParentNumber = Annotated[int, Meta(ge=0, le=64)]


class CommitRecordCreation(Body, frozen=True, kw_only=True):
    """A commit record; its id must be its hash."""

    commit_id: str
    version: Annotated[int, Meta(ge=0, le=1)]
    committer: str
    message: Message
    metarange_id: str
    creation_date: Annotated[
        int, Meta(ge=-SECONDS_MAX, le=SECONDS_MAX, extra_json_schema={"format": "int64"})
    ]
    parents: Annotated[tuple[str, ...], Meta(max_length=64)]
    metadata: Pairs = field(default_factory=dict)
    generation: Annotated[int, Meta(ge=1, le=1 << 62, extra_json_schema={"format": "int64"})]
    force: bool = False


@_commits.get("getCommit", REPO + "/commits/{commitId}", Commit, _READ, runs=Runs.POINT)
def get_commit(call: Call) -> Answer:
    """Get a commit by a ref expression."""
    return answers.json(shapes.commit(log.get_commit(call.repo, call.arguments["commitId"])))


@_commits.post(
    "CreateCommitRecord",
    REPO + "/commits",
    NOTHING,
    ("fs:CreateCommit", REPO_ARN),
    ("fs:CreateMetaRange", REPO_ARN),
    errors=(Conflict, Refused),
)
def create_commit_record(call: Call, body: CommitRecordCreation) -> Answer:
    """Insert a commit record; its id must be its hash."""
    record = CommitRecord(
        committer=body.committer,
        message=body.message,
        created_ns=body.creation_date * SECOND_NS,
        metarange=MetarangeId(body.metarange_id),
        metadata=body.metadata,
        parents=tuple(CommitId(parent) for parent in body.parents),
        generation=body.generation,
        version=body.version,
    )
    adopt.add_record(call.repo, NewCommitRecord(body.commit_id, record), force=body.force)
    return NO_CONTENT


# ---- log -----------------------------------------------------------------------------------------


class LogQuery(Query, frozen=True):
    """Which commits to list."""

    after: After = ""
    amount: Amount = limits.page_count_default
    objects: Annotated[
        tuple[str, ...], Meta(description="commits that change one of these paths")
    ] = ()
    prefixes: Annotated[
        tuple[str, ...], Meta(description="commits that change a path under one of these prefixes")
    ] = ()
    limit: Annotated[bool, Meta(description="return one page only")] = False
    first_parent: bool = False
    since: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] = ""
    stop_at: Annotated[str, Meta(description="the last commit of the listing")] = ""
    author: Annotated[
        str,
        Meta(
            description="commits whose committer contains this text, whatever the case of letters; "
            "lakeFS has no such parameter. A page may be short, or empty, and yet not the last"
        ),
    ] = ""


@_refs.get("logCommits", REF + "/commits", CommitList, ("fs:ListCommits", REPO_ARN))
def log_commits(call: Call, query: LogQuery) -> Answer:
    """List commits, newest first."""
    request = LogRequest(
        after=query.after,
        amount=Paging(amount=query.amount).count,
        since_ns=moment_ns("since", query.since),
        stop_at=query.stop_at,
        first_parent=query.first_parent,
        limit=query.limit,
        objects=query.objects,
        prefixes=query.prefixes,
    )
    ref = call.arguments["ref"]
    by = query.author
    page = log.log_by(call.repo, ref, request, by) if by else log.log(call.repo, ref, request)
    results = [shapes.commit(entry) for entry in page.entries]
    return answers.page(results, bool(page.following), page.following)


# ---- differences ---------------------------------------------------------------------------------


class DiffPaging(Paging, frozen=True):
    """Which page of the differences."""

    delimiter: Delimiter = ""

    @property
    def lines(self) -> DiffQuery:
        return DiffQuery(self.prefix, self.delimiter, self.after, self.count)


class RefsDiffPaging(DiffPaging, frozen=True):
    """Which page of the differences of two refs, and what of each."""

    type: Literal["two_dot", "three_dot"] = "three_dot"
    include_right_stats: bool = False


@_branches.get("diffBranch", BRANCH + "/diff", DiffList, _LIST)
def diff_branch(call: Call, query: DiffPaging) -> Answer:
    """List uncommitted changes.

    A staged deletion has size 0, as clients expect.  In a diff of refs, a deletion has the size of
    the deleted object.
    """
    page = diff.diff_branch(call.repo, call.arguments["branch"], query.lines)
    results = [
        shapes.difference(line, size=0 if line.kind == "removed" else None) for line in page.lines
    ]
    return _difference_page(results, page)


@_refs.get("diffRefs", REPO + "/refs/{leftRef}/diff/{rightRef}", DiffList, _LIST)
def diff_refs(call: Call, query: RefsDiffPaging) -> Answer:
    """List the differences between two refs."""
    left, right = call.arguments["leftRef"], call.arguments["rightRef"]
    three_dot = query.type == "three_dot"
    page = diff.diff_refs(call.repo, left, right, query.lines, three_dot=three_dot)
    right_stats = query.include_right_stats
    results = [shapes.difference(line, right_stats=right_stats) for line in page.lines]
    return _difference_page(results, page)


def _difference_page(results: list[shapes.Diff], page: DiffPage) -> Answer:
    return answers.page(results, page.more, page.lines[-1].path if page.lines else "")


# ---- before a merge ------------------------------------------------------------------------------


class FindMergeBaseResult(Shape, frozen=True):
    """The best common ancestor of two commits."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class ConflictVersions(Shape, frozen=True):
    """A path with a conflict, in three versions."""

    path: Annotated[
        str, Meta(description="Its three versions follow; an absent one: the path is not there")
    ]
    base: ObjectStats | UnsetType = UNSET
    source: ObjectStats | UnsetType = UNSET
    destination: ObjectStats | UnsetType = UNSET


class MergeCounts(Shape, frozen=True):
    """How many paths a merge would change."""

    added: Integer
    changed: Integer
    removed: Integer
    conflict: Integer


class MergePreview(Shape, frozen=True):
    """What a merge would do to the paths of one page."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: Annotated[str, Meta(description="Empty: unrelated histories")]
    counts: MergeCounts
    complete: bool
    results: list[ConflictVersions]
    pagination: Pagination


@_refs.get("findMergeBase", _MERGE, FindMergeBaseResult, ("fs:ListCommits", REPO_ARN))
def find_merge_base(call: Call) -> Answer:
    """The best common ancestor."""
    source, destination = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    base = log.merge_base(call.repo, source, destination)
    return answers.json(FindMergeBaseResult(base.source, base.destination, base.base))


@_graveler.get("previewMerge", _MERGE + "/preview", MergePreview, _LIST)
def preview_merge(call: Call, query: Paging) -> Answer:
    """What a merge would do: counts of this page's paths, and its conflicts in three versions."""
    source, destination = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    lines = PreviewQuery(query.prefix, query.after, query.count)
    page = merge.preview_counts(call.repo, source, destination, lines)
    preview = MergePreview(
        page.source,
        page.destination,
        page.base,
        MergeCounts(**page.counts),
        not page.following,
        [_conflict(call, conflict) for conflict in page.conflicts],
        answers.pagination(len(page.conflicts), page.following),
    )
    return answers.json(preview)


def _conflict(call: Call, conflict: Versions) -> ConflictVersions:
    def version(entry: Entry | Literal[Absent.ABSENT]) -> ObjectStats | UnsetType:
        return UNSET if entry is ABSENT else shapes.full_stats(call.repo.record, path, entry)

    path, *versions = conflict
    return ConflictVersions(path, *map(version, versions))


# ---- revert and cherry-pick ----------------------------------------------------------------------


class CommitOverrides(Body, frozen=True):
    """What the new commit has instead of the default."""

    message: Message = ""
    metadata: Pairs | UnsetType = UNSET


class RevertCreation(Body, frozen=True):
    """The commit to revert."""

    ref: str
    parent_number: ParentNumber
    commit_overrides: CommitOverrides = CommitOverrides()
    allow_empty: bool = False
    force: bool = False


class CherryPickCreation(Body, frozen=True):
    """The commit to pick."""

    ref: str
    parent_number: ParentNumber = 0
    commit_overrides: CommitOverrides = CommitOverrides()
    force: bool = False


@_branches.post(
    "revertBranch",
    BRANCH + "/revert",
    NOTHING,
    _COMMIT,
    errors=(Conflict, PreconditionFailed, Refused),
)
def revert_branch(call: Call, body: RevertCreation) -> Answer:
    """Commit the inverse of a commit."""
    request = _replay(call, body, allow_empty=body.allow_empty)
    merge.revert(call.repo, call.arguments["branch"], body.ref, request, force=body.force)
    return NO_CONTENT


@_branches.post(
    "cherryPick",
    BRANCH + "/cherry-pick",
    {201: Commit},
    _COMMIT,
    _READ,
    errors=(Conflict, PreconditionFailed, Refused),
)
def cherry_pick(call: Call, body: CherryPickCreation) -> Answer:
    """Commit the change of another commit."""
    branch, request = call.arguments["branch"], _replay(call, body, allow_empty=False)
    entry = merge.cherry_pick(call.repo, branch, body.ref, request, force=body.force)
    return answers.json(shapes.commit(entry), 201)


def _replay(
    call: Call, body: RevertCreation | CherryPickCreation, *, allow_empty: bool
) -> ReplayRequest:
    overrides = body.commit_overrides
    return ReplayRequest(
        committer=call.committer,
        parent_number=body.parent_number,
        message=overrides.message,
        metadata=ABSENT if overrides.metadata is UNSET else overrides.metadata,
        allow_empty=allow_empty,
    )


# ---- the graph -----------------------------------------------------------------------------------

_MOST = limits.graph_page_count_max
Heads = Annotated[
    tuple[str, ...], Meta(description="refs, 100 at most; without any, the default branch")
]
Following = Annotated[str, Meta(description="next_offset of the page before; its heads count")]
GraphAmount = Annotated[int, Meta(ge=1, le=_MOST, description="how many commits at most")]


class GraphPaging(Query, frozen=True):
    """Which page of the graph."""

    heads: Heads = ()
    after: Following = ""
    amount: GraphAmount = _MOST


class GraphColumns(Shape, frozen=True):
    """One commit has the same index in all columns.  Each commit comes before its parents."""

    ids: list[str]
    parents: list[tuple[str, ...]]
    times: list[Integer]
    authors: list[str]
    subjects: list[str]
    generations: list[Integer]


class CommitGraph(Shape, frozen=True):
    """One page.  `heads`: the commits that the heads mean; only on the first page."""

    heads: tuple[str, ...]
    commits: GraphColumns
    complete: bool
    pagination: Pagination


@_graveler.get(
    "getCommitGraph",
    REPO + "/graph",
    CommitGraph,
    ("fs:ListCommits", REPO_ARN),
    errors=(Unsupported,),
)
def get_commit_graph(call: Call, query: GraphPaging) -> Answer:
    """The commits that some heads lead to, in columns, each before its parents."""
    heads = query.heads or (call.repo.record.default_branch,)
    page = log.graph_page(call.repo, GraphQuery(heads, query.after, query.amount))
    records = [commit for _, commit in page.commits]
    columns = GraphColumns(
        [id for id, _ in page.commits],
        [record.parents for record in records],
        [shapes.seconds(record.created_ns) for record in records],
        [record.committer for record in records],
        [record.message for record in records],
        [record.generation for record in records],
    )
    pagination = answers.pagination(len(records), page.following, _MOST)
    return answers.json(CommitGraph(page.heads, columns, not page.following, pagination))
