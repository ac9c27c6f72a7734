"""Requests that prove their right to one bulk job by its token (engine/bulk/tokens.py).

A token is tried only by the three operations below, and only against the job that the path names.
Everywhere else it is an invalid session.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from graveler.api.input import unquoted_segment
from graveler.auth.access import Caller
from graveler.core.errors import Invalid, NotFound, Unauthenticated
from graveler.core.records import ABSENT
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import tokens
from graveler.engine.repositories import repository
from graveler.http.service import Service

OPERATIONS: Final = frozenset(("beatBulkJob", "finishBulkJob", "cancelBulkJob"))
_SCHEME: Final = "bearer"


def token_of(operation: str, authorization: bytes) -> str:
    """The token of a bulk job in a header of this operation; empty: it has none."""
    if operation not in OPERATIONS:
        return ""
    scheme, _, rest = authorization.decode("latin-1").partition(" ")
    token = rest.strip()
    return token if scheme.lower() == _SCHEME and token.startswith(tokens.PREFIX) else ""


def identify(
    service: Service, token: str, place: Mapping[str, str], address: Callable[[], str]
) -> Caller:
    """The caller for whom the token acts.  `place`: the parameters of the path, still quoted.

    Raises `Unauthenticated` with one text, whatever is wrong; `Throttled` after many such requests
    of an address; `WouldWait` on the event loop.  Cost: 2 KV requests, and those of the user's
    view.
    """
    attempts = service.auth.attempts
    attempts.check_token(address())
    with suppress(NotFound, Invalid, Unauthenticated):  # of the place, of the user
        names = {name: unquoted_segment(value, name) for name, value in place.items()}
        repo = service.opened(repository.get(service.ports, names["repository"]))
        stored = bulk.seen(repo, names["branch"], names["id"])
        holder = tokens.holder_of(stored.order, token)
        if holder is not ABSENT and service.ports.clock.now_ns() < stored.bulk.expires_ns:
            return service.auth.standing_for(*holder, address)
    attempts.forged(address())
    raise Unauthenticated("error authenticating request")
