"""A sandbox that is killed as soon as a chosen write of its has been applied.

The proxy between it and the storage does that, so it happens at the same place on every machine.
"""

from collections.abc import Sequence

from tests.fault_proxy import FaultProxy, Forward, Reply, Request
from tests.functions.sandbox import Sandbox

READS = ("GET", "GetItem", "Query", "BatchGetItem", "GetSecretValue")


def kill_after(proxy: FaultProxy, victim: Sandbox, writes: Sequence[str]) -> None:
    """Start a fresh process of `victim`, to be killed after the last of the `writes` that it makes;
    by none if there are none."""

    def killing(request: Request, forward: Forward) -> Reply | None:
        forward(request)
        victim.kill()
        return None

    victim.kill()
    victim.start()
    proxy.operations.clear()
    for at, operation in enumerate(writes, 1):
        proxy.plan(_passing if at < len(writes) else killing, operation=operation)


def written(proxy: FaultProxy) -> list[str]:
    """The writes that went through the proxy since."""
    return [each for each in proxy.operations if each not in READS]


def _passing(request: Request, forward: Forward) -> Reply | None:
    return forward(request)
