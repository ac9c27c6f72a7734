"""Logins of callers that prove an identity of another system.  For api/."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from graveler.auth import principals
from graveler.auth.authenticator import Authenticator, Proof
from graveler.auth.principals import Assignment
from graveler.auth.tokens import IssuedToken
from graveler.errors import Refused, Throttled, Unauthenticated
from graveler.records import ABSENT

_LOG: Final = logging.getLogger("graveler.auth")


def login(
    auth: Authenticator,
    proof: Proof,
    prove: Callable[[int], Assignment],
    seconds: int,
    address: str,
) -> IssuedToken:
    """Begin a session of `seconds` for a caller with an external principal.

    `prove` gets the time in seconds since 1970 and returns the principal of the caller with its
    user; it raises `Unauthenticated` if the caller proves nothing, which counts as a failed attempt
    of `address`, as the login of a user that is disabled does.  Raises what it raises, and
    `Throttled`, also if `limits.external_logins_max` others wait for a `proof` of this kind:
    whoever is slow to answer holds no more threads, and holds up no logins of another kind.  The
    requests of `prove` and of `Sessions.begin`.
    """
    auth.attempts.check(ABSENT, address)
    if not auth.proving[proof].acquire(blocking=False):
        raise Throttled("too many logins at the same time; wait and try again")
    try:
        assignment = prove(auth.sessions.now())
        if assignment.user.disabled:
            _LOG.warning("user is disabled, so its login is refused: %r", assignment.user.id)
            raise Unauthenticated("error authenticating request")
    except Unauthenticated:
        auth.attempts.failed(ABSENT, address)
        raise
    finally:
        auth.proving[proof].release()
    return auth.sessions.begin(assignment.user.id, assignment.principal.epoch, seconds)


def known(auth: Authenticator, ids: Sequence[str]) -> Assignment:
    """The user for whom one of these principals stands, the best first.  Raises `Refused`.  2
    requests."""
    assignment = principals.find(auth.keeper.kv, ids)
    if assignment is ABSENT:
        raise Refused(f"no user for this external principal: {ids[0][:600]}")
    return assignment
