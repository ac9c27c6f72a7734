"""Operations of the service itself: health, set-up, login, current user, configuration."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, cookies
from graveler.api.answers import NO_CONTENT, Answer, Content, Headers, Shape
from graveler.api.exchanges import AuthenticationToken, with_session
from graveler.api.field_types import Integer
from graveler.api.operation import Body, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import seconds
from graveler.auth.credentials import NewCredential
from graveler.auth.permissions import Permission
from graveler.crc32c import IS_FAST
from graveler.errors import AlreadyExists, Refused, Throttled
from graveler.records import ABSENT

SETUP_HEADER: Final = b"x-graveler-setup-token"
_COOKIE_SECONDS: Final = 30 * 24 * 3600  # the token inside expires earlier
_CONFIG: Final = (Permission("fs:ReadConfig", "*"),)


@operation(
    "healthCheck",
    "GET",
    "/healthcheck",
    tag="health",
    answers={204: Content.NOTHING},
    runs=Runs.LOOP,
)
def health_check(call: Call) -> Answer:
    """Check that the service runs."""
    return NO_CONTENT


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


@operation(
    "getSetupState",
    "GET",
    "/setup_lakefs",
    tag="setup",
    answers={200: SetupState},
    runs=Runs.POINT,
)
def get_setup_state(call: Call) -> Answer:
    """Whether the administrator exists."""
    exists = call.service.auth.account() is not ABSENT
    login = LoginConfig(
        RBAC="internal",
        login_url="",
        login_url_method="none",
        login_failed_message="The credentials don't match.",
        login_cookie_names=[cookies.name(call.origin)],
        logout_url="",
    )
    return answers.json(SetupState("initialized" if exists else "not_initialized", False, login))


@operation(
    "setup",
    "POST",
    "/setup_lakefs",
    tag="setup",
    answers={200: CredentialsWithSecret},
    errors=(AlreadyExists, Refused, Throttled),
    runs=Runs.POOL,
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


@operation(
    "login",
    "POST",
    "/auth/login",
    tag="auth",
    answers={200: AuthenticationToken},
    errors=(Throttled,),
    runs=Runs.POOL,
)
def login(call: Call, body: LoginInformation) -> Answer:
    """Begin a session with a credential."""
    issued = call.service.auth.login(body.access_key_id, body.secret_access_key, call.origin.client)
    now = seconds(call.ports.clock.now_ns())
    cookie = cookies.begun(call.origin, issued.token, now, _COOKIE_SECONDS)
    return with_session(call, issued, ((b"set-cookie", cookie),))


@operation(
    "getAuthCapabilities",
    "GET",
    "/auth/capabilities",
    tag="auth",
    answers={200: AuthCapabilities},
    runs=Runs.LOOP,
)
def get_auth_capabilities(call: Call) -> Answer:
    """What users can change."""
    return answers.json(AuthCapabilities(False))


@operation(
    "getCurrentUser",
    "GET",
    "/user",
    tag="auth",
    answers={200: CurrentUser},
    runs=Runs.LOOP,
)
def get_current_user(call: Call) -> Answer:
    """The calling user."""
    account = call.account
    assert account is not ABSENT, "the operation needs credentials"
    user = User(
        account.user,
        seconds(account.created_ns),
        account.record.friendly_name,
        account.email,
    )
    return answers.json(CurrentUser(user))


# ---- configuration -------------------------------------------------------------------------------


class VersionConfig(Shape, frozen=True):
    """The version of the API.  Clients parse the three integers."""

    version: str
    version_context: str


class StorageConfig(Shape, frozen=True):
    """The capabilities of the storage."""

    blockstore_type: str
    blockstore_id: str
    blockstore_description: str
    blockstore_namespace_example: str
    validity_regex: str = field(name="blockstore_namespace_ValidityRegex")
    default_namespace_prefix: str
    import_support: bool
    import_validity_regex: str
    pre_sign_support: bool
    pre_sign_support_ui: bool
    pre_sign_multipart_upload: bool


class Config(Shape, frozen=True):
    """The configuration for clients."""

    version_config: VersionConfig
    storage_config: StorageConfig
    storage_config_list: list[StorageConfig]
    ui_config: dict[str, Any]
    capabilities_config: dict[str, Any]


# The version of the lakeFS API that the service implements.
_VERSION: Final = VersionConfig("1.80.0", "lakeFS")
_CHECKSUMS: Final[Headers] = ((b"x-graveler-checksums", b"crc32c"),) if IS_FAST else ()


def _storage(call: Call) -> StorageConfig:
    kind = call.service.settings.blockstore_type
    return StorageConfig(
        blockstore_type=kind,
        blockstore_id="",
        blockstore_description="",
        blockstore_namespace_example=f"{kind}://example-bucket/",
        validity_regex=f"^{kind}://",
        # Bucket names are globally unique, so the service cannot suggest one to a browser.
        default_namespace_prefix="" if kind == "s3" else f"{kind}://",
        import_support=True,
        import_validity_regex=f"^{kind}://",
        pre_sign_support=call.service.settings.presigns,
        pre_sign_support_ui=False,
        pre_sign_multipart_upload=call.service.settings.presigns_parts,
    )


@operation(
    "getConfig",
    "GET",
    "/config",
    tag="config",
    permissions=_CONFIG,
    answers={200: Config},
    runs=Runs.LOOP,
)
def get_config(call: Call) -> Answer:
    """The configuration for clients.

    A header names the checksum that the answer to an upload of a long body has (object_writes.py).
    It is no field, because clients may refuse a field that they do not know.
    """
    return answers.json(Config(_VERSION, _storage(call), [], {}, {}), headers=_CHECKSUMS)


@operation(
    "getLakeFSVersion",
    "GET",
    "/config/version",
    tag="config",
    permissions=_CONFIG,
    answers={200: VersionConfig},
    runs=Runs.LOOP,
)
def get_version(call: Call) -> Answer:
    """The version of the API."""
    return answers.json(_VERSION)


@operation(
    "getStorageConfig",
    "GET",
    "/config/storage",
    tag="config",
    permissions=_CONFIG,
    answers={200: StorageConfig},
    runs=Runs.LOOP,
)
def get_storage_config(call: Call) -> Answer:
    """The capabilities of the storage."""
    return answers.json(_storage(call))


class StatsEventsList(Body, frozen=True):
    """Statistics of a client."""

    events: Annotated[tuple[dict[str, Any], ...], Meta(max_length=1_000)]


@operation(
    "postStatsEvents",
    "POST",
    "/statistics",
    tag="statistics",
    answers={204: Content.NOTHING},
    runs=Runs.LOOP,
)
def post_stats_events(call: Call, body: StatsEventsList) -> Answer:
    """Accept statistics and drop them: the service collects none."""
    return NO_CONTENT
