"""The janitor's second pass: a writer who was late by more than one grace leaves nothing behind."""

from graveler.engine import janitor
from graveler.engine.ports import open_repository
from graveler.kv.store import Row
from simulator.exhaustive import Bound, PathChoices
from simulator.histories import Run
from simulator.invariants import count_leaks
from simulator.schedule import JUMP_NS, Call
from simulator.stage import Stage, build_stage


def _late_row(stage: Stage) -> int:
    """Rows that are left of a write that arrives between the janitor's passes."""
    run = Run(stage, PathChoices(Bound(0, 0, 0)))
    token = min(run.watched("main").tokens)
    run.alone(Call(0, "write", ("k1", "k1-1")))
    run.alone(Call(0, "commit"))
    swept = 0
    while not swept:
        run.world.jumped_ns += JUMP_NS
        swept = janitor.sweep(open_repository(run.ports(), run.repo)).rows
    run.world.put(f"s/{token}/0".encode(), b"k2", Row(b"late", b"late", 1))
    return count_leaks(run)


def test_a_late_row_goes_with_the_second_pass() -> None:
    stage = build_stage()
    assert _late_row(stage) == 0
