"""Reads and changes the break parameters of a repository (where its ranges end), over the API.

    seen = read(session, "lake")
    swap(session, "lake", seen, replace(seen, min_size=8 << 20))

New ranges use the new parameters; existing ranges stay as they are (`graveler.spark.pack` rewrites
them).  Each call is one request and raises the errors of `Session.ask`.  Part of the public Python
client.
"""

from graveler import break_json
from graveler.client.bulk import parsed_breaks
from graveler.client.session import Session, below
from graveler.records import BreakParameters


def read(session: Session, repository: str) -> BreakParameters:
    """The current parameters.  Raises `NotFound` if the repository does not exist."""
    return parsed_breaks(session.ask("GET", _where(repository)))


def swap(session: Session, repository: str, seen: BreakParameters, new: BreakParameters) -> None:
    """Set the parameters to `new` if they are still `seen` (compare-and-swap).  Idempotent.

    Errors: `PreconditionFailed` if another client has changed them; nothing was changed.
    `Invalid`, `NotFound`, `Refused`.  After `OutcomeUnknown`, read the parameters.
    """
    body = {"expected": break_json.told(seen), "breaks": break_json.told(new)}
    session.ask("PUT", _where(repository), body)


def _where(repository: str) -> str:
    return below("repositories", repository, "settings", "breaks")
