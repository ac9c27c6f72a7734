"""Errors as answers of the API.  The kind decides the status, the code decides the text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from graveler.api import answers
from graveler.core import errors
from graveler.core.errors import Code, GravelerError, public_text
from graveler.http.answers import Answer, Headers, text_header
from graveler.http.errors import _PLACES, RETRY_SOON, log_failure, status_of

ANY: Final = ""  # any operation
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

_INVALID: Final = "invalid value: validation error"
_NOT_FOUND: Final = (
    Code.NOT_FOUND,
    Code.BRANCH_NOT_FOUND,
    Code.TAG_NOT_FOUND,
    Code.COMMIT_NOT_FOUND,
    Code.ANCESTOR_NOT_FOUND,
    Code.REF_NOT_FOUND,
    Code.PATH_NOT_FOUND,
    Code.JOB_NOT_FOUND,
)
_NOT_FOUND_IN: Final = {  # operations that answer one text, whatever was not found
    "getBranch": "branch not found",
    "deleteBranch": "branch not found",
    "diffBranch": "branch not found",
    "getCommit": "commit not found",
    "statObject": "not found",
    "getObject": "not found",
    "headObject": "not found",
    "listObjects": "not found",
    "copyObject": "not found",
}

TEXTS: Final[Mapping[tuple[str, Code], str]] = {
    # names
    (ANY, Code.REPOSITORY_NAME_INVALID): f"argument repository: repository id: {_INVALID}",
    (ANY, Code.BRANCH_NAME_INVALID): f"argument branch: branch id: {_INVALID}: branch id must "
    "consist of letters, digits, underscores and dashes, and cannot start with a dash",
    (ANY, Code.TAG_NAME_INVALID): f"argument tagID: tag id: {_INVALID}",
    # repositories
    ("setup", Code.ADMINISTRATOR_EXISTS): "lakeFS already initialized",
    (ANY, Code.READ_ONLY_REPOSITORY): "read-only repository",
    (ANY, Code.PROTECTED_WRITE): "cannot write to protected branch",
    (ANY, Code.PROTECTED_COMMIT): "cannot commit to protected branch",
    (ANY, Code.PROTECTED_HEAD): "protected branch",
    (ANY, Code.PROTECTED_DELETION): "cannot delete protected branch",
    ("setBranchProtectionRules", Code.PRECONDITION_FAILED): "Precondition failed",
    (ANY, Code.REPOSITORY_NOT_FOUND): "repository not found",
    (ANY, Code.REPOSITORY_EXISTS): "error creating repository: not unique",
    ("createRepository", Code.NAMESPACE_IN_USE): "failed to create repository: found lakeFS "
    "objects in the storage (:{storage_namespace}) key(_lakefs/dummy): storage namespace already "
    "in use",
    ("createRepository", Code.NAMESPACE_CLAIMED): "failed to create repository: found lakeFS "
    "objects in the storage (:{storage_namespace}) key(_lakefs/dummy): storage namespace already "
    "in use: {error[remedy]}",
    ("createRepository", Code.NAMESPACE_OF_DELETED): "failed to create repository: found lakeFS "
    "objects in the storage (:{storage_namespace}) key(_lakefs/dummy): storage namespace already "
    "in use until the purge of a deleted repository, {error[due]}",
    ("createRepository", Code.BUCKET_NOT_ALLOWED): "failed to create repository: failed to access "
    "storage",
    (ANY, Code.NOT_BARE): "can only restore into a bare repository",
    # branches and tags
    (ANY, Code.BRANCH_NOT_FOUND): "branch '{error[branch]}' not found",
    (ANY, Code.REF_AMBIGUOUS): "ref is ambiguous: several commits begin with {error[ref]}; add "
    "characters",
    (ANY, Code.BRANCH_EXISTS): "branch already exists: not unique",
    ("createBranch", Code.NAME_TAKEN): "{error[holder]} ID {error[name]}: conflict found",
    ("createBranch", Code.REF_NOT_FOUND): "source reference '{source}': not found",
    ("deleteBranch", Code.DEFAULT_BRANCH): "cannot delete repository default branch",
    ("resetBranch", Code.BRANCH_NOT_FOUND): "branch not found",
    ("hardResetBranch", Code.REF_NOT_FOUND): "hard-reset {branch} to {ref}: not found",
    ("hardResetBranch", Code.BRANCH_NOT_FOUND): "branch not found",
    (ANY, Code.DIRTY_BRANCH): "{error[branch]}: uncommitted changes (dirty branch)",
    (ANY, Code.TAG_NOT_FOUND): "tag not found",
    (ANY, Code.TAG_EXISTS): "tag already exists: not unique",
    ("createTag", Code.NAME_TAKEN): "{error[holder]} name {error[name]}: conflict found",
    ("createTag", Code.REF_NOT_FOUND): "not found",
    # commits
    ("commit", Code.NO_CHANGES): "commit: no changes",
    ("commit", Code.BRANCH_NOT_FOUND): "branch not found",
    (ANY, Code.COMMIT_NOT_FOUND): "commit not found",
    (ANY, Code.ANCESTOR_NOT_FOUND): "not found",
    ("logCommits", Code.REF_NOT_FOUND): "ref: not found",
    ("diffRefs", Code.REF_NOT_FOUND): "get commit by ref {error[ref]}: not found",
    ("findMergeBase", Code.REF_NOT_FOUND): "get commit by branch {error[ref]}: not found",
    # merge, revert, cherry-pick
    (ANY, Code.STRATEGY_INVALID): f"argument strategy: {_INVALID}",
    ("mergeIntoBranch", Code.NO_CHANGES): "update branch {destinationBranch}: no changes",
    ("mergeIntoBranch", Code.MERGE_INTO_ITSELF): "update branch {destinationBranch}: no changes",
    ("mergeIntoBranch", Code.BRANCH_NOT_FOUND): "branch not found",
    ("mergeIntoBranch", Code.REF_NOT_FOUND): "update branch {destinationBranch}: get commit by "
    "ref {error[ref]}: not found",
    ("mergeIntoBranch", Code.DIRTY_BRANCH): "uncommitted changes (dirty branch)",
    ("revertBranch", Code.NO_CHANGES): "update branch: no changes",
    ("revertBranch", Code.REF_NOT_FOUND): "get commit from ref {ref}: not found",
    ("revertBranch", Code.PARENT_NUMBER_MISSING): "must specify 1-based parent number for "
    "reverting merge commit",
    ("cherryPick", Code.NO_CHANGES): "update branch {branch}: no changes",
    ("cherryPick", Code.REF_NOT_FOUND): "get commit from ref {ref}: not found",
    ("cherryPick", Code.NO_PARENT): "parent 1: given commit does not have the given parent number",
    ("cherryPick", Code.PARENT_NUMBER_MISSING): "must specify 1-based parent number for "
    "cherry-picking merge commit",
    # objects
    ("getObject", Code.RANGE_UNSATISFIABLE): "Requested Range Not Satisfiable",
    (ANY, Code.PATH_EXISTS): "path already exists",
    ("linkPhysicalAddress", Code.PATH_EXISTS): "Precondition failed",
    ("linkPhysicalAddress", Code.ADDRESS_NOT_SIGNED): "address is not signed: link address invalid",
    ("linkPhysicalAddress", Code.ADDRESS_INVALID): "invalid address signature: invalid address",
    ("deleteObject", Code.BRANCH_NOT_FOUND): "branch not found",
    ("deleteObjects", Code.BRANCH_NOT_FOUND): "branch not found",
    ("updateObjectUserMetadata", Code.PATH_NOT_FOUND): "update user metadata on "
    "{repository}/{branch}/{path}: not found",
    **{(operation, code): text for operation, text in _NOT_FOUND_IN.items() for code in _NOT_FOUND},
    # garbage collection
    (ANY, Code.RULE_NOT_FOUND): "not found",
    # pull requests
    (ANY, Code.PULL_ID_INVALID): f"argument pullRequestID: pull request id: {_INVALID}",
    (ANY, Code.PULL_NOT_FOUND): "pull request not found",
    (ANY, Code.COMMENT_NOT_FOUND): "comment not found",
    (ANY, Code.PULL_STATE_INVALID): "bad pull request status",
    (ANY, Code.PULL_SAME_BRANCH): "source and destination branches are the same: same branch "
    "validation error",
    ("createPullRequest", Code.BRANCH_NOT_FOUND): "branch not found",
    ("mergePullRequest", Code.BRANCH_NOT_FOUND): "branch not found",
    # users, groups, policies, access keys
    (ANY, Code.USER_NOT_FOUND): "user not found",
    (ANY, Code.GROUP_NOT_FOUND): "group not found",
    (ANY, Code.POLICY_NOT_FOUND): "policy not found",
    (ANY, Code.KEY_NOT_FOUND): "credentials not found",
    (ANY, Code.PRINCIPAL_NOT_FOUND): "external principal not found",
    (ANY, Code.ENTITY_EXISTS): "Already exists",
    # jobs
    (ANY, Code.JOB_NOT_FOUND): "not found",
    (ANY, Code.RUN_NOT_FOUND): "not found: not found",
    (ANY, Code.FILTERS_CONFLICT): "can't use both branchID and MergedCommitID: parameters conflict",
    (ANY, Code.HOOK_FAILED): "{error[event]} hook aborted, run id '{error[run]}': {error[reason]}",
}


def text_for(error: Exception, operation: str = ANY, names: Mapping[str, str] = _NO_NAMES) -> str:
    """The error text for the client.  `names`: the strings of the request, by name.

    A text with a placeholder that has no value is skipped.  This happens with the failure of a job:
    its status request knows fewer names than the request that began the job.
    """
    if isinstance(error, GravelerError):
        for place in (operation, ANY):
            text = TEXTS.get((place, error.code), "")
            try:
                if text:
                    return text.format_map({**names, "error": error.fields})
            except KeyError:
                continue
    return public_text(error)


# ---- answers -------------------------------------------------------------------------------------

_NOT_AVAILABLE: Final = "service not available; try again"
_MERGE: Final = "mergeIntoBranch"  # its conflict has its own answer
_RETRY_LATER: Final[Headers] = ((b"retry-after", b"60"),)  # a cluster needs longer


def answer(
    error: Exception,
    operation: str,
    names: Mapping[str, str],
    scope: Mapping[str, Any],
    *,
    is_known: bool = True,
) -> Answer:
    """The answer for an error, which is logged if the service is to blame.

    `operation`: whose texts apply.  `names`: the strings of the request, by name.  `is_known`: the
    caller has proved who it is; others are not told what the service needs and does not get, such
    as an identity provider.
    """
    status = status_of(error)
    label, _ = scope.get("graveler.operation", ("none", 0.0))
    log_failure(error, status, label, names, scope["graveler.request_id"])
    if isinstance(error, errors.MergeConflict) and operation == _MERGE:
        return answers.json({"reference": ""}, 409)
    if isinstance(error, errors.Unauthenticated):
        return answers.message(401, "error authenticating request")
    if isinstance(error, errors.Corrupt):
        return answers.message(500, f"{error}{_places_of(names)}")
    if status == 500:
        return answers.message(500, "internal error")
    headers: Headers = RETRY_SOON if status in (429, 503) else ()
    if isinstance(error, errors.HandedOver):
        headers = _RETRY_LATER
    if isinstance(error, errors.Throttled):
        headers = ((b"retry-after", b"%d" % error.seconds),)
    if isinstance(error, errors.RangeUnsatisfiable):
        headers = (text_header(b"content-range", f"bytes */{error.size}"),)
    if status == 503 and not is_known:
        return answers.message(status, unavailable_text(error), headers)
    return answers.message(status, text_for(error, operation, names), headers)


def _places_of(names: Mapping[str, str]) -> str:
    """What a request is about: an error about a file does not say who reads it."""
    shown = [f" {name}={names[name]!r:.300}" for name in _PLACES if names.get(name)]
    return "".join([":", *shown]) if shown else ""


def unavailable_text(error: BaseException) -> str:
    """What a caller without credentials is told of a 503."""
    is_open = isinstance(error, errors.OutcomeUnknown)
    return f"{_NOT_AVAILABLE}; {errors.OUTCOME_UNKNOWN}" if is_open else _NOT_AVAILABLE
