"""Operations on external principals: identities of other systems that stand for users, and their
login."""

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType, field

from graveler import limits
from graveler.api import answers, directory
from graveler.api.answers import NO_CONTENT, Answer, Content
from graveler.api.directory import PrincipalList, PrincipalShape, changing
from graveler.api.exchanges import AuthenticationToken, with_session
from graveler.api.field_types import Pairs
from graveler.api.front import host_of
from graveler.api.operation import Body, Query, Runs, operation
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.auth import authenticator, entities, permissions, principals, proofs, sts
from graveler.auth.entities import USERS
from graveler.auth.permissions import Permission
from graveler.auth.principals import Assignment
from graveler.auth.sessions import LIFE_SECONDS
from graveler.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    Refused,
    Throttled,
    Unavailable,
    Unsupported,
)
from graveler.records import ABSENT

_OF_USER: Final = "/auth/users/{userId}/external/principals"
_USER_ARN: Final = permissions.resource("auth", "user/{userId}")
_LIFE_SECONDS_DEFAULT: Final = 3_600  # of a session that begins with a code
_PRINCIPAL_ARN: Final = permissions.resource("auth", "externalPrincipal/{principalId}")


class PrincipalQuery(Query, frozen=True):
    """Which external principal."""

    principal_id: Annotated[
        str, Meta(description="for example arn:aws:sts::123456789012:assumed-role/engineers")
    ] = field(name="principalId")


class ExternalPrincipalCreation(Body, frozen=True):
    """What is noted with a new external principal."""

    settings: tuple[Pairs, ...] | UnsetType = UNSET


@operation(
    "createUserExternalPrincipal",
    "POST",
    _OF_USER,
    tag="auth",
    permissions=(Permission("auth:CreateUserExternalPrincipal", _USER_ARN),),
    answers={201: Content.NOTHING},
    errors=(NotFound, AlreadyExists),
    runs=Runs.POOL,
)
def create_user_external_principal(
    call: Call, query: PrincipalQuery, body: ExternalPrincipalCreation
) -> Answer:
    """Let an external principal stand for a user, so that it can log in as this user."""
    settings = () if body.settings is UNSET else body.settings
    with changing(call) as keeper:
        principals.create(keeper, call.arguments["userId"], query.principal_id, settings)
    return Answer(201)


@operation(
    "deleteUserExternalPrincipal",
    "DELETE",
    _OF_USER,
    tag="auth",
    permissions=(Permission("auth:DeleteUserExternalPrincipal", _USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_user_external_principal(call: Call, query: PrincipalQuery) -> Answer:
    """End an external principal of a user, and the sessions that began with it."""
    with changing(call) as keeper:
        principals.delete(keeper, call.arguments["userId"], query.principal_id)
    return NO_CONTENT


@operation(
    "listUserExternalPrincipals",
    "GET",
    _OF_USER + "/ls",
    tag="auth",
    permissions=(Permission("auth:ReadUser", _USER_ARN),),
    answers={200: PrincipalList},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def list_user_external_principals(call: Call, query: Paging) -> Answer:
    """List the external principals of a user."""
    kv = call.ports.kv
    user = entities.get(kv, USERS, call.arguments["userId"])
    mapped = principals.of_user(kv, user, query.prefix, query.after, query.count + 1)
    shown = [directory.principal_shape(each) for each in mapped[: query.count]]
    more = len(mapped) > query.count
    return answers.page(shown, more, shown[-1].id if shown else "")


@operation(
    "getExternalPrincipal",
    "GET",
    "/auth/external/principals",
    tag="auth",
    permissions=(Permission("auth:ReadExternalPrincipal", _PRINCIPAL_ARN),),
    answers={200: PrincipalShape},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_external_principal(call: Call, query: PrincipalQuery) -> Answer:
    """Get an external principal, with the user for whom it stands."""
    mapped = principals.get(call.ports.kv, query.principal_id)
    return answers.json(directory.principal_shape(mapped))


# ---- login ---------------------------------------------------------------------------------------


class ExternalLoginInformation(Body, frozen=True):
    """The proof of an identity.  Of an IAM identity: `identity_token`, the Base64 of a signed
    request to STS."""

    identity_request: dict[str, Any] = field(name="identityRequest")
    token_expiration_duration: Annotated[
        int, Meta(ge=1, le=LIFE_SECONDS, description="seconds")
    ] = LIFE_SECONDS


@operation(
    "externalPrincipalLogin",
    "POST",
    "/auth/external/principal/login",
    tag="auth",
    answers={200: AuthenticationToken},
    errors=(Throttled, Refused, Unsupported),
    runs=Runs.POOL,
)
def external_principal_login(call: Call, body: ExternalLoginInformation) -> Answer:
    """Begin a session with an IAM identity of AWS."""
    auth = call.service.auth
    aws = auth.identities.aws
    if aws is ABSENT:
        raise Unsupported("Not Implemented")
    token = body.identity_request.get("identity_token")
    if not isinstance(token, str):
        raise Invalid('identityRequest invalid: it must have the text "identity_token"')
    host = host_of(call.origin.host)

    def prove(now: int) -> Assignment:
        caller = aws.caller(token, host, now)
        sts.spend(auth.keeper, caller.signature, caller.expires, now)
        return proofs.known(auth, caller.principals)

    issued = proofs.login(auth, "iam", prove, body.token_expiration_duration, call.origin.client)
    return with_session(call, issued)


class StsAuthRequest(Body, frozen=True):
    """A code of an identity provider, and the redirect URI to which the provider sent it.  The
    state is for the client, which began the login: the service does not read it."""

    code: Annotated[str, Meta(min_length=1, max_length=limits.login_code_length_max)]
    state: Annotated[str, Meta(max_length=limits.login_code_length_max)]
    redirect_uri: Annotated[str, Meta(min_length=1, max_length=limits.redirect_uri_length_max)]
    ttl_seconds: Annotated[int, Meta(ge=1, le=LIFE_SECONDS)] = _LIFE_SECONDS_DEFAULT


@operation(
    "stsLogin",
    "POST",
    "/sts/login",
    tag="experimental",
    answers={200: AuthenticationToken},
    errors=(Throttled, Refused, Unsupported, Unavailable),
    runs=Runs.POOL,
)
def sts_login(call: Call, body: StsAuthRequest) -> Answer:
    """Begin a session with a code of an identity provider."""
    auth = call.service.auth
    codes = auth.identities.codes
    if codes is ABSENT:
        raise Unsupported(
            "no codes of an identity provider are accepted: the deployment sets no "
            "GRAVELER_OIDC_CLIENT_ID (on AWS: OidcClientId)"
        )

    def prove(now: int) -> Assignment:
        claims = codes.claims(body.code, body.redirect_uri, now)
        return authenticator.user_of(auth, claims, call.changes)

    issued = proofs.login(auth, "code", prove, body.ttl_seconds, call.origin.client)
    return with_session(call, issued)
