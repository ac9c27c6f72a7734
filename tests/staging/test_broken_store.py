"""A store that breaks its contract is noticed, not believed."""

from collections.abc import Sequence

import pytest

from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Internal, Unavailable
from graveler.core.records import ABSENT
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Declined, Newer, Outcome
from graveler.staging import area
from tests.staging.staged import stage


class Refusing(MemoryStore):
    """Refuses newer rows, and says that nothing is there."""

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        return Declined(ABSENT)

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return [Declined(ABSENT) for _ in rows]


def test_a_row_that_is_refused_though_nothing_is_there() -> None:
    token = area.new_token(SystemClock(), SystemIds(), 1)
    with pytest.raises(Internal):
        stage(Refusing(), token, b"a", b"1")
    rows = [area.NewRow(token, key, b"1", b"w", 1) for key in (b"a", b"b")]
    with pytest.raises(Internal):
        area.stage(Refusing(), rows, SystemIds())
