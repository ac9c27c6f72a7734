"""Opens a store: chooses the drivers behind the ports for each kind of deployment.

The names of this package are imported at first use, so a function on AWS never loads an embedded
database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graveler.assembly.embedded import Embedded, open_embedded, open_to_read
    from graveler.assembly.memory import open_memory

__all__ = ["Embedded", "open_embedded", "open_memory", "open_to_read"]

_HOMES: Final = {
    "Embedded": "embedded",
    "open_embedded": "embedded",
    "open_memory": "memory",
    "open_to_read": "embedded",
}


def __getattr__(name: str) -> Any:
    """Imports a name of `__all__` at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
