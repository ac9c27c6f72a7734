"""Putting the product together: which drivers stand behind the ports of a deployment.

`open_memory` keeps nothing; `open_embedded` keeps everything in one folder; `aws.open_aws` keeps it
in a table and buckets.  Each deployment loads its own drivers only: what is named here is imported
when first asked for, so that a function on AWS never loads an embedded database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graveler.assembly.embedded import Embedded, open_embedded
    from graveler.assembly.memory import open_memory

__all__ = ["Embedded", "open_embedded", "open_memory"]

_HOMES: Final = {"Embedded": "embedded", "open_embedded": "embedded", "open_memory": "memory"}


def __getattr__(name: str) -> Any:
    """What stands in `__all__`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
