"""Login sessions as signed tokens: JWT with HS256 only, issuer `auth`, audience `login`, 12 hours.

    header     alg HS256, kid: the key of the keyring `sessions` that signed it
    claims     iss, aud, sub: the user, epoch: of its access key, jti, iat, nbf, exp
    ended/sessions / <id of the token> -> Pairs: expires (seconds): ended by a logout

The row of an ended session is needed until its token would have expired.  DynamoDB deletes it soon
after; with other stores each logout deletes expired ones of the rows that follow its own.  The
caller passes the time, so one clock decides.  The JWT library is imported at the first token.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from graveler.auth.entities import Keeper
from graveler.auth.keyrings import RingKey
from graveler.auth.throttling import Attempts
from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import Unauthenticated
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, without
from graveler.kv.store import Store

ALGORITHM = "HS256"
ISSUER = "auth"
AUDIENCE = "login"
LIFE_SECONDS = 12 * 3600
_CLOCK_SKEW_SECONDS = 60
_REQUIRED = ("iss", "aud", "sub", "iat", "nbf", "exp", "jti", "epoch")
_ID_LENGTH_MAX = 64


class Session(NamedTuple):
    """A session: its user, the epoch of the user's credential, its expiry in seconds since 1970,
    and its unique `id`."""

    user: str
    epoch: str
    expires: int
    id: str


class IssuedToken(NamedTuple):
    """A token, its expiry in seconds since 1970, and whose it is."""

    token: str
    expires: int
    user: str

    def __repr__(self) -> str:
        return without(self, "token")


def issue(
    key: RingKey, user: str, epoch: str, now: int, token_id: str, seconds: int = LIFE_SECONDS
) -> IssuedToken:
    """A token for `user`, valid for `seconds`; `now` is in seconds since 1970."""
    import jwt

    assert 0 < seconds <= LIFE_SECONDS, "no session is longer"
    expires = now + seconds
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "iat": now,
        "nbf": now,
        "exp": expires,
        "jti": token_id,
        "epoch": epoch,
    }
    token = jwt.encode(claims, key.secret, ALGORITHM, headers={"kid": key.id})
    return IssuedToken(token, expires, user)


def key_id(token: str) -> str:
    """The id of the key that a token names; empty if it names none, and for what is no token.
    Nothing is verified."""
    import jwt

    try:
        id = jwt.get_unverified_header(token).get("kid", "")
    except jwt.PyJWTError:
        return ""
    return id if isinstance(id, str) and len(id) <= _ID_LENGTH_MAX else ""


def verified(key: bytes, token: str) -> Mapping[str, Any]:
    """The claims of a token that `key` signed.  Raises `Unauthenticated` for any other."""
    import jwt

    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            options={
                "require": list(_REQUIRED),
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.PyJWTError as error:
        raise Unauthenticated("session token invalid") from error
    return claims


def session(claims: Mapping[str, Any], now: int) -> Session:
    """The session that verified claims describe.  Raises `Unauthenticated` if it has expired or has
    not begun."""
    issued, expires, begins = claims["iat"], claims["exp"], claims["nbf"]
    if not all(isinstance(time, int) for time in (issued, expires, begins)):
        raise Unauthenticated("session token invalid: times must be whole seconds")
    latest = max(issued, begins) - _CLOCK_SKEW_SECONDS
    if not latest <= now < expires <= issued + LIFE_SECONDS:
        raise Unauthenticated("session token expired")
    return Session(str(claims["sub"]), str(claims["epoch"]), expires, str(claims["jti"]))


# ---- revocations ---------------------------------------------------------------------------------

PARTITION = b"ended/sessions"
_LOOKED_AT = 1_000  # rows behind its own that a logout looks at, and as many from the first


def put(kv: Store, ids: Ids, session: Session, now: int) -> None:
    """End a session.  It is permanent once this returns.  `now` is in seconds since 1970.  3 KV
    requests, 4 if there are expired rows to delete."""
    raw, own = wire.encode_pairs({"expires": str(session.expires)}), session.id.encode()
    kv.set(PARTITION, own, raw, ids.stamp())
    rows = kv.scan(PARTITION, own, b"", _LOOKED_AT).rows
    rows += kv.scan(PARTITION, b"", own, _LOOKED_AT).rows
    expired = [key for key, row in rows if _expires(row.value) <= now][: limits.kv_batch_count_max]
    if expired:
        kv.delete(PARTITION, expired)


def has(kv: Store, session: Session) -> bool:
    """Whether the session was ended.  One KV request."""
    return kv.get(PARTITION, session.id.encode()) is not ABSENT


def _expires(value: bytes) -> int:
    text = wire.decode_pairs(value).get("expires", "")
    return int(text) if text.isdecimal() else 0


# ---- sessions ------------------------------------------------------------------------------------

_KEY_SECONDS: Final = 30 * 24 * 3600  # then the next login makes another key


class Sessions:
    """The sessions of a store: issued as tokens, read from tokens, ended by a logout."""

    def __init__(self, keeper: Keeper, attempts: Attempts) -> None:
        self._keeper = keeper
        self._attempts = attempts

    def begin(self, user: str, epoch: str, seconds: int = LIFE_SECONDS) -> IssuedToken:
        """A token for a new session of `seconds`.  Raises `Unavailable`, `OutcomeUnknown`.  The
        requests of `Keyring.current`."""
        key = self._keeper.sessions.current(_KEY_SECONDS)
        token_id = self._keeper.ids.stamp().hex()
        return issue(key, user, epoch, self.now(), token_id, seconds)

    def read(self, token: str, address: str) -> Session:
        """The session of a token, which may have been ended.  Raises `Unauthenticated`,
        `Throttled`, `Unavailable`.

        Forged tokens count by address.  Above the limit, a token whose key this process knows is
        still accepted; one with another key is refused before the keyring is read again.  At most
        one request.
        """
        ring, id = self._keeper.sessions, key_id(token)
        if not ring.knows(id):
            self._attempts.check_token(address)
        key = ring.find(id) if id else ABSENT
        try:
            if key is ABSENT:
                raise Unauthenticated("session token invalid")
            claims = verified(key, token)
        except Unauthenticated:
            self._attempts.check_token(address)
            self._attempts.forged(address)
            raise
        return session(claims, self.now())

    def has_ended(self, session: Session) -> bool:
        """Whether a logout ended the session.  One request."""
        return has(self._keeper.kv, session)

    def end(self, session: Session) -> None:
        """End a session for good.  3 requests, 4 if there are expired rows to delete."""
        put(self._keeper.kv, self._keeper.ids, session, self.now())

    def now(self) -> int:
        """Seconds since 1970."""
        return self._keeper.clock.now_ns() // SECOND_NS
