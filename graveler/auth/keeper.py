"""What reading and writing users, groups, policies, credentials and sessions needs.  For auth."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from graveler.auth.keyrings import Keyring
from graveler.clock import Clock, Ids
from graveler.errors import OutcomeUnknown, Unavailable
from graveler.kv.store import Store


@dataclass(frozen=True, slots=True)
class Keeper:
    """Ports, and keys.

    `key` hashes secrets: derived for the purpose `credentials`.  `seals` encrypts them, and
    `sessions` signs the tokens of logins.  `earlier`: the key that hashed secrets before the
    store's secret was rotated, if it was; hashes under it are accepted.
    """

    kv: Store
    clock: Clock
    ids: Ids
    key: bytes
    seals: Keyring
    sessions: Keyring
    earlier: tuple[bytes, ...] = ()


@contextmanager
def begun(change: str) -> Iterator[None]:
    """The rest of a change that has begun to take effect: a failure in here leaves it in between,
    or done, so it raises `OutcomeUnknown`."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except Unavailable as error:
        raise OutcomeUnknown(f"{change} has begun and did not end; repeat it") from error
