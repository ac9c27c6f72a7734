"""Logins of callers that prove an identity of another system.  For api/."""

from collections.abc import Callable, Sequence

from graveler.auth import principals
from graveler.auth.authenticator import Authenticator
from graveler.auth.tokens import IssuedToken
from graveler.errors import Refused, Unauthenticated
from graveler.records import ABSENT


def login(
    auth: Authenticator, identify: Callable[[int], Sequence[str]], seconds: int, address: str
) -> IssuedToken:
    """Begin a session of `seconds` for a caller with an external principal.

    `identify` gets the time in seconds since 1970 and returns the ids of principals that may stand
    for the caller, the best first; it raises `Unauthenticated` if the caller proves nothing, which
    counts as a failed attempt of `address`.  Raises what it raises, `Throttled`, `Refused` if no
    principal stands for a user.  The requests of `identify` and of `Sessions.begin`, and 2.
    """
    auth.attempts.check(ABSENT, address)
    try:
        ids = identify(auth.sessions.now())
    except Unauthenticated:
        auth.attempts.failed(ABSENT, address)
        raise
    assignment = principals.find(auth.keeper.kv, ids)
    if assignment is ABSENT:
        raise Refused(f"no user for this external principal: {ids[0][:600]}")
    return auth.sessions.begin(assignment.user.id, assignment.principal.epoch, seconds)
