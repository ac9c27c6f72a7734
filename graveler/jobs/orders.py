"""The request of each kind of job, as text that any worker can read."""

import json
import zlib
from base64 import b85decode, b85encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Entry, Job
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine.bulk.land import Finish
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.imports import KIND as IMPORT
from graveler.engine.jobs.record import MARK_KEY, JobOrder, once
from graveler.engine.objects.copies import Source
from graveler.engine.pulls import MergeOrder
from graveler.refs.lifecycle import DumpIds

COMMIT: Final = "commit"
MERGE: Final = "merge"
PULL: Final = "pull"
COLLECT: Final = "gc"
COPY: Final = "copy"
DUMP: Final = "dump"
LAND: Final = "bulk-finish"
RESTORE: Final = "restore"
RESET: Final = "reset"
_STEM_LENGTH = 32

__all__ = [
    "COLLECT",
    "COMMIT",
    "COPY",
    "DUMP",
    "IMPORT",
    "LAND",
    "MERGE",
    "RESET",
    "RESTORE",
    "JobRequest",
]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One request.  Two requests with the same `kind`, `branch` and `fields` are equal."""

    kind: str
    branch: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    looked_up: dict[str, Any] = field(default_factory=dict)  # no part of the identity

    @property
    def body(self) -> str:
        return json.dumps({**self.fields, **self.looked_up}, sort_keys=True)

    @property
    def stem(self) -> str:
        """The prefix of the ids of all jobs of this request."""
        whole = json.dumps([self.kind, self.branch, self.fields], sort_keys=True)
        return f"{self.kind}-{sha256(whole.encode()).hexdigest()[:_STEM_LENGTH]}-"


def commit_asked(branch: str, request: CommitRequest, *, force: bool) -> JobRequest:
    """The request of a commit."""
    fields = {
        "message": request.message,
        "committer": request.committer,
        "metadata": dict(request.metadata),
        "allow_empty": request.allow_empty,
        "source_metarange": request.source_metarange,
        "force": force,
    }
    if request.created_ns is not ABSENT:
        fields["dated_ns"] = request.created_ns
    return JobRequest(COMMIT, branch, fields)


def merge_asked(source: str, branch: str, request: MergeRequest, *, force: bool) -> JobRequest:
    """The request of a merge of what `source` names when the merge runs.  A commit id as `source`
    always names the same.
    """
    fields = {
        "source": source,
        "message": request.message,
        "committer": request.committer,
        "metadata": dict(request.metadata),
        "strategy": request.strategy,
        "squash": request.squash,
        "allow_empty": request.allow_empty,
        "force": force,
    }
    if request.resolutions:  # requests without any have the ids that they always had
        fields["resolutions"] = dict(request.resolutions)
    return JobRequest(MERGE, branch, fields)


def pull_asked(branch: str, pull: str, opening: int, committer: str) -> JobRequest:
    """The request to merge an opening of a pull request into `branch`."""
    fields: dict[str, Any] = {"pull": pull, "committer": committer}
    if opening > 1:  # the first opening has the ids that requests always had
        fields["opening"] = opening
    return JobRequest(PULL, branch, fields, {"opening": opening})


def pull_request(order: JobOrder) -> MergeOrder:
    """The pull request to merge."""
    fields = json.loads(order.body)
    return MergeOrder(fields["pull"], fields["committer"], fields.get("opening", 0))


def land_asked(branch: str, job_id: str, finish: Finish) -> JobRequest:
    """The request to land what a bulk job wrote.  Raises `Invalid` if the lists of a splice are too
    long for a job record."""
    fields = {
        "job": job_id,
        "metarange": finish.metarange,
        "request_id": finish.request_id,
        "message": finish.message,
        "committer": finish.committer,
        "metadata": dict(finish.metadata),
    }
    if not finish.replace and not finish.guard:
        return JobRequest(LAND, branch, fields)
    lists = json.dumps([list(finish.replace), list(finish.guard)]).encode()
    packed = b85encode(zlib.compress(lists)).decode()
    if len(packed) > limits.bulk_splice_length_bytes_max:
        raise Invalid(
            "replace and guard invalid: too long together; name folders that hold several: "
            f"compressed={len(packed)} maximum={limits.bulk_splice_length_bytes_max}"
        )
    fields["lists"] = sha256(lists).hexdigest()  # the same text for the same lists, unlike `packed`
    return JobRequest(LAND, branch, fields, {"packed": packed})


def land_request(order: JobOrder) -> tuple[str, Finish]:
    """The bulk job to land, and the content of the commit."""
    fields = json.loads(order.body)
    job_id: str = fields.pop("job")
    if fields.pop("lists", ""):
        lists = json.loads(zlib.decompress(b85decode(fields.pop("packed"))))
        fields["replace"], fields["guard"] = lists
    return job_id, Finish(**fields)


class CopyOrder(NamedTuple):
    """The entry to copy, where it was found, and the path to stage it at."""

    there: Entry
    source: Source
    path: str
    force: bool


def copy_asked(branch: str, order: CopyOrder) -> JobRequest:
    """The request to copy what was at the source when the copy was first requested."""
    fields = {"source": [*order.source], "path": order.path, "force": order.force}
    return JobRequest(COPY, branch, fields, {"entry": encode_entry(order.there).hex()})


def copy_order(order: JobOrder) -> CopyOrder:
    """The copy that a job must make."""
    fields = json.loads(order.body)
    entry = decode_entry(bytes.fromhex(fields["entry"]))
    return CopyOrder(entry, Source(*fields["source"]), fields["path"], fields["force"])


def reset_asked(branch: str, prefix: str, *, force: bool) -> JobRequest:
    """The request to drop uncommitted changes below a prefix."""
    return JobRequest(RESET, branch, {"prefix": prefix, "force": force})


def reset_request(order: JobOrder) -> tuple[str, bool]:
    """The prefix that a job must reset, and whether it is forced."""
    fields = json.loads(order.body)
    return fields["prefix"], fields["force"]


def collect_asked(*, dry_run: bool) -> JobRequest:
    """The request of a collection of garbage."""
    return JobRequest(COLLECT, fields={"dry_run": dry_run})


def is_dry_run(order: JobOrder) -> bool:
    """Whether a collection must not change anything."""
    dry_run: bool = json.loads(order.body)["dry_run"]
    return dry_run


def restore_asked(dump: DumpIds, *, force: bool) -> JobRequest:
    """The request to restore a dump of refs."""
    return JobRequest(RESTORE, fields={**dump._asdict(), "force": force})


def restore_order(order: JobOrder) -> tuple[DumpIds, bool]:
    """The dump that a job must restore, and whether it is forced."""
    fields = json.loads(order.body)
    force: bool = fields.pop("force")
    return DumpIds(**fields), force


def commit_request(job: Job, order: JobOrder) -> tuple[CommitRequest, bool]:
    """The commit that a job must make, with the job's idempotency key, and whether it is forced."""
    fields = json.loads(order.body)
    force: bool = fields.pop("force")
    marked = {**fields.pop("metadata"), MARK_KEY: job.id}
    fields["created_ns"] = fields.pop("dated_ns", ABSENT)
    return CommitRequest(**fields, metadata=marked, once=once(job.id, order)), force


def merge_request(job: Job, order: JobOrder) -> tuple[str, MergeRequest, bool]:
    """The merge that a job must make: source, request with the job's idempotency key, and whether
    it is forced.
    """
    fields = json.loads(order.body)
    source: str = fields.pop("source")
    force: bool = fields.pop("force")
    marked = {**fields.pop("metadata"), MARK_KEY: job.id}
    return source, MergeRequest(**fields, metadata=marked, once=once(job.id, order)), force
