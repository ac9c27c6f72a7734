"""`graveler log` and `show`: the commits, and what each changed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.commands.diff import Counts, print_changes, print_stat, ref_or_default
from graveler.cli.support import graph, times
from graveler.cli.support.address import Address
from graveler.cli.support.command import ClientCommand, PathsCommand, client, paths_of
from graveler.cli.support.failures import DONE
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, complete_ref, count, ignored
from graveler.cli.support.output import Column, Output, field, first_line, paged, plain
from graveler.client import commits, objects, refs
from graveler.client.commits import Commit, Difference, LogFilter
from graveler.core.errors import Unsupported, UsageMistake

if TYPE_CHECKING:
    from concurrent.futures import Future

_HEADS_MAX: Final = 1_000  # of `log --all`
_JOB_KEY: Final = "graveler.job"  # metadata of a commit that was made in the background
_LOG_COLUMNS: Final = (
    field("id", "id", "COMMIT"),
    field("creation_date", "time", "DATE"),
    field("committer", title="AUTHOR"),
    Column("MESSAGE", lambda commit: first_line(commit["message"])),
)

# ---- log -----------------------------------------------------------------------------------------


@client(
    "log",
    kind=PathsCommand,
    after="[-- PATHS]",
    examples=(
        "graveler log lake                             # the default branch",
        "graveler log lake/main -n 10 --oneline",
        "graveler log lake/main --graph --oneline",
        "graveler log lake --all --graph --oneline     # of all branches and tags",
        "graveler log lake/main --since '2 days ago' --author ann",
        "graveler log lake/main -- sales/ prices.csv   # commits that changed these paths",
        "graveler log lake/main --stop-at v1.2         # what came after v1.2, and v1.2",
        "graveler log lake/main --stop-at 'main@{2 days ago}'",
        "graveler log lake/main --dot >graph.dot",
    ),
)
@address_argument("ref", here="ref")
@click.argument("paths", nargs=-1)
@count
@click.option("--oneline", is_flag=True, help="a line a commit")
@click.option("--graph", "is_graph", is_flag=True, help="draw the graph of commits")
@click.option("--all", "is_all", is_flag=True, help="what all branches and tags lead to")
@click.option("--first-parent", is_flag=True, help="of merges, follow the first parent only")
@click.option("--no-merges", is_flag=True, help="leave merges out")
@click.option("--since", default="", metavar="TIME", help="only commits since then")
@click.option("--until", default="", metavar="TIME", help="only commits until then")
@click.option("--author", default="", metavar="TEXT", help="only committers with this text")
@click.option("--after", default="", metavar="COMMIT", help="begin after this commit")
@click.option("--objects", "lakectl_objects", multiple=True, hidden=True)
@click.option("--prefixes", "lakectl_prefixes", multiple=True, hidden=True)
@click.option("--limit", "lakectl_limit", is_flag=True, hidden=True)
@click.option(
    "--stop-at",
    default="",
    metavar="REF",
    shell_complete=complete_ref,
    help="end with the commit of this ref",
)
@click.option("--dot", is_flag=True, help="print a graph for the programs of Graphviz")
@ignored("--show-meta-range-id")  # JSON has it
@at
def log(
    invocation: Invocation, ref: str, paths: tuple[str, ...], amount: int | None, **how: Any
) -> int:
    """List the commits that REF leads to, newest first.

    With PATHS, only commits that changed one of them; a path that ends with a slash is a prefix.
    After `--` all words are paths: so REF may be left out in a linked folder.
    TIME is for example '2 days ago', 2026-11-23 or 2026-11-23T10:00:00Z.
    With --at, REF and the one of --stop-at are as they were then.
    """
    paths += paths_of(click.get_current_context())
    since = times.rfc3339_of(how["since"])
    which = LogFilter(
        [*(path for path in paths if not path.endswith("/")), *_words(how["lakectl_objects"])],
        [*(path for path in paths if path.endswith("/")), *_words(how["lakectl_prefixes"])],
        since,
        how["first_parent"],
        how["lakectl_limit"],
        how["stop_at"],
    )
    until = times.parse(how["until"]).timestamp() if how["until"] else None
    is_shown = _wanted(until, how["author"], no_merges=how["no_merges"])
    if how["is_all"]:
        listed = _log_of_all(invocation, ref, which, how["after"])
    else:
        address = ref_or_default(invocation, ref)
        if which.stop_at:
            end = times.then(invocation, Address(address.repository, which.stop_at))
            which = replace(which, stop_at=end.ref)
        listed = commits.log(
            *(invocation.session, address.repository, address.ref, which), after=how["after"]
        )
    chosen = islice((commit for commit in listed if is_shown(commit)), amount)
    if how["dot"]:
        _print_dot(chosen)
        return DONE
    with paged(invocation.output):
        _print_log(invocation.output, chosen, is_graph=how["is_graph"], oneline=how["oneline"])
    return DONE


def _words(options: tuple[str, ...]) -> list[str]:
    """The paths of an option that may be repeated, or have several with commas, as in lakectl."""
    return [word for option in options for word in option.split(",") if word]


def _log_of_all(invocation: Invocation, ref: str, which: LogFilter, after: str) -> Iterator[Commit]:
    if after or times.is_past(invocation) or which.stop_at:
        raise UsageMistake("--all begins at the heads: leave --after, --at and --stop-at out")
    name, session = invocation.repository(ref), invocation.session
    # Hidden branches are left out, as everywhere.
    named = chain(refs.list_branches(session, name), refs.list_tags(session, name))
    heads = list(islice(dict.fromkeys(each["commit_id"] for each in named), _HEADS_MAX + 1))
    if len(heads) > _HEADS_MAX:
        raise Unsupported(f"more than {_HEADS_MAX:,} branches and tags: name a ref instead")
    return commits.log_of_all(session, name, heads, which)


def _wanted(until: float | None, author: str, *, no_merges: bool) -> Callable[[Commit], bool]:
    """What the client itself filters, because lakeFS does not."""

    def wanted(commit: Commit) -> bool:
        if until is not None and commit["creation_date"] > until:
            return False
        if no_merges and len(commit["parents"]) > 1:
            return False
        return author.casefold() in commit["committer"].casefold()

    return wanted


def _print_log(output: Output, chosen: Iterable[Commit], *, is_graph: bool, oneline: bool) -> None:
    if output.form != "human" or not (is_graph or output.terminal or oneline):
        output.items(_LOG_COLUMNS, chosen)
        return
    rows: Iterable[graph.Row] = (graph.Row("", commit) for commit in chosen)
    if is_graph:
        rows = graph.draw(graph.ordered(chosen))
    for drawing, commit in rows:
        margin = f"{drawing}  " if is_graph else ""
        if not commit:
            print(drawing)
            continue
        lines = [_oneline(output, commit)] if oneline else [*_described(output, commit), ""]
        print(margin + lines[0])
        rest = drawing.replace("*", "|" if commit["parents"] else " ")
        for line in lines[1:]:
            print(f"{rest}  {line}".rstrip() if is_graph else line)


def _print_dot(chosen: Iterable[Commit]) -> None:
    """The graph in the language of Graphviz, from each commit to its parents."""
    print('digraph commits {\n  node [shape=box, fontname="monospace"]')
    for commit in chosen:
        subject = first_line(commit["message"]).replace("\\", "\\\\").replace('"', '\\"')
        print(f'  "{commit["id"]}" [label="{commit["id"][:12]}\\n{plain(subject)}"]')
        for parent in commit["parents"]:
            print(f'  "{commit["id"]}" -> "{parent}"')
    print("}")


def _oneline(output: Output, commit: Mapping[str, Any]) -> str:
    subject = first_line(commit["message"])
    return f"{output.style(output.id(commit['id']), fg='yellow')} {plain(subject)}"


def _described(output: Output, commit: Mapping[str, Any]) -> Iterator[str]:
    """A commit as several lines."""
    yield output.style(f"commit {output.id(commit['id'])}", fg="yellow")
    if len(commit["parents"]) > 1:
        yield f"merge:  {' '.join(output.id(parent) for parent in commit['parents'])}"
    yield f"author: {plain(commit['committer']) or '-'}"
    yield f"date:   {output.time(commit['creation_date'])}"
    yield ""
    for line in commit["message"].splitlines() or [""]:
        yield f"    {plain(line)}".rstrip()
    pairs = sorted((key, value) for key, value in commit["metadata"].items() if key != _JOB_KEY)
    if pairs:
        yield ""
        for key, value in pairs:
            yield f"    {plain(key)} = {plain(value)}"


# ---- show ----------------------------------------------------------------------------------------


class _ShowCommand(ClientCommand):
    """`show REF`; lakectl says `show commit REF`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if len(args) > 1 and args[0] == "commit" and not args[1].startswith("-"):
            args = args[1:]
        return super().parse_args(ctx, args)


@client(
    "show",
    kind=_ShowCommand,
    examples=("graveler show lake/main", "graveler show lake/1a2b3c4d --json"),
)
@address_argument("ref", here="ref")
@click.option("--stat", is_flag=True, help="count the changes of each folder instead")
@ignored("--show-meta-range-id")
@at
def show(invocation: Invocation, ref: str, stat: bool) -> int:
    """Show a commit, and what it changed against its first parent."""
    address, session, output = (
        ref_or_default(invocation, ref),
        invocation.session,
        invocation.output,
    )
    commit = commits.get(session, address.repository, address.ref)
    parent = commit["parents"][0] if commit["parents"] else ""
    changes: Iterable[Difference] = ()
    if parent:
        changes = commits.diff(session, address.repository, parent, commit["id"], two_dot=True)
    if output.form != "human":
        lines = [dict(change) for change in changes]
        output.record({**commit, "graveler": {"changes": lines}}, ())
        return DONE
    with paged(output):
        for line in _described(output, commit):
            print(line)
        print()
        if stat:
            print_stat(output, Counts.of(changes, ""))
        else:
            print_changes(output, changes)
    return DONE


_THREADS: Final = 8
_AHEAD: Final = 64  # calls that are under way or wait to be printed


def _of_commit(name: str) -> Callable[[Any], Any]:
    return lambda row: (row["graveler"]["commit"] or {}).get(name, "")


_ANNOTATED: Final = (
    Column("COMMIT", _of_commit("id"), "id"),
    Column("DATE", _of_commit("creation_date"), "time"),
    Column("AUTHOR", _of_commit("committer")),
    Column("PATH", lambda row: row["path"]),
    Column("MESSAGE", lambda row: first_line(_of_commit("message")(row))),
)


@client(
    "annotate",
    examples=(
        "graveler annotate lake/main/sales/             # one level",
        "graveler annotate lake/main/sales/ -r",
        "graveler annotate lake/main/prices.csv --at 2026-11-01",
    ),
)
@address_argument("address", metavar="REF[/PATH]")
@click.option("-r", "--recursive", is_flag=True, help="all objects, not one level")
@click.option("--first-parent", is_flag=True, help="of merges, follow the first parent only")
@count
@at
def annotate(
    invocation: Invocation,
    address: str,
    recursive: bool,
    first_parent: bool,
    amount: int | None,
) -> int:
    """Show the commit that last changed each object below a prefix.

    A common prefix has the commit that last changed something below it.  A path that is not
    committed has none.  It takes a request for each row, 8 at a time.
    """
    place = times.then(invocation, invocation.path(address, optional=True))
    session = invocation.session
    listed = objects.list_objects(
        *(session, place.repository, place.ref, place.path),
        delimiter="" if recursive else "/",
        amount=amount,
    )
    paths = (stats["path"] for stats in listed)
    invocation.output.items(
        _ANNOTATED,
        _rows(invocation, place, paths, first_parent=first_parent),
        none=f"no objects below {place}",
    )
    return 0


def _rows(
    invocation: Invocation, place: Address, paths: Iterator[str], *, first_parent: bool
) -> Iterator[dict[str, Any]]:
    """The rows in the order of the paths; a few calls are ahead of what is printed."""
    from concurrent.futures import ThreadPoolExecutor

    session = invocation.session

    def last(path: str) -> Commit | None:
        is_prefix = path.endswith("/")
        which = LogFilter(
            [] if is_prefix else [path],
            [path] if is_prefix else [],
            first_parent=first_parent,
            limit=True,
        )
        log = commits.log(session, place.repository, place.ref, which, amount=1)
        return next(log, None)

    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[tuple[str, Future[Commit | None]]] = deque()
        try:
            for path in paths:
                waiting.append((path, pool.submit(last, path)))
                if len(waiting) >= _AHEAD:
                    yield _row(*waiting.popleft())
            while waiting:
                yield _row(*waiting.popleft())
        finally:
            for _, call in waiting:
                call.cancel()


def _row(path: str, call: "Future[Commit | None]") -> dict[str, Any]:
    return {"path": path, "graveler": {"commit": call.result()}}
