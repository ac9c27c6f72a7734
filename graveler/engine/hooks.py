"""The port through which verbs run hooks: before a change becomes visible, and after it.

`before` runs the pre-event after everything is stored but the decisive swap, so a veto leaves the
branch as it is, and records the post-event as a job.  `landed` announces that job to a worker.  If
the process dies in between, the job remains, and a worker finds it later.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from graveler.core.ids import NO_BRANCH, NO_COMMIT, BranchId, CommitId

if TYPE_CHECKING:
    from graveler.engine.ports import Deadline, OpenRepository

PREPARE: Final = "prepare-commit"
COMMIT: Final = "commit"
MERGE: Final = "merge"
REVERT: Final = "revert"
CHERRY_PICK: Final = "cherry-pick"
CREATE_BRANCH: Final = "create-branch"
DELETE_BRANCH: Final = "delete-branch"
CREATE_TAG: Final = "create-tag"
DELETE_TAG: Final = "delete-tag"

ACTIONS_FOLDER: Final = "_lakefs_actions/"  # of a repository: its action files
JOB_KIND: Final = "hooks"  # of the jobs that run post-events

Announce = Callable[["OpenRepository", str], None]  # hands a recorded job to a worker


class HookEvent(NamedTuple):
    """A change that is about to become visible.

    - `kind`: one of the constants above; its events are `pre-<kind>` and `post-<kind>`, and
      `prepare-commit` alone for `PREPARE`.
    - `decides`: the commit whose action files decide what runs before the change.
    - `commit`: the commit that lands, or that the name means; `NO_COMMIT` for `PREPARE`.
    - `base`: the head that the commit replaces; `NO_COMMIT` for names.
    - `origin`: of a branch that is created or deleted: the token that it begins with; empty for
      other events.
    - `source_ref`: what the caller of a creation of a branch, a revert or a cherry-pick named.
    - `message`, `committer`, `metadata`: for `PREPARE`; otherwise those of `commit` count, which a
      branch or a tag does not have: it names an old commit.
    """

    kind: str
    decides: CommitId
    commit: CommitId = NO_COMMIT
    base: CommitId = NO_COMMIT
    branch: BranchId = NO_BRANCH
    origin: str = ""
    tag: str = ""
    merge_source: str = ""
    source_ref: str = ""
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}


class Pending(NamedTuple):
    """What `before` leaves to do once the change is visible.

    `run`: the id of the run of the pre-event; `job`: the id of the job of the post-event.  Both are
    empty if there is none.  `commit`: the commit that the change is about.
    """

    run: str = ""
    job: str = ""
    commit: CommitId = NO_COMMIT


NOTHING_PENDING: Final = Pending()


class Progress(Protocol):
    """How far the attempts at a post-event have come.  Threads may share it."""

    def known(self) -> Mapping[str, str]:
        """What earlier attempts noted, by name.  No request."""
        ...

    def begin(self) -> None:
        """A hook is about to be called.  Raises `Stopped` (engine/jobs/record.py) if another worker
        must call it."""
        ...

    def note(self, name: str, value: str) -> None:
        """Record what later attempts must know.  Never raises a `GravelerError`: if the store does
        not answer for long, they do not know it."""
        ...


class Hooks(Protocol):
    """Runs the actions of repositories."""

    def before(self, repo: "OpenRepository", event: HookEvent, deadline: "Deadline") -> Pending:
        """Run the actions of the pre-event, and record the post-event as a job if an action waits
        for it.

        Raises `HookFailed` if an action fails or an action file is invalid: the caller must not
        make the change.  Errors: `Unavailable`; then the change is not made either.
        """
        ...

    def landed(self, repo: "OpenRepository", pending: Pending) -> None:
        """The change is visible.  Never raises a `GravelerError`."""
        ...

    def after(self, repo: "OpenRepository", order: str, progress: Progress) -> bool:
        """Run the post-event that `before` recorded with this order, without the hooks that have
        answered an earlier attempt.  False: the change is not visible yet.

        Errors: `Unavailable`; `Stopped`, from `progress`."""
        ...

    def give_up(self, repo: "OpenRepository", order: str, progress: Progress, reason: str) -> None:
        """Record the run of a post-event that is not tried again: hooks that no attempt has seen
        answer have failed, for this reason.  Calls no hook.  Errors: `Unavailable`."""
        ...

    def deferred(self, refuse: Callable[[], None]) -> "Hooks":
        """The same hooks for a request that a worker can take over: before actions of a pre-event
        would run, `refuse` is called, and raises."""
        ...

    def announcing(self, announce: Announce) -> "Hooks":
        """The same hooks, which hand recorded jobs to a worker by `announce`."""
        ...


class NoHooks:
    """A deployment without hooks: no action runs, and nothing is read."""

    def before(self, repo: "OpenRepository", event: HookEvent, deadline: "Deadline") -> Pending:
        return NOTHING_PENDING

    def landed(self, repo: "OpenRepository", pending: Pending) -> None:
        return

    def after(self, repo: "OpenRepository", order: str, progress: Progress) -> bool:
        return True

    def give_up(self, repo: "OpenRepository", order: str, progress: Progress, reason: str) -> None:
        return

    def deferred(self, refuse: Callable[[], None]) -> Hooks:
        return self

    def announcing(self, announce: Announce) -> Hooks:
        return self


NO_HOOKS: Final = NoHooks()
