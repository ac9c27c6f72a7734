"""Raises the limit of open files of this process to what its store and its connections need.

The soft limit of many systems is 1,024 or 256.  The service would reach it before its own limit of
connections: then it could answer no client, and the database could not open its files.  For
service.py.
"""

import resource
from dataclasses import replace
from typing import Final

from graveler.http.connections import ConnectionLimits

# Files of the database (128), of objects being read or written, and of refused connections.
_OTHERS: Final = 512
_PER_CONNECTION: Final = 2  # a download has its socket twice, an upload a temporary file
_MANY: Final = 16_384
_SHARE: Final = 4  # with a low limit, connections still get at least 1/4 of it


def fitted(bounds: ConnectionLimits) -> ConnectionLimits:
    """Raise the limit of open files to the number that `bounds` need, and return `bounds`.  If the
    system does not allow that many, return them with fewer connections.  Never fails."""
    return lowered(bounds, _raised(_PER_CONNECTION * bounds.connections_max + _OTHERS))


def allow_many() -> None:
    """Raise the limit of open files as far as the system allows, to 16,384 at most: the store
    keeps tables open in a share of what is allowed when it is opened.  Never fails."""
    _raised(_MANY)


def lowered(bounds: ConnectionLimits, files: int) -> ConnectionLimits:
    """`bounds` with as many connections as fit into `files` open files; unchanged if all fit.
    Pure."""
    fit = max((files - _OTHERS) // _PER_CONNECTION, files // _SHARE, 1)
    if fit >= bounds.connections_max:
        return bounds
    return replace(
        bounds,
        connections_max=fit,
        per_address_max=max(1, bounds.per_address_max * fit // bounds.connections_max),
        refused_max=min(bounds.refused_max, fit // _SHARE),
    )


def _raised(least: int) -> int:
    """Ask the system for `least` open files; return how many it now allows, at most `least`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= least:
        return least
    goal = least if hard == resource.RLIM_INFINITY else min(least, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):  # the kernel has a lower limit of its own
        return soft
    return goal
