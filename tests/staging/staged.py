"""Stages one row of a token."""

from typing import Literal

from graveler.core.clock import SystemIds
from graveler.core.errors import Unavailable
from graveler.core.ids import StagingToken
from graveler.core.records import Staged, StagedValue
from graveler.kv.store import Store, Written
from graveler.staging import area

IDS = SystemIds()


def stage(
    kv: Store,
    token: StagingToken,
    key: bytes,
    value: StagedValue,
    *,
    wid: bytes = b"w",
    order: int = 1,
) -> Staged | Literal[Written.WRITTEN] | Unavailable:
    """The answer of the store."""
    (answer,) = area.stage(kv, [area.NewRow(token, key, value, wid, order)], IDS)
    return answer
