"""Checksums of parts of uploads: each arrived with its part and was verified, and a completion may
name it again.

A row belongs to bytes, which number and etag name together: a part that is sent again with other
bytes has a row of its own.  A row stays until it expires, also if its upload ends before: a
completion is answered again for a day.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs import rows
from graveler.refs.keys import PART_CHECKSUMS, part_checksum_name, space

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


def put(
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


def of_upload(kv: Store, repository: Repository, upload: str) -> Iterator[ChecksumRow]:
    """The checksums of the parts of an upload.  One request for each 1,000."""
    for name, pairs in _listed(kv, repository, f"{upload}/"):
        _, number, etag = name.split("/", 2)
        size = int(pairs[_SIZE]) if _SIZE in pairs else ABSENT
        for algorithm, text in pairs.items():
            if algorithm not in (_EXPIRES, _SIZE):
                yield ChecksumRow(PartChecksum(int(number), etag, algorithm, text), size)


def expiries(kv: Store, repository: Repository) -> Iterator[tuple[str, int]]:
    """Every row: its name, and when it expires.  One request for each 1,000."""
    for name, pairs in _listed(kv, repository, ""):
        yield name, int(pairs[_EXPIRES])


def forget(kv: Store, repository: Repository, names: Sequence[str]) -> None:
    """Remove rows.  One request for each 1,000."""
    if names:
        kv.delete(space(repository), [PART_CHECKSUMS + name.encode() for name in names])


def _listed(
    kv: Store, repository: Repository, prefix: str
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, row in rows.rows(kv, rows.Stretch(space(repository), PART_CHECKSUMS, prefix)):
        yield name, wire.decode_pairs(row.value)
