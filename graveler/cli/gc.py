"""`graveler gc` and `graveler retention`: their arguments, and what they do.

`gc` collects the garbage of a store that no service has open.  With `--server` a server collects,
and the command waits and prints the result; an interruption ends only the waiting.  Without
`--delete` nothing changes: stdout lists the files that would be deleted or condemned.

`--help` imports this module, so slow modules are imported where they are used.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler import limits
from graveler.cli.command import operator
from graveler.cli.options import FOLDER
from graveler.errors import Conflict, Internal, Invalid, NotFound, Refused, Unavailable
from graveler.ids import parse_branch_id

if TYPE_CHECKING:
    from graveler.client import Session
    from graveler.client.collections import Collection, Files
    from graveler.engine.gc.candidates import GarbageFile
    from graveler.engine.gc.collect import CollectionResult
    from graveler.engine.ports import OpenRepository, Ports
    from graveler.refs.gc.retention import Retention

UNCHANGED: Final = -1
_PAUSE_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = limits.job_seconds_max + 15 * 60


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


# ---- arguments -----------------------------------------------------------------------------------


@operator("gc")
@click.option("--store", type=FOLDER, metavar="DIR", help="the folder of the store")
@click.option(
    "--server",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[URL]",
    help="a server (without URL: LAKECTL_SERVER_ENDPOINT_URL)",
)
@click.option("--access-key-id", default="", metavar="ID", help="with --server")
@click.option("--repository", default="", metavar="NAME", help="only this repository")
@click.option("--delete", is_flag=True, help="condemn and delete (default: only list the files)")
@click.option("--undo", default="", metavar="RUN", help="release the files that a run condemned")
def gc_command(
    store: Path | None, server: str | None, access_key_id: str, repository: str, **how: Any
) -> int:
    """List unused files in a store that no service has open.

    --delete condemns these files, and deletes the files that a run condemned at least a day ago;
    --undo undoes a run before that.  --server runs the collection of one repository on a server and
    waits for it; credentials as for `graveler events rules`.
    """
    delete, undo = bool(how["delete"]), str(how["undo"])
    if (store is None) == (server is None):
        raise click.UsageError("one of --store and --server is needed")
    if delete and undo:
        raise click.UsageError("--delete and --undo exclude each other")
    if store is not None:
        return gc(GcOptions(store, repository, delete, undo))
    if not repository:
        raise Invalid("gc --server needs --repository NAME")
    return order(OrderOptions(server or "", repository, delete, undo, access_key_id))


@operator("retention")
@click.option("--store", type=FOLDER, required=True, metavar="DIR", help="the folder of the store")
@click.option("--repository", required=True, metavar="NAME")
@click.option(
    "--days", type=int, default=UNCHANGED, metavar="N", help="for branches without their own days"
)
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME=DAYS",
    help="for this branch (repeatable; NAME= removes the days of this branch)",
)
@click.option(
    "--unreachable-days",
    type=int,
    default=UNCHANGED,
    metavar="N",
    help="for commits that no branch or tag reaches",
)
def retention_command(**options: Any) -> int:
    """Show the retention rule of `graveler gc`; options change it.

    0 days means forever.  Heads of branches and tags are always kept.
    """
    return retention(RetentionOptions(**options))


# ---- a store that no service has open ------------------------------------------------------------


def gc(options: GcOptions) -> int:
    """Collect garbage, or undo a run.  Returns 0."""
    from graveler.cli.stores import opened
    from graveler.engine.gc import cluster_turns, collect
    from graveler.engine.upkeep import janitor

    with opened(options.store) as store:
        ports = store.ports
        if options.undo:
            _undo(ports, options)
            return 0
        for repo in _repositories(ports, options.repository):
            if options.delete:
                janitor.sweep(repo)
            try:
                if options.delete:
                    cluster_turns.check_none(repo)
                collected = collect.collect(repo, delete=options.delete)
            except (Conflict, Refused) as error:
                if options.repository:
                    raise
                print(f"repository={repo.id}: {error}")
                continue
            _print_result(repo, collected, dry=not options.delete)
    if not options.delete:
        print("nothing was changed; use --delete to condemn and delete")
    return 0


def _repositories(ports: "Ports", name: str) -> "Iterator[OpenRepository]":
    from graveler.engine.ports import open_repository
    from graveler.engine.repositories import repository

    if name:
        yield open_repository(ports, repository.get(ports, name))
        return
    yield from repository.every(ports)


def _print_result(repo: "OpenRepository", collected: "CollectionResult", *, dry: bool) -> None:
    where = f"repository={repo.id}"
    if dry:
        for word, file in [("delete", file) for file in collected.deleted] + [
            ("condemn", file) for file in collected.condemned
        ]:
            print(f"would {word}: {where} {file.address} {file.size} bytes, {file.reason}")
    would = "would be " if dry else ""
    print(
        f"{where}: {collected.kept:,} of {collected.commits:,} commits kept; "
        f"{would}deleted: {_sum(collected.deleted)}; {would}condemned: {_sum(collected.condemned)}"
    )
    if collected.run:
        print(f"{where}: to undo this run within a day: graveler gc --undo {collected.run}")


def _sum(doomed: "Sequence[GarbageFile]") -> str:
    return f"{len(doomed):,} files, {sum(each.size for each in doomed):,} bytes"


def _undo(ports: "Ports", options: GcOptions) -> None:
    from graveler.engine.gc import collect

    for repo in _repositories(ports, options.repository):
        if any(run.id == options.undo for run in collect.list_runs(repo)):
            run = collect.undo(repo, options.undo)
            print(f"repository={repo.id}: undone: {run.count:,} files, {run.size:,} bytes")
            return
    raise NotFound(f"run of garbage collection not found: run={options.undo}")


# ---- a server ------------------------------------------------------------------------------------


def order(options: OrderOptions) -> int:
    """Order a collection and wait for it, or undo a run.  Returns 0.

    Raises `Internal` if the collection fails, `Unavailable` if it does not end in time, and the
    errors of `Session.ask`."""
    from graveler.client import collections, connect_as_lakectl
    from graveler.settings import environment

    session = connect_as_lakectl(environment(), options.server, options.access_key_id)
    if options.undo:
        collections.undo(session, options.repository, options.undo)
        print(f"repository={options.repository}: undone")
        return 0
    id = collections.order(session, options.repository, dry_run=not options.delete)
    collection = _ended(session, options.repository, id)
    if collection.error:
        raise Internal(f"not collected: {collection.error}")
    would = "would be " if collection.dry_run else ""
    print(
        f"repository={options.repository}: {collection.commits_kept:,} of {collection.commits:,} "
        f"commits kept; {would}deleted: {_sum_of(collection.deleted)}; "
        f"{would}condemned: {_sum_of(collection.condemned)}"
    )
    if collection.candidates:
        print(f"listed in {collection.candidates}")
    if collection.run:
        command = f"graveler gc --server --repository {options.repository} --undo {collection.run}"
        print(f"to undo this run within a day: {command}")
    if collection.dry_run:
        print("nothing was changed; use --delete to condemn and delete")
    return 0


def _ended(session: "Session", repository: str, id: str) -> "Collection":
    from graveler.client import collections

    end = session.clock.steady_seconds() + _WAIT_SECONDS
    while session.clock.steady_seconds() < end:
        with suppress(Unavailable):  # the server continues the collection; ask again
            collection = collections.get(session, repository, id)
            if collection.done:
                return collection
        session.clock.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"collection still runs: repository={repository} id={id}")


def _sum_of(files: "Files") -> str:
    return f"{files.count:,} files, {files.size_bytes:,} bytes"


# ---- retention -----------------------------------------------------------------------------------


def retention(options: RetentionOptions) -> int:
    """Apply the requested changes to the retention rule, and show it.  Returns 0."""
    from graveler.cli.stores import opened
    from graveler.engine.gc import retention as rules
    from graveler.engine.ports import open_repository
    from graveler.engine.repositories import repository

    with opened(options.store) as store:
        repo = open_repository(store.ports, repository.get(store.ports, options.repository))
        rule = rules.get_rule(repo)
        new = _changed(rule, options)
        if new != rule:
            rules.set_rule(repo, new)
    print(f"default: {_days(new.default_days)}")
    for branch, days in sorted(new.branches.items()):
        print(f"branch {branch}: {_days(days)}")
    print(f"commits that no branch or tag reaches: kept for {_count(new.unreachable_days)}")
    return 0


def _changed(rule: "Retention", options: RetentionOptions) -> "Retention":
    branches = dict(rule.branches)
    for pair in options.branches:
        name, equals, days = pair.partition("=")
        branch = parse_branch_id(name)
        if not equals or (days and not (days.isascii() and days.isdigit())):
            raise Invalid(f"branch rule invalid: it must be NAME=DAYS or NAME=: {pair!r}")
        branches.pop(branch, None)
        if days:
            branches[branch] = int(days)
    new = replace(rule, branches=branches)
    if options.days != UNCHANGED:
        new = replace(new, default_days=options.days)
    if options.unreachable_days != UNCHANGED:
        new = replace(new, unreachable_days=options.unreachable_days)
    return new


def _days(days: int) -> str:
    from graveler.refs.gc.retention import FOREVER

    return "kept forever" if days == FOREVER else f"kept for {_count(days)} after the next commit"


def _count(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"
