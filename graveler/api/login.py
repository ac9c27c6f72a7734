"""Set-up, login and sessions: by a key, by an identity of AWS, by a code of an identity provider.

`with_session` is the only way in which an answer has a session; the audit line names its user.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, users
from graveler.api.answers import Integer, MediaType, Pairs, Shape
from graveler.api.operation import NOTHING, Body, Query, Resource
from graveler.api.shapes import Paging, seconds
from graveler.api.users import PrincipalList, PrincipalShape, changing
from graveler.auth import authenticator, entities, permissions, principals, proofs, sts
from graveler.auth.credentials import NewCredential
from graveler.auth.entities import USERS
from graveler.auth.principals import Assignment
from graveler.auth.sessions import LIFE_SECONDS, IssuedToken
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    Refused,
    Throttled,
    Unavailable,
    Unsupported,
)
from graveler.core.records import ABSENT
from graveler.http import front
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.front import host_of
from graveler.http.service import Call

_setup: Final = Resource("setup")
_auth: Final = Resource("auth")
_experimental: Final = Resource("experimental")


class AuthenticationToken(Shape, frozen=True):
    """A session."""

    token: str
    token_expiration: Integer


def with_session(
    call: Call, issued: IssuedToken, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """The answer to a call that began a session; the audit line of the call names its user."""
    call.acting = issued.user
    shape = AuthenticationToken(issued.token, issued.expires)
    return answers.json(shape, 200, (*headers, (b"cache-control", b"no-store")))


# ---- set-up and login ----------------------------------------------------------------------------

SETUP_HEADER: Final = b"x-graveler-setup-token"
_COOKIE_SECONDS: Final = 30 * 24 * 3600  # the token inside expires earlier


# ---- set-up --------------------------------------------------------------------------------------


class LoginConfig(Shape, frozen=True):
    """What a login page shows."""

    RBAC: str
    login_url: str
    login_url_method: str
    login_failed_message: str
    login_cookie_names: list[str]
    logout_url: str


class SetupState(Shape, frozen=True):
    """Whether the administrator exists."""

    state: Literal["initialized", "not_initialized"]
    comm_prefs_missing: bool
    login_config: LoginConfig


class AccessKeyCredentials(Body, frozen=True):
    """A key and its secret."""

    access_key_id: str
    secret_access_key: str


class Setup(Body, frozen=True):
    """The administrator.  Fields about people and companies are accepted and dropped."""

    username: str
    email: str = ""
    key: AccessKeyCredentials | UnsetType = UNSET
    first_name: str = field(default="", name="firstName")
    last_name: str = field(default="", name="lastName")
    company_name: str = field(default="", name="companyName")
    country: str = ""
    feature_updates: bool = field(default=False, name="featureUpdates")
    security_updates: bool = field(default=False, name="securityUpdates")


class CredentialsWithSecret(Shape, frozen=True):
    """A key and its secret, shown once."""

    creation_date: Integer
    access_key_id: str
    secret_access_key: str


@_setup.get("getSetupState", "/setup_lakefs", SetupState, runs=Runs.POINT)
def get_setup_state(call: Call) -> Answer:
    """Whether the administrator exists."""
    exists = call.service.auth.account() is not ABSENT
    login = LoginConfig(
        RBAC="internal",
        login_url="",
        login_url_method="none",
        login_failed_message="The credentials don't match.",
        login_cookie_names=[front.cookie_name(call.origin)],
        logout_url="",
    )
    return answers.json(SetupState("initialized" if exists else "not_initialized", False, login))


@_setup.post(
    "setup", "/setup_lakefs", CredentialsWithSecret, errors=(AlreadyExists, Refused, Throttled)
)
def setup(call: Call, body: Setup) -> Answer:
    """Create the administrator, once."""
    key = body.key
    chosen = ABSENT if key is UNSET else NewCredential(key.access_key_id, key.secret_access_key)
    account, credential = call.service.auth.set_up(
        body.username, body.email, chosen, call.header(SETUP_HEADER), call.origin.client
    )
    call.acting = account.user
    shown = CredentialsWithSecret(
        seconds(account.created_ns), credential.access_key_id, credential.secret_access_key
    )
    return answers.json(shown, 200, ((b"cache-control", b"no-store"),))


# ---- login ---------------------------------------------------------------------------------------


class LoginInformation(Body, frozen=True):
    """A key and its secret."""

    access_key_id: str
    secret_access_key: str


class AuthCapabilities(Shape, frozen=True):
    """What users can change."""

    invite_user: bool


class User(Shape, frozen=True):
    """A user."""

    id: str
    creation_date: Integer
    friendly_name: str
    email: str


class CurrentUser(Shape, frozen=True):
    """The calling user."""

    user: User


@_auth.post("login", "/auth/login", AuthenticationToken, errors=(Throttled,))
def login(call: Call, body: LoginInformation) -> Answer:
    """Begin a session with a credential."""
    issued = call.service.auth.login(body.access_key_id, body.secret_access_key, call.origin.client)
    now = seconds(call.ports.clock.now_ns())
    cookie = front.session_cookie(call.origin, issued.token, now, _COOKIE_SECONDS)
    return with_session(call, issued, ((b"set-cookie", cookie),))


@_auth.get("getAuthCapabilities", "/auth/capabilities", AuthCapabilities, runs=Runs.LOOP)
def get_auth_capabilities(call: Call) -> Answer:
    """What users can change."""
    return answers.json(AuthCapabilities(False))


@_auth.get("getCurrentUser", "/user", CurrentUser, runs=Runs.LOOP)
def get_current_user(call: Call) -> Answer:
    """The calling user."""
    account = call.account
    assert account is not ABSENT, "the operation needs credentials"
    user = User(
        account.user, seconds(account.created_ns), account.record.friendly_name, account.email
    )
    return answers.json(CurrentUser(user))


# ---- external principals -------------------------------------------------------------------------

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


@_auth.post(
    "createUserExternalPrincipal",
    _OF_USER,
    {201: MediaType.NOTHING},
    ("auth:CreateUserExternalPrincipal", _USER_ARN),
    errors=(NotFound, AlreadyExists),
)
def create_user_external_principal(
    call: Call, query: PrincipalQuery, body: ExternalPrincipalCreation
) -> Answer:
    """Let an external principal stand for a user, so that it can log in as this user."""
    settings = () if body.settings is UNSET else body.settings
    with changing(call) as keeper:
        principals.create(keeper, call.arguments["userId"], query.principal_id, settings)
    return Answer(201)


@_auth.delete(
    "deleteUserExternalPrincipal",
    _OF_USER,
    NOTHING,
    ("auth:DeleteUserExternalPrincipal", _USER_ARN),
    errors=(NotFound,),
)
def delete_user_external_principal(call: Call, query: PrincipalQuery) -> Answer:
    """End an external principal of a user, and the sessions that began with it."""
    with changing(call) as keeper:
        principals.delete(keeper, call.arguments["userId"], query.principal_id)
    return NO_CONTENT


@_auth.get(
    "listUserExternalPrincipals",
    _OF_USER + "/ls",
    PrincipalList,
    ("auth:ReadUser", _USER_ARN),
    errors=(NotFound,),
    runs=Runs.POINT,
)
def list_user_external_principals(call: Call, query: Paging) -> Answer:
    """List the external principals of a user."""
    kv = call.ports.kv
    user = entities.get(kv, USERS, call.arguments["userId"])
    mapped = principals.of_user(kv, user, query.prefix, query.after, query.count + 1)
    shown = [users.principal_shape(each) for each in mapped[: query.count]]
    more = len(mapped) > query.count
    return answers.page(shown, more, shown[-1].id if shown else "")


@_auth.get(
    "getExternalPrincipal",
    "/auth/external/principals",
    PrincipalShape,
    ("auth:ReadExternalPrincipal", _PRINCIPAL_ARN),
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_external_principal(call: Call, query: PrincipalQuery) -> Answer:
    """Get an external principal, with the user for whom it stands."""
    mapped = principals.get(call.ports.kv, query.principal_id)
    return answers.json(users.principal_shape(mapped))


# ---- login ---------------------------------------------------------------------------------------


class ExternalLoginInformation(Body, frozen=True):
    """The proof of an identity.  Of an IAM identity: `identity_token`, the Base64 of a signed
    request to STS."""

    identity_request: dict[str, Any] = field(name="identityRequest")
    token_expiration_duration: Annotated[
        int, Meta(ge=1, le=LIFE_SECONDS, description="seconds")
    ] = LIFE_SECONDS


@_auth.post(
    "externalPrincipalLogin",
    "/auth/external/principal/login",
    AuthenticationToken,
    errors=(Throttled, Refused, Unsupported),
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


@_experimental.post(
    "stsLogin",
    "/sts/login",
    AuthenticationToken,
    errors=(Throttled, Refused, Unsupported, Unavailable),
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
