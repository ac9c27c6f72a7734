"""Graveler: git for data lakes.

    lake = graveler.open("lake")                     # a store in a folder, in this process
    lake = graveler.connect(url, key, secret)        # or a server; connect(): that of your login

    shop = lake.create_repository("shop")            # later: lake.repository("shop")
    main = shop.branch("main")
    main.upload("data/", "raw/")                     # a folder; also write_text, write_bytes
    with main.open("sales/a.parquet", "wb") as file:     # appears at the end of the block
        table.to_parquet(file)
    main.commit("load")

    dev = main.create_branch("dev")                  # nothing is copied
    dev.write_text("raw/orders.csv", "id,amount\\n1,12\\n")
    dev.commit("correct an amount")
    main.diff(dev)                                   # what dev changed
    merged = main.merge(dev)                         # at once, or a MergeConflict and no change
    main.log()

    pandas.read_parquet(main.open("sales/a.parquet", "rb"))
    pandas.read_csv(main.open("raw/orders.csv"))     # or by an address, of one object or many:
    pandas.read_csv("graveler://shop/main/raw/orders.csv", storage_options={"lake": lake})
    main.dataset("raw/", format="csv").to_pandas()   # all files of one commit; Parquet by default
    shop.ref("main~1").read_text("raw/orders.csv")   # an old version; graveler://shop/main~1/… too
    main.undo(merged)                                # back to before it; revert: by a new commit

What a repository, a branch and a commit can do: help(graveler.Repository), help(graveler.Branch),
help(graveler.Commit).  `graveler.aio` has the same verbs for asyncio.  Errors are those of
`graveler.errors`, and Python's: a missing object is a FileNotFoundError.

Extras bring packages: pip install 'graveler[server]' for `open`, `fsspec` for addresses such as
graveler://…, `arrow` for `dataset`, `cli` for the command line; `connect` needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graveler import aio as aio
    from graveler.app import create_app
    from graveler.arrow import read_entries
    from graveler.lake import errors as errors
    from graveler.lake.branch import Branch
    from graveler.lake.errors import Error
    from graveler.lake.extras import fs
    from graveler.lake.extras import open_lake as open
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
# Where each name is; the package loads none of them before it is used.
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
    "fs": "graveler.lake.extras",
    "open": "graveler.lake.extras",
    "read_entries": "graveler.arrow",
}


if not TYPE_CHECKING:  # a checker must find that a name is misspelt

    def __getattr__(name):
        """Import what is named at its first use."""
        if name == "errors":
            return import_module("graveler.lake.errors")
        if name == "aio":
            return import_module("graveler.aio")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "create_app":
            from graveler.lake.errors import needing

            with needing("server"):
                return import_module(_HOMES[name]).create_app
        return getattr(import_module(_HOMES[name]), "open_lake" if name == "open" else name)


def __dir__() -> list[str]:
    """What can be loaded with the packages that are installed: `help` loads all of it."""
    from importlib.util import find_spec

    is_served = find_spec("fastapi") is not None
    return sorted({*__all__, "aio", "errors"} - {"" if is_served else "create_app"})
