"""The application that `graveler serve` hosts: the one of start.py, with its start and its stop.

    service = open_service(ports, grants, secret, settings)
    application = create_app(service)

The application belongs to a store that one process at a time can open.  At start it resumes the
jobs of dead processes.  At stop it stops the jobs of this process; the next start resumes them.
Used by the commands.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

from graveler.api.dispatch import Scope
from graveler.api.lifespan import with_lifespan
from graveler.api.local_jobs import open_service
from graveler.api.metrics import add_requests
from graveler.api.service import Service
from graveler.api.start import Application, Route, bare_app, over_tls
from graveler.engine.jobs import record
from graveler.engine.repositories import repository
from graveler.errors import GravelerError, StorageFull
from graveler.jobs.handover import Desk, revive_all
from graveler.kv.wait import Prompt
from graveler.records import ABSENT, Absent

__all__ = ["create_app", "open_service"]

_LOG: Final = logging.getLogger("graveler.app")


def create_app(service: Service, further: Route | Literal[Absent.ABSENT] = ABSENT) -> Application:
    """The application.  It owns the threads of the service from its start to its stop.  `further`:
    a route that answers the requests it wants, whatever their path."""

    @contextmanager
    def life() -> Iterator[None]:
        try:
            for repo in repository.every(service.ports):
                revive_all(Desk(repo, service.queue))
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

    takes = _nothing if further is ABSENT else further.wants
    return with_lifespan(over_tls(service, bare_app(service, further), takes), life)


def _nothing(_scope: Scope) -> bool:
    return False


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
