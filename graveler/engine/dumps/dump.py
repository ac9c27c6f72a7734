"""Dumps of refs: branches, tags and commits as tables in the repository's own folder.

    branches ─► tags ─► commits ─► manifest      <namespace>/_graveler/dumps/<id>.json

Refs are read first.  Every commit that a ref names has a record by then, so a dump contains every
commit that it names, with all ancestors.

The tables have the form that lakeFS restores.  Staged rows are not dumped.  Neither is content: a
commit names its metarange, which stays where it is.

A dump is valid once its manifest is stored.  As long as the manifest exists, its tables are in use.
A crash before the manifest leaves tables that collection deletes.

An attempt that continues a dump (checkpoints.py) reuses the refs and the ranges of commits that an
earlier attempt wrote, and reads the commits after them.  It is equivalent to one slow dump: a
commit record is never removed, so a commit that a ref named then is either in the part that was
read after the refs, or in the rest.

Used by the delivery layer and by collection (mark.py, root_pages.py).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from graveler import limits, wire_dumps
from graveler.block import address
from graveler.block.listing import list_all
from graveler.clock import ulid
from graveler.committed import dumps
from graveler.committed.dumps import Resumption, StoredTable
from graveler.engine.dumps.checkpoints import DumpSteps, RefTables
from graveler.engine.gc import lost_content
from graveler.engine.jobs.checkpoints import NO_STEPS, Steps
from graveler.engine.ports import Deadline, OpenRepository, Ports
from graveler.errors import Corrupt
from graveler.ids import MetarangeId, is_hex64
from graveler.records import ABSENT, Record
from graveler.refs.graph import commits
from graveler.refs.names import branches, tags

T = TypeVar("T", branches.NamedBranch, tags.NamedTag)
_FOLDER = "_graveler/dumps/"
_FILES = "files"
_MANIFEST_BYTES_MAX = 16 << 20


class RefsDump(NamedTuple):
    """The metaranges of a dump, and the address of its manifest."""

    commits: MetarangeId
    tags: MetarangeId
    branches: MetarangeId
    manifest: str


def dump(repo: OpenRepository, steps: Steps = NO_STEPS) -> RefsDump:
    """Dump the repository's refs and every commit on record.

    `steps`: the checkpoints of the job that runs the dump; it continues from them.

    Errors: `Unavailable`, also if the dump takes so long, counted from its first attempt, that
    collection could delete the first files.  Cost: 1 KV request for each 1,000 records; one put for
    each range, three for the metaranges, one for the manifest; less what `steps` hold, plus the
    cost of the checkpoints; if the repository was collected, that of `lost_content.note_unnoted`.
    """
    now_ns, seconds_max = repo.clock.now_ns(), repo.settings.dump_seconds_max
    so_far = DumpSteps(steps, now_ns, seconds_max)
    spent = (now_ns - so_far.began_ns) / limits.SECOND_NS
    deadline = Deadline(repo.clock, seconds_max - spent)
    refs = so_far.refs
    if refs is ABSENT:
        found_branches = _written(repo, wire_dumps.BRANCHES, _branches(repo))
        refs = RefTables(found_branches, _written(repo, wire_dumps.TAGS, _tags(repo)))
    begun = Resumption(tuple(so_far.ranges), partial(so_far.add, refs=refs))
    records = _commits(repo, so_far.after)
    found_commits = dumps.write(
        repo.blocks, repo.namespace, repo.record.breaks, wire_dumps.COMMITS, records, begun
    )
    found_branches, found_tags = refs
    if repo.record.collected:
        lost_content.note_unnoted(repo)
    deadline.check("dump")
    manifest = {
        "repository": repo.id,
        "creation_date": repo.clock.now_ns() // limits.SECOND_NS,
        "commits_meta_range_id": found_commits.id,
        "tags_meta_range_id": found_tags.id,
        "branches_meta_range_id": found_branches.id,
        _FILES: sorted({*found_commits.files, *found_tags.files, *found_branches.files}),
    }
    name = f"{_FOLDER}{ulid(repo.clock.now_ns(), repo.ids.stamp())}.json"
    place = address.join(repo.namespace, name)
    repo.blocks.put(place, [json.dumps(manifest, indent=1).encode()])
    return RefsDump(found_commits.id, found_tags.id, found_branches.id, place)


def _written(
    repo: OpenRepository, properties: Mapping[str, str], records: Iterable[Record]
) -> StoredTable:
    return dumps.write(repo.blocks, repo.namespace, repo.record.breaks, properties, records)


def _branches(repo: OpenRepository) -> Iterator[Record]:
    for each in branches.every(repo.kv, repo.record):
        branch = each.branch
        yield wire_dumps.branch_record(each.id, branch.commit, hidden=branch.hidden)


def _tags(repo: OpenRepository) -> Iterator[Record]:
    for each in tags.every(repo.kv, repo.record):
        yield wire_dumps.tag_record(each.id, each.tag.commit)


def _commits(repo: OpenRepository, after: str) -> Iterator[Record]:
    for entry in commits.list_all(repo.kv, repo.record, after):
        yield wire_dumps.commit_record(entry.id, entry.commit)


# ---- for collection ------------------------------------------------------------------------------


def files_in_use(repo: OpenRepository) -> set[str]:
    """The ids of the tables of every dump that has a manifest.

    Raises `Corrupt` if a manifest cannot be read.  Cost: one list for each 1,000 dumps, one get for
    each dump.
    """
    files: set[str] = set()
    prefix = address.join(repo.namespace, _FOLDER)
    for line in list_all(repo.blocks, prefix):
        files |= _files_of(repo, line.address)
    return files


def _files_of(ports: Ports, place: str) -> set[str]:
    """The files of one manifest; none if the file in the folder is not a manifest."""
    if not place.endswith(".json"):
        return set()
    raw = ports.blocks.read(place, 0, _MANIFEST_BYTES_MAX)
    try:
        files = json.loads(raw)[_FILES]
        sound = isinstance(files, list) and all(map(is_hex64, files))
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"manifest of a dump cannot be read: address={place}") from error
    if not sound:
        raise Corrupt(f"manifest of a dump names a file that is not a table: address={place}")
    return set(files)
