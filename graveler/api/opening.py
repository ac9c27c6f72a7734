"""From ports to the service, and from the service to an application without a framework.

    service = open_service(ports, grants, secret, settings)
    application = bare_app(service)

The bare application answers as the one of app.py does, but never loads FastAPI, which costs a
function more at each cold start than everything else of ours together.  It does not end what was
begun by processes that died: many of its kind run at once.  For the commands and the functions.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from starlette.types import ASGIApp, Receive, Scope, Send

from graveler.api.pages import Pages
from graveler.api.pools import BoundedPool, Pools
from graveler.api.routes import API_PREFIX
from graveler.api.routing import api_route
from graveler.api.service import GrantCheck, Service, ServiceSettings
from graveler.auth.accounts import NewCredential, keeper
from graveler.auth.authenticator import Authenticator
from graveler.engine.ports import Ports
from graveler.jobs.queue import LocalQueue, Queue
from graveler.jobs.working import run
from graveler.records import ABSENT, Absent


def open_service(
    ports: Ports,
    grants: GrantCheck,
    secret: bytes,
    settings: ServiceSettings,
    first: NewCredential | Literal[Absent.ABSENT] = ABSENT,
    queue: Queue | Literal[Absent.ABSENT] = ABSENT,
) -> Service:
    """The service over `ports`; `secret`: the store's own, at least 32 bytes; `first`: credentials
    that the deployment made for the administrator; `queue`: of jobs, else they run here.  Threads
    start when they are first needed."""
    auth = Authenticator(keeper(ports.kv, ports.clock, ports.ids, secret), secret, first)
    pools = Pools(
        BoundedPool(settings.writer_threads, settings.requests_waiting_max, "write"),
        BoundedPool(settings.stream_threads, settings.requests_waiting_max, "stream"),
        ThreadPoolExecutor(settings.import_threads, "import"),
    )
    if queue is ABSENT:
        queue = local_queue(ports, pools)
    return Service(ports, auth, grants, settings, pools, queue)


def local_queue(ports: Ports, pools: Pools) -> LocalQueue:
    """The queue of a process that runs its jobs itself."""
    executor, clock = pools.imports, ports.clock
    return LocalQueue(executor, clock, lambda queue, message: run(ports, queue, message))


def bare_app(service: Service) -> ASGIApp:
    """The application.  The caller closes the service's pools, if it ever ends."""
    api, pages, prefix = api_route(service), Pages(service), API_PREFIX + "/"

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        route = api if scope["path"].startswith(prefix) else pages
        await route.handle(scope, receive, send)

    return application
