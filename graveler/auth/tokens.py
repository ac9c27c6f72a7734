"""Sessions as signed tokens: JWT with HS256 only, issuer `auth`, audience `login`, 12 hours.

Time comes from the caller, so that expiry is decided by one clock.  For auth only.
"""

from typing import NamedTuple

import jwt

from graveler.errors import Unauthenticated

ALGORITHM = "HS256"
ISSUER = "auth"
AUDIENCE = "login"
LIFE_SECONDS = 12 * 3600
_CLOCK_SKEW_SECONDS = 60
_REQUIRED = ("iss", "aud", "sub", "iat", "exp", "jti", "epoch")


class Session(NamedTuple):
    """Whose it is, under which credential, until when; `id` names it alone."""

    user: str
    epoch: str
    expires: int
    id: str


class Issued(NamedTuple):
    """A token and the second at which it ends."""

    token: str
    expires: int


def issue(key: bytes, user: str, epoch: str, now: int, token_id: str) -> Issued:
    """A token for `user`; `now` in seconds."""
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
    return Issued(jwt.encode(claims, key, ALGORITHM), expires)


def read(key: bytes, token: str, now: int) -> Session:
    """What a token says.  Raises `Unauthenticated` for every other thing than one of ours in its
    time."""
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
