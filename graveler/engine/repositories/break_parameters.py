"""Break parameters: the values that decide where a repository's ranges end; check, read and change.

    seen ──compare-and-swap──► wanted        a change by another client is never overwritten

After a change, existing ranges stay as they are and stay valid.  Only ranges that are written later
end by the new parameters (docs/reference/format.md).  A process uses the old parameters as long as
it caches the repository's record.  Used by repository.py, bulk jobs and the service.
"""

from dataclasses import replace
from typing import Literal

from graveler import limits
from graveler.engine.ports import OpenRepository, check_writable
from graveler.errors import Code, Invalid, NotFound, OutcomeUnknown, PreconditionFailed
from graveler.records import ABSENT, Absent, BreakParameters, Repository, RepositoryState
from graveler.refs.names import repositories


def check(breaks: BreakParameters) -> None:
    """Raises `Invalid` for parameters that no writer can use or that exceed a limit.  Pure."""
    if not 0 <= breaks.min_size <= breaks.max_size or breaks.max_size < 1 or breaks.raggedness < 1:
        raise Invalid(
            "break parameters invalid: 0 <= min_size <= max_size and raggedness >= 1: "
            f"min_size={breaks.min_size} max_size={breaks.max_size} raggedness={breaks.raggedness}"
        )
    if breaks.max_size > limits.range_size_bytes_max:
        raise Invalid(f"max_size must be {limits.range_size_bytes_max} at most: {breaks.max_size=}")
    if breaks.raggedness > limits.range_raggedness_max:
        most = limits.range_raggedness_max
        raise Invalid(f"raggedness must be {most} at most: {breaks.raggedness=}")
    if len(breaks.salt) > limits.range_salt_bytes_max:
        raise Invalid(f"salt must have {limits.range_salt_bytes_max} bytes at most")


def read(repo: OpenRepository) -> BreakParameters:
    """The parameters, read from the store now.  `NotFound`.  Cost: 1 KV request."""
    record = repositories.get(repo.kv, repo.id)
    if record.uid != repo.record.uid:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
    return record.breaks


def swap(
    repo: OpenRepository, seen: BreakParameters, new: BreakParameters, *, force: bool = False
) -> None:
    """Set the parameters to `new` if they are `seen`.  Atomic; the call may be repeated.

    Errors: `Invalid`, `NotFound`, `Refused` (a read-only repository), `PreconditionFailed` (they
    are neither `seen` nor `new`; nothing changed), `Contended`, `OutcomeUnknown`.
    Cost: 2 KV requests; 1 if they are `new` already.
    """
    check_writable(repo.record, force)
    check(new)
    if not new.salt:
        raise Invalid("salt must not be empty: send the present salt or a new one")

    def change(
        record: Repository | Literal[Absent.ABSENT], lost: bool
    ) -> Repository | Literal[Absent.ABSENT]:
        is_live = record is not ABSENT and record.state is RepositoryState.LIVE
        if record is ABSENT or not is_live or record.uid != repo.record.uid:
            raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
        if record.breaks == new:
            return ABSENT
        if lost:  # our write may have landed, and another client may have replaced it
            raise OutcomeUnknown(f"break parameters not confirmed: repository={repo.id}")
        if record.breaks != seen:
            raise PreconditionFailed(f"break parameters have changed: {_said(record.breaks)}")
        return replace(record, breaks=new)

    try:
        repositories.change(repo.kv, repo.id, repo.ids, change)
    finally:
        repo.cache.forget_repository(repo.id)


def _said(breaks: BreakParameters) -> str:
    return (
        f"min_size={breaks.min_size} max_size={breaks.max_size} raggedness={breaks.raggedness} "
        f"salt={breaks.salt.hex()}"
    )
