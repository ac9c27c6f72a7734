"""`graveler ls`, `stat`, `cat`, `presign` and `rm`: objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import client
from graveler.cli.support.failures import (
    PartlyDone,
    naming_folder,
    nothing_below,
    some,
    until_commit,
)
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, count, ignored, yes
from graveler.cli.support.output import Column, field, plural, print_content
from graveler.cli.support.progress import check
from graveler.cli.support.transfers import delete_objects, globs, pre_sign_option, row, show
from graveler.core.errors import Unsupported, UsageMistake
from graveler.lake.transfers.paths import filter_of
from graveler.lake.transfers.workers import Tally

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.records import Entry

_COUNT_MAX: Final = 100_000  # of objects that a question counts
_LISTS_MAX: Final = 10  # of one deletion: more mean that somebody uploads all the time
_COLUMNS: Final = (
    field("size_bytes", "size", "SIZE"),
    field("mtime", "time", "MODIFIED"),
    field("path"),
)
_LONG_COLUMNS: Final = (*_COLUMNS[:2], field("checksum"), field("content_type"), _COLUMNS[2])
_DU_COLUMNS: Final = (
    Column("SIZE", lambda row: row["graveler"]["size_bytes"], "size"),
    Column("OBJECTS", lambda row: row["graveler"]["objects"], "count"),
    field("path"),
)
_STAT: Final = (
    field("path"),
    field("size_bytes", "size", "SIZE"),
    field("mtime", "time", "MODIFIED"),
    field("checksum"),
    field("content_type"),
    field("physical_address"),
    Column("METADATA", lambda item: _pairs(item.get("metadata", {}))),
)


def _pairs(metadata: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(metadata.items()))


# ---- reading -------------------------------------------------------------------------------------


@client(
    "ls",
    examples=(
        "graveler ls lake                               # the default branch",
        "graveler ls lake/main/sales                    # what begins with it",
        "graveler ls lake/main/sales/",
        "graveler ls lake/v1.2/sales/ -r --json",
        "graveler ls lake/main/sales/ --at '2 days ago'",
        "graveler ls lake/main --du                     # how large each folder is",
    ),
)
@address_argument("address", metavar="[REPOSITORY[/REF[/PREFIX]]]", here="prefix")
@click.option("-r", "--recursive", is_flag=True, help="all objects, not one level")
@click.option("-l", "--long", "is_long", is_flag=True, help="checksums and media types too")
@click.option("--du", "is_du", is_flag=True, help="count and sum what is below each folder")
@click.option("--after", default="", metavar="PATH", help="only paths after it")
@count
@at
def ls(
    invocation: Invocation,
    address: str,
    recursive: bool,
    is_long: bool,
    is_du: bool,
    after: str,
    amount: int | None,
) -> int:
    """List objects below a prefix.

    Without REF, those of the default branch.  A branch shows its uncommitted changes too; REF@
    shows its head.
    --du reads the whole list below the prefix; the last line is the sum.
    """
    if is_du and (recursive or is_long):
        raise UsageMistake("--du goes with neither -r nor -l")
    place = _prefix(invocation, address)
    whole, ref = recursive or is_du, invocation.at(place)
    listed = ref.list(place.path, recursive=whole, after=after, limit=amount)
    if is_du:
        number = invocation.output.items(_DU_COLUMNS, _sums(listed, place.path))
    else:
        rows = map(_without_zeros, listed)
        number = invocation.output.items(_LONG_COLUMNS if is_long else _COLUMNS, rows)
    if not number:
        invocation.output.note(f"no objects below {place}")
    return 0


def _prefix(invocation: Invocation, text: str) -> Address:
    """A prefix at a ref; of a repository alone, the top of its default branch."""
    place = invocation.address(text)
    if not place.ref:
        place = invocation.default_ref(place.repository)
    return times.then(invocation, place)


def _sums(listed: "Iterable[Entry]", prefix: str) -> Iterator[dict[str, Any]]:
    """The number and the size of what is below each child of a prefix, and of all at the end.  The
    list is sorted, so each child comes once."""
    total, child = _Sum("."), _Sum("")
    for item in listed:
        rest = item.path[len(prefix) :]
        path = prefix + rest.partition("/")[0] + ("/" if "/" in rest else "")
        if child.path != path:
            if child.objects:
                yield child.row()
            child = _Sum(path)
        for each in (total, child):
            each.objects += 1
            each.bytes += item.size
    if child.objects:
        yield child.row()
        yield total.row()


@dataclass
class _Sum:
    """How much is below a path."""

    path: str
    objects: int = 0
    bytes: int = 0

    def row(self) -> dict[str, Any]:
        sums = {"objects": self.objects, "size_bytes": self.bytes}
        return {"path": self.path, "graveler": sums}


def _without_zeros(entry: "Entry") -> Mapping[str, Any]:
    """A common prefix has no time and no size; the API has to send zeros."""
    told = entry.answer
    return {name: told[name] for name in ("path", "path_type")} if entry.is_folder else told


@client("stat", examples=("graveler stat lake/main/sales/2026.csv",))
@address_argument("address", metavar="REF/PATH")
@click.option("--pre-sign", is_flag=True, hidden=True)  # of lakectl
@at
def stat(invocation: Invocation, address: str, pre_sign: bool) -> int:
    """Show one object."""
    place = times.then(invocation, invocation.path(address))
    with naming_folder(invocation, place, takes_folders=False):
        entry = invocation.at(place).stat(place.path, presign=pre_sign)
    invocation.output.pairs(entry, _STAT)
    return 0


@client("cat", examples=("graveler cat lake/main/a.csv lake/main/b.csv >both.csv",))
@address_argument("addresses", nargs=-1, required=True, metavar="REF/PATH...")
@pre_sign_option
@at
def cat(invocation: Invocation, addresses: tuple[str, ...], pre_sign: bool) -> int:
    """Print the content of objects; on a terminal as text, without what would control it."""
    for place in [times.then(invocation, invocation.path(address)) for address in addresses]:
        with naming_folder(invocation, place, takes_folders=False):
            print_content(invocation.at(place).stream(place.path, redirects=pre_sign))
    return 0


@client("presign", examples=('curl -O "$(graveler presign lake/main/sales/2026.csv)"',))
@address_argument("address", metavar="REF/PATH")
@at
def presign(invocation: Invocation, address: str) -> int:
    """Print a URL with which anybody can read the object for some minutes."""
    place = times.then(invocation, invocation.path(address))
    with naming_folder(invocation, place, takes_folders=False):
        entry = invocation.at(place).stat(place.path, presign=True)
    if not entry.address.startswith(("http://", "https://")):
        raise Unsupported("this server signs no URLs: start it with --public-url, or ask its owner")
    invocation.output.record(entry, [entry.address])
    return 0


# ---- deletions -----------------------------------------------------------------------------------


@client(
    "rm",
    examples=(
        "graveler rm lake/dev/sales/2026.csv",
        "graveler rm -r lake/dev/sales/",
        "graveler rm -r lake/dev/tmp/ --yes",
    ),
)
@address_argument("address", metavar="BRANCH/PATH")
@click.option("-r", "--recursive", is_flag=True, help="everything below the prefix")
@globs
@click.option("--dry-run", is_flag=True, help="show what would be deleted")
@ignored(takes=("-C --concurrency",))
@yes
def rm(
    invocation: Invocation,
    address: str,
    recursive: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete an object, or everything below a prefix (-r), on a branch.

    It is an uncommitted change: `graveler reset` undoes it until it is committed.  One failure
    stops no other object: the command ends with 8 and lists the failures.

    -r lists the prefix again until nothing is left.  If objects still arrive after 10 lists, it
    ends with 8.
    """
    choice, tally = filter_of(include, exclude), Tally()
    if choice and not recursive:
        raise UsageMistake("--include and --exclude need -r")
    place = invocation.target = invocation.path(address, optional=recursive)
    branch = invocation.branch(place)

    def chosen() -> "Iterator[Entry]":
        if not recursive:
            with naming_folder(invocation, place):
                entry = branch.stat(place.path)
            yield entry
            return
        for entry in branch.list(place.folder):
            if choice.chooses(entry.path[len(place.folder) :]):
                yield entry

    if dry_run:
        rows = (row("delete", entry.path, entry.size) for entry in some(chosen(), choice))
        show(invocation, rows)
        return 0
    if recursive and not yes:
        _ask(invocation, place, some(chosen(), choice))
    if recursive:
        _delete_until_empty(branch, place, chosen, tally)
    else:
        delete_objects(branch, [entry.path for entry in chosen()], tally)
    check(tally, "deleted")
    if not tally.files_expected:
        raise nothing_below(choice)
    deleted = plural(tally.deleted, "object") if recursive else place
    invocation.output.note(f"deleted {deleted}: {until_commit(invocation, place)}")
    return 0


def _delete_until_empty(
    branch: "Branch", place: Address, chosen: "Callable[[], Iterator[Entry]]", tally: Tally
) -> None:
    """Delete what is listed, and list again until nothing is: others may upload meanwhile.  Ends
    early after a failure, which is in the tally.  Raises `PartlyDone` if objects still arrive."""
    for _ in range(_LISTS_MAX):
        known = tally.files_expected
        delete_objects(branch, (entry.path for entry in chosen()), tally)
        if tally.failures or tally.files_expected == known:
            return
    if next(chosen(), None) is not None:
        raise PartlyDone(
            f"objects still arrive below {place}: {plural(tally.deleted, 'object')} deleted, and "
            "there are more: stop what uploads them, then repeat the command",
            done=str(tally.deleted),
        )


def _ask(invocation: Invocation, place: Address, chosen: "Iterator[Entry]") -> None:
    number = sum(1 for _ in islice(chosen, _COUNT_MAX + 1))
    words = f"more than {_COUNT_MAX:,} objects" if number > _COUNT_MAX else plural(number, "object")
    question = f"Delete {words} below {place}, and what is uploaded meanwhile?"
    invocation.confirm(question, yes=False)
