"""`with branch.change(…)`: write on a branch of its own, check, and merge at once or not at all."""

import hashlib
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from graveler.core.clock import SystemIds
from graveler.core.errors import Code, DirtyBranch, GravelerError, Invalid, NoChanges, NotFound
from graveler.lake.errors import Error, Raising
from graveler.lake.pull_requests import PullRequest
from graveler.lake.ref import Commit

if TYPE_CHECKING:
    from graveler.lake.branch import Branch

Check: TypeAlias = Callable[["Branch"], object]
_LETTERS: Final = 8
_ROWS_SHOWN: Final = 5
_ID_SHOWN: Final = 12
_JOB_KEY: Final = "graveler.change"  # in the metadata of the commit on the target
_JOB_LENGTH_MAX: Final = 200
_JOB_COMMITS_MAX: Final = 10_000
_PULLS_MAX: Final = 1_000
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")  # what no branch's name has
_LOG: Final = logging.getLogger("graveler.lake")


class CheckFailed(Error):
    """A check of a change refused it; the branch of the change is kept.  `branch`: its name;
    `rows`: the first of the bad rows that the check returned."""

    code = Code.CHECK_FAILED

    def __init__(self, message: str, branch: str, rows: Sequence[object] = ()) -> None:
        super().__init__(message, remedy=f"look at the branch {branch}, then merge or delete it")
        self.branch, self.rows = branch, tuple(rows)


class ChangeContext(Raising):
    """A change that is being made; see `Branch.change`.

    After the block, `commit` is the commit on the target, or None if nothing was written; with
    `pull_request`, that is the request.  If the block commits by itself, its commits are kept and
    merged.  Of a job that has landed, they are those of the run that did."""

    def __init__(
        self,
        target: "Branch",
        message: str,
        checks: tuple[Check, ...],
        metadata: Mapping[str, str],
        as_pull_request: bool,
        name: str,
        job: str = "",
    ) -> None:
        self.target, self.message = target, message
        self.checks, self.metadata = checks, {**metadata, **({_JOB_KEY: job} if job else {})}
        self.job = job
        if len(job) > _JOB_LENGTH_MAX or not job.isprintable():
            raise Invalid(f"job must be at most {_JOB_LENGTH_MAX} printable characters: {job!r}")
        if job and name:  # the branch of a run that failed goes, so it must be the job's own
            raise Invalid(f"give name= or job=, not both: {name=} {job=}")
        if job and metadata.get(_JOB_KEY, job) != job:
            raise Invalid(f"metadata has another job: {metadata[_JOB_KEY]!r:.200} {job=}")
        own = _branch_of(target.name, job) if job else ""
        self.name = name or own or f"{target.name}-change-{SystemIds().unique(_LETTERS)}"
        self.commit: Commit | None = None
        self.pull_request: PullRequest | None = None
        self._asks = as_pull_request
        self._branch: Branch | None = None
        self._base = ""  # the commit that the branch began at
        self._has_landed = False

    def has_landed(self) -> bool:
        """Whether the job of this change has landed, or its request is open; then `commit` or
        `pull_request` is known.  Without a `job` it has not.  A request for each 1,000 commits."""
        if self._has_landed or not self.job:
            return self._has_landed
        for each in self.target.log(_JOB_COMMITS_MAX, first_parent=True):
            if each.metadata.get(_JOB_KEY) == self.job:
                self.commit, self._has_landed = each, True
                return True
        if self._asks:
            for pull in self.target.repository.pull_requests.list("all", limit=_PULLS_MAX):
                known = (pull.source, pull.destination) == (self.name, self.target.name)
                if known and pull.status in ("open", "merged"):
                    self.pull_request, self._has_landed = pull, True
                    return True
        return False

    def __enter__(self) -> "Branch":
        if self.has_landed():  # the block cannot be left out: what it writes goes
            self._branch = self.target.create_branch(
                f"{self.target.name}-change-{SystemIds().unique(_LETTERS)}"
            )
            self._base = self._branch.pin().id
            return self._branch
        if self.target.status():  # now, not after the work
            raise DirtyBranch(
                f"{self.target.address} has uncommitted changes, so nothing can be merged into it",
                remedy=f"commit or reset {self.target.address} first",
            )
        if self.job:
            self._forget()
        self._branch = self.target.create_branch(self.name)
        self._base = self._branch.pin().id
        return self._branch

    def __exit__(self, kind: Any, error: BaseException | None, _: object) -> Literal[False]:
        branch = self._branch
        if branch is None:
            return False
        if self._has_landed:
            is_lost = False
            if error is None:
                with suppress(GravelerError):  # the job has landed, whatever fails here
                    is_lost = branch.pin().id != self._base or bool(branch.status())
            self._delete(branch)
            if is_lost:  # a caller that is not told takes the old commit for that of the new data
                warnings.warn(self._lost(), stacklevel=3)  # `Raising` wraps this
            return False
        kept = f"the changes are kept on the branch {branch.address}"
        if error is not None:
            error.add_note(kept)
            return False
        try:
            self._land(branch)
        except Exception as failed:
            if not isinstance(failed, CheckFailed):  # which says it
                failed.add_note(kept)
            raise
        return False

    def _land(self, branch: "Branch") -> None:
        is_one = branch.pin().id == self._base  # the block has not committed by itself
        try:
            branch.commit(self.message, self.metadata)
        except NoChanges:
            if is_one:
                self._delete(branch)
                return
        self._check(branch)
        if self._asks:
            self.pull_request = branch.pull_request(self.target, self.message)
            return
        self.commit = self.target.merge(branch, self.message, metadata=self.metadata, squash=is_one)
        self._delete(branch)

    def _lost(self) -> str:
        if self.commit is not None:
            where = f"has landed before, as commit {self.commit.id[:_ID_SHOWN]}"
        else:
            assert self.pull_request is not None, "has_landed knows one of them"
            where = f"has pull request {self.pull_request.id}, {self.pull_request.status}"
        return (
            f"what the block wrote is thrown away: job {self.job!r} {where} on "
            f"{self.target.address}. Ask change.has_landed() to leave the work out. Corrected data "
            f"needs another name: job={self.job + '-2'!r}; and a commit that was reverted still "
            "counts as landed: undo() it instead, before the work is repeated"
        )

    def _forget(self) -> None:
        """Delete the branch of a run that failed."""
        try:
            self.target.repository.delete_branch(self.name)
        except NotFound:
            return

    def _check(self, branch: "Branch") -> None:
        for check in self.checks:
            answer = check(branch)
            rows = _first_rows(answer)
            if answer is False or rows:
                name = getattr(check, "__name__", repr(check))
                why = f"found bad rows, such as {rows[0]!r:.300}" if rows else "refused the change"
                raise CheckFailed(
                    f"check {name} {why}; the change is kept on the branch {branch.address}",
                    branch.name,
                    rows,
                )

    def _delete(self, branch: "Branch") -> None:
        try:
            branch.repository.delete_branch(branch)
        except GravelerError as error:  # the change has landed: the branch is only litter
            _LOG.warning("branch of a change not deleted: branch=%s %s", branch.address, error)


def _branch_of(target: str, job: str) -> str:
    """The name of a job's branch, in the letters that names have."""
    plain = _NO_NAME.sub("-", job)
    if plain != job or len(job) > _JOB_LENGTH_MAX // 2:
        digest = hashlib.sha256(job.encode()).hexdigest()[:_LETTERS]
        plain = f"{plain[: _JOB_LENGTH_MAX // 2]}-{digest}"
    return f"{target[: _JOB_LENGTH_MAX // 2]}-change-{plain}"


def _first_rows(answer: Any) -> list[object]:
    """The first of the rows that a check returned: a list or another iterable, a `Listing`, a table
    of Arrow, a DataFrame of pandas, Polars or Spark.  No rows for any other answer."""
    if hasattr(answer, "to_pylist") and hasattr(answer, "slice"):  # Arrow
        return list(answer.slice(0, _ROWS_SHOWN).to_pylist())
    if hasattr(answer, "to_dicts"):  # Polars
        return list(answer.head(_ROWS_SHOWN).to_dicts())
    if hasattr(answer, "iterrows"):  # pandas
        return list(answer.head(_ROWS_SHOWN).to_dict("records"))
    if hasattr(answer, "sparkSession"):
        return list(answer.take(_ROWS_SHOWN))
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        return list(islice(answer, _ROWS_SHOWN))
    return []
