"""The log of a process on AWS: one JSON object for each line, as the functions write it.

    {"level": "INFO", "location": "graveler.audit", "message": {…}, "timestamp": "…"}

The audit trail is read from lines of this form (audit/logs.py).  For this folder.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


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
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_json() -> None:
    """From now on the process logs lines of JSON to its standard error: its own from INFO,
    libraries from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("graveler").setLevel(logging.INFO)
