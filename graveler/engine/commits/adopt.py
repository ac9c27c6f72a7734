"""Commit records, metaranges and ranges that a client names by id.

A file is looked up only inside the repository's own namespace, whatever id the client gives.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import Body
from graveler.core.errors import Corrupt, Gone, Invalid, NotFound
from graveler.core.identity import commit_id
from graveler.core.ids import (
    NO_METARANGE,
    BranchId,
    CommitId,
    MetarangeId,
    is_hex64,
    parse_metarange_id,
)
from graveler.core.records import ABSENT, Absent, Commit, CommitEntry
from graveler.engine.commits.heads import check_kept, lookup
from graveler.engine.commits.land import Terms, land
from graveler.engine.commits.search import Once
from graveler.engine.hooks import COMMIT
from graveler.engine.ports import (
    OpenRepository,
    Ports,
    check_message,
    check_metadata,
    check_writable,
    keyspace,
)
from graveler.refs import commits, graph

KINDS = ("range", "meta_range")


class NewCommitRecord(NamedTuple):
    """A commit of another repository or system, with its id."""

    id: str
    commit: Commit


def add_record(repo: OpenRepository, record: NewCommitRecord, *, force: bool = False) -> None:
    """Store the record of a commit that was made elsewhere.

    Its parents and its metarange must already be in this repository, and its id must be the hash
    of its content.  No branch moves.  Errors: `Invalid`, `NotFound`, `Gone` (the metarange has
    expired), `Refused`.
    """
    check_writable(repo.record, force)
    check_message(record.commit.message)
    check_metadata(record.commit.metadata)
    if commit_id(record.commit) != record.id:
        raise Invalid(f"commit_id is not the hash of the commit: commit_id={record.id}")
    metarange = record.commit.metarange
    if metarange != NO_METARANGE:
        known_metarange(repo, metarange)
    drawn = graph.positioned(lookup(repo), record.commit)
    if record.commit.generation not in (0, drawn.generation):
        raise Invalid(
            "generation must be one more than the greatest generation of the parents: "
            f"{drawn.generation}"
        )
    commit = drawn._replace(version=record.commit.version)
    commits.put(repo.kv, repo.record, CommitId(record.id), commit, repo.ids.stamp())


def metarange_location(repo: OpenRepository, metarange_id: str) -> str:
    """The address of a metarange, relative to the namespace.  `NotFound`, `Invalid`.  1 head."""
    return _location(repo, metarange_id, "meta_range")


def range_location(repo: OpenRepository, range_id: str) -> str:
    """The address of a range, relative to the namespace.  `NotFound`, `Invalid`.  1 head."""
    return _location(repo, range_id, "range")


def _location(repo: OpenRepository, name: str, field: str) -> str:
    if not is_hex64(name):
        raise Invalid(f"{field} invalid: it must be 64 hexadecimal digits: {field}={name[:80]!r}")
    place = address.range_file(repo.namespace, name)
    try:
        repo.blocks.head(place)
    except NotFound as error:
        raise NotFound(f"{field} not found: {field}={name}") from error
    return f"_lakefs/{name}"


def known_metarange(repo: OpenRepository, text: str) -> MetarangeId:
    """Check that the metarange with the id `text` is stored in the repository's own namespace."""
    metarange = parse_metarange_id(text, "source_metarange")
    check_kept(repo, metarange)
    try:
        keyspace(repo).metarange(metarange)
    except NotFound as error:
        raise NotFound(f"metarange not found: source_metarange={metarange}") from error
    except Corrupt as error:  # it may be the id of a range
        raise Invalid(f"source_metarange is not the id of a sound metarange: {error}") from error
    return metarange


def land_metarange(
    repo: OpenRepository,
    branch: BranchId,
    source: str,
    drawn: Callable[[CommitEntry, MetarangeId], Commit],
    once: Once | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """Land a commit whose content is the stored metarange `source`."""
    metarange = known_metarange(repo, source)
    space = keyspace(repo)
    if any(space.open(ref).marks for ref in space.metarange(metarange).ranges[:1]):
        raise Invalid(
            f"source_metarange invalid: it holds dumped refs instead of objects: {metarange=}"
        )
    terms = Terms(once=once, event=COMMIT)
    return land(repo, branch, lambda head: drawn(head, metarange), terms)


class MetadataFile(NamedTuple):
    """An existing file of the repository: its full address, and its size in bytes."""

    address: str
    size: int


def locate_file(repo: OpenRepository, kind: str, name: str) -> MetadataFile:
    """Find the file with the id `name`.  `Invalid`; `Gone` if it does not exist.  Cost: 1 head.

    Both kinds of files are in one folder, and only the content of a file shows its kind.  So this
    function checks that `kind` is one of the two, and not that the file is of that kind.
    """
    if kind not in KINDS:
        raise Invalid(f"type invalid: it must be one of {', '.join(KINDS)}: type={kind[:80]!r}")
    if not is_hex64(name):
        raise Invalid(f"object_id invalid: it must be 64 hexadecimal digits: id={name[:80]!r}")
    place = address.range_file(repo.namespace, name)
    try:
        return MetadataFile(place, repo.blocks.head(place).size)
    except NotFound as error:
        raise Gone(f"no data: {kind}={name}") from error


def open_file(ports: Ports, located: MetadataFile) -> Body:
    """The bytes of the file.  `Gone`.  1 get."""
    try:
        return ports.blocks.get(located.address)
    except NotFound as error:
        raise Gone(f"no data: address={located.address}") from error
