"""`graveler gc`: collects the garbage of a store that no service has open, or orders a server to.

With a server the command waits for the result; an interruption ends only the waiting.  Without
`--delete` nothing changes: the files are listed that would be deleted or condemned.

`--help` imports this module, so slow modules are imported where they are used.
"""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

import click

from graveler.cli.arguments import yes
from graveler.cli.command import TendingCommand, client
from graveler.cli.hints import server_options
from graveler.cli.invocation import Invocation
from graveler.cli.output import plain_lines, plural
from graveler.cli.subject import store_of, store_option
from graveler.cli.wait import Task, wait
from graveler.errors import Conflict, Internal, NotFound, Refused
from graveler.records import ABSENT, Absent

if TYPE_CHECKING:
    from graveler.client.collections import Collection, Files
    from graveler.engine.gc.collect import CollectionResult
    from graveler.engine.gc.listing import GarbageFile
    from graveler.engine.ports import OpenRepository, Ports


class GcOptions(NamedTuple):
    """What to do.  Empty `repository`: all repositories.  Empty `undo`: undo nothing."""

    repository: str = ""
    delete: bool = False
    undo: str = ""


class Sum(TypedDict):
    """A number of files, and their size together."""

    count: int
    size_bytes: int


class ListedFile(TypedDict):
    """A file of a dry run in a store."""

    action: Literal["delete", "condemn"]
    address: str
    size_bytes: int
    reason: str


class _Collected(TypedDict):
    repository: str


class Collected(_Collected, total=False):
    """What a run did to a repository, or a dry run would do.  Only `error` if it was not possible,
    and only `undone` if a run was undone."""

    dry_run: bool
    run: str
    candidates: str
    commits: int
    commits_kept: int
    condemned: Sum
    deleted: Sum
    files: list[ListedFile]
    undone: bool
    error: str


@client(
    "gc",
    kind=TendingCommand,
    examples=(
        "graveler gc --repository lake                   # on the server of the profile",
        "graveler gc --repository lake --delete",
        "graveler gc --store DIR --delete                # all repositories of a folder",
        "graveler gc --repository lake --delete --yes    # for scripts",
        "graveler gc --store DIR --undo 01K8ZQ3V",
    ),
)
@store_option
@click.option("--repository", default="", metavar="NAME", help="only this repository")
@click.option("--delete", is_flag=True, help="condemn and delete (default: only list the files)")
@click.option("--undo", default="", metavar="RUN", help="release the files that a run condemned")
@yes
def gc_command(
    invocation: Invocation, store: Path | None, repository: str, delete: bool, undo: str, yes: bool
) -> int:
    """List unused files, of a server or of a store that no service has open.

    --delete condemns these files, and deletes the files that a run condemned at least a day ago;
    --undo undoes a run before that.  A server collects one repository at a time; the command waits
    for it.
    """
    if delete and undo:
        raise click.UsageError(
            "--delete and --undo exclude each other", click.get_current_context()
        )
    folder = store_of(invocation, store)
    if folder is None and not repository:
        raise click.UsageError(
            "gc on a server needs --repository NAME", click.get_current_context()
        )
    if delete:
        of = repository or "all repositories"
        place = folder if folder is not None else invocation.profile.server
        question = (
            f"Condemn the unused files of {of} in {place}, and delete those condemned before?"
        )
        invocation.confirm(f"{question}  Deleted files cannot be brought back.", yes=yes)
    if folder is not None:
        again = shlex.join(["graveler", "gc", "--store", str(folder)])
        _show(invocation, _in_store(folder, GcOptions(repository, delete, undo)), again)
    else:
        name = invocation.repository(repository).repository
        results = _ordered(invocation, GcOptions(name, delete, undo))
        _show(invocation, [results], _command(invocation))
    if not delete and not undo:
        invocation.output.note("nothing was changed; use --delete to condemn and delete")
    return 0


def _show(invocation: Invocation, results: Iterable[Collected], again: str) -> None:
    if invocation.output.form != "human":
        invocation.output.items((), results)
        return
    for collected in results:
        for line in _lines(collected, again):
            click.echo(plain_lines(line))


def _lines(collected: Collected, again: str) -> Iterator[str]:
    where = f"repository={collected['repository']}"
    if "error" in collected:
        yield f"{where}: {collected['error']}"
        return
    if "undone" in collected:
        yield f"{where}: undone" + (
            f": {_sum(collected['condemned'])}" if "condemned" in collected else ""
        )
        return
    for file in collected.get("files", ()):
        size = f"{file['size_bytes']} bytes"
        yield f"would {file['action']}: {where} {file['address']} {size}, {file['reason']}"
    would = "would be " if collected["dry_run"] else ""
    yield (
        f"{where}: {collected['commits_kept']:,} of {collected['commits']:,} commits kept; "
        f"{would}deleted: {_sum(collected['deleted'])}; "
        f"{would}condemned: {_sum(collected['condemned'])}"
    )
    if collected["candidates"]:
        yield f"listed in {collected['candidates']}"
    if collected["run"]:
        command = f"{again} --repository {collected['repository']} --undo {collected['run']}"
        yield f"{where}: to undo this run within a day: {command}"


def _sum(files: Sum) -> str:
    return f"{plural(files['count'], 'file')}, {plural(files['size_bytes'], 'byte')}"


# ---- a store that no service has open ------------------------------------------------------------


def _in_store(folder: Path, options: GcOptions) -> Iterator[Collected]:
    """Collect garbage, or undo a run."""
    from graveler.cli.stores import opened
    from graveler.engine import janitor
    from graveler.engine.gc import cluster, collect

    remedy = f"graveler gc --server URL --repository {options.repository or 'NAME'}"
    with opened(folder, remedy=remedy) as store:
        ports = store.ports
        if options.undo:
            yield _undone(ports, options)
            return
        for repo in _repositories(ports, options.repository):
            if options.delete:
                janitor.sweep(repo)
            try:
                if options.delete:
                    cluster.check_no_turn(repo)
                collected = collect.collect(repo, delete=options.delete)
            except (Conflict, Refused) as error:
                if options.repository:
                    raise
                yield {"repository": repo.id, "error": str(error)}
                continue
            yield _collected(repo, collected, dry=not options.delete)


def _repositories(ports: "Ports", name: str) -> "Iterator[OpenRepository]":
    from graveler.engine.ports import open_repository
    from graveler.engine.repositories import repository

    if name:
        yield open_repository(ports, repository.get(ports, name))
        return
    yield from repository.every(ports)


def _collected(repo: "OpenRepository", result: "CollectionResult", *, dry: bool) -> Collected:
    from graveler.engine.gc.listing import total_of

    collected: Collected = {
        "repository": repo.id,
        "dry_run": dry,
        "run": result.run,
        "candidates": "",
        "commits": result.commits,
        "commits_kept": result.kept,
        "condemned": total_of(result.condemned),
        "deleted": total_of(result.deleted),
    }
    if dry:
        collected["files"] = [
            *(_listed("delete", file) for file in result.deleted),
            *(_listed("condemn", file) for file in result.condemned),
        ]
    return collected


def _listed(action: Literal["delete", "condemn"], file: "GarbageFile") -> ListedFile:
    return {
        "action": action,
        "address": str(file.address),
        "size_bytes": file.size,
        "reason": str(file.reason),
    }


def _undone(ports: "Ports", options: GcOptions) -> Collected:
    from graveler.engine.gc import collect

    for repo in _repositories(ports, options.repository):
        if any(run.id == options.undo for run in collect.list_runs(repo)):
            run = collect.undo(repo, options.undo)
            total: Sum = {"count": run.count, "size_bytes": run.size}
            return {"repository": repo.id, "undone": True, "condemned": total}
    raise NotFound(f"run of garbage collection not found: run={options.undo}")


# ---- a server ------------------------------------------------------------------------------------


def _ordered(invocation: Invocation, options: GcOptions) -> Collected:
    """Order a collection and wait for it, or undo a run.

    Raises `Internal` if the collection fails, `OutcomeUnknown` if it does not end in time, and the
    errors of `Session.ask`."""
    from graveler.client import collections

    session, name = invocation.session, options.repository
    if options.undo:
        invocation.about(options.undo, f"{_command(invocation)} --repository {name}")
        collections.undo(session, name, options.undo)
        return {"repository": name, "undone": True}
    id = collections.order(session, name, dry_run=not options.delete)
    task = Task(name, "collection", id)
    collection = wait(invocation, task, lambda: _done(collections.get(session, name, id)))
    if collection.error:
        raise Internal(f"not collected: {collection.error}")
    return {
        "repository": name,
        "dry_run": collection.dry_run,
        "run": collection.run,
        "candidates": collection.candidates,
        "commits": collection.commits,
        "commits_kept": collection.commits_kept,
        "condemned": _sum_told(collection.condemned),
        "deleted": _sum_told(collection.deleted),
    }


def _done(collection: "Collection") -> "Collection | Absent":
    return collection if collection.done else ABSENT


def _command(invocation: Invocation) -> str:
    """`graveler gc` for the same server and credentials."""
    server = () if invocation.flags.get("server") else ("--server",)  # alone: of the profile
    return shlex.join(["graveler", "gc", *server, *server_options(invocation)])


def _sum_told(files: "Files") -> Sum:
    return {"count": files.count, "size_bytes": files.size_bytes}
