"""What the records of the library are made of: answers of the API, and their times."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

R = TypeVar("R")


class Record:
    """What a server told of one thing."""

    @cached_property
    def answer(self) -> Mapping[str, Any]:
        """The JSON object of the API, with all its fields; empty for a record of your own."""
        return {}


def told(record: R, answer: Mapping[str, Any]) -> R:
    """The record, or the repository, which was made of this answer of the API."""
    vars(record)["answer"] = answer
    return record


def moment(seconds: Any) -> datetime | None:
    """Seconds since 1970 as a time in UTC; None stays None, and stands for what no calendar has."""
    try:
        return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def moment_of(text: Any) -> datetime | None:
    """A time in RFC 3339; None for an empty text."""
    return datetime.fromisoformat(str(text)) if text else None
