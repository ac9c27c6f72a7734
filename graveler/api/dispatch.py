"""From a request of the API to its endpoint.

    path ─► operation ─► account (401) ─► parameters, body (400) ─► permissions (403)
         ─► repository (404) ─► endpoint

An unauthenticated caller gets 401 and no other detail, and its body is not read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from ipaddress import ip_address
from typing import Any, Final, Literal

from msgspec import Struct

from graveler.api import answers, errors
from graveler.api.input import body_reader, headers_reader, may_lack, query_reader, unquoted_segment
from graveler.api.operation import Operation
from graveler.auth.access import Caller
from graveler.auth.principals import Change
from graveler.core import limits
from graveler.core.errors import (
    Internal,
    Invalid,
    NotFound,
    Refused,
    Unauthenticated,
    Unavailable,
)
from graveler.core.records import ABSENT, Absent
from graveler.engine.bulk import job as bulk
from graveler.engine.repositories import repository
from graveler.http import permissions
from graveler.http.answers import Answer, Receive, Scope, Send, in_gzip, takes_gzip
from graveler.http.audit import AuditLog, RequestTrace
from graveler.http.dispatch import note_request_id, send_answer
from graveler.http.front import Front, host_of, token_of_cookie
from graveler.http.intake import Disconnected, counted, whole_body
from graveler.http.service import Call, Service
from graveler.kv.store import WouldWait

# ---- plans ---------------------------------------------------------------------------------------


class Plan:
    """An operation, compiled for dispatch.  Its readers are made at its first request, so that the
    start of a process costs nothing for operations that it never serves."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.name = operation.name
        self.is_open = not operation.authenticated
        self.names = operation.path_parameters
        self.audited = operation.audited
        self.in_repository = "repository" in self.names

    @cached_property
    def inputs(self) -> Sequence[tuple[str, Callable[[Any], Any]]]:
        """The readers of the query and of the headers, if they are declared."""
        query, headers = self.operation.query, self.operation.headers
        return [
            *([("query", query_reader(query))] if query is not ABSENT else []),
            *([("headers", headers_reader(headers))] if headers is not ABSENT else []),
        ]

    @cached_property
    def _body(self) -> Callable[[bytes], Any]:
        return body_reader(self.operation.body)

    async def body(self, receive: Receive, headers: Mapping[bytes, bytes]) -> Any:
        """The JSON body, in the declared type.  Raises `Invalid`, `TooLarge`, `Disconnected`."""
        most = limits.json_body_length_bytes_max
        raw = await whole_body(
            receive, headers, limits.open_body_length_bytes_max if self.is_open else most
        )
        if not raw.strip():
            if not may_lack(self.operation.body):
                raise Invalid("request body has an error: value is required but missing")
            raw = b"{}"
        return self._body(raw)


# ---- calls without credentials -------------------------------------------------------------------

_EXEMPT: Final = "healthCheck"
ANY_HOST: Final = "*"


def check_open_call(
    front: Front, operation: str, scope: Any, headers: Mapping[bytes, bytes], *, has_body: bool
) -> None:
    """Raises `Refused` for a wrong host or origin, and `Invalid` for a body of another type."""
    if operation == _EXEMPT:
        return
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # not every server refuses that
        raise Invalid("request has an error: it has the header host twice")
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not knows_host(front, host):
        raise Refused(f"host is not allowed: allow it with --allowed-host: host={host[:200]!r}")
    named = headers.get(b"origin", b"").decode("latin-1").lower()
    if named and named.partition("://")[2] not in (host, front.origin(scope).host.lower()):
        raise Refused("cross-site request refused: the header Origin names another site")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if has_body and kind != b"application/json":
        raise Invalid("request body has an error: its Content-Type must be application/json")


def knows_host(front: Front, host: str) -> bool:
    """Whether a `Host` header is a name of the service; an empty one is accepted.  Pure."""
    known = {name.lower() for name in front.hosts}
    if ANY_HOST in known or not host:  # every browser sends a host
        return True
    name = host_of(host).removesuffix(".")
    public = host_of(front.public_url.partition("://")[2])
    return name in known | {"localhost", public} or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


# ---- requests -----------------------------------------------------------------------------------

_UNKNOWN: Final = answers.message(404, "invalid API endpoint")
# Paths of operations that lakeFS's API has, or had in 1.x, and this one has not.
_NOT_SERVED: Final = (
    (re.compile(r"auth/groups/[^/]+/acl"), "groups have no ACL: attach policies to them"),
    (re.compile(r"auth/get-token/.+"), "log in with `POST /auth/login` or an access key"),
    (re.compile(r"oidc/callback"), "`POST /sts/login` takes the code of an identity provider"),
    (re.compile(r"license"), "there is no licence"),
    (re.compile(r"iceberg/remotes/[^/]+/(pull|push)"), "there is no Iceberg catalog"),
    (re.compile(r"repositories/[^/]+/otf/.+"), "differences of tables are not computed"),
    (re.compile(r"repositories/[^/]+/gc/prepare_.+"), "collect with graveler.spark.collect"),
)
_CODED_HERE_BYTES: Final = 32 << 10  # on the event loop, in less than a millisecond
_CLIENT_GONE: Final = Answer(499)
_STOPPED: Final = Answer(0)  # never sent: the service stops before there is an answer


def identify(
    service: Service, scope: Scope, headers: Mapping[bytes, bytes], changes: list[Change]
) -> Caller:
    """The caller, by its key, its token or its session.  `changes` gets what the service changes
    for that.  Raises `Unauthenticated`, `Throttled`, and `WouldWait` on the event loop."""
    front = service.settings.front
    authorization = headers.get(b"authorization", b"")
    cookie = "" if authorization else token_of_cookie(front, scope, headers, scope["method"])
    caller = service.auth.identify(authorization, cookie, partial(front.client, scope), changes)
    service.rates.take(caller.record.uid)
    return caller


class Dispatch:
    """Answers requests whose operation is known."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._audit = AuditLog(service)

    async def answer(
        self,
        plan: Plan,
        values: Sequence[str],
        scope: Scope,
        receive: Receive,
        send_message: Send,
    ) -> None:
        """Answer a request.  `values`: the parameters of its path, still quoted."""
        started = self._service.ports.clock.steady_seconds()
        scope["graveler.operation"] = (plan.name, started)
        note_request_id(self._service, scope)
        trace, answer = RequestTrace(), _STOPPED
        try:
            answer = await self._answer(plan, values, scope, receive, trace)
        finally:
            if plan.audited or trace.denied(answer.status):
                trace.arguments = trace.arguments or dict(zip(plan.names, values, strict=True))
                if trace.call is not ABSENT:
                    trace.needed = trace.needed or plan.operation.needed(trace.call)
                self._audit.record(plan.name, scope, trace, answer.status)
            if trace.changes:
                self._audit.record_changes(scope, trace, answer.status)
        if scope["method"] == "GET":
            answer = await self._coded(scope, answer)
        await send_answer(self._service, scope, receive, send_message, answer)

    async def _coded(self, scope: Scope, answer: Answer) -> Answer:
        """A JSON answer in gzip for who takes it; as it is if it has an entity tag, which is one of
        these bytes."""
        names = [name for name, _ in answer.headers]
        is_json = answer.headers[:1] == answers.JSON[:1] and b"etag" not in names
        if not is_json or not takes_gzip(dict(scope["headers"])):
            return answer
        if isinstance(answer.body, bytes) and len(answer.body) < _CODED_HERE_BYTES:
            return in_gzip(answer)
        with suppress(Unavailable):  # the service stops
            return await self._service.pools.streams.proceed(in_gzip, answer)
        return answer

    async def _answer(
        self,
        plan: Plan,
        values: Sequence[str],
        scope: Scope,
        receive: Receive,
        trace: RequestTrace,
    ) -> Answer:
        arguments: dict[str, str] = {}
        headers = dict(scope["headers"])
        try:
            pools = self._service.pools
            trace.arguments = arguments
            try:
                account = self._account(plan, values, headers, scope, trace)
            except WouldWait:
                account = await pools.writers.start(
                    self._account, plan, values, headers, scope, trace
                )
            trace.account = account
            for name, value in zip(plan.names, values, strict=True):
                arguments[name] = unquoted_segment(value, name)
            call = await self._call(plan, arguments, headers, scope, receive)
            call.account, call.changes = account, trace.changes
            trace.call = call
            if account is not ABSENT and not plan.operation.allows(account):
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
            answer = await plan.operation.run(call)
            if plan.is_open:
                _check_named(plan, call, answer)
            return answer
        except Disconnected:
            return _CLIENT_GONE
        except Exception as error:
            trace.fail(error)
            return errors.answer(error, plan.name, _names(call), scope, is_known=not plan.is_open)

    async def _authorize(self, caller: Caller, plan: Plan, trace: RequestTrace, call: Call) -> None:
        trace.needed = plan.operation.needed(call)
        name = call.arguments.get("repository", "")
        await permissions.authorize(self._service, caller, trace.needed, name)

    def _account(
        self,
        plan: Plan,
        values: Sequence[str],
        headers: Mapping[bytes, bytes],
        scope: Scope,
        trace: RequestTrace,
    ) -> Caller | Literal[Absent.ABSENT]:
        front = self._service.settings.front
        if plan.is_open:
            has_body = plan.operation.body is not ABSENT
            check_open_call(front, plan.name, scope, headers, has_body=has_body)
            return ABSENT
        token = token_of(plan.name, headers.get(b"authorization", b""))
        if token:
            place = dict(zip(plan.names, values, strict=True))
            address = partial(front.client, scope)
            caller = identify_by_token(self._service, token, place, address)
            self._service.rates.take(caller.record.uid)
            return caller
        return identify(self._service, scope, headers, trace.changes)

    async def _call(
        self,
        plan: Plan,
        arguments: dict[str, str],
        headers: Mapping[bytes, bytes],
        scope: Scope,
        receive: Receive,
    ) -> Call:
        sent = {"query": scope["query_string"], "headers": headers}
        inputs: dict[str, Any] = {}
        for name, read in plan.inputs:
            inputs[name] = read(sent[name])
        receive = counted(receive, headers)
        if plan.operation.body is not ABSENT:
            inputs["body"] = await plan.body(receive, headers)
        seconds = scope.get("graveler.seconds_left")
        service = self._service if seconds is None else self._service.within(seconds)
        call = Call(service, arguments, headers, receive, scope, inputs)
        _, call.arrived_seconds = scope["graveler.operation"]
        return call


def unmatched(path: str) -> Answer:
    """The answer for a path below the API, or a method of it, that no operation has."""
    for pattern, instead in _NOT_SERVED:
        if pattern.fullmatch(path):
            return answers.message(501, f"not implemented: {instead}")
    return _UNKNOWN


def _check_named(plan: Plan, call: Call, answer: Answer) -> None:
    """Raises `Internal` if a change without credentials has happened and nobody is named for it:
    then its caller gets nothing of it, neither a session nor a key."""
    if plan.audited and answer.status < 300 and not call.acting:
        raise Internal(f"operation names nobody for the audit trail: {plan.name}")


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


# ---- tokens of bulk jobs -------------------------------------------------------------------------


_TOKEN_OPERATIONS: Final = frozenset(("beatBulkJob", "finishBulkJob", "cancelBulkJob"))
_BEARER: Final = "bearer"


def token_of(operation: str, authorization: bytes) -> str:
    """The token of a bulk job in a header of this operation; empty: it has none."""
    if operation not in _TOKEN_OPERATIONS:
        return ""
    scheme, _, rest = authorization.decode("latin-1").partition(" ")
    token = rest.strip()
    return token if scheme.lower() == _BEARER and token.startswith(bulk.TOKEN_PREFIX) else ""


def identify_by_token(
    service: Service, token: str, place: Mapping[str, str], address: Callable[[], str]
) -> Caller:
    """The caller for whom the token acts.  `place`: the parameters of the path, still quoted.

    Raises `Unauthenticated` with one text, whatever is wrong; `Throttled` after many such requests
    of an address; `WouldWait` on the event loop.  Cost: 2 KV requests, and those of the user's
    view.
    """
    attempts = service.auth.attempts
    attempts.check_token(address())
    with suppress(NotFound, Invalid, Unauthenticated):  # of the place, of the user
        names = {name: unquoted_segment(value, name) for name, value in place.items()}
        repo = service.opened(repository.get(service.ports, names["repository"]))
        stored = bulk.seen(repo, names["branch"], names["id"])
        holder = bulk.holder_of(stored.order, token)
        if holder is not ABSENT and service.ports.clock.now_ns() < stored.bulk.expires_ns:
            return service.auth.standing_for(*holder, address)
    attempts.forged(address())
    raise Unauthenticated("error authenticating request")
