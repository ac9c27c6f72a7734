"""The service and the life of an application whose store one process at a time can open."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, Literal

from graveler.api import start
from graveler.api.app import Graveler
from graveler.api.operation import Operation
from graveler.api.operations import OPERATIONS
from graveler.audit.trail import Trail
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.core.errors import GravelerError, StorageFull
from graveler.core.records import ABSENT, Absent
from graveler.engine.jobs import record
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.http.dispatch import Route
from graveler.http.metrics import add_requests
from graveler.http.pools import Pools
from graveler.http.service import GrantCheck, Service, ServiceSettings
from graveler.jobs.queue import LocalQueue
from graveler.jobs.schedule import Scheduler, revive_all
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


@contextmanager
def life(service: Service) -> Iterator[None]:
    """The life of the application over a store that only this process has open.

    It resumes the jobs of dead processes.  At its end it stops its own, and the next start resumes
    them.  It owns the threads of the service.
    """
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


def served(
    service: Service,
    further: Route | Literal[Absent.ABSENT] = ABSENT,
    operations: Sequence[Operation] = OPERATIONS,
) -> Graveler:
    """The application over `service`, with this life.  `further`, `operations`: see `Graveler`."""
    return Graveler(partial(life, service), operations).use(service, further)


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
