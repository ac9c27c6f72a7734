"""Branch protection: which branches only merges, reverts and cherry-picks may change.

    rules      globs of branch names, in the record of the repository (repositories/rules.py)
    staging    upload, link, copy, delete, metadata, events, reset of uncommitted changes
    a commit   commit, import, landing of a bulk job
    the head   hard reset
    the name   delete the branch, after which anybody could create it at another commit

Every verb of these four lines calls one of the checks below, before its first write and again
before the write that decides.  So a rule stops work that began before it: a commit that builds for
minutes, or a job that waited for a worker.

The checks use a repository record of the cache, which is at most
`limits.repository_cache_seconds_max` old; if none is cached, they read it (1 KV request).  So a
rule is in force in every process after that time, and at once in the process that set it.  A write
whose deciding check came before is an earlier write.

`force` does not lift protection: it concerns read-only repositories alone.  For the engine.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from graveler.engine.ports import OpenRepository
from graveler.errors import Code, OutcomeUnknown, Refused
from graveler.globs import matches
from graveler.ids import BranchId
from graveler.records import ABSENT, Repository, RepositoryState
from graveler.refs.names import repositories


def check_staging(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if nothing may be staged or dropped on the branch."""
    if is_protected(repo, branch):
        raise Refused(
            f"cannot write to protected branch: branch={branch}",
            Code.PROTECTED_WRITE,
            branch=branch,
        )


def check_commit(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch takes no commits but those of merges and replays."""
    if is_protected(repo, branch):
        raise Refused(
            f"cannot commit to protected branch: branch={branch}",
            Code.PROTECTED_COMMIT,
            branch=branch,
        )


def check_head(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch must not be put on another commit."""
    if is_protected(repo, branch):
        raise Refused(
            f"cannot move the head of a protected branch: branch={branch}",
            Code.PROTECTED_HEAD,
            branch=branch,
        )


def check_deletion(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch must not be deleted."""
    if is_protected(repo, branch):
        raise Refused(
            f"cannot delete protected branch: branch={branch}",
            Code.PROTECTED_DELETION,
            branch=branch,
        )


@contextmanager
def in_doubt(doubt: str, *, is_pending: bool) -> Iterator[None]:
    """Inside, a refusal becomes `OutcomeUnknown` with the text `doubt` if `is_pending`: an earlier
    write of the call got no answer and may still land."""
    try:
        yield
    except Refused as error:
        if is_pending:
            raise OutcomeUnknown(doubt) from error
        raise


def is_protected(repo: OpenRepository, branch: BranchId) -> bool:
    """Whether a rule protects the branch, by the record that the checks use."""
    return any(matches(rule, branch) for rule in _current(repo).protected)


def _current(repo: OpenRepository) -> Repository:
    known = repo.cache.repository(repo.id)
    if known is ABSENT:
        read_at = repo.cache.now()
        stored = repositories.find(repo.kv, repo.id)
        if stored is ABSENT:
            return repo.record
        known = stored.repository
        if known.state is RepositoryState.LIVE:
            repo.cache.put_repository(known, read_at)
    return known if known.uid == repo.record.uid else repo.record
