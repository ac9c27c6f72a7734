"""Identifies the caller of every request and decides what it may do.

    header or cookie ──► key or session ──► user ──► rights ──► allowed, 403 or 404

- A key is accepted while its user's record lists it, and a session while it lists the key or the
  external principal that the session was made with.
- A wrong secret and an unknown key take the same time.
- After a success, the next request with the same header costs one hash and two look-ups in memory,
  and failures of other senders do not block it.  Thread-safe.
"""

import base64
import binascii
import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from graveler.auth import accounts, credentials, secrets
from graveler.auth.access import Access, Caller, View, denial
from graveler.auth.accounts import Account
from graveler.auth.credentials import Credential, NewCredential
from graveler.auth.entities import Keeper, User
from graveler.auth.permissions import Permission
from graveler.auth.policies import Rights
from graveler.auth.principals import Assignment, Change
from graveler.auth.sessions import IssuedToken, Sessions
from graveler.auth.throttling import DEFAULT_RATES, Attempts, Rates
from graveler.core import limits
from graveler.core.errors import AlreadyExists, Code, GravelerError, Refused, Unauthenticated
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent

if TYPE_CHECKING:
    from graveler.auth.oidc import Claims, CodeLogin, OidcIssuer
    from graveler.auth.sts import AwsLogin


class Identities(NamedTuple):
    """`aws`: logins of callers with an IAM identity.  `oidc`: whose bearer tokens are accepted.
    `codes`: logins with codes of the same provider."""

    aws: "AwsLogin | Literal[Absent.ABSENT]" = ABSENT
    oidc: "OidcIssuer | Literal[Absent.ABSENT]" = ABSENT
    codes: "CodeLogin | Literal[Absent.ABSENT]" = ABSENT


NO_IDENTITIES: Final = Identities()


# ---- authenticator -------------------------------------------------------------------------------

Proof: TypeAlias = Literal["iam", "code"]  # what a login with another identity shows
PROOFS: Final[tuple[Proof, ...]] = ("iam", "code")
_REFRESH_SECONDS = 2.0
_ACCEPTED_COUNT_MAX = 4_096
_SETUP_TOKEN_LENGTH = 32
_FOREVER = float("inf")  # a key is valid until the record of its user changes


@dataclass(slots=True)
class Acceptance:
    """A proof that was accepted: whose it is, by which key, and until when, in seconds.

    `view`: the view of the user that had the key; it stands for itself until there is another.
    """

    user: str
    epoch: str
    expires: float = _FOREVER
    view: View | Literal[Absent.ABSENT] = ABSENT


@dataclass(slots=True)
class _AccountView:
    """The administrator's record as last read."""

    account: Account | Literal[Absent.ABSENT]
    read_at: float


class Authenticator:
    """Identifies callers and checks their permissions; sets up the administrator."""

    def __init__(
        self,
        keeper: Keeper,
        first: NewCredential | Literal[Absent.ABSENT] = ABSENT,
        rates: Rates = DEFAULT_RATES,
        setup_token: str = "",
        identities: Identities = NO_IDENTITIES,
    ) -> None:
        """`first`: the administrator's credential that the deployment made; with it the
        administrator exists from the start.
        `setup_token`: the token that the set-up call must send; empty: a fresh one.
        `identities`: what proves an identity beside a key."""
        self.setup_token = setup_token or keeper.ids.unique(_SETUP_TOKEN_LENGTH)
        self.attempts = Attempts(keeper.clock, rates)
        self._first = first
        self.sessions = Sessions(keeper, self.attempts)
        self._known = _AccountView(ABSENT, float("-inf"))
        self._accepted: dict[bytes, Acceptance] = {}
        self.access = Access(keeper.kv, keeper.clock)
        self.keeper = keeper
        self.identities = identities
        self.proving: dict[Proof, threading.BoundedSemaphore] = {  # see proofs.py
            proof: threading.BoundedSemaphore(limits.external_logins_max) for proof in PROOFS
        }

    def account(self) -> Account | Literal[Absent.ABSENT]:
        """The administrator's record, from a cache of at most two seconds.  A record that is not
        settled is settled first (accounts.py)."""
        known, now = self._known, self.keeper.clock.steady_seconds()
        if now - known.read_at < _REFRESH_SECONDS:
            return known.account
        account = _account_of(self.keeper, self._first)
        if account is not ABSENT and not account.settled:
            account = accounts.settle(self.keeper, account)
            self.access.forget()
        self._known = _AccountView(account, now)
        return account

    def identify(
        self,
        authorization: bytes,
        cookie: str,
        address: Callable[[], str] = str,
        changes: list[Change] | None = None,
    ) -> Caller:
        """The caller that sent a request.

        If there is an `authorization` header, the cookie is ignored.  `address` returns the
        sender's address.  What the service changes on the way, or may have, is added to `changes`,
        also if it raises (principals.py).  Raises `Unauthenticated`, `Throttled`.  No KV request if
        the header was accepted before and the view of its user is fresh; otherwise those of the
        view (access.py), and for a new header at most 2.
        """
        if len(authorization) > limits.bearer_length_bytes_max:
            raise Unauthenticated("error authenticating request")
        credential = authorization or cookie.encode("latin-1", "replace")
        seen = hashlib.sha256((b"h" if authorization else b"c") + credential).digest()
        known = self._accepted.get(seen)
        is_proved_again = known is not None and known.expires == _FOREVER
        if known is None or (
            not is_proved_again and self.keeper.clock.now_ns() >= known.expires * SECOND_NS
        ):
            noted = [] if changes is None else changes
            known = self._verify(authorization, cookie, address, noted)
            if len(self._accepted) >= _ACCEPTED_COUNT_MAX:
                self._accepted = {}
            self._accepted[seen] = known
        user, rights = _holder(self, known)
        if is_proved_again:  # and has not ended, as its holder shows
            self.attempts.succeeded(address())
        return Caller(user, rights, address, known.epoch)

    def authorize(
        self, caller: Caller, permissions: Sequence[Permission], repository: str = ""
    ) -> None:
        """Check that a caller has all `permissions`.

        `repository`: the repository that the request names.  Raises `Refused`, which names the
        first permission that is missing; `NotFound` if the caller may not even see the repository.
        No KV request.
        """
        lacking = caller.lacks(permissions)
        if lacking:
            raise denial(caller, lacking[0], repository)

    def standing_for(self, user: str, uid: str, epoch: str, address: Callable[[], str]) -> Caller:
        """The caller for whom a token of a bulk job acts: the user with this uid, as long as the
        credential of this epoch is valid.  Raises `Unauthenticated`.  The requests of the view."""
        return caller_with(self, Acceptance(user, epoch), uid, address)

    def login(self, access_key_id: str, secret_access_key: str, address: str = "") -> IssuedToken:
        """Begin a session for a caller with the right credential.  Raises `Unauthenticated`,
        `Throttled`."""
        known = self._compare(access_key_id, secret_access_key, address)
        return self.sessions.begin(known.user, known.epoch)

    def log_out(self, token: str, address: str = "") -> str:
        """End the session of a token, in other processes within two seconds.  The result is whose
        it was; empty for an invalid token.  At most 5 KV requests.  Raises `Throttled`."""
        try:
            session = self.sessions.read(token, address)
        except Unauthenticated:
            return ""
        self.sessions.end(session)
        self._accepted = {}
        return session.user

    def set_up(
        self,
        user: str,
        email: str,
        credential: NewCredential | Literal[Absent.ABSENT],
        token: str,
        address: str = "",
    ) -> tuple[Account, NewCredential]:
        """Create the administrator if the setup token is right; with a fresh credential if none is
        given.  Raises `AlreadyExists`, `Refused`, `Throttled`, `Invalid`."""
        if _account_of(self.keeper, self._first) is not ABSENT:
            raise AlreadyExists("already initialized", Code.ADMINISTRATOR_EXISTS)
        if not secrets.same(self.setup_token, token):
            raise _wrong_setup_token(self.attempts, address)
        chosen = credentials.fresh(self.keeper.ids) if credential is ABSENT else credential
        account = accounts.create(self.keeper, user, email, chosen)
        self._known = _AccountView(account, self.keeper.clock.steady_seconds())
        self.access.forget()
        return account, chosen

    def _verify(
        self,
        authorization: bytes,
        cookie: str,
        address: Callable[[], str],
        changes: list[Change],
    ) -> Acceptance:
        """Whose header or cookie it is.  Raises `Unauthenticated`, `Throttled`."""
        if not authorization:
            return self._read_token(cookie, address())
        scheme, _, rest = authorization.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            token, oidc = rest.strip(), self.identities.oidc
            if oidc is not ABSENT and oidc.takes(token):
                return _of_provider(self, oidc, token, address(), changes)
            return self._read_token(token, address())
        if scheme.lower() == "basic":
            return self._compare(*_basic(rest.strip()), address())
        raise Unauthenticated("error authenticating request")

    def _newest_holder(self, accepted: Acceptance, uid: str = "") -> tuple[User, Rights]:
        """The user of the key.  Raises `Unauthenticated` if the key has ended, or is not of the
        user with this uid.  A view that does not know the key may be older than the key, so it is
        read again, at most once a second for a user."""
        try:
            user, rights = _holder(self, accepted)
        except Unauthenticated:
            self.access.renew(accepted.user)
            user, rights = _holder(self, accepted)
        if uid and user.uid != uid:
            raise Unauthenticated("error authenticating request")
        return user, rights

    def _compare(self, access_key_id: str, secret: str, address: str) -> Acceptance:
        self.attempts.check(access_key_id, address)
        stored = credentials.find(self.keeper.kv, access_key_id)
        if not _is_secret_of(self.keeper, stored, secret):
            # Whoever fails waits for the same requests, so time does not tell whether a key exists.
            account = self.account()  # which may settle this very key
            settled = account is not ABSENT and account.access_key_id == access_key_id
            if stored is ABSENT and settled:
                stored = credentials.find(self.keeper.kv, access_key_id)
        if stored is ABSENT or not _is_secret_of(self.keeper, stored, secret):
            self.attempts.failed(access_key_id, address)
            raise Unauthenticated("error authenticating request")
        accepted = Acceptance(stored.user, stored.epoch, _FOREVER)
        try:
            self._newest_holder(accepted, stored.uid)
        except Unauthenticated:
            self.attempts.failed(access_key_id, address)
            raise
        self.attempts.succeeded(address)
        if not credentials.is_current(self.keeper, stored, secret):
            with suppress(GravelerError):  # the next use of the key tries again
                credentials.renew(self.keeper, stored, NewCredential(access_key_id, secret))
        return accepted

    def _read_token(self, token: str, address: str) -> Acceptance:
        if not token:
            raise Unauthenticated("error authenticating request")
        session = self.sessions.read(token, address)
        if self.sessions.has_ended(session):
            raise Unauthenticated("session ended")
        # Checked again often, because another process may end the session.
        expires = min(float(session.expires), self.sessions.now() + _REFRESH_SECONDS)
        accepted = Acceptance(session.user, session.epoch, expires)
        self._newest_holder(accepted)
        return accepted


def _holder(auth: Authenticator, accepted: Acceptance) -> tuple[User, Rights]:
    """The user of an accepted header.  Raises `Unauthenticated` if its key, or its external
    principal, has ended."""
    view = auth.access.view(accepted.user)
    if view is accepted.view and view.user is not ABSENT:
        return view.user, view.rights
    view = _view(auth, accepted.user)
    if view.user is ABSENT or not view.user.admits(accepted.epoch):
        raise Unauthenticated("error authenticating request")
    accepted.view = view
    return view.user, view.rights


def _view(auth: Authenticator, user: str) -> View:
    view = auth.access.view(user)
    if view.user is not ABSENT:
        return view
    account = auth.account()  # which settles its record
    return auth.access.view(user) if account is not ABSENT and account.user == user else view


def _of_provider(
    auth: Authenticator, oidc: "OidcIssuer", token: str, address: str, changes: list[Change]
) -> Acceptance:
    """The user of a bearer token of the identity provider; forged tokens count by address."""
    try:
        verified = oidc.verified(token)
    except Unauthenticated:
        auth.attempts.check_token(address)
        auth.attempts.forged(address)
        raise
    claims = oidc.claims(verified, auth.sessions.now())
    assignment = user_of(auth, claims, changes)
    user, epoch = assignment.user.id, assignment.principal.epoch
    accepted = Acceptance(user, epoch, float(claims.expires))
    auth._newest_holder(accepted)  # a disabled user's token is read anew when it is enabled
    return accepted


def user_of(auth: Authenticator, claims: "Claims", changes: list[Change]) -> Assignment:
    """The user of a verified token, who is made at the first one.  Raises and costs what
    `oidc.user_of` does."""
    from graveler.auth import oidc  # few deployments need it

    assignment = oidc.user_of(auth.keeper, claims, changes)
    if changes:
        auth.access.forget()
    return assignment


def caller_with(
    auth: Authenticator, accepted: Acceptance, uid: str, address: Callable[[], str] = str
) -> Caller:
    """The caller that has proved that it holds a key of the user with this uid.  Raises
    `Unauthenticated` if the key has ended.  The requests of the view (access.py)."""
    return Caller(*auth._newest_holder(accepted, uid), address, accepted.epoch)


def _wrong_setup_token(attempts: Attempts, address: str) -> Refused:
    """Count the failure.  Raises `Throttled`."""
    # After the comparison, so that wrong guesses never block a caller with the right token.
    attempts.check(ABSENT, address)
    attempts.failed(ABSENT, address)
    return Refused(
        "setup token missing or wrong: send the token that the service printed at its start in "
        "the header X-Graveler-Setup-Token"
    )


def _account_of(
    keeper: Keeper, first: NewCredential | Literal[Absent.ABSENT]
) -> Account | Literal[Absent.ABSENT]:
    """The administrator's record; made from the deployment's credential if there is one and no
    record."""
    account = accounts.find(keeper.kv)
    if account is not ABSENT or first is ABSENT:
        return account
    try:
        return accounts.create(keeper, accounts.USER_DEFAULT, "", first)
    except AlreadyExists:
        return accounts.find(keeper.kv)  # another process was first


def _is_secret_of(keeper: Keeper, stored: Credential | Literal[Absent.ABSENT], secret: str) -> bool:
    """Whether a key is known and has this secret.  It takes the same time for an unknown key."""
    return credentials.checks(keeper, "" if stored is ABSENT else stored.check, secret)


def _basic(text: str) -> tuple[str, str]:
    try:
        key, colon, secret = base64.b64decode(text, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError) as error:
        raise Unauthenticated("error authenticating request") from error
    if not colon:
        raise Unauthenticated("error authenticating request")
    return key, secret
