"""The check of every request: Basic credentials, a bearer token, or the session cookie.

Always holds: nothing but a credential or session of the present administrator is accepted; a wrong
secret and an unknown key cost the same; after a success the next request with the same header
costs one hash and one look-up, and is not held up by the failures of others (attempts.py).  What
was accepted is forgotten as soon as the account changes.
Thread-safe: threads only ever replace whole values.  For api/.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from graveler.auth import accounts, revocations, secrets, tokens
from graveler.auth.accounts import Account, Keeper, NewCredential
from graveler.auth.attempts import DEFAULT_RATES, Attempts, Rates
from graveler.auth.tokens import Issued
from graveler.errors import AlreadyExists, Refused, Unauthenticated
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Absent

PURPOSE = "sessions"  # of the key that signs tokens
_REFRESH_SECONDS = 2.0
_ACCEPTED_COUNT_MAX = 1_024
_HEADER_LENGTH_MAX = 4_096
_SETUP_TOKEN_LENGTH = 32
_FOREVER = float("inf")  # credentials: good until the account changes


@dataclass(slots=True)
class _Known:
    """The account as last read, and the headers accepted under it with their expiry in seconds."""

    account: Account | Literal[Absent.ABSENT]
    read_at: float
    accepted: dict[bytes, float] = field(default_factory=dict)


class Authenticator:
    """Identifies callers; sets up the administrator."""

    def __init__(
        self,
        keeper: Keeper,
        secret: bytes,
        first: NewCredential | Literal[Absent.ABSENT] = ABSENT,
        rates: Rates = DEFAULT_RATES,
        setup_token: str = "",
        before: bytes = b"",
    ) -> None:
        """`first`: what the deployment made for the administrator, who so exists from the start.
        `setup_token`: what whoever sets up the administrator must show; empty: a fresh one.
        `before`: the secret before it was rotated: what was made under it is accepted."""
        self.setup_token = setup_token or keeper.ids.unique(_SETUP_TOKEN_LENGTH)
        self._attempts = Attempts(keeper.clock, rates)
        self._keeper = keeper
        self._first = first
        self._session_key = secrets.derive(secret, PURPOSE)
        self._session_keys = [secrets.derive(each, PURPOSE) for each in (secret, before) if each]
        earlier = [secrets.derive(before, accounts.PURPOSE)] if before else []
        self._check_keys = [keeper.key, *earlier]
        self._known = _Known(ABSENT, float("-inf"))

    def account(self) -> Account | Literal[Absent.ABSENT]:
        """The administrator, at most two seconds old."""
        return self._current().account

    def identify(
        self, authorization: bytes, cookie: str, address: Callable[[], str] = str
    ) -> Account:
        """Whose request this is.  A header, if there is one, decides alone.  `address`: the
        sender's, asked for only where a secret was given.  Raises `Unauthenticated`,
        `Throttled`."""
        known = self._current()
        if known.account is ABSENT or len(authorization) > _HEADER_LENGTH_MAX:
            raise Unauthenticated("error authenticating request")
        credential = authorization or cookie.encode("latin-1", "replace")
        digest = hashlib.sha256(b"h" if authorization else b"c")
        digest.update(credential)
        seen = digest.digest()
        expires = known.accepted.get(seen, 0.0)
        if expires and self._keeper.clock.now_ns() < expires * SECOND_NS:
            if expires == _FOREVER:
                self._attempts.succeeded(address())
            return known.account
        expires = self._verify(known.account, authorization, cookie, address)
        if len(known.accepted) >= _ACCEPTED_COUNT_MAX:
            known.accepted = {}
        known.accepted[seen] = expires
        return known.account

    def login(self, access_key_id: str, secret_access_key: str, address: str = "") -> Issued:
        """A session for whoever knows the credential.  Raises `Unauthenticated`, `Throttled`."""
        account = self._current().account
        if account is ABSENT:
            raise Unauthenticated("error authenticating request")
        self._compare(account, access_key_id, secret_access_key, address)
        now = self._keeper.clock.now_ns() // SECOND_NS
        token_id = self._keeper.ids.stamp().hex()
        return tokens.issue(self._session_key, account.user, account.epoch, now, token_id)

    def log_out(self, token: str) -> None:
        """End the session of a token: here at once, in other processes within two seconds.  What
        is no session of ours has none to end.  3 requests."""
        now = self._keeper.clock.now_ns() // SECOND_NS
        try:
            session = self._session(token, now)
        except Unauthenticated:
            return
        revocations.put(self._keeper.kv, self._keeper.ids, session, now)
        self._known.accepted = {}

    def set_up(
        self,
        user: str,
        email: str,
        credential: NewCredential | Literal[Absent.ABSENT],
        token: str,
        address: str = "",
    ) -> tuple[Account, NewCredential]:
        """Create the administrator, with a fresh credential if none is given, for whoever shows
        the set-up token.  Raises `AlreadyExists`, `Refused`, `Throttled`, `Invalid`."""
        if self._found() is not ABSENT:
            raise AlreadyExists("already initialized")
        if not secrets.same(self.setup_token, token):
            # After the comparison: guesses by others must not keep out whoever has the token.
            self._attempts.check(ABSENT, address)
            self._attempts.failed(ABSENT, address)
            raise Refused(
                "set-up token missing or wrong: send the one that the service printed at its "
                "start in the header X-Graveler-Setup-Token"
            )
        given = accounts.fresh_credential(self._keeper.ids) if credential is ABSENT else credential
        account = accounts.create(self._keeper, user, email, given)
        self._known = _Known(account, self._keeper.clock.steady_seconds())
        return account, given

    def _current(self) -> _Known:
        known, now = self._known, self._keeper.clock.steady_seconds()
        if now - known.read_at < _REFRESH_SECONDS:
            return known
        account = self._found()
        if account == known.account:
            known.read_at = now
            return known
        self._known = _Known(account, now)
        return self._known

    def _found(self) -> Account | Literal[Absent.ABSENT]:
        found = accounts.find(self._keeper.kv)
        if found is not ABSENT or self._first is ABSENT:
            return found
        try:
            return accounts.create(self._keeper, accounts.USER_DEFAULT, "", self._first)
        except AlreadyExists:
            return accounts.find(self._keeper.kv)  # another process was first

    def _verify(
        self, account: Account, authorization: bytes, cookie: str, address: Callable[[], str]
    ) -> float:
        """Until when, in seconds, the credential is good."""
        if not authorization:
            return self._read_token(account, cookie)
        scheme, _, rest = authorization.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            return self._read_token(account, rest.strip())
        if scheme.lower() == "basic":
            self._compare(account, *_basic(rest.strip()), address())
            return _FOREVER
        raise Unauthenticated("error authenticating request")

    def _compare(self, account: Account, access_key_id: str, secret: str, address: str) -> None:
        self._attempts.check(access_key_id, address)
        if not self._matches(account, access_key_id, secret):
            self._attempts.failed(access_key_id, address)
            raise Unauthenticated("error authenticating request")
        self._attempts.succeeded(address)

    def _matches(self, account: Account, access_key_id: str, secret: str) -> bool:
        given = [secrets.check_value(key, secret) for key in self._check_keys]
        key_is_right = secrets.same(account.access_key_id, access_key_id)
        secret_is_right = [secrets.same(account.check, each) for each in given]
        return any(secret_is_right) and key_is_right

    def _read_token(self, account: Account, token: str) -> float:
        if not token:
            raise Unauthenticated("error authenticating request")
        now = self._keeper.clock.now_ns() // SECOND_NS
        session = self._session(token, now)
        if session.user != account.user or not secrets.same(session.epoch, account.epoch):
            raise Unauthenticated("session ended")
        if revocations.has(self._keeper.kv, session):
            raise Unauthenticated("session ended")
        # Asked again as often as the account: another process may end the session.
        return min(float(session.expires), now + _REFRESH_SECONDS)

    def _session(self, token: str, now: int) -> tokens.Session:
        """What a token says, under whichever key it was signed."""
        for key in self._session_keys[:-1]:
            with suppress(Unauthenticated):
                return tokens.read(key, token, now)
        return tokens.read(self._session_keys[-1], token, now)


def _basic(text: str) -> tuple[str, str]:
    try:
        key, colon, secret = base64.b64decode(text, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError) as error:
        raise Unauthenticated("error authenticating request") from error
    if not colon:
        raise Unauthenticated("error authenticating request")
    return key, secret
