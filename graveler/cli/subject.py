"""What an operator command tends: an embedded store, or the store of a server.

    1. `--store DIR`
    2. the server, if `--server`, `--profile` or `--config` is given
    3. GRAVELER_STORE, a folder
    4. the server of the profile (profiles.py)

For this folder.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli.address import UsageMistake
from graveler.cli.invocation import Invocation
from graveler.cli.options import FOLDER
from graveler.variables import environment

STORE_VARIABLE: Final = "GRAVELER_STORE"
_OF_SERVERS: Final = ("server", "profile", "config")


def store_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--store`."""
    return click.option(
        "--store",
        type=FOLDER,
        metavar="DIR",
        help=f"the folder of a store that is not being served ({STORE_VARIABLE})",
    )(function)


def store_of(invocation: Invocation, store: Path | None) -> Path | None:
    """The folder of the store; None: the server of the invocation.  Raises `UsageError` if
    neither is known, or both are given."""
    if store is not None:
        if "server" in invocation.flags:
            raise click.UsageError("--store and --server exclude each other", _context())
        return store
    if any(flag in invocation.flags for flag in _OF_SERVERS):
        return None
    known = environment().get(STORE_VARIABLE, "")
    if known:
        return Path(known)
    if not invocation.profile.server:
        raise click.UsageError(
            f"no store and no server: give --store DIR or --server URL, set {STORE_VARIABLE}, or "
            "run `graveler login URL`",
            _context(),
        )
    return None


def needed_store(invocation: Invocation, store: Path | None, reason: str, remedy: str) -> Path:
    """The folder of the store, for what no operation of the API does.  Raises `UsageMistake` with
    the reason and the remedy if a server is meant."""
    folder = store_of(invocation, store)
    if folder is None:
        raise UsageMistake(f"{reason}: give --store DIR or set {STORE_VARIABLE}", remedy=remedy)
    return folder


def _context() -> click.Context:
    return click.get_current_context()
