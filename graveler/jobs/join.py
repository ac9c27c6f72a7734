"""What a request that joins a running job of an equal request must be answered with.

a commit joins     ──► it notes the newest token with rows, and the head
the job is done    ──a commit has folded in that token──► that commit, or the job's if newer
the job has ended  ──the branch still names that token──► the request does its own work

a merge joins      ──► it notes what its source names
the job is done    ──it has merged that, or what the source names now──► the job's commit
                   ──else──► the request does its own work; also if the job failed
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from graveler.core.errors import (
    Conflict,
    GravelerError,
    HistoryTooLong,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unsupported,
)
from graveler.core.ids import BranchId, CommitId, JobId, StagingToken
from graveler.core.records import ABSENT, Absent, CommitEntry, Job, JobState
from graveler.engine.commits import search
from graveler.engine.commits.heads import commit_of, fresh, resolved
from graveler.engine.jobs import record as jobs
from graveler.engine.ports import OpenRepository
from graveler.jobs import commit
from graveler.jobs.orders import COMMIT, MERGE, JobRequest

_SOURCE: Final = "source"
_LOOK_BACK_COUNT_MAX: Final = 1_000
Answer = CommitEntry | Literal[Absent.ABSENT]


class Joining(NamedTuple):
    """A request that joins a job, and what it must contain.

    `token`: of a commit, the newest token that held rows when the request joined; ABSENT if none
    did.  `head`: the head of the branch then.  `source`: of a merge, the commit that its source
    named then; ABSENT if it named none.
    """

    request: JobRequest
    token: StagingToken | Literal[Absent.ABSENT] = ABSENT
    head: CommitId = CommitId("")
    source: CommitId | Literal[Absent.ABSENT] = ABSENT

    @property
    def branch(self) -> BranchId:
        return BranchId(self.request.branch)

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.request.fields


def begin_joining(repo: OpenRepository, request: JobRequest) -> Joining:
    """Note what a request must contain.

    Errors: `NotFound`.  Cost: of a commit of staged rows, 1 KV request, and at most 1 for each
    shard; of a merge, that of its source; else none.
    """
    if request.kind == MERGE:
        return Joining(request, source=_source(repo, request))
    if request.kind == COMMIT and not request.fields["source_metarange"]:
        staged = commit.staged(repo, request.branch)
        return Joining(request, staged.tokens[0] if staged.tokens else ABSENT, staged.head)
    return Joining(request)


def _source(repo: OpenRepository, request: JobRequest) -> CommitId | Literal[Absent.ABSENT]:
    try:
        return resolved(repo, request.fields["source"]).commit
    except NotFound:
        return ABSENT


def parts_of(repo: OpenRepository, request: JobRequest) -> Mapping[str, str]:
    """What the order of a job must keep for requests that join it.

    A squash merge does not name its source in its commit.  So the order keeps the commit that the
    source names before the job resolves it.  If the source moves in between, a request that joins
    merges once more than it must.  Cost: that of the source of a squash merge; else none.
    """
    if request.kind != MERGE or not request.fields["squash"]:
        return {}
    source = _source(repo, request)
    return {} if source is ABSENT else {_SOURCE: source}


def find_whole(repo: OpenRepository, joining: Joining, job: JobId, done: CommitEntry) -> Answer:
    """The commit that contains what the request must contain, after the job has made `done`; ABSENT
    if the request must do its own work.

    Errors: those of `search.holder`, but no `Conflict` with `allow_empty`.  Cost: of a commit with
    rows staged, those of `search.holder`; if a commit below `done` has the rows, or with
    `allow_empty` none, also those of `is_in_history`; of a merge, 1 KV request if it is a squash
    merge, and that of its source if the source has moved; else none.
    """
    if joining.request.kind == MERGE:
        return done if _has_source(repo, joining, job, done) else ABSENT
    if joining.token is ABSENT:
        return done
    try:
        held = search.holder(repo, joining.branch, joining.token, joining.head)
    except Conflict:  # a reset dropped the rows, which `allow_empty` survives
        if not _needs_no_rows(joining):
            raise
        return done if is_in_history(repo, joining.branch, done.id) else ABSENT
    if held is ABSENT or held.id == done.id or held.commit.depth >= done.commit.depth:
        return held
    return done if is_in_history(repo, joining.branch, done.id) else held


def _has_source(repo: OpenRepository, joining: Joining, job: JobId, done: CommitEntry) -> bool:
    """Whether a job has merged the source as it was when the request came, or as it is now."""
    if joining.source is ABSENT:
        return True
    parents = done.commit.parents
    merged = parents[1] if len(parents) > 1 else jobs.ordered(repo, job).parts.get(_SOURCE, "")
    return merged == joining.source or merged == _source(repo, joining.request)


def find_settled(repo: OpenRepository, joining: Joining, job: JobId, done: CommitEntry) -> Answer:
    """The commit that contains what the request must contain, if its own work found no change
    after the job has made `done`.  ABSENT: a reset took `done` away.

    If no commit has folded in the rows of the request, they equal the head, which is then the
    answer.  Errors: those of `search.holder`.  Cost: those of `find_whole`, and at most 2 KV
    requests and 1 for each commit since `done`.
    """
    with suppress(NoChanges):
        whole = find_whole(repo, joining, job, done)
        if whole is not ABSENT:
            return whole
    head = fresh(repo, joining.branch).branch.commit
    if not _is_below(repo, head, done.id):
        return ABSENT
    return CommitEntry(head, commit_of(repo, head))


def find_landed(repo: OpenRepository, joining: Joining, job: Job, error: GravelerError) -> Answer:
    """The commit that contains what the request must contain, after the job failed with `error`;
    ABSENT if the request must do its own work.

    Raises `error` if it is that of the request too: the outcome is unknown, the job was cancelled
    or given up, or nothing was staged that the request must contain.  A request that needs no
    staged rows (a merge; a commit with `allow_empty` or of a metarange) always does its own work.
    Other errors, and the cost: those of `search.holder`, if rows were staged.
    """
    if job.state is not JobState.FAILED or isinstance(error, OutcomeUnknown | Unsupported):
        raise error
    if _needs_no_rows(joining):
        return ABSENT
    if joining.token is ABSENT:
        raise error
    return search.holder(repo, joining.branch, joining.token, joining.head)


def _needs_no_rows(joining: Joining) -> bool:
    fields = joining.fields
    return bool(
        joining.request.kind != COMMIT or fields["allow_empty"] or fields["source_metarange"]
    )


def is_in_history(repo: OpenRepository, branch: BranchId, commit_id: CommitId) -> bool:
    """Whether a commit is in the history of a branch; also if it is too far back to tell.

    Errors: `NotFound`.  Cost: 1 KV request, and 1 for each commit since that is not cached, at most
    1,000.
    """
    return _is_below(repo, fresh(repo, branch).branch.commit, commit_id)


def _is_below(repo: OpenRepository, head: CommitId, commit_id: CommitId) -> bool:
    count = 0
    with suppress(HistoryTooLong):
        for entry in islice(search.history_until(repo, head, commit_id), _LOOK_BACK_COUNT_MAX):
            if entry.id == commit_id:
                return True
            count += 1
        return count == _LOOK_BACK_COUNT_MAX
    return True
