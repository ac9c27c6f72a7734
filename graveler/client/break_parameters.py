"""Where the ranges of a repository end, through the API of a server.

    seen = read(session, "lake")
    swap(session, "lake", seen, replace(seen, min_size=8 << 20))

Whatever is written from then on ends by the new parameters; what is there stays as it is
(`graveler.spark.pack` writes it anew).  Each call is one request, and raises what `Session.ask`
does.  For whoever uses the package.
"""

from graveler import break_json
from graveler.client.bulk import parsed_breaks
from graveler.client.session import Session, below
from graveler.records import BreakParameters


def read(session: Session, repository: str) -> BreakParameters:
    """The parameters as they are now.  `NotFound`."""
    return parsed_breaks(session.ask("GET", _where(repository)))


def swap(session: Session, repository: str, seen: BreakParameters, wanted: BreakParameters) -> None:
    """Set them to `wanted` if they are `seen`; once or often.

    `PreconditionFailed`: somebody has set others; nothing was changed.  `Invalid`, `NotFound`,
    `Refused`; `OutcomeUnknown`: read them.
    """
    body = {"expected": break_json.told(seen), "breaks": break_json.told(wanted)}
    session.ask("PUT", _where(repository), body)


def _where(repository: str) -> str:
    return below("repositories", repository, "settings", "breaks")
