"""Builds the service from ports.

The functions use it as it is: many processes run at once, and none may take over jobs of others.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from graveler.audit.trail import LoggedTrail, Trail
from graveler.auth.accounts import SecretsOfNow, keeper
from graveler.auth.authenticator import NO_IDENTITIES, Authenticator, Identities
from graveler.auth.credentials import NewCredential
from graveler.auth.keyrings import Wrapper
from graveler.auth.throttling import RequestRates
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.records import ABSENT, Absent, Entry
from graveler.engine.objects.write import NewUpload, upload_many
from graveler.engine.ports import Ports
from graveler.http.pools import Batches, BoundedPool, Pools
from graveler.http.service import GrantCheck, Service, ServiceSettings
from graveler.jobs.queue import Queue, announcing

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
