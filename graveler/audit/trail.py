"""The port of the audit trail, and the trail of a service that was given no other.

A trail never fails a request: a line that cannot be written is an error in the log.  Used by api/
and by the code that starts the service.
"""

import logging
from typing import Final, NamedTuple, Protocol

from graveler.audit import lines
from graveler.audit.lines import Line, Question
from graveler.errors import Unsupported

LOG_NAME: Final = "graveler.audit"
_LOG: Final = logging.getLogger(LOG_NAME)


class LinePage(NamedTuple):
    """A page of lines, oldest first.  `following`: where the next page begins; empty: nothing
    follows.  A page may be short, or empty, and yet not the last."""

    lines: tuple[Line, ...]
    following: str


class Trail(Protocol):
    """Keeps the lines of the last days."""

    def write(self, line: Line) -> None:
        """Add a line.  Only the thread of the event loop calls this; it does not wait, and sends no
        request.  Raises nothing."""
        ...

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        """A page of the lines that a question asks for.  `after`: `following` of the page before;
        empty: the first page.

        Every line that this process wrote before is seen, unless the log is a service of its own.
        Errors: `Invalid` for an unknown `after`, `Unsupported` if this trail cannot be read here,
        `Unavailable`.
        """
        ...


class LoggedTrail:
    """Lines in the log of the process, one JSON object each, and nowhere else."""

    def write(self, line: Line) -> None:
        if _LOG.isEnabledFor(logging.INFO):
            for part in lines.parts(line):
                _LOG.info(lines.mapping(part))

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        """Always raises `Unsupported`."""
        raise Unsupported("audit trail not readable here: its lines are in the log of the service")
