"""Ports that fail like a remote service: the n-th request is refused, lost, repeated or late.

A plan decides the fate of each request by its number (from 1) and verb.  So a test can fail each
request of an operation in turn, and a simulator can decide by a seed.  For tests only.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable
from tests.support.passing import Passing, PassingBlocks, PassingStore


class Fault(Enum):
    """The fate of a request."""

    NONE = "answered"
    REFUSED = "not applied, and says so"
    FULL = "not applied: no room"
    DROPPED = "not applied, nobody knows"
    LOST = "applied, nobody knows"
    REPEATED = "applied, then sent again by the way: the second answer arrives"
    LATE = "nobody knows; applied when `land` is called"


FaultPlan = Callable[[int, str], Fault]  # number of the request, verb


def nth(faults: Mapping[int, Fault]) -> FaultPlan:
    """The plan that breaks only the requests with these numbers."""
    return lambda number, verb: faults.get(number, Fault.NONE)


class _Faulty(Passing):
    """Requests fail by plan."""

    def __init__(self, port: Any, plan: FaultPlan) -> None:
        super().__init__(port)
        self.requests = 0
        self.late: list[Callable[[], object]] = []
        self._plan = plan

    def land(self) -> None:
        """Apply the late requests, oldest first."""
        while self.late:
            self.late.pop(0)()

    def send(self, verb: str, call: Callable[[], Any]) -> Any:
        return self._become(verb, self._next(verb), call)

    def _next(self, verb: str) -> Fault:
        self.requests += 1
        return self._plan(self.requests, verb)

    def _become(self, verb: str, fault: Fault, call: Callable[[], Any]) -> Any:
        if fault in (Fault.LOST, Fault.REPEATED):
            call()
        if fault in (Fault.NONE, Fault.REPEATED):
            return call()
        if fault is Fault.LATE:
            self.late.append(call)
        text = f"injected: {verb=} {fault=} request={self.requests}"
        if fault is Fault.REFUSED:
            raise Unavailable(text)
        raise StorageFull(text) if fault is Fault.FULL else OutcomeUnknown(text)


class FaultyStore(_Faulty, PassingStore):
    """`Store` whose requests fail by plan.  A batch counts as one request here."""


class FaultyBlocks(_Faulty, PassingBlocks):
    """`Blocks` whose requests fail by plan.  The body of a request that fails is read whole first,
    as a service has read it when its answer is lost."""

    def put(self, address: str, body: Iterable[bytes], *rest: Any, **named: Any) -> Any:
        fault = self._next("put")
        content = body if fault is Fault.NONE else [*body]
        return self._become("put", fault, lambda: self.port.put(address, content, *rest, **named))

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Any:
        fault = self._next("put_part")
        content = body if fault is Fault.NONE else [*body]
        return self._become(
            "put_part", fault, lambda: self.port.put_part(address, upload_id, number, content)
        )
