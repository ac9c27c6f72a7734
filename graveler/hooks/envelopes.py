"""A request of a hook on its way to the function that sends it, and the answer on its way back.

    caller      packed ──► JSON: method, URL, headers, body, seconds
    function    answered: checks the form, sends by its own `Sender`
    caller      unpacked ◄── JSON: status and body, or why there is none

Bodies are Base64 in the JSON, so every byte arrives as it was signed.  The function trusts nothing
that it is handed: its own rules say where a request may go.  Pure but for the `Sender`.

Used by function.py and the function of hooks.
"""

import base64
import json
import math
from typing import Any, Final

from graveler import limits
from graveler.errors import Invalid, Refused, Unavailable
from graveler.web import Outgoing, Reply, Sender

_METHODS: Final = ("GET", "POST")
_FIELDS: Final = {"method", "url", "headers", "body", "seconds"}
_REASON_LENGTH_MAX: Final = 1_000


def packed(request: Outgoing, seconds: float) -> bytes:
    """The event for the function.  `Refused` if it has more than
    `limits.hook_request_length_bytes_max` bytes."""
    fields = {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
        "seconds": seconds,
    }
    event = json.dumps(fields).encode()
    if len(event) > limits.hook_request_length_bytes_max:
        raise Refused("request of the hook is too large")
    return event


def answered(event: object, sender: Sender) -> dict[str, Any]:
    """What the function answers: it sends the request of the event by `sender`.

    Raises nothing that the event or the other side causes.  Cost: one request to the other side.
    """
    try:
        request, seconds = _read(event)
        reply = sender.send(request, min(seconds, limits.hook_seconds_max))
    except (Invalid, Refused) as error:
        return {"refused": str(error)[:_REASON_LENGTH_MAX]}
    except Unavailable as error:
        return {"unavailable": str(error)[:_REASON_LENGTH_MAX]}
    return {"status": reply.status, "body": base64.b64encode(reply.body).decode()}


def unpacked(answer: bytes) -> Reply:
    """The reply in an answer of the function.

    Errors: `Refused` or `Unavailable`, as the function's `Sender` raised them; `Unavailable` for an
    answer of another form."""
    try:
        fields = json.loads(answer)
        status, body = fields.get("status"), fields.get("body", "")
        if type(status) is int and isinstance(body, str):
            return Reply(status, base64.b64decode(body, validate=True))
        if isinstance(reason := fields.get("refused"), str):
            raise Refused(reason)
        if isinstance(reason := fields.get("unavailable"), str):
            raise Unavailable(reason)
    except (ValueError, AttributeError, RecursionError) as error:
        raise Unavailable("answer of the function of hooks has another form") from error
    raise Unavailable("answer of the function of hooks has another form")


def _read(event: object) -> tuple[Outgoing, float]:
    """The request of an event, and how long it may take.  Raises `Invalid`."""
    if not isinstance(event, dict) or set(event) != _FIELDS:
        raise Invalid("event must have these fields alone: " + ", ".join(sorted(_FIELDS)))
    method, url, headers, seconds = (
        event[name] for name in ("method", "url", "headers", "seconds")
    )
    if method not in _METHODS or not isinstance(url, str):
        raise Invalid("event must have a method of hooks, and a url")
    if not isinstance(headers, dict) or not all(isinstance(it, str) for it in headers.values()):
        raise Invalid("headers of the event must be texts")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise Invalid("seconds of the event must be a number")
    if not math.isfinite(seconds) or seconds <= 0:
        raise Invalid("seconds of the event must be positive")
    try:
        body = base64.b64decode(event["body"], validate=True)
    except (ValueError, TypeError) as error:
        raise Invalid("body of the event must be Base64") from error
    return Outgoing(method, url, headers, body), float(seconds)
