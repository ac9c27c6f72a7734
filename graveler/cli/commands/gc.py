"""`graveler gc`: collects the garbage of a store that no service has open, or orders a server to.

With a server the command waits for the result; an interruption ends only the waiting.  Without
`--delete` nothing changes: the files are listed that would be deleted or condemned.

Slow modules are imported where they are used.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import click

from graveler.cli.commands.jobs import Task, wait
from graveler.cli.support.command import TendingCommand, client
from graveler.cli.support.failures import server_options
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import store_of, store_option, yes
from graveler.cli.support.output import plain_lines, plural
from graveler.core.errors import Conflict, Internal, Invalid, NotFound, Refused, UsageMistake
from graveler.core.ids import parse_branch_id

if TYPE_CHECKING:
    from graveler.engine.gc.collect import CollectionResult
    from graveler.engine.gc.listing import GarbageFile
    from graveler.engine.ports import OpenRepository, Ports
    from graveler.lake.records import RetentionRules


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
        _show(invocation, _in_store(folder, repository, delete, undo), again)
    else:
        name = invocation.repository(repository)
        _show(invocation, [_on_server(invocation, name, delete, undo)], _command(invocation))
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


def _in_store(folder: Path, name: str, delete: bool, undo: str) -> Iterator[Collected]:
    """Collect the garbage of a repository, or of all, or undo a run."""
    from graveler.cli.support.administrator import opened
    from graveler.engine import janitor
    from graveler.engine.gc import cluster, collect

    remedy = f"graveler gc --server URL --repository {name or 'NAME'}"
    with opened(folder, remedy=remedy) as store:
        if undo:
            yield _undone(store.ports, name, undo)
            return
        for repo in _repositories(store.ports, name):
            try:
                if delete:
                    janitor.sweep(repo)
                    cluster.check_no_turn(repo)
                collected = collect.collect(repo, delete=delete)
            except (Conflict, Refused) as error:
                if name:
                    raise
                yield {"repository": repo.id, "error": str(error)}
                continue
            yield _collected(repo, collected, dry=not delete)


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


def _undone(ports: "Ports", name: str, undo: str) -> Collected:
    from graveler.engine.gc import collect

    for repo in _repositories(ports, name):
        if any(run.id == undo for run in collect.list_runs(repo)):
            run = collect.undo(repo, undo)
            total: Sum = {"count": run.count, "size_bytes": run.size}
            return {"repository": repo.id, "undone": True, "condemned": total}
    raise NotFound(f"run of garbage collection not found: run={undo}")


# ---- a server ------------------------------------------------------------------------------------


def _on_server(invocation: Invocation, name: str, delete: bool, undo: str) -> Collected:
    """Order a collection and wait for it, or undo a run.  Raises `Internal` if the collection
    fails."""
    known = invocation.repo(name)
    if undo:
        invocation.about(undo, f"{_command(invocation)} --repository {name}")
        known.undo_collection(undo)
        return {"repository": name, "undone": True}
    begun = known.collect(dry_run=not delete)
    collection = wait(invocation, Task(name, "collection", begun.id), begun.progress)
    if collection.error:
        raise Internal(f"not collected: {collection.error}")
    return {
        "repository": name,
        "dry_run": collection.dry_run,
        "run": collection.run,
        "candidates": collection.candidates,
        "commits": collection.commits,
        "commits_kept": collection.commits_kept,
        "condemned": collection.answer["condemned"],
        "deleted": collection.answer["deleted"],
    }


def _command(invocation: Invocation) -> str:
    """`graveler gc` for the same server and credentials."""
    server = () if invocation.flags.get("server") else ("--server",)  # alone: of the profile
    return shlex.join(["graveler", "gc", *server, *server_options(invocation)])


_FOREVER: Final = 0
_DAYS: Final = click.IntRange(min=0)


@client(
    "retention",
    kind=TendingCommand,
    examples=(
        "graveler retention --repository lake",
        "graveler retention --repository lake --days 30 --branch main=90",
        "graveler retention --repository lake --branch main= --store DIR",
    ),
)
@store_option
@click.option("--repository", required=True, metavar="NAME", help="whose rule")
@click.option("--days", type=_DAYS, metavar="N", help="for branches without their own days")
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME=DAYS",
    help="for this branch (repeatable; NAME= removes the days of this branch)",
)
@click.option(
    "--unreachable-days",
    type=_DAYS,
    metavar="N",
    help="for commits that no branch or tag reaches; only with --store",
)
@yes
def retention_command(
    invocation: Invocation, store: Path | None, repository: str, yes: bool, **changes: Any
) -> int:
    """Show the retention rule of `graveler gc`; options change it.

    A rule that keeps something for less time than the present one asks.
    0 days means forever.  Heads of branches and tags are always kept.  On a server, of two who
    change the rule at the same moment the last one wins.
    """
    folder = store_of(invocation, store)
    changed = partial(_changed, days=changes["days"], pairs=changes["branches"])

    def confirm(shorter: list[str]) -> None:
        if shorter:
            question = f"Keep {repository} for less time than now?  {', '.join(shorter)}\n"
            more = "`graveler gc --delete` deletes the content of older commits for good."
            invocation.confirm(question + more, yes=yes)

    if folder is not None:
        days, unreachable = _of_store(
            folder, repository, changed, changes["unreachable_days"], confirm
        )
        record = {**_rules(days), "graveler": {"unreachable_days": unreachable}}
        unreached = f"commits that no branch or tag reaches: kept for {_count(unreachable)}"
        invocation.output.record(record, [*lines(_rules(days)), unreached])
        return 0
    if changes["unreachable_days"] is not None:
        raise UsageMistake("the API has no days of unreachable commits: use --store DIR")
    rules = _rules(_of_server(invocation, repository, changed, confirm))
    invocation.output.record(rules, lines(rules))
    return 0


_Days = Mapping[str, int]  # by branch; "": of all others
_Change = Callable[[_Days], dict[str, int]]
_Confirm = Callable[[list[str]], None]  # given what is kept for less time


def _of_store(
    folder: Path, name: str, changed: _Change, unreachable_days: int | None, confirm: _Confirm
) -> tuple[_Days, int]:
    """Change the rule of a store; the rule that it has then."""
    from graveler.cli.support.administrator import opened
    from graveler.engine.gc import retention
    from graveler.engine.ports import open_repository
    from graveler.engine.repositories import repository
    from graveler.refs.garbage import Retention

    remedy = f"graveler retention --server URL --repository {name}"
    with opened(folder, remedy=remedy) as store:
        repo = open_repository(store.ports, repository.get(store.ports, name))
        rule = retention.get_rule(repo)
        known = {"": rule.default_days, **{str(key): days for key, days in rule.branches.items()}}
        new = changed(known)
        unreachable = rule.unreachable_days if unreachable_days is None else unreachable_days
        branches = {parse_branch_id(branch): days for branch, days in new.items() if branch}
        if new != known or unreachable != rule.unreachable_days:
            shorter = _shorter(known, new)
            if _is_shorter(rule.unreachable_days, unreachable):
                shorter.append(f"unreachable commits: {_count(unreachable)}")
            confirm(shorter)
            retention.set_rule(repo, Retention(new[""], unreachable, branches))
    return new, unreachable


def _of_server(
    invocation: Invocation, repository: str, changed: _Change, confirm: _Confirm
) -> _Days:
    """As `_of_store`, for a repository on a server."""
    rules_of = invocation.repo(invocation.repository(repository))
    rules = rules_of.retention()
    known = {rule["branch_id"]: rule["retention_days"] for rule in rules["branches"]}
    known[""] = rules["default_retention_days"]
    new = changed(known)
    if new != known:
        confirm(_shorter(known, new))
        rules_of.set_retention(new[""], {name: new[name] for name in sorted(new) if name})
    return new


def _rules(days: _Days) -> "RetentionRules":
    branches = sorted(branch for branch in days if branch)
    return {
        "branches": [{"branch_id": name, "retention_days": days[name]} for name in branches],
        "default_retention_days": days[""],
    }


def _changed(known: _Days, *, days: int | None, pairs: Sequence[str]) -> dict[str, int]:
    """The days after the changes of the command line.  Raises `Invalid`."""
    changed = dict(known) if days is None else {**known, "": days}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        branch = str(parse_branch_id(name))
        if not equals or (number and not (number.isascii() and number.isdigit())):
            raise Invalid(f"branch rule invalid: it must be NAME=DAYS or NAME=: {pair!r}")
        changed.pop(branch, None)
        if number:
            changed[branch] = int(number)
    return changed


def _shorter(old: _Days, new: _Days) -> list[str]:
    """What the new rule keeps for less time, in words."""
    return [
        f"{f'branch {name}' if name else 'default'}: {_count(new.get(name, new['']))}"
        for name in sorted({*old, *new})
        if _is_shorter(old.get(name, old[""]), new.get(name, new[""]))
    ]


def _is_shorter(old: int, new: int) -> bool:
    return new != _FOREVER and (old == _FOREVER or new < old)


def lines(rules: "RetentionRules") -> list[str]:
    """The rules in words."""
    branches = [
        f"branch {rule['branch_id']}: {_kept(rule['retention_days'])}" for rule in rules["branches"]
    ]
    return [f"default: {_kept(rules['default_retention_days'])}", *branches]


def _kept(days: int) -> str:
    return "kept forever" if days == _FOREVER else f"kept for {_count(days)} after the next commit"


def _count(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"
