"""Defines the arguments of `graveler gc` and `graveler retention`.  Imports no slow modules.

For main.py.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

Commands = argparse._SubParsersAction  # the type has no public name
UNCHANGED = -1


@dataclass(frozen=True, slots=True)
class GcOptions:
    """`graveler gc`.  Empty `repository`: all repositories.  Empty `undo`: undo nothing."""

    store: Path
    repository: str = ""
    delete: bool = False
    undo: str = ""


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """`graveler gc --server`.  If server and key are empty, the environment variables apply."""

    server: str
    repository: str
    delete: bool = False
    undo: str = ""
    access_key_id: str = ""


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """`graveler retention`; `branches` are pairs NAME=DAYS."""

    store: Path
    repository: str
    days: int = UNCHANGED
    unreachable_days: int = UNCHANGED
    branches: tuple[str, ...] = field(default_factory=tuple)


def add(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add both commands."""
    _add_gc(commands)
    _add_retention(commands)


def _add_gc(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser(
        "gc",
        help="find files that nothing needs, and delete them one run later",
        description="Say which files of a store that nobody serves nothing needs any more.  With "
        "--delete they are condemned, and those that an earlier run condemned a day ago or more "
        "are deleted; until then a run can be undone.  With --server the same is ordered on a "
        "server, for one repository, and waited for; credentials as for `graveler events rules`.",
    )
    where = made.add_mutually_exclusive_group(required=True)
    where.add_argument("--store", type=Path, metavar="DIR", help="the folder of the store")
    where.add_argument(
        "--server",
        nargs="?",
        const="",
        metavar="URL",
        help="a server (without URL: LAKECTL_SERVER_ENDPOINT_URL)",
    )
    made.add_argument("--access-key-id", default="", metavar="ID", help="with --server")
    made.add_argument("--repository", default="", metavar="NAME", help="this one only")
    actions = made.add_mutually_exclusive_group()
    actions.add_argument(
        "--delete", action="store_true", help="condemn and delete (default: only say what would be)"
    )
    actions.add_argument("--undo", default="", metavar="RUN", help="take back what a run condemned")
    made.set_defaults(run=_gc)


def _add_retention(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser(
        "retention",
        help="show or set for how long commits are kept",
        description="Show the rule by which `graveler gc` keeps commits; set what is given.  0 "
        "days mean for ever.  Heads of branches and tags are always kept.",
    )
    _add_store(made)
    made.add_argument("--repository", required=True, metavar="NAME")
    made.add_argument(
        "--days", type=int, default=UNCHANGED, metavar="N", help="for branches without their own"
    )
    made.add_argument(
        "--branch",
        action="append",
        default=[],
        metavar="NAME=DAYS",
        help="for this branch (may be given more than once; NAME= takes its own days away)",
    )
    made.add_argument(
        "--unreachable-days",
        type=int,
        default=UNCHANGED,
        metavar="N",
        help="for commits that no branch and no tag leads to",
    )
    made.set_defaults(run=_retention)


def _add_store(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--store", type=Path, required=True, metavar="DIR", help="the folder of the store"
    )


def _gc(arguments: argparse.Namespace) -> int:
    if arguments.store is None:
        return _order(arguments)
    from graveler.cli.gc import gc

    options = GcOptions(arguments.store, arguments.repository, arguments.delete, arguments.undo)
    return gc(options)


def _order(arguments: argparse.Namespace) -> int:
    from graveler.cli.gc_order import order
    from graveler.errors import Invalid

    if not arguments.repository:
        raise Invalid("gc --server takes --repository NAME: the one that is meant")
    where = arguments.server, arguments.repository
    return order(OrderOptions(*where, arguments.delete, arguments.undo, arguments.access_key_id))


def _retention(arguments: argparse.Namespace) -> int:
    from graveler.cli.gc import retention

    return retention(
        RetentionOptions(
            arguments.store,
            arguments.repository,
            arguments.days,
            arguments.unreachable_days,
            tuple(arguments.branch),
        )
    )
