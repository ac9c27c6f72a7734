"""Kinds of failure as HTTP answers.

The kind decides the status; the text is the error's own, unless clients of this API rely on another
(client_texts.py).  Whatever is not one of our kinds is our bug: 500 without details, and the
details in the log.  For dispatch.py.
"""

import logging
from collections.abc import Mapping
from typing import Final

from graveler import errors
from graveler.api import answers
from graveler.api.answers import Answer, Headers
from graveler.api.client_texts import wording
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
    errors.Unauthenticated: 401,
    errors.Throttled: 429,
    errors.StorageFull: 507,
    errors.Unavailable: 503,
    errors.Corrupt: 500,
    errors.Internal: 500,
}
_MERGE: Final = "mergeIntoBranch"  # its conflict has an answer of its own
_UNKNOWN: Final = "outcome unknown"
RETRY_SOON: Headers = ((b"retry-after", b"1"),)
_RETRY_LATER: Final[Headers] = ((b"retry-after", b"60"),)  # a cluster takes its time


def status_of(error: BaseException) -> int:
    """By the nearest kind."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def answer(error: Exception, operation: str, names: Mapping[str, str]) -> Answer:
    """What the client is told; `names`: what the request called things."""
    status = status_of(error)
    if isinstance(error, errors.MergeConflict) and operation == _MERGE:
        return answers.json({"reference": ""}, 409)
    if isinstance(error, errors.Unauthenticated):
        return answers.message(401, "error authenticating request")
    if status == 500:
        _LOG.error("operation failed: operation=%s", operation, exc_info=error)
        if not isinstance(error, errors.Corrupt):
            return answers.message(500, "internal error")
    headers: Headers = RETRY_SOON if status == 503 else ()
    if isinstance(error, errors.HandedOver):
        headers = _RETRY_LATER
    if isinstance(error, errors.Throttled):
        headers = ((b"retry-after", b"%d" % error.seconds),)
    if isinstance(error, errors.RangeUnsatisfiable):
        headers = (answers.text_header(b"content-range", f"bytes */{error.size}"),)
    return answers.message(status, _said(error, wording(error, operation, names)), headers)


def text_for(error: Exception, operation: str, names: Mapping[str, str]) -> str:
    """What is said of an operation that failed behind the client's back."""
    return _said(error, wording(error, operation, names))


def text_of(error: Exception) -> str:
    """What is said of one path among many."""
    return _said(error, str(error))


def _said(error: Exception, text: str) -> str:
    """A client must be able to tell "nothing was done" from "perhaps it was": both are 503."""
    if isinstance(error, errors.OutcomeUnknown) and _UNKNOWN not in text:
        return f"{text}; {_UNKNOWN}"
    return text
