"""Opens the service of a process that runs its jobs itself.

Used by app.py.  The functions do not import this module, so that they never load a worker with the
service.
"""

from typing import Literal

from graveler.api import start
from graveler.api.pools import Pools
from graveler.api.service import GrantCheck, Service, ServiceSettings
from graveler.audit.trail import Trail
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.engine.ports import Ports
from graveler.jobs.queue import LocalQueue
from graveler.jobs.worker import run
from graveler.records import ABSENT, Absent


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
