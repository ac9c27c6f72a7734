"""Error messages that clients of this API compare, where they differ from Graveler's own.

A row applies to one operation ("" for all), one kind of error, and Graveler's messages with one
beginning ("" for any).  The first row that applies decides.  Templates name path parameters, query
parameters and strings of the body; `{missing}` is the ref that Graveler's message reports as not
found.  Pure.  Used by errors.py.
"""

from collections.abc import Mapping
from string import Formatter
from typing import Final, NamedTuple

from graveler.errors import (
    AlreadyExists,
    DirtyBranch,
    GravelerError,
    Invalid,
    NoChanges,
    NotFound,
    PreconditionFailed,
    Refused,
)


class Row(NamedTuple):
    """The condition of a row, and the text that clients get."""

    operation: str
    kind: type[GravelerError]
    beginning: str
    text: str

    @property
    def wanted(self) -> set[str]:
        """The names of the placeholders in the text."""
        return {name for _, name, _, _ in Formatter().parse(self.text) if name}


_INVALID: Final = "invalid value: validation error"
_BRANCH: Final = "branch '"
_REF: Final = "ref not found"

ROWS: Final = (
    Row("", Refused, "read-only repository", "read-only repository"),
    Row("", NotFound, "repository not found", "repository not found"),
    Row("", Invalid, "repository name invalid", f"argument repository: repository id: {_INVALID}"),
    Row(
        "",
        Invalid,
        "branch name invalid",
        f"argument branch: branch id: {_INVALID}: branch id must consist of letters, digits, "
        "underscores and dashes, and cannot start with a dash",
    ),
    Row("", Invalid, "tag name invalid", f"argument tagID: tag id: {_INVALID}"),
    Row("linkPhysicalAddress", PreconditionFailed, "path already exists", "Precondition failed"),
    Row(
        "linkPhysicalAddress",
        Invalid,
        "link address not signed",
        "address is not signed: link address invalid",
    ),
    Row(
        "linkPhysicalAddress",
        Invalid,
        "link address invalid",
        "invalid address signature: invalid address",
    ),
    Row("", PreconditionFailed, "path already exists", "path already exists"),
    Row("setup", AlreadyExists, "", "lakeFS already initialized"),
    Row(
        "createRepository",
        Invalid,
        "storage namespace already in use",
        "failed to create repository: found lakeFS objects in the storage "
        "(:{storage_namespace}) key(_lakefs/dummy): storage namespace already in use",
    ),
    Row(
        "createRepository",
        Invalid,
        "address is not in a bucket that is allowed",
        "failed to create repository: failed to access storage",
    ),
    Row("createBranch", NotFound, _REF, "source reference '{source}': not found"),
    Row("getBranch", NotFound, "", "branch not found"),
    Row("deleteBranch", NotFound, "", "branch not found"),
    Row("deleteBranch", Refused, "", "cannot delete repository default branch"),
    Row("diffBranch", NotFound, "", "branch not found"),
    Row("resetBranch", NotFound, _BRANCH, "branch not found"),
    Row("hardResetBranch", NotFound, _REF, "hard-reset {branch} to {ref}: not found"),
    Row("hardResetBranch", NotFound, _BRANCH, "branch not found"),
    Row("hardResetBranch", DirtyBranch, "", "{branch}: uncommitted changes (dirty branch)"),
    Row("createTag", NotFound, _REF, "not found"),
    Row("commit", NotFound, _BRANCH, "branch not found"),
    Row("getCommit", NotFound, "", "commit not found"),
    Row("logCommits", NotFound, _REF, "ref: not found"),
    Row("diffRefs", NotFound, _REF, "get commit by ref {missing}: not found"),
    Row("findMergeBase", NotFound, _REF, "get commit by branch {missing}: not found"),
    Row("mergeIntoBranch", NotFound, _BRANCH, "branch not found"),
    Row(
        "mergeIntoBranch",
        NotFound,
        _REF,
        "update branch {destinationBranch}: get commit by ref {missing}: not found",
    ),
    Row(
        "mergeIntoBranch",
        Invalid,
        "cannot merge a branch into itself",
        "update branch {destinationBranch}: no changes",
    ),
    Row("mergeIntoBranch", DirtyBranch, "", "uncommitted changes (dirty branch)"),
    Row("revertBranch", NoChanges, "", "update branch: no changes"),
    Row("revertBranch", NotFound, _REF, "get commit from ref {ref}: not found"),
    Row("cherryPick", NotFound, _REF, "get commit from ref {ref}: not found"),
    Row(
        "cherryPick",
        Invalid,
        "commit has no parent",
        "parent 1: given commit does not have the given parent number",
    ),
    Row("statObject", NotFound, "", "not found"),
    Row("getObject", NotFound, "", "not found"),
    Row("headObject", NotFound, "", "not found"),
    Row("listObjects", NotFound, "", "not found"),
    Row("copyObject", NotFound, "", "not found"),
    Row("deleteObject", NotFound, _BRANCH, "branch not found"),
    Row("deleteObjects", NotFound, _BRANCH, "branch not found"),
    Row(
        "updateObjectUserMetadata",
        NotFound,
        "path not found",
        "update user metadata on {repository}/{branch}/{path}: not found",
    ),
)


def wording(error: Exception, operation: str, names: Mapping[str, str]) -> str:
    """The error text for the client.

    A row with a placeholder that `names` does not have is skipped.  This happens with the failure
    of a job: its status request knows fewer names than the request that began the job.
    """
    own = str(error)
    known = {**names, "missing": own.partition("ref=")[2]}
    for row in ROWS:
        applies = row.operation in ("", operation) and type(error) is row.kind
        if applies and own.startswith(row.beginning) and row.wanted <= known.keys():
            return row.text.format_map(known)
    return own
