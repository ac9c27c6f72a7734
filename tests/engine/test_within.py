"""A request that has less time than its verbs: none begins a step after it."""

import pytest

from graveler import assembly
from graveler.core.errors import Unavailable
from graveler.engine.ports import within
from graveler.engine.repositories import repository
from tests.engine.lake import Lake
from tests.support.clockwork import SeededIds, TickingClock


@pytest.fixture
def lake() -> Lake:
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    new = repository.NewRepository("lake", "mem://bucket/lake")
    return Lake(ports, repository.create(ports, new))


def test_no_verb_begins_a_step_after_its_time(lake: Lake) -> None:
    lake.put("a", "1")
    late = Lake(within(lake.ports, -1.0), lake.repo)
    for verb in (late.commit, lambda: late.merge("main@"), lambda: late.put_if_absent("b", "2")):
        with pytest.raises(Unavailable):
            verb()
    assert lake.tree("main@") == {} and lake.tree() == {"a": "1"}


def test_more_time_than_a_verb_has_gives_it_no_more(lake: Lake) -> None:
    assert within(lake.ports, 1e9).settings == lake.ports.settings
    lake.put("a", "1")
    Lake(within(lake.ports, 1e9), lake.repo).commit()
    assert lake.tree("main@") == {"a": "1"}
