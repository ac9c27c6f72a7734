"""Request dispatch: find the operation, authenticate, validate, run the endpoint, send the answer.

    path ─► operation ─► account (401) ─► parameters, body (400) ─► permissions (403)
         ─► repository (404) ─► endpoint

An unauthenticated caller gets 401 and no other detail, and its request body is not read.
Changes and denials are put on record before they are answered (witness.py).

Each operation names the place where its endpoint runs (`Runs` in operation.py).  The event loop
runs only work that never waits: look-ups of single rows that are already durable, and in tables
that are open.  A hop to a thread costs more than such a look-up.  The stores themselves refuse to
wait on the event loop (kv/wait.py); dispatch then repeats the call in a thread.  Scans and walks
always run in a thread, with a deadline inside.
Used by app.py and start.py, through routing.py.
"""

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from graveler.api import answers, cookies, errors, open_calls, permits
from graveler.api.answers import Answer
from graveler.api.feed import Disconnected, Receive
from graveler.api.operation import Operation, Runs
from graveler.api.plans import Plan
from graveler.api.requests import Tree, counted, unquoted_segment
from graveler.api.responses import Send, note_request_id, send
from graveler.api.service import Call, Service
from graveler.api.witness import RequestTrace, Witness
from graveler.auth.access import Caller
from graveler.engine.repositories import repository
from graveler.errors import Internal
from graveler.kv.wait import WouldWait
from graveler.records import ABSENT, Absent

Scope = MutableMapping[str, Any]
_UNKNOWN: Final = answers.message(404, "invalid API endpoint")
# Paths of operations that lakeFS's API has, or had in 1.x, and this one has not.
_NOT_SERVED: Final = (
    (re.compile(r"auth/groups/[^/]+/acl"), "groups have no ACL: attach policies to them"),
    (re.compile(r"auth/get-token/.+"), "log in with `POST /auth/login` or an access key"),
    (re.compile(r"oidc/callback"), "`POST /sts/login` takes the code of an identity provider"),
    (re.compile(r"license"), "there is no licence"),
    (re.compile(r"iceberg/remotes/[^/]+/(pull|push)"), "there is no Iceberg catalog"),
    (re.compile(r"repositories/[^/]+/otf/.+"), "differences of tables are not computed"),
)
_CLIENT_GONE: Final = Answer(499)
_STOPPED: Final = Answer(0)  # never sent: the service stops before there is an answer


class ApiRoute:
    """All operations as one route of the application."""

    def __init__(
        self,
        prefix: str,
        operations: Iterable[Operation],
        service: Service,
    ) -> None:
        self._prefix = prefix + "/"
        self._service = service
        self._witness = Witness(service)
        self._tree = Tree.empty()
        for operation in operations:
            self._tree.add(operation.path, operation.method, Plan(operation))

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        started = self._service.ports.clock.steady_seconds()
        raw_path: bytes = scope["raw_path"]
        segments = raw_path.decode("latin-1")[len(self._prefix) :].split("/")
        match = self._tree.find(segments, scope["method"])
        if not match:
            await send(self._service, scope, receive, send_message, _unmatched(segments))
            return
        plan, values = match
        scope["graveler.operation"] = (plan.name, started)
        note_request_id(self._service, scope)
        trace, answer = RequestTrace(), _STOPPED
        try:
            answer = await self._answer(plan, values, scope, receive, trace)
        finally:
            if plan.audited or trace.denied(answer.status):
                trace.arguments = trace.arguments or dict(zip(plan.names, values, strict=True))
                if trace.call is not ABSENT:
                    trace.needed = trace.needed or plan.named(trace.call)
                self._witness.record(plan.name, scope, trace, answer.status)
            if trace.changes:
                self._witness.record_changes(scope, trace, answer.status)
        await send(self._service, scope, receive, send_message, answer)

    async def _answer(
        self, plan: Plan, values: list[str], scope: Scope, receive: Receive, trace: RequestTrace
    ) -> Answer:
        arguments: dict[str, str] = {}
        headers = dict(scope["headers"])
        try:
            pools = self._service.pools
            trace.arguments = arguments
            try:
                account = self._account(plan, headers, scope, trace)
            except WouldWait:
                account = await pools.writers.start(self._account, plan, headers, scope, trace)
            trace.account = account
            for name, value in zip(plan.names, values, strict=True):
                arguments[name] = unquoted_segment(value, name)
            call = await self._call(plan, arguments, headers, scope, receive)
            call.account, call.changes = account, trace.changes
            trace.call = call
            if account is not ABSENT and not plan.allows(account):
                await self._authorize(account, plan, trace, call)
            if plan.in_repository:
                name = arguments["repository"]
                call.repository = await pools.point(repository.get, self._service.ports, name)
        except Disconnected:
            return _CLIENT_GONE
        except Exception as error:
            trace.fail(error)
            is_known = trace.account is not ABSENT
            return errors.answer(error, "", arguments, scope, is_known=is_known)
        try:
            answer = await run(plan.run, plan.runs, call)
            if plan.is_open:
                _check_named(plan, call, answer)
            return answer
        except Disconnected:
            return _CLIENT_GONE
        except Exception as error:
            trace.fail(error)
            return errors.answer(error, plan.name, _names(call), scope, is_known=not plan.is_open)

    async def _authorize(self, caller: Caller, plan: Plan, trace: RequestTrace, call: Call) -> None:
        trace.needed = plan.named(call)
        name = call.arguments.get("repository", "")
        await permits.authorize(self._service, caller, trace.needed, name)

    def _account(
        self, plan: Plan, headers: Mapping[bytes, bytes], scope: Scope, trace: RequestTrace
    ) -> Caller | Literal[Absent.ABSENT]:
        front = self._service.settings.front
        if plan.is_open:
            open_calls.check(front, plan.name, scope, headers, has_body=plan.has_body)
            return ABSENT
        authorization = headers.get(b"authorization", b"")
        cookie = "" if authorization else cookies.session(front, scope, headers, scope["method"])
        caller = self._service.auth.identify(
            authorization, cookie, lambda: front.client(scope), trace.changes
        )
        self._service.rates.take(caller.record.uid)
        return caller

    async def _call(
        self,
        plan: Plan,
        arguments: dict[str, str],
        headers: Mapping[bytes, bytes],
        scope: Scope,
        receive: Receive,
    ) -> Call:
        reader = plan.reader
        query = reader.query(scope["query_string"])
        declared = reader.headers(headers)
        receive = counted(receive, headers)
        body = await reader.body(receive, headers) if plan.has_body else ABSENT
        seconds = scope.get("graveler.seconds_left")
        service = self._service if seconds is None else self._service.within(seconds)
        call = Call(service, arguments, query, headers, declared, body, receive, scope)
        _, call.arrived_seconds = scope["graveler.operation"]
        return call


def _unmatched(segments: Sequence[str]) -> Answer:
    """The answer for a path, or a method of it, that no operation has."""
    path = "/".join(segments)
    for pattern, instead in _NOT_SERVED:
        if pattern.fullmatch(path):
            return answers.message(501, f"not implemented: {instead}")
    return _UNKNOWN


async def run(endpoint: Callable[[Any], Any], runs: Runs, call: Call) -> Answer:
    """Run an endpoint where `runs` says.  Its result is its answer."""
    pools = call.service.pools
    if runs is Runs.LOOP:
        return endpoint(call)  # type: ignore[no-any-return]
    if runs is Runs.STREAM:
        return await endpoint(call)  # type: ignore[no-any-return]
    if runs is Runs.WALK or (runs is Runs.POINT and call.walks):
        return await pools.walkers.start(_walk, endpoint, call)
    if runs is Runs.POINT:
        return await pools.point(endpoint, call)
    pool = pools.copies if runs is Runs.COPY else pools.writers
    answer: Answer = await pool.start(endpoint, call)
    return answer


def _check_named(plan: Plan, call: Call, answer: Answer) -> None:
    """Raises `Internal` if a change without credentials has happened and nobody is named for it:
    then its caller gets nothing of it, neither a session nor a key."""
    if plan.audited and answer.status < 300 and not call.acting:
        raise Internal(f"operation names nobody for the audit trail: {plan.name}")


def _walk(endpoint: Any, call: Call) -> Answer:
    """Run a walk in a thread.  Its deadline starts now: time spent in the queue does not count."""
    call.begin_walk()
    return endpoint(call)  # type: ignore[no-any-return]


def _names(call: Call) -> dict[str, str]:
    """The strings of the request by name, for error messages: body, query, path parameters.

    If a name occurs more than once, the path wins over the query, and the query over the body.
    """
    values = {**_fields(call.body), **_fields(call.query), **call.arguments}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: getattr(value, attribute) for name, attribute in names}
    return {}
