"""Maps errors to HTTP answers.

The kind of an error decides the status, its code the text (client_texts.py).  An error whose code
has no text there is answered with its own.  An exception of any other type is a bug in the service:
the answer is 500 without details, and the log has the details.  Used by dispatch.py and pages.py;
tasks.py and object_writes.py report errors inside their answers.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from graveler import errors
from graveler.api import answers
from graveler.api.answers import Answer, Headers
from graveler.api.client_texts import text_for
from graveler.api.requests import TooLarge

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
_NOT_AVAILABLE: Final = "service not available; try again"
_MERGE: Final = "mergeIntoBranch"  # its conflict has its own answer
_PLACES: Final = ("repository", "branch", "ref", "commit_id", "path")
RETRY_SOON: Headers = ((b"retry-after", b"1"),)
_RETRY_LATER: Final[Headers] = ((b"retry-after", b"60"),)  # a cluster needs longer


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


def answer(
    error: Exception,
    operation: str,
    names: Mapping[str, str],
    scope: Mapping[str, Any],
    *,
    is_known: bool = True,
) -> Answer:
    """The answer for an error, which is logged if the service is to blame.

    `operation`: whose texts apply.  `names`: the strings of the request, by name.  `is_known`: the
    caller has proved who it is; others are not told what the service needs and does not get, such
    as an identity provider.
    """
    status = status_of(error)
    label, _ = scope.get("graveler.operation", ("none", 0.0))
    log_failure(error, status, label, names, scope["graveler.request_id"])
    if isinstance(error, errors.MergeConflict) and operation == _MERGE:
        return answers.json({"reference": ""}, 409)
    if isinstance(error, errors.Unauthenticated):
        return answers.message(401, "error authenticating request")
    if isinstance(error, errors.Corrupt):
        return answers.message(500, f"{error}{_places_of(names)}")
    if status == 500:
        return answers.message(500, "internal error")
    headers: Headers = RETRY_SOON if status in (429, 503) else ()
    if isinstance(error, errors.HandedOver):
        headers = _RETRY_LATER
    if isinstance(error, errors.Throttled):
        headers = ((b"retry-after", b"%d" % error.seconds),)
    if isinstance(error, errors.RangeUnsatisfiable):
        headers = (answers.text_header(b"content-range", f"bytes */{error.size}"),)
    if status == 503 and not is_known:
        return answers.message(status, unavailable_text(error), headers)
    return answers.message(status, text_for(error, operation, names), headers)


def _places_of(names: Mapping[str, str]) -> str:
    """What a request is about: an error about a file does not say who reads it."""
    shown = [f" {name}={names[name]!r:.300}" for name in _PLACES if names.get(name)]
    return "".join([":", *shown]) if shown else ""


def unavailable_text(error: BaseException) -> str:
    """What a caller without credentials is told of a 503."""
    is_open = isinstance(error, errors.OutcomeUnknown)
    return f"{_NOT_AVAILABLE}; {errors.OUTCOME_UNKNOWN}" if is_open else _NOT_AVAILABLE
