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
    parser = commands.add_parser(
        "gc",
        help="find files that nothing needs, and delete them one run later",
        description="List the files that nothing needs, in a store that is not being served.  "
        "--delete condemns these files, and deletes the files that a run condemned at least a day "
        "ago; until then, --undo takes that run back.  --server runs the collection on a server, "
        "for one repository, and waits for it; credentials as for `graveler events rules`.",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--store", type=Path, metavar="DIR", help="the folder of the store")
    where.add_argument(
        "--server",
        nargs="?",
        const="",
        metavar="URL",
        help="a server (without URL: LAKECTL_SERVER_ENDPOINT_URL)",
    )
    parser.add_argument("--access-key-id", default="", metavar="ID", help="with --server")
    parser.add_argument("--repository", default="", metavar="NAME", help="only this repository")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--delete",
        action="store_true",
        help="condemn and delete (default: only list what it would do)",
    )
    actions.add_argument("--undo", default="", metavar="RUN", help="take back what a run condemned")
    parser.set_defaults(run=_gc)


def _add_retention(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "retention",
        help="show or set how long commits are kept",
        description="Show the retention rule of `graveler gc`; options change it.  0 days means "
        "forever.  Heads of branches and tags are always kept.",
    )
    _add_store(parser)
    parser.add_argument("--repository", required=True, metavar="NAME")
    parser.add_argument(
        "--days",
        type=int,
        default=UNCHANGED,
        metavar="N",
        help="for branches without days of their own",
    )
    parser.add_argument(
        "--branch",
        action="append",
        default=[],
        metavar="NAME=DAYS",
        help="for this branch (repeatable; NAME= removes the days of this branch)",
    )
    parser.add_argument(
        "--unreachable-days",
        type=int,
        default=UNCHANGED,
        metavar="N",
        help="for commits that no branch and no tag reaches",
    )
    parser.set_defaults(run=_retention)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
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
        raise Invalid("gc --server takes --repository NAME")
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
