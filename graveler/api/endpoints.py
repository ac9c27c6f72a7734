"""All endpoints by operation name; the table of routes uses the same names."""

from collections.abc import Mapping
from typing import Final

from graveler.api import (
    branches,
    commits,
    events,
    imports,
    object_reads,
    object_writes,
    repositories,
    session,
    tasks,
)
from graveler.api.service import Endpoint

ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    **session.ENDPOINTS,
    **repositories.ENDPOINTS,
    **branches.ENDPOINTS,
    **commits.ENDPOINTS,
    **tasks.ENDPOINTS,
    **object_reads.ENDPOINTS,
    **object_writes.ENDPOINTS,
    **imports.ENDPOINTS,
    **events.ENDPOINTS,
}
