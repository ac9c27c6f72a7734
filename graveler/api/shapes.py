"""Converts records to the JSON that clients read.  Pure.  Used by the endpoints."""

from datetime import UTC, datetime
from typing import Any

from graveler.api.answers import Page
from graveler.api.answers import Shape as Record
from graveler.engine.commits.diff import DiffLine
from graveler.engine.names.branches import BranchView
from graveler.engine.objects.read import physical_address
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, AddressType, CommitEntry, Entry, Repository

Shape = dict[str, Any]


class Ref(Record, frozen=True):
    """A branch or a tag, and its commit."""

    id: str
    commit_id: str


class RefList(Page, frozen=True):
    """A page of branches or tags."""

    results: list[Ref]


def seconds(nanoseconds: int) -> int:
    """Nanoseconds as whole seconds, rounded down."""
    return nanoseconds // SECOND_NS


def moment(nanoseconds: int) -> str:
    """A time in RFC 3339 format."""
    time = datetime.fromtimestamp(nanoseconds / SECOND_NS, UTC)
    return time.isoformat().replace("+00:00", "Z")


def repository(repo: Repository) -> Shape:
    return {
        "id": repo.id,
        "creation_date": seconds(repo.created_ns),
        "default_branch": repo.default_branch,
        "storage_namespace": repo.namespace,
        "storage_id": "",
        "read_only": repo.read_only,
    }


def branch(view: BranchView) -> Ref:
    return Ref(view.id, view.branch.commit)


def commit(entry: CommitEntry) -> Shape:
    record = entry.commit
    return {
        "id": entry.id,
        "parents": list(record.parents),
        "committer": record.committer,
        "message": record.message,
        "creation_date": seconds(record.created_ns),
        "meta_range_id": record.metarange,
        "metadata": dict(record.metadata),
        "generation": record.generation,
        "version": record.version,
    }


def stats(repo: Repository, path: str, entry: Entry) -> Shape:
    """An object without its user metadata."""
    return {
        "path": path,
        "path_type": "object",
        "physical_address": _shown_address(repo, entry),
        "checksum": entry.checksum,
        "size_bytes": entry.size,
        "mtime": seconds(entry.modified_ns),
        "content_type": entry.content_type,
    }


def _shown_address(repo: Repository, entry: Entry) -> str:
    """The address of the bytes, for display only.

    It is not validated here: it was validated when it was stored.
    """
    if entry.address_type == AddressType.RELATIVE:
        return f"{repo.namespace}/{entry.address}"
    return physical_address(repo, entry)


def full_stats(repo: Repository, path: str, entry: Entry) -> Shape:
    """An object with its user metadata."""
    shape = stats(repo, path, entry)
    shape["metadata"] = dict(entry.metadata)
    return shape


def common_prefix(path: str) -> Shape:
    return {
        "path": path,
        "path_type": "common_prefix",
        "physical_address": "",
        "checksum": "",
        "mtime": 0,
    }


def difference(line: DiffLine, *, right_stats: bool = False) -> Shape:
    entry = line.left if line.right is ABSENT else line.right
    if entry is ABSENT:
        return {"type": line.kind, "path": line.path, "path_type": "common_prefix"}
    shape: Shape = {
        "type": line.kind,
        "path": line.path,
        "path_type": "object",
        "size_bytes": entry.size,
    }
    if right_stats:
        shape["right"] = {
            "checksum": entry.checksum,
            "mtime": seconds(entry.modified_ns),
            "content_type": entry.content_type,
            "metadata": dict(entry.metadata),
        }
    return shape
