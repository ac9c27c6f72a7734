"""The log of a process: lines of text for people, or one JSON object for each line, as on AWS.

    {"level": "INFO", "location": "graveler.access", "message": "request", "operation": …}

Fields that a record has beside its message (`extra`) are keys of the object, and follow the message
in text.  The audit trail is read from lines of JSON (audit/logs.py).
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_STANDARD: Final = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))


class TextLines(logging.Formatter):
    """Formats a record as a line of text: time, level, logger, message, fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = (f"{name}={_word(value)}" for name, value in _fields(record).items())
        return " ".join((super().formatMessage(record), *fields))


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON.  A message that is a mapping stays one."""

    def format(self, record: logging.LogRecord) -> str:
        message: Any = record.msg
        if not isinstance(message, Mapping):
            message = record.getMessage()
        line = {
            "level": record.levelname,
            "location": record.name,
            "message": message,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _word(value: Any) -> str:
    """A value in text: quoted if it has a blank, or a character that could begin another line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def log_text() -> None:
    """From now on the process logs lines of text to its standard error, from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines())
    logging.basicConfig(handlers=[handler])


def log_json() -> None:
    """From now on the process logs lines of JSON to its standard error: its own from INFO,
    libraries from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("graveler").setLevel(logging.INFO)
