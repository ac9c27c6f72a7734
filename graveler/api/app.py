"""The application of `graveler serve`, whose store one process at a time can open.

At start it resumes the jobs of dead processes.  At stop it stops its own; the next start resumes
them.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

from graveler.api import start
from graveler.api.start import bare_app, over_tls
from graveler.audit.trail import Trail
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.core.errors import GravelerError, StorageFull
from graveler.core.records import ABSENT, Absent
from graveler.engine.jobs import record
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.http.dispatch import Application, Route, with_lifespan
from graveler.http.metrics import add_requests
from graveler.http.pools import Pools
from graveler.http.service import GrantCheck, Service, ServiceSettings
from graveler.jobs.handover import Scheduler, revive_all
from graveler.jobs.queue import LocalQueue
from graveler.jobs.worker import run
from graveler.kv.store import Prompt


def local_queue(ports: Ports, pools: Pools) -> LocalQueue:
    """A queue that runs jobs on the service's own threads."""
    executor, clock = pools.imports, ports.clock
    return LocalQueue(executor, clock, lambda queue, message: run(ports, queue, message))


def open_service(
    ports: Ports,
    grants: GrantCheck,
    secret: bytes,
    settings: ServiceSettings,
    *,
    before: bytes = b"",
    identities: Identities = NO_IDENTITIES,
    trail: Trail | Literal[Absent.ABSENT] = ABSENT,
) -> Service:
    """As `start.open_service`, with the queue of this process."""
    return start.open_service(
        *(ports, grants, secret, settings),
        before=before,
        identities=identities,
        queue=local_queue,
        trail=trail,
    )


_LOG: Final = logging.getLogger("graveler.app")


def create_app(service: Service, further: Route | Literal[Absent.ABSENT] = ABSENT) -> Application:
    """The application.  It owns the threads of the service from its start to its stop.  `further`:
    a route that answers the requests it wants, whatever their path."""

    @contextmanager
    def life() -> Iterator[None]:
        try:
            for repo in repository.every(service.ports):
                revive_all(Scheduler(repo, service.queue))
        except StorageFull as error:  # reads are served; the next start takes the jobs over
            _LOG.error("jobs not taken over: the disk is full: error=%s", error)
        try:
            with _never_waiting(service.ports.kv, service.ports.ranges):
                yield
            with suppress(GravelerError):
                for repo in repository.every(service.ports):
                    record.free_all(repo)  # their workers stop at the next heartbeat
            with suppress(GravelerError):
                add_requests(service.ports, service.metrics)
        finally:
            service.pools.close()

    takes = (lambda _scope: False) if further is ABSENT else further.wants
    return with_lifespan(over_tls(service, bare_app(service, further), takes), life)


@contextmanager
def _never_waiting(*stores: object) -> Iterator[None]:
    """Make the stores refuse to wait on this thread, the thread of the event loop."""
    thread = threading.get_ident()
    prompt = [store for store in stores if isinstance(store, Prompt)]
    for store in prompt:
        store.forbid_waiting(thread)
    try:
        yield
    finally:
        for store in prompt:
            store.allow_waiting(thread)
