"""Callers that prove a secret or an identity without sending it: signed requests, and logins of
other systems.

    key id ──► row ──► secret ──► does the proof match? ──► user ──► rights

- A key is accepted while its user's record lists it, after at most `limits.access_seconds_max`.
- An unknown key costs the same requests and work as a wrong proof: it is compared with a decoy's.
- Wrong proofs and unknown keys count as failures of their address, not of their key: an id of a key
  is in every presigned URL, so whoever has seen one could lock its owner out.
- An address that has proved a key is not blocked for that key by the failures of others behind it.
- A key whose secret is stored only as a hash proves nothing here, until its secret is used once.

A secret stays in memory with the address that proved it.  Thread-safe.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from graveler.auth import credentials, principals
from graveler.auth.access import Caller
from graveler.auth.authenticator import Acceptance, Authenticator, Proof, caller_with
from graveler.auth.credentials import Credential, NewCredential
from graveler.auth.entities import Keeper
from graveler.auth.principals import Assignment
from graveler.auth.sessions import IssuedToken
from graveler.core.errors import Code, NotFound, Refused, Throttled, Unauthenticated
from graveler.core.records import ABSENT, Absent

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


# ---- proofs --------------------------------------------------------------------------------------

_HOLDERS_MAX: Final = 4_096
_DECOY: Final = NewCredential("decoy", "d" * credentials.SECRET_LENGTH_MIN)

Matches = Callable[[str, str], bool]
"""Whether a proof is that of a secret.  The second argument is the epoch of a key that this process
has accepted before from the same address; otherwise it is empty, and the work must not depend on
what was computed before."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who proved a key, by the uid of the user."""

    accepted: Acceptance
    uid: str
    secret: str = field(repr=False)


class Proofs:
    """Identifies callers by what they prove."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], _Holder] = {}  # by key id and address
        self._decoy = Credential("", "", "", "", 0)

    def identify(
        self,
        auth: Authenticator,
        key_id: str,
        matches: Matches,
        address: Callable[[], str] = str,
    ) -> Caller:
        """The caller that proved to hold a key.

        Raises `Unauthenticated`, with the code `KEY_NOT_FOUND` for a key that is unknown or has
        ended; `Refused` for a key whose secret is stored only as a hash; `Throttled`.  No KV
        request if the address proved the key before and the view of its user is fresh; otherwise
        one for the row, and those of the keyring and of the view.
        """
        client = address()
        place = (key_id, client)
        known = self._holders.get(place)
        if known is not None and matches(known.secret, known.accepted.epoch):
            try:
                caller = _caller(auth, known, address)
            except Unauthenticated:
                pass  # it has ended: an unknown key from now on
            else:
                auth.attempts.succeeded(client)
                return caller
        auth.attempts.check(ABSENT, client)
        try:
            holder = self._proved(auth, key_id, matches)
            caller = _caller(auth, holder, address)
        except (Unauthenticated, Refused):
            auth.attempts.failed(ABSENT, client)
            raise
        auth.attempts.succeeded(client)
        if len(self._holders) >= _HOLDERS_MAX:
            self._holders = {}
        self._holders[place] = holder
        return caller

    def _proved(self, auth: Authenticator, key_id: str, matches: Matches) -> _Holder:
        """Who holds a key, if the proof is right."""
        stored = credentials.find(auth.keeper.kv, key_id)
        account = auth.account()  # which may settle this very key
        if stored is ABSENT and account is not ABSENT and account.access_key_id == key_id:
            stored = credentials.find(auth.keeper.kv, key_id)
        if stored is not ABSENT and not stored.sealed:
            raise _hash_only()
        secret = self._secret(auth.keeper, key_id, stored)
        is_right = matches(secret, "")
        if stored is ABSENT:
            raise _unknown()
        if not is_right:
            raise Unauthenticated("error authenticating request")
        return _Holder(Acceptance(stored.user, stored.epoch), stored.uid, secret)

    def _secret(
        self, keeper: Keeper, key_id: str, stored: Credential | Literal[Absent.ABSENT]
    ) -> str:
        """The secret of a key; that of the decoy for an unknown one."""
        if not keeper.seals.is_usable:
            raise _hash_only()
        if stored is not ABSENT:
            try:
                return credentials.unseal(keeper, key_id, stored).secret_access_key
            except NotFound as error:
                raise _hash_only() from error
        with suppress(NotFound):
            return credentials.unseal(keeper, _DECOY.access_key_id, self._decoy).secret_access_key
        sealed = credentials.seal(keeper, "", _DECOY)
        self._decoy = Credential("", "", "", "", 0, sealed)
        return credentials.unseal(keeper, _DECOY.access_key_id, self._decoy).secret_access_key


def _caller(auth: Authenticator, holder: _Holder, address: Callable[[], str]) -> Caller:
    try:
        return caller_with(auth, holder.accepted, holder.uid, address)
    except Unauthenticated as error:
        raise _unknown() from error


def _unknown() -> Unauthenticated:
    return Unauthenticated("access key not found", Code.KEY_NOT_FOUND)


def _hash_only() -> Refused:
    return Refused(
        "The secret of this access key is stored only as a hash, so it verifies no signature. Log "
        "in with the key once, for example with GET /api/v1/user; then it can sign requests."
    )
