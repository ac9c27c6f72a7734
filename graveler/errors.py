"""The kinds of failure that a caller can act upon.

The type of an error says what the caller should do; the text is for people.  A kind has a subclass
only where some caller acts differently.  Drivers translate the errors of their service immediately
and keep the cause.  Every module may import this.

    NotFound     nothing has that name                             use another name
    Conflict     another client was first, or two sides conflict   read again, decide, retry
    Invalid      the call is wrong                                 fix the call
    Refused      well formed, but not permitted                    ask an administrator
    Throttled    too many failures                                 wait for `seconds`
    Unavailable  temporarily not possible                          retry later
    Corrupt      stored bytes differ from what was written         stop, alert an operator
    Internal     a bug in Graveler                                 report it
"""


class GravelerError(Exception):
    """Base class of all kinds; never raised directly."""


class NotFound(GravelerError):
    """The repository, ref, commit, path or object does not exist."""


class Gone(NotFound):
    """The record exists, but the bytes that it refers to do not."""


class Conflict(GravelerError):
    """The state does not allow the call.  The caller may read again and retry."""


class AlreadyExists(Conflict):
    """The name is taken."""


class PreconditionFailed(Conflict):
    """A condition that the caller set (absent, matches) does not hold."""


class MergeConflict(Conflict):
    """Both sides changed the same path; nothing was written.  `paths`: the first such paths."""

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class Contended(Conflict):
    """Every attempt of a compare-and-swap loop lost to another writer; this call wrote nothing."""


class Invalid(GravelerError):
    """An argument breaks a rule; the message names the field and the rule."""


class NoChanges(Invalid):
    """There is nothing to commit or merge."""


class DirtyBranch(Invalid):
    """The branch has uncommitted changes that the call would discard."""


class RangeUnsatisfiable(Invalid):
    """The byte range lies outside the object.  `size` is the object's size in bytes."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class Unsupported(Invalid):
    """This driver or deployment never supports the operation."""


class Refused(GravelerError):
    """A rule of the repository forbids the call: a protected branch, a read-only repository, a
    default branch that must stay."""


class Unauthenticated(GravelerError):
    """The credentials are missing, wrong or expired."""


class Throttled(GravelerError):
    """Too many recent failures; the call was not examined.  `seconds`: how long to wait."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class Unavailable(GravelerError):
    """The service behind a port did not answer; nothing was applied."""


class OutcomeUnknown(Unavailable):
    """A write was sent, and no answer shows whether it was applied."""


class HistoryTooLong(OutcomeUnknown):
    """The search for a commit that may have landed gave up: too many newer commits exist."""


class HandedOver(Unavailable):
    """The work is too large for one process; nothing was applied.  `job`: the id of the bulk job
    that waits for a cluster."""

    def __init__(self, message: str, job: str = "") -> None:
        super().__init__(message)
        self.job = job


class StorageFull(Unavailable):
    """The device is full; nothing was applied."""


class Corrupt(GravelerError):
    """Stored bytes fail their checksum, hash or format check."""


class Internal(GravelerError):
    """An invariant of Graveler does not hold."""
