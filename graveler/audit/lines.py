"""A line of the audit trail: who did what, on what, with which outcome, in which request.

    {"audit": 1, "time": "2026-01-31T23:59:59.123456Z", "request_id": "…", "user": "ada", …}

The fields below are the whole line: a request has no other way into the trail.  No field holds a
header, a body, a query parameter that names no resource, or the text of an error.  So a line has no
secret, unless somebody hides one in the name of a thing.

A request with very many resources has several lines, with the same request id.  Pure.  Used by
audit/ and api/.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from graveler import limits
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Absent

VERSION: Final = 1
_MARK: Final = "audit"
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Outcome(StrEnum):
    """What became of a request."""

    DONE = "done"  # or accepted: a job does it
    DENIED = "denied"
    FAILED = "failed"  # nothing changed
    UNKNOWN = "unknown"  # it may have changed something, or be going on


class Line(NamedTuple):
    """One line.

    - `time`: of the answer, RFC 3339 in UTC with six decimals, so that texts sort as times do.
    - `user`, `uid`: the caller; empty if it was not identified.  Another user of the same name has
      another uid.
    - `address`: from where; empty if the server does not know it.
    - `operation`: its name in the OpenAPI document.
    - `resources`: what the permissions of the request name.
    - `missing`: the first permission that the caller lacked, `action on resource`.
    - `status`, `code`: of the answer; 0 if the service stopped before it.
    - `unrecorded`: requests before this one that have no line, because their callers had too many.
    - `left_out`: resources that the lines of the request do not name, because they are too many.
    """

    time: str
    request_id: str
    user: str
    uid: str
    address: str
    operation: str
    resources: tuple[str, ...]
    outcome: Outcome
    status: int
    code: str = ""
    missing: str = ""
    unrecorded: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """Which lines: those that agree with all that is not empty.

    `resource`: the beginning of one of the resources.  `since_ns` belongs to the span of time,
    `until_ns` does not.
    """

    since_ns: int
    until_ns: int
    user: str = ""
    operation: str = ""
    outcome: Outcome | Literal[Absent.ABSENT] = ABSENT
    resource: str = ""

    def admits(self, line: Line) -> bool:
        """Whether this is one of the lines."""
        since, until = _span(self.since_ns, self.until_ns)
        return (
            since <= line.time < until
            and self.user in ("", line.user)
            and self.operation in ("", line.operation)
            and self.outcome in (ABSENT, line.outcome)
            and (
                not self.resource or any(each.startswith(self.resource) for each in line.resources)
            )
        )


@lru_cache(maxsize=8)
def _span(since_ns: int, until_ns: int) -> tuple[str, str]:
    return moment(since_ns), moment(until_ns)


def moment(time_ns: int) -> str:
    """A time as lines have it."""
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{_second(seconds)}.{rest // 1_000:06}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def parts(line: Line) -> Iterator[Line]:
    """The line, or several if it has more resources than a line may have."""
    most = limits.audit_line_resources_max
    if len(line.resources) <= most:
        yield line
        return
    yield line._replace(resources=line.resources[:most])
    further = line._replace(unrecorded=0, left_out=0)
    for start in range(most, len(line.resources), most):
        yield further._replace(resources=line.resources[start : start + most])


def mapping(line: Line) -> dict[str, Any]:
    """The line as the object that the log has.  Empty fields are left out."""
    values: dict[str, Any] = {_MARK: VERSION}
    values |= {name: value for name, value in zip(_NAMES, line, strict=True) if value}
    return values


def encode(line: Line) -> bytes:
    """The line as JSON, with a line break."""
    return _ENCODE(mapping(line)).encode("utf-8", "replace") + b"\n"


def decode(text: bytes | str) -> Line | Literal[Absent.ABSENT]:
    """The line in a JSON text; `ABSENT` if there is none, as at the end of a file that a crash cut
    off."""
    try:
        return read(json.loads(text))
    except (ValueError, RecursionError):
        return ABSENT


def read(document: Any) -> Line | Literal[Absent.ABSENT]:
    """The line in an object of the log; `ABSENT` if it is none."""
    if not isinstance(document, Mapping) or document.get(_MARK) != VERSION:
        return ABSENT
    values = {name: document[name] for name in _NAMES if name in document}
    try:
        values["resources"] = tuple(map(str, values.get("resources", ())))
        values["outcome"] = Outcome(values["outcome"])
        values["status"] = int(values.get("status", 0))
        return Line(**{**_EMPTY, **values})
    except (KeyError, TypeError, ValueError):
        return ABSENT


_NAMES: Final = Line._fields
_EMPTY: Final = dict.fromkeys(("time", "request_id", "user", "uid", "address", "operation"), "")
