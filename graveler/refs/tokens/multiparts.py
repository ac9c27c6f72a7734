"""Records of uploads in parts that go through the service; they survive its restart.

A record is found by branch, path and the id of the upload.  Records sort by branch and path, as the
keys of a bucket do.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from graveler import limits, wire
from graveler.errors import OutcomeUnknown
from graveler.ids import BranchId
from graveler.kv.store import Matches, Store, Write, landed
from graveler.records import ABSENT, Absent, MultipartUpload, Repository
from graveler.refs import rows
from graveler.refs.keys import MULTIPART_UPLOADS, multipart_upload_name, space


class VersionedUpload(NamedTuple):
    """A record, and the version of its stored form."""

    upload: MultipartUpload
    version: bytes

    @property
    def name(self) -> str:
        return multipart_upload_name(self.upload.branch, self.upload.path, self.upload.id)


def fits(branch: BranchId, path: str, upload: str) -> bool:
    """Whether a record of this name can be stored."""
    return len(_key(branch, path, upload)) <= limits.kv_key_length_bytes_max


def put(kv: Store, repository: Repository, upload: MultipartUpload, stamp: bytes) -> None:
    """Record a new upload, unless its record is there.  One request.

    An unconditional write whose answer was lost could land late, over the plan of a completion that
    has joined the parts; then other parts could be planned for the object that they made."""
    raw, key = wire.encode_multipart_upload(upload), _key(upload.branch, upload.path, upload.id)
    kv.set_if(space(repository), key, raw, stamp, ABSENT)


def find(
    kv: Store, repository: Repository, branch: BranchId, path: str, upload: str
) -> VersionedUpload | Literal[Absent.ABSENT]:
    """The record; `upload` may be any text.  At most one request."""
    key = _key(branch, path, upload)
    if len(key) > limits.kv_key_length_bytes_max:
        return ABSENT
    row = kv.get(space(repository), key)
    if row is ABSENT:
        return ABSENT
    return VersionedUpload(wire.decode_multipart_upload(row.value), row.version)


def swap(
    kv: Store, repository: Repository, seen: VersionedUpload, new: MultipartUpload, stamp: bytes
) -> VersionedUpload | Literal[Absent.ABSENT]:
    """Replace the record `seen`.  ABSENT: failed or unknown; the caller reads again.  One
    request."""
    raw, condition = wire.encode_multipart_upload(new), Matches(seen.version)
    key = _key(new.branch, new.path, new.id)
    with suppress(OutcomeUnknown):
        if landed(kv.set_if(space(repository), key, raw, stamp, condition), stamp):
            return VersionedUpload(new, stamp)
    return ABSENT


def write_of(repository: Repository, new: MultipartUpload, stamp: bytes) -> Write:
    """The write that replaces a record, for a step with another row."""
    key = _key(new.branch, new.path, new.id)
    return Write(space(repository), key, wire.encode_multipart_upload(new), stamp)


def list_all(
    kv: Store, repository: Repository, prefix: str = "", after: str = ""
) -> Iterator[VersionedUpload]:
    """Every record whose name begins with `prefix` and is greater than `after`, by name.  One
    request for each 1,000."""
    stretch = rows.Stretch(space(repository), MULTIPART_UPLOADS, prefix, after)
    for _, row in rows.rows(kv, stretch):
        yield VersionedUpload(wire.decode_multipart_upload(row.value), row.version)


def forget(kv: Store, repository: Repository, uploads: Sequence[VersionedUpload]) -> None:
    """Remove records that have not changed since they were read.  One request for each."""
    keys = [MULTIPART_UPLOADS + seen.name.encode() for seen in uploads]
    kv.delete(space(repository), keys, [seen.version for seen in uploads])


def _key(branch: BranchId, path: str, upload: str) -> bytes:
    return MULTIPART_UPLOADS + multipart_upload_name(branch, path, upload).encode()
