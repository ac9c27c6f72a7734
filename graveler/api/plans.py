"""Operations, compiled for dispatch: the readers of their input, and the call of their endpoint.

A plan compiles itself at its first request, so that the start of a process costs nothing for
operations that it never serves.  Used by dispatch.py.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from graveler import limits
from graveler.api.bodies import body_reader, may_lack
from graveler.api.feed import Receive
from graveler.api.operation import BY_ITEM, Operation
from graveler.api.parameters import headers_reader, query_reader
from graveler.api.requests import whole_body
from graveler.api.service import Call
from graveler.api.templates import needed
from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.errors import Invalid
from graveler.records import ABSENT


class Reader:
    """Parses the parameters and the body of the requests of one operation."""

    def __init__(self, operation: Operation) -> None:
        self._query = ABSENT if operation.query is ABSENT else query_reader(operation.query)
        self._headers = ABSENT if operation.headers is ABSENT else headers_reader(operation.headers)
        self._body = ABSENT if operation.body is ABSENT else body_reader(operation.body)
        self._body_may_lack = operation.body is not ABSENT and may_lack(operation.body)
        self._body_length_max = (
            limits.json_body_length_bytes_max
            if operation.authenticated
            else limits.open_body_length_bytes_max
        )

    def query(self, raw: bytes) -> Any:
        """The query parameters, in the declared type.  Raises `Invalid`."""
        return ABSENT if self._query is ABSENT else self._query(raw)

    def headers(self, headers: Mapping[bytes, bytes]) -> Any:
        """The headers, in the declared type.  Raises `Invalid`."""
        return ABSENT if self._headers is ABSENT else self._headers(headers)

    async def body(self, receive: Receive, headers: Mapping[bytes, bytes]) -> Any:
        """The JSON body, in the declared type.

        Raises `Invalid`, `TooLarge`, and `Disconnected` if the client closes the connection.
        """
        assert self._body is not ABSENT, "the operation has no body"
        raw = await whole_body(receive, headers, self._body_length_max)
        if not raw.strip():
            if not self._body_may_lack:
                raise Invalid("request body has an error: value is required but missing")
            raw = b"{}"
        return self._body(raw)


class Plan:
    """An operation, compiled for dispatch."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.name = operation.name
        self.runs = operation.runs
        self.is_open = not operation.authenticated
        self.has_body = operation.body is not ABSENT
        self.names = operation.path_parameters
        self.audited = operation.audited
        self.actions = frozenset(each.action for each in operation.permissions)
        self.is_by_item = operation.name in BY_ITEM
        self.in_repository = "repository" in self.names

    @cached_property
    def reader(self) -> Reader:
        """Parses the input of requests."""
        return Reader(self._operation)

    @cached_property
    def run(self) -> Callable[[Call], Any]:
        """Calls the endpoint with the input that it declares."""
        return _invocation(self._operation)

    def allows(self, caller: Caller) -> bool:
        """Whether the caller may run the operation whatever the request names, or its items are
        authorized one by one."""
        if self.is_by_item:
            return True
        return bool(self.actions) and self.actions <= caller.rights.everywhere

    def named(self, call: Call) -> tuple[Permission, ...]:
        """The permissions that a request needs: before its endpoint runs, unless the operation is
        authorized item by item."""
        return needed(self._operation.templates, call.arguments, call.query, call.body)


_ATTRIBUTES = {"query": "query", "body": "body", "headers": "declared_headers"}


def _invocation(operation: Operation) -> Callable[[Call], Any]:
    endpoint = operation.endpoint
    inputs = [
        (name, attribute)
        for name, attribute in _ATTRIBUTES.items()
        if getattr(operation, name) is not ABSENT
    ]
    if not inputs:
        return endpoint
    if inputs == [("query", "query")]:
        return lambda call: endpoint(call, query=call.query)
    if len(inputs) == 2 and operation.query is not ABSENT and operation.headers is not ABSENT:
        return lambda call: endpoint(call, query=call.query, headers=call.declared_headers)
    return lambda call: endpoint(call, **{name: getattr(call, of) for name, of in inputs})
