"""Login sessions as signed tokens: JWT with HS256 only, issuer `auth`, audience `login`, 12 hours.

The caller passes the time, so one clock decides about expiry.  The library is imported at the first
token: with `cryptography` beside it, the import takes longer than a cold start may lose to requests
that bring a key.  For auth only.
"""

from typing import NamedTuple

from graveler.errors import Unauthenticated

ALGORITHM = "HS256"
ISSUER = "auth"
AUDIENCE = "login"
LIFE_SECONDS = 12 * 3600
_CLOCK_SKEW_SECONDS = 60
_REQUIRED = ("iss", "aud", "sub", "iat", "exp", "jti", "epoch")


class Session(NamedTuple):
    """A session: its user, the epoch of the user's credential, its expiry in seconds since 1970,
    and its unique `id`."""

    user: str
    epoch: str
    expires: int
    id: str


class IssuedToken(NamedTuple):
    """A token and its expiry in seconds since 1970."""

    token: str
    expires: int


def issue(key: bytes, user: str, epoch: str, now: int, token_id: str) -> IssuedToken:
    """A token for `user`; `now` is in seconds since 1970."""
    import jwt

    expires = now + LIFE_SECONDS
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "iat": now,
        "exp": expires,
        "jti": token_id,
        "epoch": epoch,
    }
    return IssuedToken(jwt.encode(claims, key, ALGORITHM), expires)


def read(key: bytes, token: str, now: int) -> Session:
    """The session in a token.  Raises `Unauthenticated` for a token that this service did not
    issue, or that has expired."""
    import jwt

    try:
        claims = jwt.decode(
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
    issued, expires = claims["iat"], claims["exp"]
    if not isinstance(issued, int) or not isinstance(expires, int):
        raise Unauthenticated("session token invalid: times must be whole seconds")
    if not issued - _CLOCK_SKEW_SECONDS <= now < expires <= issued + LIFE_SECONDS:
        raise Unauthenticated("session token expired")
    return Session(str(claims["sub"]), str(claims["epoch"]), expires, str(claims["jti"]))
