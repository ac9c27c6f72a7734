"""Operations on the usage of a deployment, and on its communication preferences.

Each process counts its requests (metrics.py) and adds them to the counters of the month: every
1,000 requests, when a report is read, and when it stops.
"""

from contextlib import suppress
from typing import Annotated

from msgspec import Meta

from graveler.api import answers
from graveler.api.answers import PLAIN, Answer, Content, Shape
from graveler.api.field_types import Integer
from graveler.api.metrics import add_requests
from graveler.api.operation import Body, Headers, Runs, operation
from graveler.api.service import Call
from graveler.auth import accounts
from graveler.auth.permissions import Permission
from graveler.errors import AlreadyExists, GravelerError

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


class Accept(Headers, frozen=True):
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


@operation(
    "getUsageReportSummary",
    "GET",
    "/usage-report/summary",
    tag="internal",
    permissions=(Permission("fs:ReadConfig", "*"),),
    answers={200: InstallationUsageReport},
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


@operation(
    "setupCommPrefs",
    "POST",
    "/setup_comm_prefs",
    tag="setup",
    permissions=(Permission("auth:CreateUser", "*"),),
    answers={200: Content.NOTHING},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
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
