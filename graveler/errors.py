"""The kinds of failure that a caller can act upon.

A kind says what the caller should do; the text is for people.  A kind gets a subclass only where
some caller acts
differently.  Drivers translate the errors of their service at once and keep the cause.  Everybody
may import this.

    NotFound     nothing is there by that name               use another name
    Conflict     somebody else was first, or two sides clash  read again, decide, retry
    Invalid      the call itself is wrong                     mend the call
    Refused      well formed, but not permitted here          ask an administrator
    Throttled    too many failures                            wait as long as it says
    Unavailable  not now                                      retry later
    Corrupt      stored bytes are not what was written        stop, tell a person
    Internal     our own bug                                  report it
"""


class GravelerError(Exception):
    """Base of all kinds; never raised itself."""


class NotFound(GravelerError):
    """No such repository, ref, commit, path or object."""


class Gone(NotFound):
    """The record is there, the bytes behind it are not."""


class Conflict(GravelerError):
    """The state is not what the call needs; reading again may change the answer."""


class AlreadyExists(Conflict):
    """The name is taken."""


class PreconditionFailed(Conflict):
    """A condition that the caller named (absent, matches) does not hold."""


class MergeConflict(Conflict):
    """Both sides changed some path; nothing was written.  `paths` holds the first of them."""

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class Contended(Conflict):
    """All rounds of a compare-and-swap loop were lost; nothing was written by this call."""


class Invalid(GravelerError):
    """An argument breaks a rule; the message names the field and the rule."""


class NoChanges(Invalid):
    """There is nothing to commit or merge."""


class DirtyBranch(Invalid):
    """The branch has uncommitted changes that the call would drop."""


class RangeUnsatisfiable(Invalid):
    """The byte range lies outside the object.  `size` is the object's size in bytes."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class Unsupported(Invalid):
    """This driver or deployment cannot do it at all."""


class Refused(GravelerError):
    """A protected branch, a read-only repository, a default branch that must stay."""


class Unauthenticated(GravelerError):
    """No credentials, wrong ones, or expired ones."""


class Throttled(GravelerError):
    """Too many failures of late; the call was not looked at.  `seconds`: how long to wait."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class Unavailable(GravelerError):
    """The service behind a port did not answer; nothing was applied."""


class OutcomeUnknown(Unavailable):
    """A write was sent and no answer tells whether it was applied."""


class HistoryTooLong(OutcomeUnknown):
    """More commits were made since than are looked through for what may have landed."""


class HandedOver(Unavailable):
    """Too much for one process; nothing was applied.  `job` waits for a cluster to do it."""

    def __init__(self, message: str, job: str = "") -> None:
        super().__init__(message)
        self.job = job


class StorageFull(Unavailable):
    """No room is left on the device; nothing was applied."""


class Corrupt(GravelerError):
    """Bytes fail their checksum, their hash or their format."""


class Internal(GravelerError):
    """An invariant of this program does not hold."""
