"""Records of issued upload addresses: each is valid for one path of one branch, until it expires.

Linking an object looks its address up and compares path and branch.  An address without a record
was never issued, or its record was removed since.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from graveler import limits, wire
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository, UploadAddress
from graveler.refs import rows
from graveler.refs.keys import UPLOADS, space, upload_key


def put(
    kv: Store, repository: Repository, address: str, upload: UploadAddress, stamp: bytes
) -> None:
    """Record that `address` was issued.  One request."""
    kv.set(space(repository), upload_key(address), wire.encode_upload_address(upload), stamp)


def find(kv: Store, repository: Repository, address: str) -> UploadAddress | Literal[Absent.ABSENT]:
    """The record of `address`, which may be any text; ABSENT if there is none.  At most one
    request."""
    key = upload_key(address)
    if len(key) > limits.kv_key_length_bytes_max:
        return ABSENT
    row = kv.get(space(repository), key)
    return ABSENT if row is ABSENT else wire.decode_upload_address(row.value)


def list_all(
    kv: Store, repository: Repository, after: str = ""
) -> Iterator[tuple[str, UploadAddress]]:
    """Every address after `after`, with its record.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), UPLOADS, "", after)):
        yield name, wire.decode_upload_address(row.value)


def forget(kv: Store, repository: Repository, addresses: Sequence[str]) -> None:
    """Remove the records.  One request for each 1,000."""
    if addresses:
        kv.delete(space(repository), [upload_key(address) for address in addresses])
