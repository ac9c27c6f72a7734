"""How many requests a deployment has answered, over the API.  Part of the public Python client."""

from typing import TypedDict, cast

from graveler.client.refs import checked
from graveler.client.session import Session


class Month(TypedDict):
    """The requests of one month."""

    year: int
    month: int
    count: int


class Report(TypedDict):
    """The requests of a deployment, by month."""

    installation_id: str
    reports: list[Month]


def report(session: Session) -> Report:
    """The requests by month.  Cost: one request.  Raises the errors of `Session.ask`."""
    answer = checked(session.ask("GET", "/usage-report/summary"), "installation_id", "reports")
    return cast(Report, answer)
