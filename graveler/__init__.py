"""Graveler: git for data lakes.

Importing the package loads only this version; the other names are loaded when they are first used.
docs/explanation/architecture.md has the packages and their layers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler.app import create_app
    from graveler.arrow import read_entries

__all__ = ["__version__", "create_app", "read_entries"]
__version__ = "0.1.0"


_HOMES = {"create_app": "graveler.app", "read_entries": "graveler.arrow"}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
