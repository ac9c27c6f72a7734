"""Statuses of errors, and the log line of an answer that blames the service."""

import logging
from collections.abc import Mapping
from typing import Final

from graveler.core import errors
from graveler.core.errors import Invalid
from graveler.http.answers import Headers


class TooLarge(Invalid):
    """A request body that is larger than its limit."""


_LOG = logging.getLogger("graveler.api")

STATUS: Final[dict[type[errors.GravelerError], int]] = {
    TooLarge: 413,
    errors.Gone: 410,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.PreconditionFailed: 412,
    errors.MergeConflict: 409,
    errors.Contended: 429,  # clients of lakeFS repeat it, and nothing was changed
    errors.Conflict: 409,
    errors.RangeUnsatisfiable: 416,
    errors.Unsupported: 501,
    errors.Invalid: 400,
    errors.Refused: 403,
    errors.HookFailed: 412,
    errors.Unauthenticated: 401,
    errors.Throttled: 429,
    errors.StorageFull: 507,
    errors.Unavailable: 503,
    errors.Corrupt: 500,
    errors.Internal: 500,
}
_PLACES: Final = ("repository", "branch", "ref", "commit_id", "path")
RETRY_SOON: Headers = ((b"retry-after", b"1"),)


def status_of(error: BaseException) -> int:
    """The HTTP status of an error, by the nearest class in its method resolution order; else
    500."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def log_failure(
    error: BaseException, status: int, operation: str, names: Mapping[str, str], request_id: str
) -> None:
    """Write one line about an answer that blames the service: its cause is for the operator.

    `names`: the strings of the request, by name.  The line has the repository; about damage, all
    places, because an error about a file does not say who reads it.  A 501 blames the caller.  Only
    a bug has a traceback.
    """
    if status < 500 or status == 501:
        return
    is_bug = not isinstance(error, errors.GravelerError) or isinstance(error, errors.Internal)
    places = _PLACES if isinstance(error, errors.Corrupt) else _PLACES[:1]
    _LOG.log(
        logging.ERROR if status == 500 else logging.WARNING,
        "damage found" if isinstance(error, errors.Corrupt) else "request failed",
        exc_info=error if is_bug else None,
        extra={
            "operation": operation,
            **{name: names[name] for name in places if names.get(name)},
            "status": status,
            "request_id": request_id,
            "cause": errors.explained(error),
        },
    )
