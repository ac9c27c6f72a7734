"""Times on the command line: `2 days ago`, `yesterday`, `2026-11-23`, `2026-11-23T10:00:00Z`.

A time without an offset is local.  Pure.  For this folder.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from graveler.cli.address import UsageMistake

_AGO: Final = re.compile(r"(\d{1,6}) ?(s|second|m|minute|h|hour|d|day|w|week)s?( ago)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse(text: str, now_ns: int) -> datetime:
    """The time that `text` means, in UTC.  Raises `UsageMistake`."""
    now = datetime.fromtimestamp(now_ns // 10**9, UTC)
    word = " ".join(text.lower().split())
    if word in ("now", "yesterday"):
        return now if word == "now" else now - timedelta(days=1)
    ago = _AGO.fullmatch(word)
    try:
        if ago:
            return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2][0]])
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageMistake(
            f"time invalid: {text!r}: write '2 days ago', 2026-11-23 or 2026-11-23T10:00:00Z"
        ) from None


def of(seconds: int) -> datetime:
    """The time of a number of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def rfc3339(moment: datetime) -> str:
    """The time as the API takes it."""
    return moment.isoformat().replace("+00:00", "Z")
