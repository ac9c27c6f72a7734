"""Objects at a ref: stat, read, list, the address of their bytes, and symlink files.

A read asks the branch record, then its staging tokens, newest first, then the metarange of the
head.  Every read of bytes checks that the repository may read the address (`address_of`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import TO_END, Body
from graveler.block.address import OWN_FILES
from graveler.committed import reader
from graveler.committed.reader import Folders
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Corrupt,
    Gone,
    NotFound,
    RangeUnsatisfiable,
    Refused,
    Unsupported,
)
from graveler.core.ids import parse_branch_id, parse_path, parse_prefix
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    AddressType,
    Entry,
    Record,
    Repository,
    Staged,
)
from graveler.core.streams import Cursor, Overlay, Page, list_page
from graveler.core.wire import decode_entry, recent_entry
from graveler.engine import namespaces
from graveler.engine.commits.heads import commit_of, resolved
from graveler.engine.ports import OpenRepository, Ports, keyspace, operation_deadline
from graveler.refs.resolve import ResolvedRef
from graveler.staging import area, stack

_SYMLINKS: Final = "symlinks"
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_PUTS_COUNT: Final = 100  # files that are stored together


class ListQuery(NamedTuple):
    """One page of a list: paths that begin with `prefix` and sort after `after`.

    The page has at most `amount` lines.  `delimiter`: empty means one line for each path.
    """

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    amount: int = limits.page_count_default


class ObjectList(NamedTuple):
    """Lines in byte order; a line with `ABSENT` is a common prefix.  `more`: further lines follow
    on the next page."""

    lines: Sequence[tuple[str, Entry | Absent]]
    more: bool


def stat(repo: OpenRepository, ref: str, path: str) -> Entry:
    """The entry of `path` at `ref`; a plain branch name includes uncommitted changes.

    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.
    Cost: 2 KV requests on a branch, else those of the resolution of `ref`.
    """
    key = parse_path(path)
    deadline = operation_deadline(repo)
    where = resolved(repo, ref)
    row: Staged | Literal[Absent.ABSENT] = ABSENT
    if where.staged and where.branch is not ABSENT:
        row = area.lookup(repo.kv, where.branch.branch.tokens_newest_first, key)
    if row is ABSENT:
        value = reader.get(keyspace(repo), commit_of(repo, where.commit).metarange, key)
    else:
        value = ABSENT if row.value is TOMBSTONE else row.value
    deadline.check("read")  # the janitor deletes rows of an old record after a grace period
    if value is ABSENT:
        raise NotFound(f"path not found: path={path}", Code.PATH_NOT_FOUND, path=path)
    return recent_entry(value)


def physical_address(repo: Repository, entry: Entry) -> str:
    """The full address of an entry's bytes, for display only; to read them, use `reachable`."""
    return address.resolve(repo.namespace, entry.address, entry.address_type)


def open_body(repo: OpenRepository, entry: Entry, start: int = 0, end: int = TO_END) -> Body:
    """The bytes of an entry from `start` to `end`, which is excluded.

    Errors: `Gone` (the bytes are missing), those of `check_size`, `RangeUnsatisfiable`, `Refused`.
    Cost: 1 get, and that of `reachable.address_of`.
    """
    place = address_of(repo, entry)
    try:
        body = repo.blocks.get(place, start, end)
    except RangeUnsatisfiable as error:
        check_size(repo, entry, place, error.size)
        raise
    except NotFound as error:
        raise Gone(f"no data: the object is not in the object store: address={place}") from error
    check_size(repo, entry, place, body.head.size)
    return body


def check_size(repo: OpenRepository, entry: Entry, place: str, size: int) -> None:
    """Raise an error if the object at an entry's address has another size than the entry.

    It is `Corrupt` for an object of this system, and `Gone` for one outside, whose owner may have
    replaced it.
    """
    if size == entry.size:
        return
    sizes = f"repository={repo.id} address={place} size={size} expected={entry.size}"
    if lies_inside(repo.record, entry):
        raise Corrupt(f"object damaged: it has another size than its entry: {sizes}")
    raise Gone(f"object outside has changed since: {sizes}")


def read_body(repo: OpenRepository, entry: Entry) -> bytes:
    """All bytes of an entry, for one that is small.  Errors and cost: those of `open_body`, with a
    read instead of the get."""
    place = address_of(repo, entry)
    try:
        raw = repo.blocks.read(place, 0, entry.size + 1)  # one more byte shows that it is longer
    except NotFound as error:
        raise Gone(f"no data: the object is not in the object store: address={place}") from error
    check_size(repo, entry, place, len(raw))
    return raw


def storage_class(repo: OpenRepository, entry: Entry) -> str:
    """The storage class of an entry's bytes; empty is the default.  `Gone`, `Refused`.  1 head."""
    try:
        return repo.blocks.head(address_of(repo, entry)).storage_class
    except NotFound as error:
        raise Gone("no data: the object is not in the object store") from error


def list_objects(repo: OpenRepository, ref: str, query: ListQuery) -> ObjectList:
    """One page of the objects at `ref`; with a delimiter, one line for each common prefix.

    The pages of a branch may show different states; for a stable view over many pages, list a
    commit.  Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.
    Cost on a branch: 2 KV requests with one shard, and 1 for each jump over a common prefix that
    leaves the rows read so far.
    """
    lines, more = list_records(repo, ref, query)
    decoded = [(key.decode(), recent_entry(value) if value else ABSENT) for key, value in lines]
    return ObjectList(decoded, more)


def list_records(repo: OpenRepository, ref: str, query: ListQuery) -> Page:
    """As `list_objects`, with the records as they are stored: `line_of` decodes a line."""
    prefix, after = parse_prefix(query.prefix), parse_prefix(query.after, "after")
    deadline = operation_deadline(repo)
    where = resolved(repo, ref)
    delimiter = query.delimiter.encode()
    folders = Folders(prefix, delimiter) if delimiter else ABSENT
    cursor = view(repo, where, first=query.amount + 1, jumps=bool(delimiter), folders=folders)
    page = list_page(cursor, prefix, delimiter, after, query.amount)
    deadline.check("list")
    return page


def line_of(record: Record) -> tuple[str, Entry | Literal[Absent.ABSENT]]:
    """The path and the entry of a line of `list_records`; a common prefix has no entry.  Pure."""
    key, value = record
    return key.decode(), decode_entry(value) if value else ABSENT


def view(
    repo: OpenRepository,
    where: ResolvedRef,
    *,
    first: int,
    jumps: bool = True,
    folders: Folders | Absent = ABSENT,
) -> Cursor:
    """A cursor over everything that a ref shows, with uncommitted changes on top.

    `first`: the number of rows that the first request asks for.  `jumps`: the caller may seek;
    without it the cursor assumes that rows are read one after the other.
    """
    metarange = commit_of(repo, where.commit).metarange
    space = keyspace(repo)
    committed = reader.cursor(space, metarange, ahead=first, jumps=jumps, folders=folders)
    if not (where.staged and where.branch is not ABSENT):
        return committed
    tokens = where.branch.branch.tokens_newest_first
    return Overlay([stack.view(repo.kv, tokens, first, repo.fanout), committed])


def address_of(repo: OpenRepository, entry: Entry) -> str:
    """The full address of an entry's bytes.

    Errors: `Refused` for an address that the repository may not read, `Invalid` for a text that is
    not an address.  Cost: none inside the namespace; outside, that of `namespaces.holders`.  The
    answers are cached for `limits.repository_cache_seconds_max`.
    """
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    if entry.address_type is AddressType.RELATIVE:
        relative: str | Absent = entry.address  # `resolve` lets no segment lead out
    else:
        relative = address.relative_to(repo.namespace, full)
    if relative is ABSENT:
        _check_outside(repo, full)
    elif f"{relative}/".startswith(OWN_FILES):
        raise Refused("the object's address is among the repository's own files")
    return full


def lies_inside(repo: Repository, entry: Entry) -> bool:
    """Whether the address is inside the namespace, so that `address_of` sends no request.

    Errors: `Invalid`.  Pure.
    """
    if entry.address_type is AddressType.RELATIVE:
        return True  # or it is no address, as `address_of` says
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    return address.relative_to(repo.namespace, full) is not ABSENT


def _check_outside(ports: Ports, full: str) -> None:
    taken = ports.cache.namespaces()
    if taken is ABSENT:
        taken = namespaces.spellings(ports)
        ports.cache.put_namespaces(taken)
    spelled = address.spelling(full)
    at = spelled.rfind("/")
    while at > 0:
        if spelled[:at] in taken:
            raise Refused(
                "the object's address is inside another repository, or inside a deleted one that "
                "is not purged yet"
            )
        at = spelled.rfind("/", 0, at)


class _Folder(NamedTuple):
    """A folder, and the addresses of the objects directly in it."""

    path: str
    addresses: list[str]

    def contains(self, path: str) -> bool:
        """Whether a folder is this one or inside it."""
        return not self.path or path == self.path or path.startswith(f"{self.path}/")


def export_symlinks(
    repo: OpenRepository, branch: str, location: str, objects_max: int = limits.symlink_objects_max
) -> str:
    """Write the symlink files of all folders with objects whose paths begin with `location`; the
    address of the folder with all symlink files.

    Uncommitted changes are included.  The call may be repeated.

    Errors: `NotFound` (branch), `Invalid`, `Unsupported` beyond `objects_max` objects; `Refused`
    for an address that the repository may not read, and `Unsupported` for one with a line break;
    `Unavailable` after the deadline.  Some files may be new then.
    Cost: that of the listing, a put for each folder, and that of `reachable.address_of`.
    """
    name = parse_branch_id(branch)
    parse_prefix(location, "location")
    deadline = operation_deadline(repo)
    top = address.join(repo.namespace, _SYMLINKS)

    def write(folder: _Folder) -> None:
        deadline.check("export")
        inside = f"{folder.path}/" if folder.path else ""
        place = f"{top}/{repo.id}/{name}/{inside}symlink.txt"
        repo.blocks.put(place, ["\n".join(folder.addresses).encode()])

    waiting: list[_Folder] = []
    for folder in _folders(_listed(repo, name, location, objects_max)):
        waiting.append(folder)
        if len(waiting) == _PUTS_COUNT:
            repo.fanout.map(write, waiting)
            waiting = []
    repo.fanout.map(write, waiting)
    return top


def _listed(
    repo: OpenRepository, branch: str, location: str, objects_max: int
) -> Iterator[tuple[str, str]]:
    """Paths and addresses, in order of the paths.  Raises `Unsupported`."""
    count, after, more = 0, "", True
    while more:
        lines, more = list_objects(
            repo, branch, ListQuery(location, "", after, limits.page_count_max)
        )
        count += len(lines)
        if count > objects_max:
            raise Unsupported(f"too many objects to export: at most {objects_max}: {location=}")
        for path, entry in lines:
            assert entry is not ABSENT, "without a delimiter each line is an object"
            yield path, _address_line(repo, path, entry)
            after = path


def _address_line(repo: OpenRepository, path: str, entry: Entry) -> str:
    place = address_of(repo, entry)
    if _LINE_BREAK.search(place):
        raise Unsupported(f"the address of an object has a line break: {path=}")
    return place


def _folders(objects: Iterator[tuple[str, str]]) -> Iterator[_Folder]:
    """Each folder with objects, once."""
    around: list[_Folder] = []
    for path, place in objects:
        parent = path.rpartition("/")[0]
        while around and not around[-1].contains(parent):
            yield around.pop()
        if not around or around[-1].path != parent:
            around.append(_Folder(parent, []))
        around[-1].addresses.append(place)
    while around:
        yield around.pop()
