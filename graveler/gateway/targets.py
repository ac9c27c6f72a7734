"""Checks the ref that a change names, before the body of its request is received.

Only a branch can be written: `main@`, `main~1`, tags and commit ids show what never changes.
Used by route.py and the operations on many keys.
"""

from contextlib import suppress
from typing import Final, NoReturn

from graveler.engine.commits.heads import resolved
from graveler.engine.objects.write import check_branch
from graveler.engine.ports import OpenRepository, check_writable
from graveler.errors import Code, Invalid, NotFound
from graveler.gateway.errors import S3Error
from graveler.refs.names.expression import parse

_ONLY_BRANCHES: Final = "Only a branch can be written, not a tag, a commit or another expression."


def check_target(repo: OpenRepository, ref: str) -> None:
    """Raises `S3Error`: MethodNotAllowed for a ref that is no branch, NoSuchBucket for an unknown
    one; and `Refused` for a protected branch and for a read-only repository.

    No KV request if the branch is cached, else 1; for what is no branch, the cost of its
    resolution.
    """
    try:
        check_branch(repo, ref)
    except (NotFound, Invalid) as error:
        if error.code not in (Code.BRANCH_NOT_FOUND, Code.BRANCH_NAME_INVALID):
            raise
        _explain(repo, ref)
    check_writable(repo.record, force=False)


def _explain(repo: OpenRepository, ref: str) -> NoReturn:
    """Why a ref that is no branch can not be written."""
    with suppress(Invalid):
        if parse(ref).modifiers:
            raise S3Error("MethodNotAllowed", _ONLY_BRANCHES)
    with suppress(NotFound, Invalid):
        resolved(repo, ref)
        raise S3Error("MethodNotAllowed", _ONLY_BRANCHES)
    raise S3Error("NoSuchBucket")
