"""The kinds of failure that a caller can act upon, and the codes of single failures.

    NotFound     nothing has that name                             use another name
    Conflict     another client was first, or two sides conflict   read again, decide, retry
    Invalid      the call is wrong                                 fix the call
    Refused      well formed, but not permitted                    ask an administrator
    HookFailed   a hook of the repository vetoed the change        satisfy the hook
    Throttled    too many failures                                 wait for `seconds`
    Unavailable  temporarily not possible                          retry later
    Corrupt      stored bytes differ from what was written         stop, alert an operator
    Internal     a bug in Graveler                                 report it

The type of an error says what the caller should do.  Its `code` says what exactly failed, its
`fields` name the things involved, and its text is for people: no code reads it.  Drivers translate
the errors of their service immediately and keep the cause.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal

OUTCOME_UNKNOWN: Final = "outcome unknown"  # clients look for these words in the text of a 503


class Code(StrEnum):
    """What exactly failed.  Job records store the value."""

    # the defaults of the kinds
    NOT_FOUND = "not_found"
    GONE = "gone"
    CONFLICT = "conflict"
    ALREADY_EXISTS = "already_exists"
    PRECONDITION_FAILED = "precondition_failed"
    MERGE_CONFLICT = "merge_conflict"
    CONTENDED = "contended"
    INVALID = "invalid"
    NO_CHANGES = "no_changes"
    DIRTY_BRANCH = "dirty_branch"
    RANGE_UNSATISFIABLE = "range_unsatisfiable"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    UNAUTHENTICATED = "unauthenticated"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    OUTCOME_UNKNOWN = "outcome_unknown"
    HISTORY_TOO_LONG = "history_too_long"
    HANDED_OVER = "handed_over"
    STORAGE_FULL = "storage_full"
    # of the client alone
    CERTIFICATE_REFUSED = "certificate_refused"  # that of the server
    TIMED_OUT = "timed_out"
    CHECK_FAILED = "check_failed"
    TRANSFER_FAILED = "transfer_failed"
    CORRUPT = "corrupt"
    INTERNAL = "internal"
    # NotFound
    REPOSITORY_NOT_FOUND = "repository_not_found"
    BRANCH_NOT_FOUND = "branch_not_found"
    TAG_NOT_FOUND = "tag_not_found"
    COMMIT_NOT_FOUND = "commit_not_found"
    ANCESTOR_NOT_FOUND = "ancestor_not_found"
    REF_NOT_FOUND = "ref_not_found"
    REF_AMBIGUOUS = "ref_ambiguous"
    PATH_NOT_FOUND = "path_not_found"
    JOB_NOT_FOUND = "job_not_found"
    RULE_NOT_FOUND = "rule_not_found"
    RUN_NOT_FOUND = "run_not_found"
    UPLOAD_NOT_FOUND = "upload_not_found"
    PULL_NOT_FOUND = "pull_not_found"
    COMMENT_NOT_FOUND = "comment_not_found"
    USER_NOT_FOUND = "user_not_found"
    GROUP_NOT_FOUND = "group_not_found"
    POLICY_NOT_FOUND = "policy_not_found"
    KEY_NOT_FOUND = "key_not_found"
    PRINCIPAL_NOT_FOUND = "principal_not_found"
    # AlreadyExists, PreconditionFailed
    REPOSITORY_EXISTS = "repository_exists"
    BRANCH_EXISTS = "branch_exists"
    TAG_EXISTS = "tag_exists"
    NAME_TAKEN = "name_taken"
    ADMINISTRATOR_EXISTS = "administrator_exists"
    PATH_EXISTS = "path_exists"
    ENTITY_EXISTS = "entity_exists"
    # Invalid, Conflict
    REPOSITORY_NAME_INVALID = "repository_name_invalid"
    BRANCH_NAME_INVALID = "branch_name_invalid"
    TAG_NAME_INVALID = "tag_name_invalid"
    NAMESPACE_IN_USE = "namespace_in_use"
    NAMESPACE_CLAIMED = "namespace_claimed"
    NAMESPACE_OF_DELETED = "namespace_of_deleted"
    BUCKET_NOT_ALLOWED = "bucket_not_allowed"
    ADDRESS_NOT_SIGNED = "address_not_signed"
    ADDRESS_INVALID = "address_invalid"
    MERGE_INTO_ITSELF = "merge_into_itself"
    PULL_ID_INVALID = "pull_id_invalid"
    PULL_STATE_INVALID = "pull_state_invalid"
    PULL_SAME_BRANCH = "pull_same_branch"
    STRATEGY_INVALID = "strategy_invalid"
    PARENT_NUMBER_MISSING = "parent_number_missing"
    NO_PARENT = "no_parent"
    PATH_TOO_LONG = "path_too_long"
    PART_INVALID = "part_invalid"
    PARTS_NOT_ASCENDING = "parts_not_ascending"
    PART_TOO_SMALL = "part_too_small"
    OBJECT_TOO_LARGE = "object_too_large"
    FILTERS_CONFLICT = "filters_conflict"
    NOT_BARE = "not_bare"
    # Refused
    READ_ONLY_REPOSITORY = "read_only_repository"
    DEFAULT_BRANCH = "default_branch"
    PROTECTED_WRITE = "protected_write"
    PROTECTED_COMMIT = "protected_commit"
    PROTECTED_HEAD = "protected_head"
    PROTECTED_DELETION = "protected_deletion"
    # HookFailed
    HOOK_FAILED = "hook_failed"


class GravelerError(Exception):
    """Base class of all kinds; never raised directly.

    `code`: empty means the default of the kind.  `fields`: the names of what failed, for texts
    that are built from the code.
    """

    code: Code = Code.INTERNAL
    fields: Mapping[str, str] = {}

    def __init__(self, message: str = "", code: Code | Literal[""] = "", **fields: str) -> None:
        super().__init__(message)
        if code:
            self.code = code
        if fields:
            self.fields = fields


class NotFound(GravelerError):
    """The repository, ref, commit, path or object does not exist."""

    code = Code.NOT_FOUND


class Gone(NotFound):
    """The record exists, but the bytes that it refers to do not."""

    code = Code.GONE


class Conflict(GravelerError):
    """The state does not allow the call.  The caller may read again and retry."""

    code = Code.CONFLICT


class AlreadyExists(Conflict):
    """The name is taken."""

    code = Code.ALREADY_EXISTS


class PreconditionFailed(Conflict):
    """A condition that the caller set (absent, matches) does not hold."""

    code = Code.PRECONDITION_FAILED


class MergeConflict(Conflict):
    """Both sides changed the same path; nothing was written.  `paths`: the first such paths."""

    code = Code.MERGE_CONFLICT

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class Contended(Conflict):
    """Every attempt of a compare-and-swap loop lost to another writer; this call wrote nothing."""

    code = Code.CONTENDED


class Invalid(GravelerError):
    """An argument breaks a rule; the message names the field and the rule."""

    code = Code.INVALID


class UsageMistake(Invalid):
    """What a user wrote cannot be meant, though it could be parsed; nothing was sent."""


class NoChanges(Invalid):
    """There is nothing to commit or merge."""

    code = Code.NO_CHANGES


class DirtyBranch(Invalid):
    """The branch has uncommitted changes that the call would discard."""

    code = Code.DIRTY_BRANCH


class RangeUnsatisfiable(Invalid):
    """The byte range lies outside the object.  `size` is the object's size in bytes."""

    code = Code.RANGE_UNSATISFIABLE

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class Unsupported(Invalid):
    """This driver or deployment never supports the operation."""

    code = Code.UNSUPPORTED


class Refused(GravelerError):
    """A rule of the repository forbids the call: a protected branch, a read-only repository, a
    default branch that must stay."""

    code = Code.REFUSED


class HookFailed(GravelerError):
    """An action of the repository vetoed the change, or could not be run; nothing changed."""

    code = Code.HOOK_FAILED


class Unauthenticated(GravelerError):
    """The credentials are missing, wrong or expired."""

    code = Code.UNAUTHENTICATED


class Throttled(GravelerError):
    """Too many recent failures, or calls at once; the call was not examined.  `seconds`: how long
    to wait."""

    code = Code.THROTTLED

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class Unavailable(GravelerError):
    """The service behind a port did not answer; nothing was applied."""

    code = Code.UNAVAILABLE


class OutcomeUnknown(Unavailable):
    """A write was sent, and no answer shows whether it was applied.  The text always contains the
    words of `OUTCOME_UNKNOWN`."""

    code = Code.OUTCOME_UNKNOWN

    def __init__(self, message: str = "", code: Code | Literal[""] = "", **fields: str) -> None:
        stated = OUTCOME_UNKNOWN in message
        super().__init__(message if stated else f"{message}; {OUTCOME_UNKNOWN}", code, **fields)


class HistoryTooLong(OutcomeUnknown):
    """The search for a commit that may have landed gave up: too many newer commits exist."""

    code = Code.HISTORY_TOO_LONG


class HandedOver(Unavailable):
    """The work is too large for one process; nothing was applied.  `job`: the id of the bulk job
    that waits for a cluster."""

    code = Code.HANDED_OVER

    def __init__(self, message: str, job: str = "") -> None:
        super().__init__(message)
        self.job = job


class StorageFull(Unavailable):
    """The device is full; nothing was applied."""

    code = Code.STORAGE_FULL


class Corrupt(GravelerError):
    """Stored bytes fail their checksum, hash or format check."""

    code = Code.CORRUPT


class Internal(GravelerError):
    """An invariant of Graveler does not hold."""

    code = Code.INTERNAL


_CAUSES_MAX: Final = 8
_SERVICE_FAILED: Final = (
    "a service that this one needs has failed; try again, or tell the operator, who finds the "
    "cause in the log under the id of this request"
)


def explained(error: BaseException) -> str:
    """The text of an error and of its causes, for the log: what the operator needs."""
    return ": ".join(dict.fromkeys(map(_named, _chain(error))))


def public_text(error: BaseException) -> str:
    """The text of an error for callers.

    The cause of an `Unavailable` from a driver is an exception of the service behind it.  Its text
    may name buckets, tables and roles, so callers get a general one.
    """
    if not isinstance(error, Unavailable) or isinstance(error, StorageFull | HandedOver):
        return str(error)
    if all(isinstance(cause, GravelerError) for cause in _chain(error)):
        return str(error)
    is_open = isinstance(error, OutcomeUnknown)
    return f"{_SERVICE_FAILED}; {OUTCOME_UNKNOWN}" if is_open else _SERVICE_FAILED


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, the last one first."""
    cause: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _named(error: BaseException) -> str:
    text = str(error)
    return text if isinstance(error, GravelerError) and text else f"{type(error).__name__}: {text}"
