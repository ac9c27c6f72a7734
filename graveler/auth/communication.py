"""What the first user wishes to be told by mail: one record, stored once.

    auth / communication -> pairs: email, feature_updates, security_updates

Nothing is ever sent: the record is for the administrator of the deployment.  For api/.
"""

from collections.abc import Mapping
from typing import Final

from graveler import wire
from graveler.errors import AlreadyExists
from graveler.kv.store import Store, landed
from graveler.records import ABSENT

_PLACE: Final = (b"auth", b"communication")


def set_up(kv: Store, wishes: Mapping[str, str], stamp: bytes) -> None:
    """Store the wishes.

    Raises `AlreadyExists` if some are stored; `OutcomeUnknown`.  One request.
    """
    outcome = kv.set_if(*_PLACE, wire.encode_pairs(dict(wishes)), stamp, ABSENT)
    if not landed(outcome, stamp):
        raise AlreadyExists("communication preferences are set already")
