"""Login sessions as signed tokens: JWT with HS256 only, issuer `auth`, audience `login`, 12 hours.

    header     alg HS256, kid: the key of the keyring `sessions` that signed it
    claims     iss, aud, sub: the user, epoch: of its access key, jti, iat, nbf, exp

A token of an earlier release has neither `kid` nor `nbf`; a key derived from the store's secret
verifies it.

The caller passes the time, so one clock decides about expiry.  The library is imported at the first
token: with `cryptography` beside it, the import takes longer than a cold start may lose to requests
that bring a key.  For auth only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from graveler.auth.keyrings import RingKey
from graveler.errors import Unauthenticated

ALGORITHM = "HS256"
ISSUER = "auth"
AUDIENCE = "login"
LIFE_SECONDS = 12 * 3600
_CLOCK_SKEW_SECONDS = 60
_REQUIRED = ("iss", "aud", "sub", "iat", "exp", "jti", "epoch")
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
    """The id of the key that a token names; empty for a token of an earlier release, and for what
    is no token.  Nothing is verified."""
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
                "require": [*_REQUIRED, "nbf"] if key_id(token) else list(_REQUIRED),
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
    issued, expires, begins = claims["iat"], claims["exp"], claims.get("nbf", claims["iat"])
    if not all(isinstance(time, int) for time in (issued, expires, begins)):
        raise Unauthenticated("session token invalid: times must be whole seconds")
    latest = max(issued, begins) - _CLOCK_SKEW_SECONDS
    if not latest <= now < expires <= issued + LIFE_SECONDS:
        raise Unauthenticated("session token expired")
    return Session(str(claims["sub"]), str(claims["epoch"]), expires, str(claims["jti"]))
