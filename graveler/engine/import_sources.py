"""Sources of imports: which sources are allowed, and the objects of a source in path order."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import ListedObject, ObjectPage
from graveler.core import limits
from graveler.core.errors import Invalid, NotFound
from graveler.core.ids import parse_path, parse_prefix
from graveler.core.records import ABSENT, AddressType, Entry, Record
from graveler.core.wire import encode_entry
from graveler.engine import namespaces
from graveler.engine.hooks import ACTIONS_FOLDER
from graveler.engine.ports import Ports
from graveler.refs.lifecycle import Deletion


class ImportPath(NamedTuple):
    """One source of an import.

    `common_prefix`: all objects below the folder `path`; their paths begin with `destination`.
    `object`: the object at the address `path`; its path is `destination`.
    """

    kind: Literal["common_prefix", "object"]
    path: str
    destination: str


class SkippedNames(NamedTuple):
    """What an import left out because it is no object, or no path can name it: how many, and the
    first ones with the reason."""

    total: int = 0
    examples: tuple[str, ...] = ()

    def plus(self, other: "SkippedNames") -> "SkippedNames":
        """Both together."""
        examples = (*self.examples, *other.examples)[: limits.import_skipped_examples_max]
        return SkippedNames(self.total + other.total, examples)


NOTHING_SKIPPED: Final = SkippedNames()


class SourcePage(NamedTuple):
    """Some records of a source, and what was skipped beside them.  `last`: the address to continue
    behind; it may have characters that are no valid Unicode."""

    records: list[Record]
    skipped: SkippedNames
    last: str


# ---- what lies there -----------------------------------------------------------------------------


def check(ports: Ports, source: ImportPath) -> None:
    """Raises `Invalid` for a source that this deployment may not read, that does not exist, or that
    overlaps the namespace of a repository, also of a deleted one that is not purged yet.

    Cost: 1 block request, and that of `namespaces.all_on`.
    """
    if source.kind == "object":
        check_no_action(parse_path(source.destination, "destination"))
    else:
        check_no_action(parse_prefix(below(source.destination), "destination"))
    try:
        if source.kind == "object":
            address.split(source.path)
            ports.blocks.head(source.path)
        else:
            folder = folder_of(source.path)
            page = ports.blocks.list(folder, "", 1)
    except (Invalid, NotFound) as error:
        raise Invalid(f"invalid import source: path={source.path[:200]}: {error}") from error
    holder = namespaces.holder_on(ports, source.path)
    if holder is not ABSENT:
        # The error names no repository: the caller may have no right to know of it.
        where = "inside a repository"
        if isinstance(holder, Deletion):
            due = namespaces.purge_due(ports, holder)
            where = f"inside a deleted repository until its purge, {due}"
        raise Invalid(f"invalid import source: it is {where}: path={source.path[:200]}")
    if source.kind == "common_prefix":
        _check_exists(folder, page)


def check_no_action(path: bytes) -> None:
    """Raises `Invalid` if an entry at `path` would be an action file.  Its bytes must be inside the
    repository: outside, they can change without a commit, so each commit would be refused."""
    if path.startswith(ACTIONS_FOLDER.encode()):
        raise Invalid(
            f"an object outside the repository must not be below {ACTIONS_FOLDER}: upload it"
        )


def spelled(source: ImportPath) -> ImportPath:
    """The source in its one spelling: a folder and its destination end in a slash.  Raises
    `Invalid`.  Pure.

    A caller is authorized for this spelling, so it is also what must be read.
    """
    try:
        if source.kind == "object":
            return source._replace(path=address.split(source.path).address)
        folder = address.split_prefix(folder_of(source.path)).address
    except Invalid as error:
        raise Invalid(f"invalid import source: path={source.path[:200]}: {error}") from error
    return source._replace(path=folder, destination=below(source.destination))


def folder_of(path: str) -> str:
    """The address with a slash at the end, as that of a folder.  Pure."""
    return path if path.endswith("/") else path + "/"


def below(destination: str) -> str:
    """The prefix of all paths below a destination.  Pure."""
    return destination if not destination or destination.endswith("/") else destination + "/"


def one(ports: Ports, source: ImportPath) -> Record:
    """The record of a source that is one object.  `NotFound`.  Cost: 1 block request."""
    head = ports.blocks.head(source.path)
    entry = _entry(ListedObject(source.path, head))
    return parse_path(source.destination), encode_entry(entry)


def pages(ports: Ports, source: ImportPath, after: str) -> Iterator[SourcePage]:
    """The records of a source behind the address `after`, page by page.

    Raises `Invalid` or `NotFound` if the source does not exist.  Cost: 1 block request for each
    1,000 objects.
    """
    folder, destination = folder_of(source.path), below(source.destination)
    more = True
    while more:
        page = ports.blocks.list(folder, after, limits.page_count_max)
        if not after:
            _check_exists(folder, page)
        more = page.more and bool(page.lines)
        after = page.lines[-1].address if page.lines else after
        yield _taken(page, len(folder), destination, after)


def _check_exists(folder: str, page: ObjectPage) -> None:
    """Raises `Invalid` if the first page of a folder shows that it does not exist."""
    if not page.lines and address.split_prefix(folder).bucket:
        raise Invalid(
            f"invalid import source: no object is below it: path={folder[:200]}: name a folder "
            "that has objects (a/part- means the folder a/part-/); to import an empty folder, put "
            "an empty object with this name, with its slash"
        )


def _taken(page: ObjectPage, start: int, destination: str, last: str) -> SourcePage:
    """The records of a page, without what is no object, or has a name that no path can have."""
    records: list[Record] = []
    skipped = NOTHING_SKIPPED
    for line in page.lines:
        if len(line.address) == start:
            continue
        try:
            if line.problem:
                raise Invalid(line.problem)
            address.check(line.address)
            path = parse_path(destination + line.address[start:])
            check_no_action(path)
        except Invalid as error:
            skipped = skipped.plus(
                SkippedNames(1, (f"{line.address[start:]!r:.150}: {error!s:.150}",))
            )
            continue
        records.append((path, encode_entry(_entry(line))))
    return SourcePage(records, skipped, last)


def _entry(line: ListedObject) -> Entry:
    return Entry(
        address=line.address,
        size=line.head.size,
        checksum=line.head.etag,
        modified_ns=line.head.modified_ns,
        address_type=AddressType.FULL,
    )
