"""The configuration, health, usage and audit trail of the service."""

from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from graveler.api import answers
from graveler.api.answers import PLAIN, Integer, MediaType, Page, Shape
from graveler.api.operation import NOTHING, Body, Query, RequestHeaders, Resource
from graveler.api.shapes import Amount, moment_ns, page_count
from graveler.audit.trail import Outcome, Question
from graveler.auth import accounts
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import AlreadyExists, GravelerError, Invalid, Unavailable, Unsupported
from graveler.core.identity import IS_FAST
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT
from graveler.http.answers import NO_CONTENT, Answer, Headers
from graveler.http.dispatch import Runs
from graveler.http.metrics import add_requests
from graveler.http.service import Call

_health: Final = Resource("health")
_config: Final = Resource("config")
_statistics: Final = Resource("statistics")
_internal: Final = Resource("internal")
_setup: Final = Resource("setup")
_graveler: Final = Resource("graveler")

_CONFIG: Final = (Permission("fs:ReadConfig", "*"),)


@_health.get("healthCheck", "/healthcheck", NOTHING, runs=Runs.LOOP)
def health_check(call: Call) -> Answer:
    """Check that the service runs."""
    return NO_CONTENT


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


@_config.get("getConfig", "/config", Config, *_CONFIG, runs=Runs.LOOP)
def get_config(call: Call) -> Answer:
    """The configuration for clients.

    A header names the checksum that the answer to an upload of a long body has (object_writes.py).
    It is no field, because clients may refuse a field that they do not know.
    """
    return answers.json(Config(_VERSION, _storage(call), [], {}, {}), headers=_CHECKSUMS)


@_config.get("getLakeFSVersion", "/config/version", VersionConfig, *_CONFIG, runs=Runs.LOOP)
def get_version(call: Call) -> Answer:
    """The version of the API."""
    return answers.json(_VERSION)


@_config.get("getStorageConfig", "/config/storage", StorageConfig, *_CONFIG, runs=Runs.LOOP)
def get_storage_config(call: Call) -> Answer:
    """The capabilities of the storage."""
    return answers.json(_storage(call))


class StatsEventsList(Body, frozen=True):
    """Statistics of a client."""

    events: Annotated[tuple[dict[str, Any], ...], Meta(max_length=1_000)]


@_statistics.post("postStatsEvents", "/statistics", NOTHING, runs=Runs.LOOP)
def post_stats_events(call: Call, body: StatsEventsList) -> Answer:
    """Accept statistics and drop them: the service collects none."""
    return NO_CONTENT


# ---- usage ---------------------------------------------------------------------------------------

_ShortText = Annotated[str, Meta(max_length=254)]


class UsageReport(Shape, frozen=True):
    """The requests of one month."""

    year: Integer
    month: Integer
    count: Integer


class InstallationUsageReport(Shape, frozen=True):
    """The requests of a deployment, by month."""

    installation_id: str
    reports: list[UsageReport]


class Accept(RequestHeaders, frozen=True):
    """`text/plain`: the report as lines of text."""

    accept: str = ""


class CommPrefsInput(
    Body,
    frozen=True,
    kw_only=True,
    rename={
        "first_name": "firstName",
        "last_name": "lastName",
        "company_name": "companyName",
        "feature_updates": "featureUpdates",
        "security_updates": "securityUpdates",
    },
):
    """What a user wishes to be told by mail."""

    feature_updates: bool
    security_updates: bool
    email: _ShortText = ""
    first_name: _ShortText = ""
    last_name: _ShortText = ""
    company_name: _ShortText = ""
    country: _ShortText = ""


@_internal.get(
    "getUsageReportSummary",
    "/usage-report/summary",
    InstallationUsageReport,
    ("fs:ReadConfig", "*"),
    runs=Runs.POOL,
)
def get_usage_report_summary(call: Call, headers: Accept) -> Answer:
    """How many requests the deployment has answered, by month."""
    with suppress(GravelerError):  # what is not added now is added later
        add_requests(call.ports, call.service.metrics)
    report = accounts.usage_report(call.ports.kv, call.ports.ids)
    if headers.accept.startswith("text/plain"):
        lines = [f"installation {report.installation}"]
        lines += [f"{each.year}-{each.month:02} {each.requests}" for each in report.months]
        return Answer(200, PLAIN, ("\n".join(lines) + "\n").encode())
    reports = [UsageReport(each.year, each.month, each.requests) for each in report.months]
    return answers.json(InstallationUsageReport(report.installation, reports))


@_setup.post(
    "setupCommPrefs",
    "/setup_comm_prefs",
    MediaType.NOTHING,
    ("auth:CreateUser", "*"),
    errors=(AlreadyExists,),
)
def setup_comm_prefs(call: Call, body: CommPrefsInput) -> Answer:
    """Record what a user wishes to be told by mail, once."""
    wishes = {
        "email": body.email,
        "feature_updates": str(body.feature_updates),
        "security_updates": str(body.security_updates),
    }
    accounts.set_up_communication(call.ports.kv, wishes, call.ports.ids.stamp())
    return Answer(200)


# ---- audit ---------------------------------------------------------------------------------------

_Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
# The last second that a time of RFC 3339 can name.
_NEVER_NS: Final = 253_402_300_799 * SECOND_NS
_Outcomes = Literal["", "done", "denied", "failed", "unknown"]


class AuditQuery(Query, frozen=True):
    """Which lines, oldest first.  Without `since`: those of the last day before `until`."""

    user: Annotated[str, Meta(description="lines of this user")] = ""
    operation: Annotated[str, Meta(description="lines of this operation")] = ""
    resource: Annotated[
        str, Meta(description="lines with a resource that begins with this, an ARN")
    ] = ""
    outcome: Annotated[_Outcomes, Meta(description="lines with this outcome")] = ""
    since: _Moment = ""
    until: _Moment = ""
    after: Annotated[
        str, Meta(description="next_offset of the page before; its span of time counts")
    ] = ""
    amount: Amount = limits.page_count_default


class AuditLine(Shape, frozen=True):
    """Who did what, on what, with which outcome, in which request."""

    time: str
    request_id: str
    user: str
    uid: str
    address: str
    operation: str
    resources: tuple[str, ...]
    outcome: Outcome
    status: Integer
    code: str
    missing: str
    unrecorded: Integer
    left_out: Integer


class AuditTrail(Page, frozen=True):
    """A page of lines.  It may be short, or empty, and yet not the last."""

    results: list[AuditLine]


@_graveler.get(
    "listAuditLines",
    "/audit",
    AuditTrail,
    ("auth:ReadAudit", "*"),
    errors=(Unsupported, Unavailable),
)
def list_audit_lines(call: Call, query: AuditQuery) -> Answer:
    """List changes and denials of the last days."""
    question, after = _question(query, call.ports.clock.now_ns())
    count = page_count(query.amount)
    page = call.service.trail.read(question, after, count)
    following = ""
    if page.following:  # with the span of time, whose ends may depend on the clock
        following = f"{question.since_ns}.{question.until_ns}.{page.following}"
    names = AuditLine.__struct_fields__
    lines = [AuditLine(*(getattr(line, name) for name in names)) for line in page.lines]
    return answers.json(AuditTrail(answers.pagination(len(lines), following), lines))


def _question(query: AuditQuery, now: int) -> tuple[Question, str]:
    """What is asked for, and where the page begins."""
    if query.after:
        since, until, after = _read(query.after)
    else:
        until = moment_ns("until", query.until) if query.until else now + 1
        default = until - limits.audit_seconds_default * SECOND_NS
        since = moment_ns("since", query.since) if query.since else default
        after = ""
    return Question(
        min(max(since, 0), _NEVER_NS - 1),
        min(until, _NEVER_NS - 1),
        query.user,
        query.operation,
        Outcome(query.outcome) if query.outcome else ABSENT,
        query.resource,
    ), after


def _read(token: str) -> tuple[int, int, str]:
    since, until, following = (*token.split(".", 2), "", "")[:3]
    if not (_is_time(since) and _is_time(until) and following):
        raise Invalid("page not found: use the next_offset of the page before")
    return int(since), int(until), following


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < _NEVER_NS
