"""Graveler: git for data lakes.

    import graveler

    lake = graveler.connect()                  # a server; graveler.open("folder"): a store here
    main = lake.repository("shop").branch("main")
    main.write_text("orders.csv", "id\\n1\\n")
    main.commit("load")
    main.read_text("orders.csv")

Importing the package loads only this version; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graveler.app import create_app
    from graveler.arrow import read_entries
    from graveler.lake.branch import Branch
    from graveler.lake.embedded import open_lake as open
    from graveler.lake.errors import Error
    from graveler.lake.filesystem import GravelerFileSystem as fs  # called as `fs()`
    from graveler.lake.lake import Lake, connect
    from graveler.lake.ref import Commit, Ref, Tag
    from graveler.lake.repository import Repository

__all__ = [
    "Branch",
    "Commit",
    "Error",
    "Lake",
    "Ref",
    "Repository",
    "Tag",
    "__version__",
    "connect",
    "create_app",
    "fs",
    "open",
    "read_entries",
]
__version__ = "0.1.0"
_HOMES: Final = {
    "Branch": "graveler.lake.branch",
    "Commit": "graveler.lake.ref",
    "Error": "graveler.lake.errors",
    "Lake": "graveler.lake.lake",
    "Ref": "graveler.lake.ref",
    "Repository": "graveler.lake.repository",
    "Tag": "graveler.lake.ref",
    "connect": "graveler.lake.lake",
    "create_app": "graveler.app",
    "read_entries": "graveler.arrow",
}


def __getattr__(name: str) -> Any:
    """Import what is named at its first use."""
    if name == "fs":
        return import_module("graveler.lake.filesystem").GravelerFileSystem
    if name == "open":
        return import_module("graveler.lake.embedded").open_lake
    if name == "errors":
        return import_module("graveler.lake.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
