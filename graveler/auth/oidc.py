"""Bearer tokens of an identity provider (OpenID Connect): signed JWTs, verified here.

    token ──► key by its id ──► signature ──► issuer, audience, times ──► who it is, which groups

A claim makes nobody an administrator by chance: a group that every lake has (builtin.py) is joined
only if the deployment maps a name of the provider to it.

The algorithm is that of the key (jwks.py): RS256 or ES256, never none, never a shared secret.  A
token lives at most 12 hours.  The caller passes the time.  For authenticator.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

from graveler import limits
from graveler.auth import builtin
from graveler.auth.jwks import VerifyingKey
from graveler.auth.tokens import LIFE_SECONDS
from graveler.errors import Refused, Unauthenticated
from graveler.records import ABSENT, Absent

_ALGORITHMS: Final = ("RS256", "ES256")
_REQUIRED: Final = ("iss", "aud", "sub", "iat", "exp")
_CLOCK_SKEW_SECONDS: Final = 60
GroupNames = Mapping[str, tuple[str, ...]]  # of groups, by the name that the provider gives


class Keys(Protocol):
    """The keys of an identity provider."""

    def find(self, id: str) -> VerifyingKey | Literal[Absent.ABSENT]:
        """The key with this id.  Raises `Unavailable`, `WouldWait`."""
        ...


@dataclass(frozen=True, slots=True)
class Claims:
    """What a verified token says.

    `principal`: the external principal.  `user`: the name of a user that is made.  `email`: empty
    unless the provider says that it is verified, because commits carry it.  `groups`: names
    of groups; `ABSENT`: the deployment takes none from tokens.  Times are in seconds since 1970.
    """

    principal: str
    user: str
    email: str
    groups: tuple[str, ...] | Literal[Absent.ABSENT]
    issued: int
    expires: int


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """An identity provider.

    `user_claim` names users; `groups_claim` names groups; empty: none.  `group_names`: the groups
    for each name in the claim; other names mean nothing.  `ABSENT`: a name is that of the group,
    unless every lake has that group.
    """

    issuer: str
    audience: str
    keys: Keys
    user_claim: str = "preferred_username"
    groups_claim: str = ""
    group_names: GroupNames | Literal[Absent.ABSENT] = ABSENT

    def takes(self, token: str) -> bool:
        """Whether a token can be one of an identity provider, by its header alone."""
        return _header(token).get("alg") in _ALGORITHMS

    def claims(self, payload: Mapping[str, Any], now: int) -> Claims:
        """What a verified token says.  Raises `Unauthenticated` if it is not valid now, `Refused`
        if it names no user."""
        times = [payload["iat"], payload["exp"], payload.get("nbf", payload["iat"])]
        if not all(type(time) is int for time in times):
            raise Unauthenticated("token invalid: times must be whole seconds")
        issued, expires, begins = times
        latest = max(issued, begins) - _CLOCK_SKEW_SECONDS
        if not latest <= now < expires <= issued + LIFE_SECONDS:
            raise Unauthenticated("token has expired, is not yet valid, or lives too long")
        user = payload.get(self.user_claim)
        if not isinstance(user, str) or not user:
            raise Refused(f"token has no claim {self.user_claim}, which names the user")
        return Claims(
            principal=f"oidc:{self.issuer}#{quote(payload['sub'], safe='')}",
            user=user,
            email=_email(payload),
            groups=self._groups(payload),
            issued=issued,
            expires=expires,
        )

    def verified(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that the provider issued for this service; their times are not
        checked.  Raises `Unauthenticated` for any other, `Unavailable`, `WouldWait`."""
        import jwt

        header = _header(token)
        id = header.get("kid")
        if not isinstance(id, str) or "crit" in header:
            raise Unauthenticated("token invalid: it must name its key, and demand nothing else")
        key = self.keys.find(id)
        if key is ABSENT or header.get("alg") != key.algorithm:
            raise Unauthenticated("token invalid: its key is not known, or has another algorithm")
        try:
            payload: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                options={
                    "require": list(_REQUIRED),
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Unauthenticated("token invalid") from error
        subject = payload["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= limits.name_length_max:
            raise Unauthenticated("token invalid: sub must be a text")
        return payload

    def _groups(self, payload: Mapping[str, Any]) -> tuple[str, ...] | Literal[Absent.ABSENT]:
        """A token without the claim is in no group."""
        if not self.groups_claim:
            return ABSENT
        names = payload.get(self.groups_claim, [])
        if not isinstance(names, list):
            names = [names]
        texts = {name for name in names if isinstance(name, str) and _is_text(name)}
        if self.group_names is ABSENT:
            groups = texts.difference(builtin.GROUPS)
        else:
            groups = {group for name in texts for group in self.group_names.get(name, ())}
        return tuple(sorted(groups))[: limits.user_groups_count_max]


def _email(payload: Mapping[str, Any]) -> str:
    email = payload.get("email", "")
    is_verified = payload.get("email_verified") in (True, "true")  # Cognito writes the text
    return email if is_verified and isinstance(email, str) and _is_text(email) else ""


def _header(token: str) -> Mapping[str, Any]:
    """The header of a token; empty for what is none.  Nothing is verified."""
    import jwt

    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return {}


def _is_text(text: str) -> bool:
    return 0 < len(text) <= limits.name_length_max and text.isprintable()
