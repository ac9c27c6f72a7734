"""Requests of hooks that leave from a function of their own on AWS.

    API, worker ──Invoke──► function of hooks ──► host that is allowed
    roles: table, objects   role: its own log     knows no secret, is in no VPC

The caller makes and signs the request; the function has nothing but what it is handed.  Rules are
applied twice: here, before anything is sent, and in the function, which resolves the name and
connects.
"""

from contextlib import closing
from typing import Final, Literal

from graveler.core import limits
from graveler.core.aws import FAILURES, AwsSession, CallPolicy, Client, Fate, failure_of
from graveler.core.clock import Clock
from graveler.core.errors import Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.web import Outgoing, Reply
from graveler.hooks import egress
from graveler.hooks.egress import EgressRules

_WAIT_SECONDS: Final = 0.2
_LEAST_SECONDS: Final = 0.01  # in less, nothing is answered
_TOLD_SECONDS: Final = 0.5  # for the way to the function and back
_TRIES_MAX: Final = 300  # with these waits, the longest time of a hook


class FunctionSender:
    """`Sender` by way of the function `name`.

    A request is handed over once, because nobody knows whether one without an answer was sent.
    Only if the function has no free sandbox, and so has sent nothing, it is handed over again,
    until the time is over.  Cost: one call of Lambda; a client is made for it, because its time
    limit is that of the request.
    """

    def __init__(self, session: AwsSession, name: str, rules: EgressRules, clock: Clock) -> None:
        self._session = session
        self._name = name
        self._rules = rules
        self._clock = clock

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self._rules.check_url(request.url)
        end = self._clock.steady_seconds() + min(seconds, limits.hook_seconds_max)
        for _ in range(_TRIES_MAX):
            left = end - self._clock.steady_seconds()
            if left < _LEAST_SECONDS:
                break
            # The function says why a request failed, so it has to end before nobody listens.
            term = egress.term(self._clock, left - min(_TOLD_SECONDS, left / 4))
            event = egress.packed(request, term)
            policy = CallPolicy(min(1.0, left), left, 1, 1)
            with closing(self._session.client("lambda", policy)) as client:
                answer = self._invoked(client, event)
            if answer is not ABSENT:
                return egress.unpacked(answer)
            self._clock.sleep(min(_WAIT_SECONDS, left))
        raise Unavailable("no function was free to send the hook in time")

    def _invoked(self, client: Client, event: bytes) -> bytes | Literal[Absent.ABSENT]:
        """The answer of the function; `ABSENT` if all its sandboxes are taken."""
        try:
            answered = client.invoke(FunctionName=self._name, Payload=event)
            body: bytes = answered["Payload"].read(limits.hook_envelope_length_bytes_max + 1)
        except FAILURES as error:
            failure = failure_of(error)
            if failure.fate is Fate.BUSY:
                return ABSENT
            cause = failure.code or "no answer"
            if failure.fate is Fate.UNKNOWN:
                raise Unavailable(
                    f"no answer of the function of hooks, which may have sent the request: {cause}"
                ) from error
            raise Unavailable(f"function of hooks not called: {cause}") from error
        if answered.get("FunctionError") or len(body) > limits.hook_envelope_length_bytes_max:
            raise Unavailable("the function of hooks failed")
        return body
