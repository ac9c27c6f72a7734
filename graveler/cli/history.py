"""`graveler log`, `show`, `diff` and `status`: what changed, and when."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from graveler.cli import graph, moments, past, rows
from graveler.cli.address import Address, UsageMistake
from graveler.cli.command import PathsCommand, address_argument, at, client, count, paths_of
from graveler.cli.failures import DONE, FAILED
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, Output, field, paged, plain, plural, size
from graveler.client import commits, refs
from graveler.client.commits import Commit, Difference, LogFilter
from graveler.client.session import Session
from graveler.clock import SystemClock
from graveler.errors import Unsupported

_MARKS: Final = {"added": "+", "removed": "-", "changed": "~", "conflict": "*"}
_COLORS: Final = {"added": "green", "removed": "red", "changed": "yellow", "conflict": "magenta"}
_UNMARKED: Final = "~"  # of a prefix in which something changed
_FOLDERS_MAX: Final = 10_000
_HEADS_MAX: Final = 1_000  # of `log --all`
_JOB_KEY: Final = "graveler.job"  # metadata of a commit that was made in the background
_LOG_COLUMNS: Final = (
    field("id", "id", "COMMIT"),
    field("creation_date", "time", "DATE"),
    field("committer", title="AUTHOR"),
    Column("MESSAGE", lambda commit: (commit["message"].splitlines() or [""])[0]),
)
_DIFF_COLUMNS: Final = (field("type"), field("path"), field("size_bytes", "size", "SIZE"))

# ---- log -----------------------------------------------------------------------------------------


@client(
    "log",
    examples=(
        "graveler log lake                             # the default branch",
        "graveler log lake/main -n 10 --oneline",
        "graveler log lake/main --graph --oneline",
        "graveler log lake --all --graph --oneline     # of all branches and tags",
        "graveler log lake/main --since '2 days ago' --author ann",
        "graveler log lake/main -- sales/ prices.csv   # commits that changed these paths",
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
@click.option("--show-meta-range-id", "lakectl_id", is_flag=True, hidden=True)  # JSON has it
@at
def log(
    invocation: Invocation, ref: str, paths: tuple[str, ...], amount: int | None, **how: Any
) -> int:
    """List the commits that REF leads to, newest first.

    With PATHS, only commits that changed one of them; a path that ends with a slash is a prefix.
    TIME is for example '2 days ago', 2026-11-23 or 2026-11-23T10:00:00Z.
    """
    now_ns = SystemClock().now_ns()
    since = moments.rfc3339(moments.parse(how["since"], now_ns)) if how["since"] else ""
    which = LogFilter(
        [*(path for path in paths if not path.endswith("/")), *_words(how["lakectl_objects"])],
        [*(path for path in paths if path.endswith("/")), *_words(how["lakectl_prefixes"])],
        since,
        how["first_parent"],
        how["lakectl_limit"],
    )
    until = moments.parse(how["until"], now_ns).timestamp() if how["until"] else None
    is_shown = _wanted(until, how["author"], no_merges=how["no_merges"])
    if how["is_all"]:
        listed = _log_of_all(invocation, ref, which, how["after"])
    else:
        address = _ref_or_default(invocation, ref)
        listed = commits.log(
            *(invocation.session, address.repository, address.ref, which), after=how["after"]
        )
    chosen = islice((commit for commit in listed if is_shown(commit)), amount)
    with paged(invocation.output):
        _print_log(invocation.output, chosen, is_graph=how["is_graph"], oneline=how["oneline"])
    return DONE


def _words(options: tuple[str, ...]) -> list[str]:
    """The paths of an option that may be repeated, or have several with commas, as in lakectl."""
    return [word for option in options for word in option.split(",") if word]


def _log_of_all(invocation: Invocation, ref: str, which: LogFilter, after: str) -> Iterator[Commit]:
    if after or past.is_past(invocation):
        raise UsageMistake("--all begins at the heads: it goes with neither --after nor --at")
    name, session = invocation.repository(ref).repository, invocation.session
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


def _oneline(output: Output, commit: Mapping[str, Any]) -> str:
    subject = (commit["message"].splitlines() or [""])[0]
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


def _ref_or_default(invocation: Invocation, text: str) -> Address:
    """A ref; of a repository alone, its default branch."""
    if "/" in text.removeprefix("lakefs://") or text.startswith(":"):
        return past.then(invocation, invocation.ref(text))
    address = invocation.repository(text)
    branch = refs.get_repository(invocation.session, address.repository)["default_branch"]
    return past.then(invocation, Address(address.repository, branch))


# ---- show ----------------------------------------------------------------------------------------


@client(
    "show",
    examples=("graveler show lake/main", "graveler show lake/1a2b3c4d --json"),
)
@address_argument("ref", here="ref")
@click.option("--stat", is_flag=True, help="count the changes of each folder instead")
@at
def show(invocation: Invocation, ref: str, stat: bool) -> int:
    """Show a commit, and what it changed against its first parent."""
    address, session, output = (
        _ref_or_default(invocation, ref),
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
            _print_stat(output, _Counts.of(changes, ""))
        else:
            _print_changes(output, changes)
    return DONE


# ---- diff ----------------------------------------------------------------------------------------


@client(
    "diff",
    kind=PathsCommand,
    examples=(
        "graveler diff lake/dev                        # what is uncommitted on dev",
        "graveler diff lake/main dev                   # what dev changed since it left main",
        "graveler diff lake/main..dev --stat           # the two contents as they are",
        "graveler diff lake/main --at '2 days ago'     # what changed on main since then",
        "graveler diff lake/main dev --name-only -- sales/",
        "graveler diff lake/main v1.2 --exit-code",
        "graveler diff lake/main dev --rows -- sales/",
    ),
)
@address_argument("left", metavar="[A]", here="ref")
@address_argument("right", metavar="[B]", required=False)
@click.option(
    "--two-dot", "--two-way", "two_dot", is_flag=True, help="compare the contents of A and B"
)
@click.option("--prefix", default="", metavar="TEXT", help="only paths that begin with it")
@click.option("--stat", is_flag=True, help="count the changes of each folder")
@click.option("--name-only", is_flag=True, help="print paths alone")
@click.option("--rows", "is_rows", is_flag=True, help="count rows and compare columns of tables")
@click.option("--exit-code", is_flag=True, help="end with 1 if there are differences")
@count
@at
@click.pass_context
def diff(
    ctx: click.Context,
    invocation: Invocation,
    left: str,
    right: str | None,
    two_dot: bool,
    prefix: str,
    stat: bool,
    name_only: bool,
    is_rows: bool,
    exit_code: bool,
    amount: int | None,
) -> int:
    """Show the uncommitted changes of a branch, or what differs between two refs.

    A B shows what B changed since its merge base with A (three-dot); A..B compares the contents.
    A --at TIME compares A with what it was then; with A and B, both are as they were.
    Marks: + added, - removed, ~ changed, * in conflict.

    --rows reads the footers of Parquet files (with pyarrow) and CSV files of at most 64 MiB.
    """
    prefix = _one_prefix(prefix, paths_of(ctx))
    sides = _sides(invocation, left, right, two_dot=two_dot)
    changes = _changes(invocation.session, sides, prefix, amount)
    output = invocation.output
    first = next(changes, None)
    differs = first is not None
    whole = (change for several in ([first] if first else [], changes) for change in several)
    with paged(output):
        if is_rows:
            output.items(rows.COLUMNS, rows.of(invocation, _both_refs(invocation, sides), whole))
        elif stat:
            _print_stat(output, _Counts.of(whole, prefix))
        elif name_only and output.form == "human":
            for change in whole:
                print(plain(change["path"]) if output.terminal else change["path"])
        else:
            _print_changes(output, whole)
    return FAILED if exit_code and differs else DONE


def _one_prefix(prefix: str, paths: tuple[str, ...]) -> str:
    if len(paths) + bool(prefix) > 1:
        raise UsageMistake("one prefix expected: write it after --, or give --prefix")
    return paths[0] if paths else prefix


class _Sides(NamedTuple):
    """What a diff compares.  `right` is empty for the uncommitted changes of `left`."""

    repository: str
    left: str
    right: str = ""
    two_dot: bool = False


def _sides(invocation: Invocation, left: str, right: str | None, *, two_dot: bool) -> _Sides:
    before, dots, after = left.partition("...") if "..." in left else left.partition("..")
    if dots:
        if right is not None or not after:
            raise UsageMistake(f"two refs expected: {left!r}")
        left, right, two_dot = before, after, two_dot or dots == ".."
    address = invocation.ref(left)
    old = past.then(invocation, address)
    if right is None:
        if past.is_past(invocation):
            return _Sides(address.repository, old.ref, address.ref, two_dot=True)
        return _Sides(address.repository, old.ref)
    other = past.then(invocation, invocation.ref(right))
    if other.repository != address.repository:
        raise UsageMistake(f"both refs must be in one repository: {address} and {other}")
    return _Sides(address.repository, old.ref, other.ref, two_dot)


def _both_refs(invocation: Invocation, sides: _Sides) -> rows.Refs:
    """Where the two contents of a diff are."""
    name, left, right, two_dot = sides
    if not right:
        return rows.Refs(name, f"{left}@", left)
    if two_dot:
        return rows.Refs(name, left, right)
    base = commits.merge_base(invocation.session, name, right, left)["base_commit_id"]
    return rows.Refs(name, base, right)


def _changes(
    session: Session, sides: _Sides, prefix: str, amount: int | None
) -> Iterator[Difference]:
    name, left, right, two_dot = sides
    if not right:
        return commits.uncommitted(session, name, left, prefix=prefix, amount=amount)
    return commits.diff(session, name, left, right, prefix=prefix, two_dot=two_dot, amount=amount)


def _print_changes(output: Output, changes: Iterable[Difference]) -> None:
    if output.form != "human" or not output.terminal:
        output.items(_DIFF_COLUMNS, changes)
        return
    counts = _Counts()
    for change in changes:
        counts.add(change, "")
        mark = _MARKS.get(change["type"], _UNMARKED)
        bytes_ = change.get("size_bytes")
        shown = f"  {size(bytes_)}" if bytes_ is not None else ""
        color = _COLORS.get(change["type"])
        print(output.style(f"{mark} {plain(change['path'])}", fg=color) + shown)
    print(counts.sentence())


# ---- counts --------------------------------------------------------------------------------------


class _Counts:
    """How many paths were added, removed, changed or are in conflict, in all and by folder."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, int]] = {}
        self.total = dict.fromkeys(_MARKS, 0)

    @staticmethod
    def of(changes: Iterable[Difference], prefix: str) -> "_Counts":
        counts = _Counts()
        for change in changes:
            counts.add(change, prefix)
        return counts

    def add(self, change: Difference, prefix: str) -> None:
        """Count a change.  Folders are the children of `prefix`."""
        kind = change["type"] if change["type"] in self.total else "changed"
        self.total[kind] += 1
        rest = change["path"].removeprefix(prefix)
        folder = prefix + (rest.partition("/")[0] + "/" if "/" in rest else "")
        if folder not in self.folders and len(self.folders) >= _FOLDERS_MAX:
            folder = prefix
        counts = self.folders.setdefault(folder, dict.fromkeys(_MARKS, 0))
        counts[kind] += 1

    def sentence(self) -> str:
        """All counts in words."""
        if not any(self.total.values()):
            return "no changes"
        return ", ".join(f"{count:,} {kind}" for kind, count in self.total.items() if count)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        folders = [{"path": path, **counts} for path, counts in sorted(self.folders.items())]
        return {**self.total, "folders": folders}


def _print_stat(output: Output, counts: _Counts) -> None:
    if output.form != "human":
        output.record(counts.record(), ())
        return
    for path, kinds in sorted(counts.folders.items()):
        if output.terminal:
            marks = [
                output.style(f"{_MARKS[kind]}{count:,}".rjust(7), fg=_COLORS[kind])
                for kind, count in kinds.items()
                if count or kind != "conflict"
            ]
            print(f"{''.join(marks)}  {plain(path) or '(top)'}")
        else:
            print("\t".join([path, *map(str, kinds.values())]))
    if output.terminal:
        print(counts.sentence())


# ---- status --------------------------------------------------------------------------------------


@client("status", examples=("graveler status lake/main", "graveler status lake --json"))
@address_argument("branch", metavar="[BRANCH]", required=False)
def status(invocation: Invocation, branch: str | None) -> int:
    """Show the head of a branch, and its uncommitted changes by folder.

    In a linked folder without BRANCH, the same as `graveler local status`.
    """
    if branch is None:
        from graveler.cli import local

        return int(
            click.get_current_context().invoke(local.status, directory=Path(), local_only=False)
        )
    address, session, output = (
        _ref_or_default(invocation, branch),
        invocation.session,
        invocation.output,
    )
    head = refs.get_branch(session, address.repository, address.ref)
    counts = _Counts.of(commits.uncommitted(session, address.repository, address.ref), "")
    if output.form != "human" or not output.terminal:
        output.record({**head, "graveler": counts.record()}, _status_rows(head, counts))
        return DONE
    print(f"branch {address} at {output.id(head['commit_id'])}")
    if not counts.folders:
        print("nothing is uncommitted")
        return DONE
    print(f"{plural(sum(counts.total.values()), 'uncommitted change')}:")
    _print_stat(output, counts)
    return DONE


def _status_rows(head: refs.Ref, counts: _Counts) -> Iterator[str]:
    yield f"{head['id']}\t{head['commit_id']}"
    for path, kinds in sorted(counts.folders.items()):
        yield "\t".join([path, *map(str, kinds.values())])
