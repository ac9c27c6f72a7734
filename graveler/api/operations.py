"""All operations, in one flat collection.

The only module that imports the modules with endpoints.  An operation that such a module declares
is in the collection; a new module is added to `_MODULES`.
"""

from typing import Final

from graveler.api import (
    actions,
    audit,
    branches,
    break_parameters,
    bulk,
    collections,
    commit_graph,
    commits,
    dumps,
    events,
    external,
    groups,
    imports,
    jobs,
    multipart,
    new_commits,
    object_entries,
    object_reads,
    object_writes,
    policies,
    preparation,
    protection,
    pulls,
    repositories,
    retention_rules,
    session,
    summaries,
    symlinks,
    tasks,
    upload_addresses,
    usage,
    users,
)
from graveler.api.operation import Operation

_MODULES: Final = (
    actions,
    audit,
    branches,
    break_parameters,
    bulk,
    collections,
    commit_graph,
    commits,
    dumps,
    events,
    external,
    groups,
    imports,
    jobs,
    multipart,
    new_commits,
    object_entries,
    object_reads,
    object_writes,
    policies,
    preparation,
    protection,
    pulls,
    repositories,
    retention_rules,
    session,
    summaries,
    symlinks,
    tasks,
    upload_addresses,
    usage,
    users,
)

OPERATIONS: Final = tuple(
    value for module in _MODULES for value in vars(module).values() if isinstance(value, Operation)
)
