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
    found = repositories.get(repo.kv, repo.id)
    if found.uid != repo.record.uid:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
    return found.breaks


def swap(
    repo: OpenRepository, seen: BreakParameters, wanted: BreakParameters, *, force: bool = False
) -> None:
    """Set the parameters to `wanted` if they are `seen`.  Atomic; the call may be repeated.

    Errors: `Invalid`, `NotFound`, `Refused` (a read-only repository), `PreconditionFailed` (they
    are neither `seen` nor `wanted`; nothing changed), `Contended`, `OutcomeUnknown`.
    Cost: 2 KV requests; 1 if they are `wanted` already.
    """
    check_writable(repo.record, force)
    check(wanted)
    if not wanted.salt:
        raise Invalid("salt must not be empty: send the present salt or a new one")

    def change(
        found: Repository | Literal[Absent.ABSENT], lost: bool
    ) -> Repository | Literal[Absent.ABSENT]:
        is_live = found is not ABSENT and found.state is RepositoryState.LIVE
        if found is ABSENT or not is_live or found.uid != repo.record.uid:
            raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
        if found.breaks == wanted:
            return ABSENT
        if lost:  # our write may have landed, and another client may have replaced it
            raise OutcomeUnknown(f"break parameters not confirmed: repository={repo.id}")
        if found.breaks != seen:
            raise PreconditionFailed(f"break parameters have changed: {_said(found.breaks)}")
        return replace(found, breaks=wanted)

    try:
        repositories.change(repo.kv, repo.id, repo.ids, change)
    finally:
        repo.cache.forget_repository(repo.id)


def _said(breaks: BreakParameters) -> str:
    return (
        f"min_size={breaks.min_size} max_size={breaks.max_size} raggedness={breaks.raggedness} "
        f"salt={breaks.salt.hex()}"
    )
