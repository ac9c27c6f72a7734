"""A small landing without a cluster: the service writes the range and the metarange of a few
entries, whose objects the caller has written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from graveler.block import address
from graveler.committed import writer
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import MetarangeId, parse_path
from graveler.core.records import ABSENT, Absent, Entry, Record
from graveler.core.wire import encode_entry
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.check import Rules
from graveler.engine.bulk.job import Bulk
from graveler.engine.objects.write import DEFAULT_CONTENT_TYPE, check_described
from graveler.engine.ports import OpenRepository, keyspace


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A path, and the object that it will point to.  `address`: the full address of the object,
    which is in the repository's namespace."""

    path: str
    address: str
    size: int
    checksum: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    modified_ns: int | Literal[Absent.ABSENT] = ABSENT


def write(
    repo: OpenRepository, branch: str, job_id: str, entries: Sequence[NewEntry]
) -> MetarangeId:
    """Write the metarange of some entries, for `Finish.metarange`.

    An entry without a time gets that of the job's begin, so a repeated request writes the same.
    Errors: `NotFound` (job); `Invalid`: more than `bulk_entries_count_max` entries, a path twice,
    or an entry that names no object of its own, as `check.check` judges.  Whether the objects are
    there is not checked.  Cost: 2 KV requests, 1 put for each range and one for the metarange.
    """
    if len(entries) > limits.bulk_entries_count_max:
        raise Invalid(
            f"entries invalid: at most {limits.bulk_entries_count_max}; write ranges, and name "
            f"their metarange instead: count={len(entries)}"
        )
    job = bulk.status(repo, branch, job_id)
    if not job.mode.takes_prefix:
        raise Invalid(f"entries invalid: the mode {job.mode} takes a metarange")
    rules = Rules(repo, job.base.commit.metarange)
    records = sorted(_record(repo, job, entry) for entry in entries)
    for left, right in pairwise(records):
        if left[0] == right[0]:
            raise Invalid(f"entries invalid: a path is there twice: path={left[0].decode()!r}")
    for record in records:
        rules.check(record)
    return writer.write(keyspace(repo), records)


def _record(repo: OpenRepository, job: Bulk, new: NewEntry) -> Record:
    key = parse_path(new.path)
    if not new.path.startswith(job.prefix):
        raise Invalid(
            f"entries invalid: a path does not lie below the job's prefix: path={new.path!r:.200} "
            f"prefix={job.prefix!r:.200}"
        )
    check_described(new.metadata, new.content_type)
    canonical = address.split(new.address).address
    relative = address.relative_to(repo.namespace, canonical)
    if relative is ABSENT or address.join(repo.namespace, relative) != canonical:
        raise Invalid(
            "entries invalid: an address does not lie in the repository's namespace; import what "
            f"is elsewhere: address={canonical}"
        )
    entry = Entry(
        address=relative,
        size=new.size,
        checksum=new.checksum,
        modified_ns=job.job.created_ns if new.modified_ns is ABSENT else new.modified_ns,
        metadata=dict(new.metadata),
        content_type=new.content_type or DEFAULT_CONTENT_TYPE,
    )
    return key, encode_entry(entry)
