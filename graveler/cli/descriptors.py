"""Open files of this process: connections are the most of them.

The soft limit of many systems is 1,024 or 256, which `accept` meets long before the service refuses
a connection: nobody is answered then, and the database cannot open its files.  For service.py.
"""

import resource
from dataclasses import replace
from typing import Final

from graveler.api.connections import ConnectionLimits

# Files of the database (128), of objects that are read and written, and of refused connections.
_OTHERS: Final = 512
_SHARE: Final = 4  # where the limit is low, connections get at least a quarter of it


def fitted(bounds: ConnectionLimits) -> ConnectionLimits:
    """`bounds`, after the limit of open files was raised to what they need; with fewer connections
    if the system does not allow that.  Never fails."""
    return lowered(bounds, _raised(bounds.connections_max + _OTHERS))


def lowered(bounds: ConnectionLimits, files: int) -> ConnectionLimits:
    """`bounds` with as many connections as fit into `files`; the same if all fit.  Pure."""
    fit = max(files - _OTHERS, files // _SHARE, 1)
    if fit >= bounds.connections_max:
        return bounds
    return replace(
        bounds,
        connections_max=fit,
        per_address_max=max(1, bounds.per_address_max * fit // bounds.connections_max),
        refused_max=min(bounds.refused_max, fit // _SHARE),
    )


def _raised(wanted: int) -> int:
    """How many files may be open, once up to `wanted` were asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):  # the kernel has a bound of its own
        return soft
    return goal
