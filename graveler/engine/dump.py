"""Dumps of refs: branches, tags and commits as tables in the repository's own folder.

Refs are read first, so a dump contains every commit that it names, with all ancestors.  The tables
have the form that lakeFS restores; staged rows and content are not dumped.  A dump is valid once
its manifest, `_graveler/dumps/<id>.json`, is stored.  An attempt that continues a dump reuses the
refs and the ranges of commits of its checkpoints, `commits-<begin in nanoseconds>-<n>`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeVar

from graveler.block import address
from graveler.block.drivers import list_all
from graveler.committed import dumps
from graveler.committed.dumps import Resumption, StoredTable
from graveler.core import limits, wire, wire_dumps
from graveler.core.clock import ulid
from graveler.core.errors import Corrupt
from graveler.core.ids import MetarangeId, is_hex64
from graveler.core.records import ABSENT, Absent, RangeRef, Record
from graveler.engine.jobs.checkpoints import NO_STEPS, Step, Steps
from graveler.engine.ports import Deadline, OpenRepository, Ports
from graveler.refs import branches, commits, tags

_NAME: Final = re.compile(r"commits-([0-9]{20})-[0-9]{5}", re.ASCII)
T = TypeVar("T", branches.NamedBranch, tags.NamedTag)
_FOLDER = "_graveler/dumps/"
_FILES = "files"
_MANIFEST_BYTES_MAX = 16 << 20


class RefTables(NamedTuple):
    """The tables of the refs, with which a dump begins."""

    branches: StoredTable
    tags: StoredTable


class DumpSteps:
    """The checkpoints of earlier attempts, and where this attempt stores its own."""

    def __init__(self, steps: Steps, now_ns: int, seconds_max: int) -> None:
        """`now_ns`: when this attempt began.  Checkpoints of a dump that began more than
        `seconds_max` before are left out.  Cost: a get for each checkpoint."""
        self._steps = steps
        known = [match for match in map(_NAME.fullmatch, steps.names("commits-")) if match]
        oldest_ns = now_ns - seconds_max * limits.SECOND_NS
        fresh = (began_ns for match in known if (began_ns := int(match[1])) > oldest_ns)
        self.began_ns = next(fresh, now_ns)
        self.refs: RefTables | Literal[Absent.ABSENT] = ABSENT
        self.ranges: list[RangeRef] = []
        self._number = 0
        while (part := self._part()) is not ABSENT:
            self.refs = part.refs
            self.ranges += part.ranges
            self._number += 1
        self._held: list[RangeRef] = []

    @property
    def after(self) -> str:
        """The last commit in a checkpoint; empty if there is none."""
        return self.ranges[-1].max_key.decode("ascii") if self.ranges else ""

    def add(self, ref: RangeRef, refs: RefTables) -> None:
        """Record a range that follows all others and that a break has ended.  Cost: a put once a
        checkpoint is full.
        """
        if not self._steps.row_count:
            return
        self._held.append(ref)
        if sum(each.count for each in self._held) >= self._steps.row_count:
            rows = [wire.encode_range(each)[1].hex() for each in self._held]
            self._steps.add(self._name, Step({"begins": self.after, "refs": refs}, rows))
            self.ranges += self._held
            self._number += 1
            self._held = []

    @property
    def _name(self) -> str:
        return f"commits-{self.began_ns:020}-{self._number:05}"

    def _part(self) -> "_Part | Literal[Absent.ABSENT]":
        """The next checkpoint, if it continues where the one before it ended, for the same refs."""
        step = self._steps.read(self._name)
        if step is ABSENT or step.said.get("begins") != self.after:
            return ABSENT
        refs, ranges = _ref_tables(step.said.get("refs")), _ranges(step.rows, self.after)
        if refs is ABSENT or not ranges or self.refs not in (ABSENT, refs):
            return ABSENT
        return _Part(refs, ranges)


class _Part(NamedTuple):
    refs: RefTables
    ranges: Sequence[RangeRef]


def _ref_tables(pairs: object) -> RefTables | Literal[Absent.ABSENT]:
    """The tables in a checkpoint; ABSENT if they are invalid."""
    try:
        branches, tags = (_table_of(*each) for each in _list(pairs))
    except (ValueError, TypeError):
        return ABSENT
    return RefTables(branches, tags)


def _table_of(id: object, files: object) -> StoredTable:
    names = [_hex64(name) for name in _list(files)]
    return StoredTable(MetarangeId(_hex64(id)), tuple(names))


def _ranges(rows: Sequence[object], after: str) -> Sequence[RangeRef]:
    """The ranges in a checkpoint.  None if they are invalid: their keys must be ids of commits, all
    after `after`."""
    try:
        ranges = [wire.decode_range(bytes.fromhex(_text(row))) for row in rows]
        for ref in ranges:
            _hex64(ref.id), _hex64(ref.min_key.decode("ascii")), _hex64(ref.max_key.decode("ascii"))
    except (ValueError, TypeError, Corrupt):
        return []
    keys = [after.encode(), *(key for ref in ranges for key in (ref.min_key, ref.max_key))]
    return ranges if all(left <= right for left, right in pairwise(keys)) else []


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _hex64(value: object) -> str:
    text = _text(value)
    if not is_hex64(text):
        raise ValueError("not an id")
    return text


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
    cost of the checkpoints.
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
    """The ids of the tables of every dump that has a manifest."""
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
