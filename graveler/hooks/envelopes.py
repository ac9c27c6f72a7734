"""A request of a hook on its way to the function that sends it, and the answer on its way back.

    caller      packed ──► JSON: method, URL, headers, body, seconds, end
    function    answered: checks the form, sends by its own `Sender`
    caller      unpacked ◄── JSON: status and body, or why there is none

The end is a time of day.  A request that waits on its way, such as for the start of the function,
is not sent once its caller has given up.  `seconds` bounds the exchange if the clocks differ.

Bodies are Base64 in the JSON, so every byte arrives as it was signed.  The function trusts nothing
that it is handed: its own rules say where a request may go.  Pure but for the `Sender`.

Used by function.py and the function of hooks.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from graveler import limits
from graveler.clock import Clock
from graveler.errors import Invalid, Refused, Unavailable
from graveler.limits import SECOND_NS
from graveler.web import Outgoing, Reply, Sender

_METHODS: Final = ("GET", "POST")
_FIELDS: Final = {"method", "url", "headers", "body", "seconds", "end"}
_REASON_LENGTH_MAX: Final = 1_000


class Term(NamedTuple):
    """How long an exchange may take, and when it must be over, in seconds since 1970."""

    seconds: float
    end: float


def term(clock: Clock, seconds: float) -> Term:
    """The term that begins now."""
    return Term(seconds, clock.now_ns() / SECOND_NS + seconds)


def packed(request: Outgoing, term: Term) -> bytes:
    """The event for the function.  `Refused` if it has more than
    `limits.hook_request_length_bytes_max` bytes."""
    fields = {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
        "seconds": term.seconds,
        "end": term.end,
    }
    event = json.dumps(fields).encode()
    if len(event) > limits.hook_request_length_bytes_max:
        raise Refused("request of the hook is too large")
    return event


def answered(event: object, sender: Sender, clock: Clock) -> dict[str, Any]:
    """What the function answers: it sends the request of the event by `sender`, unless the end of
    the event has passed.

    Raises nothing that the event or the other side causes.  Cost: one request to the other side.
    """
    try:
        request, term = _read(event)
        left = term.end - clock.now_ns() / SECOND_NS
        if left <= 0:
            raise Unavailable("the request came to its function too late, and was not sent")
        reply = sender.send(request, min(term.seconds, left, limits.hook_seconds_max))
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


def _read(event: object) -> tuple[Outgoing, Term]:
    """The request of an event, and its term.  Raises `Invalid`."""
    if not isinstance(event, dict) or set(event) | {"end"} != _FIELDS:
        raise Invalid("event must have these fields alone: " + ", ".join(sorted(_FIELDS)))
    method, url, headers = (event[name] for name in ("method", "url", "headers"))
    if method not in _METHODS or not isinstance(url, str):
        raise Invalid("event must have a method of hooks, and a url")
    if not isinstance(headers, dict) or not all(isinstance(it, str) for it in headers.values()):
        raise Invalid("headers of the event must be texts")
    seconds = _positive(event, "seconds")
    # A caller of an earlier release, while a stack is updated, names no end.
    term = Term(seconds, _positive(event, "end") if "end" in event else math.inf)
    try:
        body = base64.b64decode(event["body"], validate=True)
    except (ValueError, TypeError) as error:
        raise Invalid("body of the event must be Base64") from error
    return Outgoing(method, url, headers, body), term


def _positive(event: Mapping[str, Any], name: str) -> float:
    number = event[name]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Invalid(f"{name} of the event must be a number")
    if not math.isfinite(number) or number <= 0:
        raise Invalid(f"{name} of the event must be positive")
    return float(number)
