"""Opening a store by name.

    memory:          nothing is kept (memory.py)
    rocksdb:FOLDER   the embedded store (rocksdb.py)
    dynamodb:TABLE   a table on AWS, by AWS's own chain of configuration (dynamodb.py)

A driver and what it depends on are imported when first asked for.  Assembly uses it.
"""

from collections.abc import Callable
from typing import Protocol

from graveler.errors import Invalid, Unsupported
from graveler.kv.store import Store


class OpenStore(Store, Protocol):
    """A store together with what it holds open."""

    def close(self) -> None:
        """Make everything durable and let go; later calls may raise `Unavailable`."""
        ...


def open_store(uri: str) -> OpenStore:
    """The store that `uri` names.

    `Invalid` for a name outside the table above; `Unsupported` if the driver's package is not
    installed; else what the driver raises.
    """
    scheme, colon, place = uri.partition(":")
    driver = _DRIVERS.get(scheme) if colon else None
    if driver is None:
        raise Invalid(f"kv uri must begin with one of {', '.join(_FORMS)}: {uri=}")
    try:
        return driver(place)
    except ImportError as error:
        raise Unsupported(
            f"open kv store: a package is missing, install it: {uri=} package={error.name}"
        ) from error


def _open_memory(place: str) -> OpenStore:
    from graveler.kv.memory import MemoryStore

    if place:
        raise Invalid(f"kv uri memory: takes nothing behind the colon: {place=}")
    return MemoryStore()


def _open_rocksdb(place: str) -> OpenStore:
    from graveler.kv.rocksdb import RocksStore

    if not place:
        raise Invalid("kv uri rocksdb: needs a folder behind the colon")
    return RocksStore(place)


def _open_dynamodb(place: str) -> OpenStore:
    from graveler.aws import AwsSession
    from graveler.kv.dynamodb import DynamoStore

    if not place:
        raise Invalid("kv uri dynamodb: needs a table behind the colon")
    return DynamoStore(AwsSession(), place)


_FORMS = ("memory:", "rocksdb:FOLDER", "dynamodb:TABLE")
_DRIVERS: dict[str, Callable[[str], OpenStore]] = {
    "memory": _open_memory,
    "rocksdb": _open_rocksdb,
    "dynamodb": _open_dynamodb,
}
