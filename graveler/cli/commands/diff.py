"""`graveler diff` and `status`: what differs between refs, and what is uncommitted."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import PathsCommand, client, paths_of, run_command
from graveler.cli.support.failures import DONE, FAILED, of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, count, is_here
from graveler.cli.support.output import Output, field, paged, plain, plural, tsv
from graveler.core.errors import Invalid, NotFound, UsageMistake
from graveler.lake.show import size

Difference = Mapping[str, Any]  # as the API tells it
_MARKS: Final = {"added": "+", "removed": "-", "changed": "~", "conflict": "*"}
_COLORS: Final = {"added": "green", "removed": "red", "changed": "yellow", "conflict": "magenta"}
_UNMARKED: Final = "~"  # of a prefix in which something changed
_TOP: Final = "."  # in TSV: the folder of paths without a slash; others end with one
_FOLDERS_MAX: Final = 10_000
_DIFF_COLUMNS: Final = (field("type"), field("path"), field("size_bytes", "size", "SIZE"))

# ---- counts, and how changes are printed ---------------------------------------------------------


class Counts:
    """How many paths were added, removed, changed or are in conflict, in all and by folder."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, int]] = {}
        self.total = dict.fromkeys(_MARKS, 0)

    @staticmethod
    def of(changes: Iterable[Difference], prefix: str) -> "Counts":
        counts = Counts()
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


def print_changes(output: Output, changes: Iterable[Difference]) -> None:
    if output.form != "human" or not output.terminal:
        output.items(_DIFF_COLUMNS, changes)
        return
    counts = Counts()
    for change in changes:
        counts.add(change, "")
        mark = _MARKS.get(change["type"], _UNMARKED)
        bytes_ = change.get("size_bytes")
        shown = f"  {size(bytes_)}" if bytes_ is not None else ""
        color = _COLORS.get(change["type"])
        print(output.style(f"{mark} {plain(change['path'])}", fg=color) + shown)
    print(counts.sentence())


def print_stat(output: Output, counts: Counts) -> None:
    if output.form != "human":
        output.record({"graveler": counts.record()}, ())
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
            print(_stat_row(path, kinds))
    if output.terminal:
        print(counts.sentence())


def _stat_row(path: str, kinds: Mapping[str, int]) -> str:
    return tsv([path or _TOP, *map(str, kinds.values())])


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
    changes = _changes(invocation, sides, prefix, amount)
    output = invocation.output
    first = next(changes, None)
    differs = first is not None
    whole = (change for several in ([first] if first else [], changes) for change in several)
    with paged(output):
        if is_rows:
            from graveler.cli.support import rows

            before, after = _both_refs(invocation, sides)
            of_tables = rows.of(invocation, sides.repository, before, after, whole)
            output.items(rows.COLUMNS, of_tables)
        elif stat:
            print_stat(output, Counts.of(whole, prefix))
        elif name_only and output.form == "human":
            for change in whole:
                print(plain(change["path"]) if output.terminal else change["path"])
        else:
            print_changes(output, whole)
    if not differs and right is None and is_here("left"):
        output.note(
            of_server(
                invocation,
                "nothing is uncommitted on the branch; the files of this "
                "folder: graveler local status",
            )
        )
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
    if right is None and times.is_past(invocation):
        start, end = times.since(invocation, address)
        return _Sides(address.repository, start.ref, end.ref, two_dot=True)
    old = times.then(invocation, address)
    if right is None:
        return _Sides(address.repository, old.ref)
    other = times.then(invocation, invocation.ref(right))
    if other.repository != address.repository:
        raise UsageMistake(f"both refs must be in one repository: {address} and {other}")
    return _Sides(address.repository, old.ref, other.ref, two_dot)


def _both_refs(invocation: Invocation, sides: _Sides) -> tuple[str, str]:
    """Where the two contents of a diff are."""
    name, left, right, two_dot = sides
    if not right:
        return f"{left}@", left
    if two_dot:
        return left, right
    return invocation.repo(name).ref(right).merge_base(left).base, right


def _changes(
    invocation: Invocation, sides: _Sides, prefix: str, amount: int | None
) -> Iterator[Difference]:
    name, left, right, two_dot = sides
    branch = invocation.repo(name).branch(left)
    if right:
        found = branch.diff(right, prefix, two_dot=two_dot, limit=amount)
    else:
        found = branch.status(prefix, limit=amount)
    return (each.answer for each in found)


# ---- status --------------------------------------------------------------------------------------


@client("status", examples=("graveler status lake/main", "graveler status lake --json"))
@address_argument("branch", metavar="[BRANCH]", required=False)
def status(invocation: Invocation, branch: str | None) -> int:
    """Show the head of a branch, and its uncommitted changes by folder.

    In a pipe, the columns are added, removed, changed and in conflict; `.` has files of no folder.
    In a linked folder without BRANCH, the same as `graveler local status`.
    """
    from graveler.lake.transfers.link import linked_above

    if branch is None:
        from graveler.cli.commands import local

        if linked_above(Path.cwd()) is None:
            raise UsageMistake(
                "no branch: write REPOSITORY/BRANCH, as in lake/main; only in a linked folder it "
                "may be left out"
            )
        return run_command(local.status, directory=Path(), local_only=False)
    output = invocation.output
    try:
        address = ref_or_default(invocation, branch)
        head = invocation.branch(address).answer
    except (NotFound, Invalid) as error:  # the name of a folder need not be one of a repository
        if not Path(branch).is_dir() or linked_above(Path(branch)) is None:
            raise
        remedy = f"graveler local status {branch}"
        raise NotFound(f"{branch} is a linked folder, no branch", remedy=remedy) from error
    changes = (each.answer for each in invocation.branch(address).status())
    counts = Counts.of(changes, "")
    if output.form != "human" or not output.terminal:
        output.record({**head, "graveler": counts.record()}, _status_rows(head, counts))
        return DONE
    print(f"branch {address} at {output.id(head['commit_id'])}")
    if not counts.folders:
        print("nothing is uncommitted")
        return DONE
    print(f"{plural(sum(counts.total.values()), 'uncommitted change')}:")
    print_stat(output, counts)
    return DONE


def _status_rows(head: Mapping[str, Any], counts: Counts) -> Iterator[str]:
    yield f"{head['id']}\t{head['commit_id']}"
    for path, kinds in sorted(counts.folders.items()):
        yield _stat_row(path, kinds)


# ---- refs ----------------------------------------------------------------------------------------


def ref_or_default(invocation: Invocation, text: str) -> Address:
    """A ref; of a repository alone, its default branch."""
    address = invocation.ref(text, optional=True)
    if not address.ref:
        address = invocation.default_ref(address.repository)
    return times.then(invocation, address)
