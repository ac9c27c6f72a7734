"""Builds the service from ports, and an application without a framework from the service.

    service = open_service(ports, grants, secret, settings, queue=queue)
    application = bare_app(service)

The bare application is all that answers requests, in every deployment.  It uses no framework, so
that a process starts fast.  It has no start and no stop: the functions use it as it is, because
many processes like theirs run at the same time, and none may take over the jobs of the others.
app.py adds the start and the stop for `graveler serve`, whose store belongs to one process.  Used
by app.py, the commands and the functions.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, Protocol

from graveler import limits
from graveler.api import responses
from graveler.api.answers import message
from graveler.api.batches import Batches
from graveler.api.dispatch import Scope
from graveler.api.feed import Receive
from graveler.api.operation import API_PREFIX
from graveler.api.pages import HEALTH_PATHS, Pages
from graveler.api.pools import BoundedPool, Pools
from graveler.api.responses import Send
from graveler.api.routing import api_route
from graveler.api.service import GrantCheck, Service, ServiceSettings
from graveler.audit.trail import LoggedTrail, Trail
from graveler.auth.accounts import SecretsOfNow, keeper
from graveler.auth.authenticator import NO_IDENTITIES, Authenticator, Identities
from graveler.auth.credentials import NewCredential
from graveler.auth.keyrings import Wrapper
from graveler.auth.throttling import RequestRates
from graveler.clock import Clock
from graveler.engine.objects.write import NewUpload, upload_many
from graveler.engine.ports import Ports
from graveler.jobs.queue import Queue, announcing
from graveler.records import ABSENT, Absent, Entry

Application = Callable[[Scope, Receive, Send], Awaitable[None]]  # of ASGI
_PLAIN: Final = (
    "plain HTTP is for this machine only: use TLS, by a proxy that the service trusts "
    "(--trusted-proxy)"
)
QueueOf = Callable[[Ports, Pools], Queue]


def open_service(
    ports: Ports,
    grants: GrantCheck,
    secret: bytes,
    settings: ServiceSettings,
    first: NewCredential | Literal[Absent.ABSENT] = ABSENT,
    *,
    before: bytes = b"",
    wrapper: Wrapper | Literal[Absent.ABSENT] = ABSENT,
    read_again: SecretsOfNow | Literal[Absent.ABSENT] = ABSENT,
    identities: Identities = NO_IDENTITIES,
    queue: QueueOf,
    trail: Trail | Literal[Absent.ABSENT] = ABSENT,
) -> Service:
    """The service over `ports`.

    - `secret`: the secret of the store, at least 32 bytes.
    - `first`: credentials that the deployment created for the administrator.
    - `before`: the secret before its last rotation; empty if it was never rotated.
    - `wrapper`: wraps the keys of the store (auth/keyrings.py); by default the secret does.
    - `read_again`: reads both secrets again, if they may be rotated while this process runs.
    - `identities`: what proves an identity beside a key.
    - `queue`: makes the queue that jobs go to, from the ports and the pools.
    - `trail`: where changes and denials are put on record; by default only in the log.  The caller
      closes it.

    Threads start when they are first needed.
    """
    auth = Authenticator(
        keeper(
            ports.kv,
            ports.clock,
            ports.ids,
            secret,
            before=before,
            wrapper=wrapper,
            read_again=read_again,
        ),
        first,
        settings.failed_logins,
        settings.setup_token,
        identities,
    )
    pools = _pools(ports.clock, settings)
    jobs = queue(ports, pools)
    records = LoggedTrail() if trail is ABSENT else trail
    rates = RequestRates(ports.clock, settings.user_requests_per_second)
    hooked = announcing(ports, jobs)
    return Service(hooked, auth, grants, settings, pools, jobs, trail=records, rates=rates)


def _pools(clock: Clock, settings: ServiceSettings) -> Pools:
    waiting_max = settings.requests_waiting_max
    return Pools(
        BoundedPool(settings.writer_threads, waiting_max, "write"),
        BoundedPool(settings.body_threads, waiting_max, "body"),
        BoundedPool(settings.stream_threads, waiting_max, "stream"),
        ThreadPoolExecutor(settings.import_threads, "import"),
        BoundedPool(settings.walker_threads, waiting_max, "walk"),
        BoundedPool(settings.writer_threads, waiting_max, "lookup"),
        BoundedPool(settings.writer_threads, waiting_max, "copy"),
        settings.is_remote,
        ABSENT if settings.is_remote else _uploads(clock, settings),
    )


def _uploads(clock: Clock, settings: ServiceSettings) -> Batches[NewUpload, Entry]:
    return Batches(
        upload_many,
        clock,
        batch_max=limits.upload_batch_count_max,
        waiting_max=settings.requests_waiting_max,
    )


class Route(Protocol):
    """A part of the application that answers some of its requests."""

    def wants(self, scope: Scope) -> bool:
        """Whether a request is for this route."""
        ...

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        """Answer a request."""
        ...


def bare_app(service: Service, further: Route | Literal[Absent.ABSENT] = ABSENT) -> Application:
    """The application.  The caller closes the pools of the service when the process ends, if it
    ends.  `further`: a route that answers the requests it wants, whatever their path."""
    api, pages, prefix = api_route(service), Pages(service), API_PREFIX + "/"

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        if further is not ABSENT and further.wants(scope):
            await further.handle(scope, receive, send)
            return
        route = api if scope["path"].startswith(prefix) else pages
        await route.handle(scope, receive, send)

    return application


def over_tls(
    service: Service, application: Application, takes: Callable[[Scope], bool]
) -> Application:
    """The application, which answers requests that must use TLS with 403, whatever they ask.  The
    pages that say whether the service is ready stay open: they show nothing.

    `takes`: whether another route than the pages answers a request, even one with their path.
    """
    refusal = message(403, _PLAIN)
    refuses = service.settings.front.refuses

    def is_health(scope: Scope) -> bool:
        is_read = scope["method"] in ("GET", "HEAD")
        return is_read and scope["path"] in HEALTH_PATHS and not takes(scope)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if refuses(scope) and not is_health(scope):
            await responses.send(service, scope, receive, send, refusal)
            return
        await application(scope, receive, send)

    return guarded
