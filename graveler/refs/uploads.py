"""Records of upload addresses, of uploads in parts, and of the checksums of their parts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.errors import OutcomeUnknown
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, Absent, MultipartUpload, Repository, UploadAddress
from graveler.kv.store import Matches, Store, Write, landed
from graveler.refs import rows
from graveler.refs.keys import (
    MULTIPART_UPLOADS,
    PART_CHECKSUMS,
    UPLOADS,
    multipart_upload_name,
    part_checksum_name,
    space,
    upload_key,
)

# ---- uploads ---------------------------------------------------------------------------------


def put_address(
    kv: Store, repository: Repository, address: str, upload: UploadAddress, stamp: bytes
) -> None:
    """Record that `address` was issued.  One request."""
    kv.set(space(repository), upload_key(address), wire.encode_upload_address(upload), stamp)


def find_address(
    kv: Store, repository: Repository, address: str
) -> UploadAddress | Literal[Absent.ABSENT]:
    """The record of `address`, which may be any text; ABSENT if there is none.  At most one
    request."""
    key = upload_key(address)
    if len(key) > limits.kv_key_length_bytes_max:
        return ABSENT
    row = kv.get(space(repository), key)
    return ABSENT if row is ABSENT else wire.decode_upload_address(row.value)


def list_addresses(
    kv: Store, repository: Repository, after: str = ""
) -> Iterator[tuple[str, UploadAddress]]:
    """Every address after `after`, with its record.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), UPLOADS, "", after)):
        yield name, wire.decode_upload_address(row.value)


def forget_address(kv: Store, repository: Repository, addresses: Sequence[str]) -> None:
    """Remove the records.  One request for each 1,000."""
    if addresses:
        kv.delete(space(repository), [upload_key(address) for address in addresses])


# ---- multiparts ------------------------------------------------------------------------------


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


# ---- part checksums --------------------------------------------------------------------------

_EXPIRES: Final = "expires_ns"
_SIZE: Final = "bytes"


class PartChecksum(NamedTuple):
    """The checksum of one part.  `algorithm`: its name in lower case.  `text`: in Base64."""

    number: int
    etag: str
    algorithm: str
    text: str


class ChecksumRow(NamedTuple):
    """The checksum that arrived with a part, and the size of the part in bytes; a row of an older
    release has no size."""

    checksum: PartChecksum
    size: int | Literal[Absent.ABSENT]


def put_checksum(
    kv: Store,
    repository: Repository,
    upload: str,
    row: ChecksumRow,
    expires_ns: int,
    stamp: bytes,
) -> None:
    """Record the checksum of a part.  One request."""
    checksum = row.checksum
    key = PART_CHECKSUMS + part_checksum_name(upload, checksum.number, checksum.etag).encode()
    pairs = {checksum.algorithm: checksum.text, _EXPIRES: str(expires_ns)}
    if row.size is not ABSENT:
        pairs[_SIZE] = str(row.size)
    kv.set(space(repository), key, wire.encode_pairs(pairs), stamp)


def checksums_of(kv: Store, repository: Repository, upload: str) -> Iterator[ChecksumRow]:
    """The checksums of the parts of an upload.  One request for each 1,000."""
    for name, pairs in _listed(kv, repository, f"{upload}/"):
        _, number, etag = name.split("/", 2)
        size = int(pairs[_SIZE]) if _SIZE in pairs else ABSENT
        for algorithm, text in pairs.items():
            if algorithm not in (_EXPIRES, _SIZE):
                yield ChecksumRow(PartChecksum(int(number), etag, algorithm, text), size)


def checksum_expiries(kv: Store, repository: Repository) -> Iterator[tuple[str, int]]:
    """Every row: its name, and when it expires.  One request for each 1,000."""
    for name, pairs in _listed(kv, repository, ""):
        yield name, int(pairs[_EXPIRES])


def forget_checksums(kv: Store, repository: Repository, names: Sequence[str]) -> None:
    """Remove rows.  One request for each 1,000."""
    if names:
        kv.delete(space(repository), [PART_CHECKSUMS + name.encode() for name in names])


def _listed(
    kv: Store, repository: Repository, prefix: str
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, row in rows.rows(kv, rows.Stretch(space(repository), PART_CHECKSUMS, prefix)):
        yield name, wire.decode_pairs(row.value)
