"""Authenticates every request: Basic credentials, a bearer token, or the session cookie.

These always hold:

- Only a credential or session of the present administrator is accepted.
- A wrong secret and an unknown key take the same time.
- After a success, the next request with the same header costs one hash and one look-up, and
  failures of other senders do not block it (attempts.py).
- When the account changes, all accepted headers are forgotten.

Thread-safe: threads only replace whole values.  For api/.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from graveler.auth import accounts, revocations, secrets, tokens
from graveler.auth.accounts import Account, Keeper, NewCredential
from graveler.auth.attempts import DEFAULT_RATES, Attempts, Rates
from graveler.auth.permissions import Permission
from graveler.auth.tokens import IssuedToken
from graveler.errors import AlreadyExists, Code, Refused, Unauthenticated
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Absent

PURPOSE = "sessions"  # the purpose of the key that signs tokens
_REFRESH_SECONDS = 2.0
_ACCEPTED_COUNT_MAX = 1_024
_HEADER_LENGTH_MAX = 4_096
_SETUP_TOKEN_LENGTH = 32
_FOREVER = float("inf")  # credentials are valid until the account changes


@dataclass(slots=True)
class _AccountView:
    """The account as last read, and the accepted headers with their expiry in seconds."""

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
        """`first`: the administrator's credential that the deployment made; with it the
        administrator exists from the start.
        `setup_token`: the token that the set-up call must send; empty: a fresh one.
        `before`: the secret before its rotation; credentials and sessions made under it are
        accepted."""
        self.setup_token = setup_token or keeper.ids.unique(_SETUP_TOKEN_LENGTH)
        self._attempts = Attempts(keeper.clock, rates)
        self._keeper = keeper
        self._first = first
        self._session_key = secrets.derive(secret, PURPOSE)
        self._session_keys = [secrets.derive(each, PURPOSE) for each in (secret, before) if each]
        earlier = [secrets.derive(before, accounts.PURPOSE)] if before else []
        self._check_keys = [keeper.key, *earlier]
        self._known = _AccountView(ABSENT, float("-inf"))

    def account(self) -> Account | Literal[Absent.ABSENT]:
        """The administrator, from a cache of at most two seconds."""
        return self._current().account

    def identify(
        self, authorization: bytes, cookie: str, address: Callable[[], str] = str
    ) -> Account:
        """The account that sent a request.

        If there is an `authorization` header, the cookie is ignored.  `address` returns the
        sender's address; it is called only if the request contains a secret.  Raises
        `Unauthenticated`, `Throttled`.
        """
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

    def authorize(self, account: Account, permissions: Sequence[Permission]) -> None:
        """Check that an account has all `permissions`.  The administrator has every permission."""

    def login(self, access_key_id: str, secret_access_key: str, address: str = "") -> IssuedToken:
        """Begin a session for a caller with the right credential.  Raises `Unauthenticated`,
        `Throttled`."""
        account = self._current().account
        if account is ABSENT:
            raise Unauthenticated("error authenticating request")
        self._compare(account, access_key_id, secret_access_key, address)
        now = self._keeper.clock.now_ns() // SECOND_NS
        token_id = self._keeper.ids.stamp().hex()
        return tokens.issue(self._session_key, account.user, account.epoch, now, token_id)

    def log_out(self, token: str) -> None:
        """End the session of a token: in this process immediately, in others within two seconds.
        Does nothing for an invalid token.  At most 3 KV requests."""
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
        """Create the administrator if the set-up token is right; with a fresh credential if none is
        given.  Raises `AlreadyExists`, `Refused`, `Throttled`, `Invalid`."""
        if self._found() is not ABSENT:
            raise AlreadyExists("already initialized", Code.ADMINISTRATOR_EXISTS)
        if not secrets.same(self.setup_token, token):
            # After the comparison, so that wrong guesses never block a caller with the right token.
            self._attempts.check(ABSENT, address)
            self._attempts.failed(ABSENT, address)
            raise Refused(
                "set-up token missing or wrong: send the token that the service printed at its "
                "start in the header X-Graveler-Setup-Token"
            )
        chosen = accounts.fresh_credential(self._keeper.ids) if credential is ABSENT else credential
        account = accounts.create(self._keeper, user, email, chosen)
        self._known = _AccountView(account, self._keeper.clock.steady_seconds())
        return account, chosen

    def _current(self) -> _AccountView:
        known, now = self._known, self._keeper.clock.steady_seconds()
        if now - known.read_at < _REFRESH_SECONDS:
            return known
        account = self._found()
        if account == known.account:
            known.read_at = now
            return known
        self._known = _AccountView(account, now)
        return self._known

    def _found(self) -> Account | Literal[Absent.ABSENT]:
        account = accounts.find(self._keeper.kv)
        if account is not ABSENT or self._first is ABSENT:
            return account
        try:
            return accounts.create(self._keeper, accounts.USER_DEFAULT, "", self._first)
        except AlreadyExists:
            return accounts.find(self._keeper.kv)  # another process was first

    def _verify(
        self, account: Account, authorization: bytes, cookie: str, address: Callable[[], str]
    ) -> float:
        """The time, in seconds since 1970, until which the credential is valid."""
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
        checks = [secrets.check_value(key, secret) for key in self._check_keys]
        key_is_right = secrets.same(account.access_key_id, access_key_id)
        secret_is_right = [secrets.same(account.check, each) for each in checks]
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
        # Checked again as often as the account, because another process may end the session.
        return min(float(session.expires), now + _REFRESH_SECONDS)

    def _session(self, token: str, now: int) -> tokens.Session:
        """The session in a token, signed under the present or the previous key."""
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
