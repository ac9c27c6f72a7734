"""All operations, in one flat collection.  A new module of operations is added here."""

from typing import Final

from graveler.api import (
    actions,
    branches,
    bulk,
    commits,
    config,
    gc,
    groups,
    imports,
    jobs,
    login,
    new_commits,
    object_writes,
    objects,
    pulls,
    repositories,
    snapshots,
    uploads,
    users,
)
from graveler.api.operation import Operation
from graveler.http.dispatch import declared

OPERATIONS: Final = declared(
    Operation,
    *(actions, branches, bulk, commits, config, gc, groups, imports, jobs, login),
    *(new_commits, object_writes, objects, pulls, repositories, snapshots),
    *(uploads, users),
)
