"""The framed values of many entries at once, from Arrow columns: what `wire.encode_entry` gives.

For this package.  Pure.
"""

from typing import Any

import pyarrow as pa

from graveler.records import AddressType, Entry
from graveler.spark.checking import Addresses
from graveler.wire import encode_entry

_MICROSECOND_NS = 1_000


def encoded(table: pa.Table, addresses: Addresses) -> list[bytes]:
    """The framed value of every row of a table of checked rows (`checking.COLUMNS`)."""
    kind = AddressType.RELATIVE if addresses is Addresses.RELATIVE else AddressType.FULL
    columns: list[list[Any]] = [table.column(at).to_pylist() for at in range(1, 7)]
    return [
        encode_entry(
            Entry(
                address=address,
                size=size,
                checksum=checksum,
                modified_ns=mtime * _MICROSECOND_NS,
                metadata=dict(metadata) if metadata else {},
                address_type=kind,
                content_type=content_type or "",
            )
        )
        for address, size, checksum, mtime, metadata, content_type in zip(*columns, strict=True)
    ]
