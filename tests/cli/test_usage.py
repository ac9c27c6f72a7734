"""`graveler usage`: the requests of a served store."""

from datetime import UTC, datetime

from graveler.api.config import InstallationUsageReport
from tests.cli.conftest import Lake


def test_requests_are_counted_by_month(lake: Lake) -> None:
    report = lake.user.read(InstallationUsageReport, "usage")
    assert sum(month.count for month in report.reports) > 0
    month, count = lake.user.run("usage").out.splitlines()[-1].split("\t")
    assert datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC) and int(count) > 0
