"""All operations, in one flat collection.

The only module that imports the modules with endpoints.  An operation that such a module declares
is in the collection; a new module is added to `_MODULES`.
"""

from typing import Final

from graveler.api import actions, branches, preparation, pulls, retention_rules, symlinks
from graveler.api.operation import Operation

_MODULES: Final = (actions, branches, preparation, pulls, retention_rules, symlinks)

OPERATIONS: Final = tuple(
    value for module in _MODULES for value in vars(module).values() if isinstance(value, Operation)
)
