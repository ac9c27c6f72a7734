"""Checksums that arrived with the parts of an upload, and those that its completion names.

    put_part ──► verified checksum of the part: keep
    complete ──► check: each checksum that the completion names must be the one that was kept

The etag of a part names its bytes already.  A completion that names a checksum as well asks for
both to be compared, so a wrong one is refused.  Used by the S3 gateway, beside uploads.py.
"""

from collections.abc import Sequence
from typing import Final

from graveler import limits
from graveler.block.adapter import Part
from graveler.engine.objects.uploads import UploadId
from graveler.engine.ports import OpenRepository
from graveler.errors import Code, Invalid
from graveler.refs.tokens import part_checksums
from graveler.refs.tokens.part_checksums import PartChecksum

# An upload expires so long after its begin, and its completion is answered again after that.
_KEPT_SECONDS: Final = limits.multipart_upload_seconds + limits.multipart_upload_keep_seconds


def keep(repo: OpenRepository, upload: UploadId, part: Part, algorithm: str, text: str) -> None:
    """Record the verified checksum of a part that was stored.  May be repeated.

    `algorithm`: its name in lower case.  `text`: the checksum in Base64.  Cost: 1 KV request.
    """
    checksum = PartChecksum(part.number, part.etag, algorithm, text)
    expires_ns = repo.clock.now_ns() + _KEPT_SECONDS * limits.SECOND_NS
    part_checksums.put(repo.kv, repo.record, upload.id, checksum, expires_ns, repo.ids.stamp())


def check(repo: OpenRepository, upload: UploadId, stated: Sequence[PartChecksum]) -> None:
    """Raises `Invalid` (`PART_INVALID`) if a stated checksum is not the one that arrived with these
    bytes of the part, and if none of its algorithm arrived.

    `stated`: those of a completion, in the form of `keep`; `upload` is known.  Cost: nothing if
    none is stated, else 1 KV request for each 1,000 parts that arrived with a checksum.
    """
    if not stated:
        return
    arrived = set(part_checksums.of_upload(repo.kv, repo.record, upload.id))
    for checksum in stated:
        if checksum not in arrived:
            text = f"part was not uploaded with this checksum: number={checksum.number}"
            raise Invalid(text, Code.PART_INVALID)
