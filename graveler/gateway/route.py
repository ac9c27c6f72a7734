"""From a request of an S3 client to its endpoint and its answer.

    signature ─► address ─► operation (405) ─► permissions (403) ─► repository, branch (404)
        ─► endpoint

Every check stands before the first `receive()`.  A denied caller gets 403.
"""

import re
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from graveler.api.app import Graveler
from graveler.api.operation import API_PREFIX
from graveler.api.pages import HEALTH_PATH, METRICS_PATH, OPEN_PATHS, READY_PATH
from graveler.auth.access import Caller, refusal, seeing
from graveler.core.errors import GravelerError, Invalid, NotFound
from graveler.core.records import ABSENT, Absent, Repository
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.gateway import errors, listings, reads, uploads, writes
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import COPY_SOURCE, LABEL, Ending, Operation, OperationIndex, S3Call
from graveler.gateway.payload import Identity
from graveler.gateway.request import (
    NOWHERE,
    Address,
    S3Request,
    address_of,
    arguments_of,
    domains_of,
    is_of_domain,
    request_of,
    source_of,
)
from graveler.gateway.signatures import Authentication
from graveler.gateway.writes import check_target
from graveler.http import front, permissions
from graveler.http.answers import Answer, Receive, Scope, Send
from graveler.http.audit import AuditLog, RequestTrace
from graveler.http.dispatch import declared, is_signed, note_request_id, send_answer
from graveler.http.errors import log_failure
from graveler.http.intake import Disconnected, counted
from graveler.http.metrics import add_requests
from graveler.http.permissions import Template, needed
from graveler.http.service import Service

OPERATIONS: Final = declared(Operation, listings, reads, writes, uploads)

_UNKNOWN: Final = LABEL + "unknown"  # a request that no operation was found for
_API: Final = tuple(API_PREFIX.strip("/").split("/"))  # as bucket and ref
_PAGES: Final = frozenset((*OPEN_PATHS, METRICS_PATH))
_BUCKET_PATH: Final = re.compile(r"/[a-z0-9][a-z0-9-]{2,62}/?", re.ASCII)
_CLIENT_GONE: Final = Answer(499)
_STOPPED: Final = Answer(0)  # never sent: the service stops before there is an answer


@dataclass(slots=True)
class _Trace(RequestTrace):
    """What is known of a request so far.

    `audited`: its operation changes something.  `templates`: of the permissions that every request
    of the operation needs.  `ending`: that of work which goes on after the
    answer has begun.
    """

    audited: bool = False
    templates: tuple[Template, ...] = ()
    ending: Ending | Literal[Absent.ABSENT] = ABSENT


class S3Route:
    """All operations of S3 as one route of the application."""

    def __init__(self, service: Service, domains: Sequence[str], who: Authentication) -> None:
        """`domains`: host names whose requests are for the gateway, signed or not; with one label
        before them, that label is the bucket."""
        self._service = service
        self._domains = domains_of(domains)
        self._identify = who.identify
        self._audit = AuditLog(service)
        self._table = OperationIndex(OPERATIONS)

    def wants(self, scope: Scope) -> bool:
        """Whether a request is one of an S3 client: by its host, by its signature, or as it asks
        for the region of a bucket."""
        lines = scope["headers"]
        if self._domains:
            for name, value in lines:
                if name == b"host" and is_of_domain(value.decode("latin-1"), self._domains):
                    return True
        return is_signed(lines, scope["query_string"]) or _is_probe(scope)

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        """Answer a request."""
        ports = self._service.ports
        request_id = note_request_id(self._service, scope)
        scope["graveler.operation"] = (_UNKNOWN, ports.clock.steady_seconds())
        trace, answer = _Trace(), _STOPPED
        try:
            answer = await self._answer(scope, receive, trace)
        finally:
            ending = trace.ending
            if ending is ABSENT:
                self._record(scope, trace, answer.status)
            else:
                ending.on_end(partial(self._ended, scope, trace))
        headers = (*answer.headers, (b"x-amz-request-id", request_id.encode("ascii")))
        if is_signed((), scope["query_string"]):
            origins = self._service.settings.front.cors_origins
            headers = (*headers, *front.cors_headers(origins, scope["headers"]))
        answer = Answer(answer.status, headers, answer.body)
        try:
            await send_answer(self._service, scope, receive, send_message, answer)
        except CancelledError:
            if ending is not ABSENT and ending.give_up():
                self._record(scope, trace, _STOPPED.status)
            raise

    def _record(self, scope: Scope, trace: _Trace, status: int) -> None:
        """Put a request on record, if it is one that has a line."""
        if trace.audited or trace.denied(status):
            name, _ = scope["graveler.operation"]
            trace.needed = trace.needed or needed(trace.templates, trace.arguments, ABSENT, ABSENT)
            self._audit.record(name, scope, trace, status)

    def _ended(self, scope: Scope, trace: _Trace, error: Exception | None) -> None:
        """Record how the work of an answer has ended that began as a success."""
        status = 200
        if error is not None:
            trace.fail(error)
            status = errors.report_of(error).status
            label, _ = scope["graveler.operation"]
            log_failure(error, status, label, trace.arguments, scope["graveler.request_id"])
        scope["graveler.status"] = status
        self._record(scope, trace, status)

    async def _answer(self, scope: Scope, receive: Receive, trace: _Trace) -> Answer:
        address = NOWHERE
        if front.is_preflight(scope["method"], scope["headers"]):
            origins = self._service.settings.front.cors_origins
            allowed = front.preflight_headers(origins, scope["headers"])
            return Answer(204 if allowed else 403, allowed)
        try:
            request = request_of(scope)
            address = address_of(request.header(b"host"), request.raw_path, self._domains)
            client = partial(self._service.settings.front.client, scope)
            identify, pools = self._identify, self._service.pools
            identity = await pools.point(identify, self._service, request, client)
            trace.account = identity.caller
            self._service.rates.take(identity.caller.record.uid)
            request = request.with_headers(identity.hoisted)
            if (address.bucket, address.ref) == _API:
                url = self._service.settings.front.origin(scope).url
                await pools.point(_check_endpoint, self._service.ports, identity.caller, url)
            operation = self._table.find(request, address)
            call = self._call(operation, request, address, identity, scope, receive)
            trace.call, trace.audited = call, operation.audited
            await self._admit(operation, call, trace)
            answer = await operation.run(call)
            trace.ending = call.ending
            return answer
        except Disconnected:
            return _CLIENT_GONE
        except Exception as error:
            trace.fail(error)
            label, _ = scope["graveler.operation"]
            return errors.answer(error, address.subject, scope["graveler.request_id"], label)

    def _call(
        self,
        operation: Operation,
        request: S3Request,
        address: Address,
        identity: Identity,
        scope: Scope,
        receive: Receive,
    ) -> S3Call:
        """The call of an endpoint, before its checks."""
        _, started = scope["graveler.operation"]
        scope["graveler.operation"] = (operation.label, started)
        arguments, source = arguments_of(address), NOWHERE
        if COPY_SOURCE in operation.marks:
            source = source_of(request.headers[COPY_SOURCE.encode()])
            of_source = arguments_of(source)
            arguments |= {f"source_{name}": value for name, value in of_source.items()}
        return S3Call(
            service=self._service,
            arguments=arguments,
            headers=request.instructions,
            receive=counted(receive, request.headers, is_checked=False),
            scope=scope,
            arrived_seconds=started,
            account=identity.caller,
            request=request,
            address=address,
            payload=identity.payload,
            source=source,
        )

    async def _admit(self, operation: Operation, call: S3Call, trace: _Trace) -> None:
        """Check permissions, then repository and branch.  Raises `Refused`, `S3Error`."""
        caller = call.account
        assert caller is not ABSENT, "every request is signed"
        trace.arguments = call.arguments
        if not operation.by_item:
            trace.templates = operation.templates
        if operation.by_item:
            _check_some(operation, call, caller)
        elif not operation.allows(caller):
            trace.needed = operation.needed(call)
            await permissions.authorize(self._service, caller, trace.needed)
        if operation.in_repository:
            await self._service.pools.point(_enter, call, caller, operation.writes)


def _is_probe(scope: Scope) -> bool:
    """Whether a request is `HEAD` of what may be a bucket, in path style: the SDK for Go asks so
    for its region, without a signature."""
    if scope["method"] != "HEAD" or scope["path"] in _PAGES:
        return False
    return _BUCKET_PATH.fullmatch(scope["path"]) is not None


def _check_endpoint(ports: Ports, caller: Caller, url: str) -> None:
    """Raises `S3Error` for a client whose endpoint is the API's, unless the caller may see a
    repository that is named like the first segment of its path."""
    with suppress(NotFound):
        repository.get(ports, _API[0])
        if not caller.lacks((seeing(_API[0]),)):
            return
    raise S3Error(
        "InvalidRequest",
        f"{url}{API_PREFIX} is the address of the HTTP API. The endpoint for S3 clients is {url}",
    )


def _check_some(operation: Operation, call: S3Call, caller: Caller) -> None:
    """Raises `Refused` for a caller that may not see the repository and has the permission for
    nothing in it, before its body is read: no answer tells it that the repository exists."""
    seen = seeing(call.address.bucket)
    if not caller.lacks((seen,)):
        return
    for permission in operation.needed(call):
        if not caller.may_some(permission):
            raise refusal(seen)


def _enter(call: S3Call, caller: Caller, writes: bool) -> None:
    """Find the repository of a call and, if it `writes`, check the branch.  Errors: those of
    `_repository` and `check_target`."""
    call.repository = _repository(call.ports, caller, call.address.bucket)
    if writes:
        check_target(call.repo, call.address.ref)


def _repository(ports: Ports, caller: Caller, name: str) -> Repository:
    """The repository of a bucket.  Raises `Refused` instead of `NotFound` for a caller that might
    not see one of that name."""
    try:
        return repository.get(ports, name)
    except (NotFound, Invalid) as error:
        lacking = caller.lacks((seeing(name),))
        raise (refusal(lacking[0]) if lacking else S3Error("NoSuchBucket")) from error


# ---- the application -----------------------------------------------------------------------------


OBSERVED_PATHS: Final = (HEALTH_PATH, READY_PATH, METRICS_PATH)


def s3_route(service: Service, domains: Sequence[str], *, signature_v2: bool) -> S3Route:
    """The route of S3 clients.  `domains`: as for `S3Route`.  `signature_v2`: as for
    `Authentication`."""
    authentication = Authentication(domains, signature_v2=signature_v2)
    return S3Route(service, domains, authentication)


class _Alone:
    """The route of S3 clients, which answers everything but the observed paths."""

    def __init__(self, route: S3Route) -> None:
        self._route = route

    def wants(self, scope: Scope) -> bool:
        return scope["path"] not in OBSERVED_PATHS or self._route.wants(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._route.handle(scope, receive, send)


def gateway_app(service: Service, route: S3Route, namespace: str) -> Graveler:
    """The application.  It owns the threads of the service from its start to its stop.

    `namespace`: the storage namespace that must answer before the process is ready.
    """

    @contextmanager
    def life() -> Iterator[None]:
        yield
        with suppress(GravelerError):
            add_requests(service.ports, service.metrics)
        service.pools.close()

    return Graveler(life, operations=()).use(service, _Alone(route), namespace)
