"""Graveler: git for data lakes.

Importing the package loads only this version; `graveler.read_entries` is loaded when it is first
named.  docs/explanation/architecture.md has the packages and their layers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler.arrow import read_entries

__all__ = ["__version__", "read_entries"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `read_entries` at first use."""
    if name != "read_entries":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graveler.arrow import read_entries

    return read_entries
