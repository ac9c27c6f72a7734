"""Identity providers (OpenID Connect): bearer tokens, their users, and logins with a code.

    token ──► key by its id ──► signature ──► issuer, audience, times ──► who it is, which groups
    code, redirect URI ──► token endpoint, which the issuer names ──► ID token ──► the same

The algorithm is that of the key (jwks.py): RS256 or ES256, never none, never a shared secret.  A
token lives at most 12 hours.  A group that every lake has is joined only if the deployment maps a
name of the provider to it.  The subject of the token is an external principal, so the name that the
token gives only names a user that is made, and a name that another user has is refused.

The client compared the state of a code; nobody sent this service a nonce, so it compares none.  The
secret of the client is sent only to an endpoint on a host that the deployment allows.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import quote, quote_plus, urlencode

from graveler.auth import directory, entities, policies, principals
from graveler.auth.entities import GROUPS, USERS, Keeper, Link, Principal, User
from graveler.auth.jwks import ProviderDocument, VerifyingKey
from graveler.auth.principals import Assignment, Change, created, regrouped, unless_done
from graveler.auth.sessions import LIFE_SECONDS
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import AlreadyExists, Invalid, Refused, Unauthenticated, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.web import Outgoing, Reply, Sender

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
            groups = texts.difference(policies.GROUPS)
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


# ---- subjects ------------------------------------------------------------------------------------


def user_of(keeper: Keeper, claims: Claims, changes: list[Change]) -> Assignment:
    """The user of a verified token.  What was changed for it, or may have been, is added to
    `changes`.

    A token that was issued before another one changes no groups, so an old token does not bring
    back what a newer one has taken.  Raises `Refused` if the name is not allowed or taken,
    `Contended`, `OutcomeUnknown`.  2 requests; 4 if the user is made.  For a newer token with a
    claim of groups also those of `directory.set_groups`, and one if it names any.
    """
    known = principals.find(keeper.kv, [claims.principal])
    assignment = _made(keeper, claims, changes) if known is ABSENT else known
    _set_groups(keeper, assignment.user, claims, changes)
    return assignment


def _made(keeper: Keeper, claims: Claims, changes: list[Change]) -> Assignment:
    """A new user with its principal; or the one that an earlier attempt has made.  Of several
    attempts each one notes that has written something."""
    now = keeper.clock.now_ns()
    uid, epoch = keeper.ids.stamp().hex(), keeper.ids.stamp().hex()
    principal = Principal(claims.principal, epoch, now)
    user = User(claims.user, uid, now, claims.email, principals=(principal,))
    with unless_done(changes, [created(user.id, uid)]):
        is_new, user = _created(keeper, user, claims)
        principal = user.principal(claims.principal)
        try:
            principals.bind(keeper, user, principal)
        except AlreadyExists:  # another request of this caller was first
            is_bound = False
        else:
            is_bound = True
    if is_new or is_bound:
        changes.append(created(user.id, user.uid))
    return Assignment(principal, user, ())


def _created(keeper: Keeper, user: User, claims: Claims) -> tuple[bool, User]:
    """Whether the user is new, and its record.  Raises `Refused`."""
    try:
        principals.normal(claims.principal)
        entities.create(keeper, USERS, user)
    except Invalid as error:
        raise Refused(f"user of the token is not allowed: {error}") from error
    except AlreadyExists:
        known = entities.get(keeper.kv, USERS, claims.user)
        if _listed(known, claims.principal) is ABSENT:
            raise Refused("user of the token is not allowed: another user has this name") from None
        return False, known
    return True, user


def _listed(user: User, id: str) -> Principal | Literal[Absent.ABSENT]:
    return next((each for each in user.principals if each.id == id), ABSENT)


def _set_groups(keeper: Keeper, user: User, claims: Claims, changes: list[Change]) -> None:
    """Make the groups of the user those of the token, if it is a newer one.  Those of a user that
    is disabled stay."""
    if user.disabled or claims.groups is ABSENT or claims.issued <= user.groups_at:
        return
    places = [GROUPS.place(name) for name in claims.groups]
    rows = keeper.kv.get_many(places) if places else {}
    records = [GROUPS.read(name, rows.get(GROUPS.place(name), ABSENT)) for name in claims.groups]
    groups = [group for group in records if group is not ABSENT]
    names = [group.id for group in groups]
    with unless_done(changes, regrouped(user.id, user.uid, _names(user.groups), names)):
        before = directory.set_groups(keeper, user, groups, claims.issued)
    if before is not ABSENT:
        changes += regrouped(user.id, user.uid, _names(before), names)


def _names(groups: tuple[Link, ...]) -> list[str]:
    return [link.id for link in groups]


# ---- codes ---------------------------------------------------------------------------------------

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
_ANSWER_SECONDS: Final = 5.0
_BASIC: Final = "client_secret_basic"
_IN_BODY: Final = "client_secret_post"
_REFUSALS: Final = (400, 401, 403)
# What a provider says if the mistake is one of this deployment, and not of the caller.
_OWN_MISTAKES: Final = ("invalid_client", "unauthorized_client", "unsupported_grant_type")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This service, as the provider knows it.  `redirects`: the URIs to which the provider may
    have sent a code."""

    id: str
    secret: str = field(repr=False)
    redirects: frozenset[str]


class _Endpoint(NamedTuple):
    """Where codes are exchanged, and whether the secret goes into the body."""

    url: str
    in_body: bool


class CodeLogin:
    """Exchanges codes of an identity provider."""

    def __init__(
        self, issuer: OidcIssuer, client: OidcClient, sender: Sender, clock: Clock
    ) -> None:
        self._issuer = replace(issuer, audience=client.id)
        self._client = client
        self._sender = sender
        self._endpoint = ProviderDocument("token endpoint", self._discovered, clock)

    def claims(self, code: str, redirect_uri: str, now: int) -> Claims:
        """What the provider says of the caller that brings a code; `now` in seconds since 1970.

        Raises `Invalid` for a redirect URI that the deployment does not name, `Unauthenticated` for
        a code or an ID token that is not valid, `Refused` if the token names no user, `Unavailable`
        if the provider does not answer or does not accept this service.  One request to the
        provider; one more if its endpoint, and one if its keys must be read.
        """
        if redirect_uri not in self._client.redirects:
            raise Invalid(
                "redirect_uri invalid: it must be one of those that the deployment names in "
                "GRAVELER_OIDC_REDIRECTS"
            )
        token = _id_token(self._sent(self._request(self._endpoint.current(), code, redirect_uri)))
        payload = self._issuer.verified(token)
        audience, party = payload["aud"], payload.get("azp")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if party != self._client.id and (party is not None or is_shared):
            raise Unauthenticated("ID token was issued to another client")
        return self._issuer.claims(payload, now)

    def _request(self, endpoint: _Endpoint, code: str, redirect_uri: str) -> Outgoing:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        if endpoint.in_body:
            form |= {"client_id": self._client.id, "client_secret": self._client.secret}
        else:
            pair = f"{quote_plus(self._client.id)}:{quote_plus(self._client.secret)}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return Outgoing("POST", endpoint.url, headers, urlencode(form).encode())

    def _discovered(self) -> _Endpoint:
        url = self._issuer.issuer.rstrip("/") + DISCOVERY_PATH
        reply = self._sent(Outgoing("GET", url, {"Accept": "application/json"}, b""))
        if reply.status != 200:
            raise Unavailable(f"identity provider did not answer: status={reply.status}")
        description = _object(reply)
        endpoint = description.get("token_endpoint")
        if description.get("issuer") != self._issuer.issuer or not isinstance(endpoint, str):
            raise Unavailable("identity provider describes another issuer, or no token endpoint")
        methods = description.get("token_endpoint_auth_methods_supported")
        offered = methods if isinstance(methods, list) else [_BASIC]
        return _Endpoint(endpoint, _BASIC not in offered and _IN_BODY in offered)

    def _sent(self, request: Outgoing) -> Reply:
        try:
            return self._sender.send(request, _ANSWER_SECONDS)
        except Refused as error:
            raise Unavailable(
                f"identity provider may not be asked: {error}; the host of its token endpoint must "
                "be that of the issuer or of its keys, or stand in GRAVELER_OIDC_HOSTS"
            ) from error


def _id_token(reply: Reply) -> str:
    """The ID token in the answer to a code."""
    if reply.status in _REFUSALS:
        reason = _reason(reply)
        if reason in _OWN_MISTAKES or (reply.status == 401 and not reason):
            raise Unavailable("identity provider does not accept the client id and secret")
        raise Unauthenticated("identity provider does not accept the code")
    if reply.status != 200:
        raise Unavailable(f"identity provider did not answer: status={reply.status}")
    token = _object(reply).get("id_token")
    if not isinstance(token, str) or len(token) > limits.bearer_length_bytes_max:
        raise Unavailable("identity provider gave no ID token; the scope must have openid")
    return token


def _reason(reply: Reply) -> str:
    """Why the provider refuses, by its code."""
    try:
        reason = _object(reply).get("error")
    except Unavailable:
        return ""
    return reason if isinstance(reason, str) else ""


def _object(reply: Reply) -> Mapping[str, Any]:
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise Unavailable("answer of the identity provider is malformed") from error
    if not isinstance(document, dict):
        raise Unavailable("answer of the identity provider is malformed")
    return document
