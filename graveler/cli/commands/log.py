"""`graveler log` and `show`: the commits, and what each changed."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.commands.diff import Counts, Difference, print_changes, print_stat, ref_or_default
from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import ClientCommand, PathsCommand, client, paths_of
from graveler.cli.support.failures import DONE
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, complete_ref, count, ignored
from graveler.cli.support.output import Column, Output, field, first_line, paged, plain
from graveler.core.errors import Unsupported, UsageMistake
from graveler.lake import graph

if TYPE_CHECKING:
    from concurrent.futures import Future

    from graveler.lake.ref import Commit

_Answer = Mapping[str, Any]  # a commit, as the API tells it
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
    which: dict[str, Any] = {
        "path": [*paths, *_words(how["lakectl_objects"])],
        "prefixes": _words(how["lakectl_prefixes"]),
        "since": times.parse(how["since"]) if how["since"] else None,
        "first_parent": how["first_parent"],
    }
    until = times.parse(how["until"]).timestamp() if how["until"] else None
    is_shown = _wanted(until, how["author"], no_merges=how["no_merges"])
    if how["is_all"]:
        if how["after"] or how["stop_at"] or times.is_past(invocation):
            raise UsageMistake("--all begins at the heads: leave --after, --at and --stop-at out")
        listed: Iterable[Commit] = _log_of_all(invocation, ref, which)
    else:
        address = ref_or_default(invocation, ref)
        end = how["stop_at"]
        if end:
            end = times.then(invocation, Address(address.repository, end)).ref
        known = invocation.at(address)
        is_whole = until is None and not how["author"] and not how["no_merges"]
        limit = amount if is_whole else None
        listed = known.log(limit, after=how["after"], stop_at=end, **which)
    chosen = islice((each.answer for each in listed if is_shown(each.answer)), amount)
    if how["dot"]:
        _print_dot(chosen)
        return DONE
    with paged(invocation.output):
        _print_log(invocation.output, chosen, is_graph=how["is_graph"], oneline=how["oneline"])
    return DONE


def _words(options: tuple[str, ...]) -> list[str]:
    """The paths of an option that may be repeated, or have several with commas, as in lakectl."""
    return [word for option in options for word in option.split(",") if word]


def _log_of_all(invocation: Invocation, ref: str, which: Mapping[str, Any]) -> "Iterator[Commit]":
    known = invocation.repo(invocation.repository(ref))
    # Hidden branches are left out, as everywhere.
    named = chain(known.branches(), known.tags())
    heads = list(islice(dict.fromkeys(each.head for each in named), _HEADS_MAX + 1))
    if len(heads) > _HEADS_MAX:
        raise Unsupported(f"more than {_HEADS_MAX:,} branches and tags: name a ref instead")
    return log_of_all([known.commit(head) for head in heads], which)


def log_of_all(
    heads: "Iterable[Commit]", which: Mapping[str, Any] = MappingProxyType({})
) -> "Iterator[Commit]":
    """The commits that several commits lead to, each once, newest first.  `which`: as for `log`.

    Cost: as `log` for each head; but without a filter by path, the log of a head is read no further
    when all that may follow comes from other heads too."""
    seen: set[str] = set()
    logs = [_unseen(head, seen, which) for head in heads]
    yield from heapq.merge(*logs, key=lambda commit: -commit.answer["creation_date"])


def _unseen(head: "Commit", seen: set[str], which: Mapping[str, Any]) -> "Iterator[Commit]":
    """The commits that no other log has listed.  What follows a commit of another log, that log
    lists too."""
    open_ends = {head.name}  # of what this log leads to, commits that still have to come
    is_filtered = which.get("path") or which.get("prefixes")
    for commit in head.log(**which):
        open_ends.discard(commit.id)
        if commit.id not in seen:
            seen.add(commit.id)
            parents = commit.parents[:1] if which.get("first_parent") else commit.parents
            open_ends.update(each.name for each in parents if each.name not in seen)
            yield commit
        if not open_ends - seen and not is_filtered:
            return


def _wanted(until: float | None, author: str, *, no_merges: bool) -> Callable[[_Answer], bool]:
    """What the client itself filters, because lakeFS does not."""

    def wanted(commit: _Answer) -> bool:
        if until is not None and commit["creation_date"] > until:
            return False
        if no_merges and len(commit["parents"]) > 1:
            return False
        return author.casefold() in commit["committer"].casefold()

    return wanted


def _print_log(output: Output, chosen: Iterable[_Answer], *, is_graph: bool, oneline: bool) -> None:
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


def _print_dot(chosen: Iterable[_Answer]) -> None:
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
    output, known = invocation.output, invocation.commit(ref_or_default(invocation, ref))
    commit = known.answer
    changes: Iterable[Difference] = ()
    if known.parents:
        changes = (change.answer for change in known.changes())
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
    listed = invocation.at(place).list(place.path, recursive=recursive, limit=amount)
    paths = (entry.path for entry in listed)
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

    known = invocation.at(place)

    def last(path: str) -> _Answer | None:
        commit = known.log(1, path=path, first_parent=first_parent).first()
        return None if commit is None else commit.answer

    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[tuple[str, Future[_Answer | None]]] = deque()
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


def _row(path: str, call: "Future[_Answer | None]") -> dict[str, Any]:
    return {"path": path, "graveler": {"commit": call.result()}}
