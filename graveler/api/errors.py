"""Maps errors to HTTP answers.

The kind of an error decides the status, its code the text (client_texts.py).  An error whose code
has no text there is answered with its own.  An exception of any other type is a bug in the service:
the answer is 500 without details, and the log has the details.  Used by dispatch.py and pages.py;
tasks.py and object_writes.py report errors inside their answers.
"""

import logging
from collections.abc import Mapping
from typing import Final

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
    errors.Contended: 423,
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


def answer(
    error: Exception, operation: str, names: Mapping[str, str], *, is_known: bool = True
) -> Answer:
    """The answer for an error.  `names`: the strings of the request, by name.  `is_known`: the
    caller has proved who it is; others are not told what the service needs and does not get, such
    as an identity provider, but the log is."""
    status = status_of(error)
    if isinstance(error, errors.MergeConflict) and operation == _MERGE:
        return answers.json({"reference": ""}, 409)
    if isinstance(error, errors.Unauthenticated):
        return answers.message(401, "error authenticating request")
    if isinstance(error, errors.Corrupt):  # the text says what is damaged; a stack adds nothing
        text = f"{error}{_places_of(names)}"
        _LOG.error("damage found: operation=%s %s", operation, text)
        return answers.message(500, text)
    if status == 500:
        _LOG.error("operation failed: operation=%s", operation, exc_info=error)
        return answers.message(500, "internal error")
    headers: Headers = RETRY_SOON if status == 503 else ()
    if isinstance(error, errors.HandedOver):
        headers = _RETRY_LATER
    if isinstance(error, errors.Throttled):
        headers = ((b"retry-after", b"%d" % error.seconds),)
    if isinstance(error, errors.RangeUnsatisfiable):
        headers = (answers.text_header(b"content-range", f"bytes */{error.size}"),)
    if status == 503 and not is_known:
        _LOG.warning("not available: operation=%s %s", operation, error)
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
