"""The doors to how fast schedules run, and to the compiled simulator."""

import gc
import json
from pathlib import Path

import graveler
from graveler.testing.compiled import modules
from graveler.testing.families import FAMILIES, PROFILES
from graveler.testing.simulator import measure, rarely_collected, report
from graveler.testing.stage import build_stage


def test_every_cell_is_measured() -> None:
    seconds = measure(build_stage(), seeds=1, rounds=1)
    assert seconds.keys() == {(family, profile) for family in FAMILIES for profile in PROFILES}
    *table, last = report(seconds).splitlines()
    assert len(table) == 1 + len(FAMILIES)
    assert json.loads(last)["schedules_per_second_per_core"] > 0


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    with rarely_collected():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


def test_what_is_compiled_holds_all_flows() -> None:
    package = Path(graveler.__file__).parent
    flows = {file for file in package.glob("engine/*.py")}
    assert flows < set(modules(package))
    assert package / "refs/cache.py" not in modules(package)
