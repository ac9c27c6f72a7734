"""Checksums that arrived with the parts of an upload, and those that its completion names.

    put_part ──► verified checksum of the part: keep
    complete ──► check: each checksum that the completion names must be the one that was kept
             ──► of_parts: those that were kept, for a checksum that it states of them all
             ──► shared: those of an algorithm that all parts have, if it states none

A completion names the etag of each part, which already identifies its bytes.  If it names a
checksum too, the checksum must also be the right one.  Used by the S3 gateway, beside uploads.py.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.block.adapter import Part
from graveler.engine.objects.uploads import UploadId
from graveler.engine.ports import OpenRepository
from graveler.errors import Code, Invalid
from graveler.records import ABSENT, Absent
from graveler.refs.tokens import part_checksums
from graveler.refs.tokens.part_checksums import ChecksumRow, PartChecksum

# An upload expires 7 days after it began; a completed one is remembered for 24 hours more.
_KEPT_SECONDS: Final = limits.multipart_upload_seconds + limits.multipart_upload_keep_seconds


class SharedChecksums(NamedTuple):
    """An algorithm, and the checksums of all parts, in the order of a completion."""

    algorithm: str
    checksums: Sequence[ChecksumRow]


def keep(
    repo: OpenRepository, upload: UploadId, part: Part, size: int, algorithm: str, text: str
) -> None:
    """Record the verified checksum of a part that was stored.  May be repeated.

    `size`: of the part in bytes.  `algorithm`: its name in lower case.  `text`: the checksum in
    Base64.  Cost: 1 KV request.
    """
    row = ChecksumRow(PartChecksum(part.number, part.etag, algorithm, text), size)
    expires_ns = repo.clock.now_ns() + _KEPT_SECONDS * limits.SECOND_NS
    part_checksums.put(repo.kv, repo.record, upload.id, row, expires_ns, repo.ids.stamp())


def check(repo: OpenRepository, upload: UploadId, stated: Sequence[PartChecksum]) -> None:
    """Raise `Invalid` (`PART_INVALID`) unless each stated checksum arrived with these bytes of its
    part.  So it is raised, too, if the part arrived without a checksum of this algorithm.

    `stated`: the checksums of a completion, in the form of `keep`.  `upload` exists.  Cost: no
    request if none is stated, else 1 KV request for each 1,000 parts that arrived with a checksum.
    """
    if not stated:
        return
    rows = part_checksums.of_upload(repo.kv, repo.record, upload.id)
    arrived = {row.checksum for row in rows}
    for checksum in stated:
        if checksum not in arrived:
            text = f"part was not uploaded with this checksum: number={checksum.number}"
            raise Invalid(text, Code.PART_INVALID)


def of_parts(
    repo: OpenRepository, upload: UploadId, parts: Sequence[Part], algorithm: str
) -> Sequence[ChecksumRow]:
    """The checksums that arrived with these parts, in the order of `parts`.

    Raises `Invalid` (`PART_INVALID`) for a part that arrived without a checksum of this algorithm.
    `upload` exists.  Cost: 1 KV request for each 1,000 parts that arrived with a checksum.
    """
    arrived = _arrived(repo, upload)
    for part in parts:
        if (algorithm, part) not in arrived:
            text = f"part was not uploaded with a checksum {algorithm}: number={part.number}"
            raise Invalid(text, Code.PART_INVALID)
    return [arrived[algorithm, part] for part in parts]


def shared(
    repo: OpenRepository, upload: UploadId, parts: Sequence[Part], algorithms: Collection[str]
) -> SharedChecksums | Literal[Absent.ABSENT]:
    """The first of `algorithms` of which all parts arrived with a checksum; `ABSENT` if there is
    none.  `upload` and cost: as for `of_parts`."""
    arrived = _arrived(repo, upload)
    for algorithm in algorithms:
        if all((algorithm, part) in arrived for part in parts):
            return SharedChecksums(algorithm, [arrived[algorithm, part] for part in parts])
    return ABSENT


def _arrived(repo: OpenRepository, upload: UploadId) -> Mapping[tuple[str, Part], ChecksumRow]:
    """What arrived with the parts of an upload, by algorithm and part."""
    arrived = {}
    for row in part_checksums.of_upload(repo.kv, repo.record, upload.id):
        checksum = row.checksum
        arrived[checksum.algorithm, Part(checksum.number, checksum.etag)] = row
    return arrived
