"""Every verb is killed at each of its port calls, and each of them fails in every way.

Afterwards somebody else looks, commits and sweeps: nothing acknowledged is lost, a refused call had
no effect, nothing is left behind.
"""

from typing import Any

import pytest

from simulator.arrivals import ArrivalWatch
from simulator.exhaustive import Bound, PathChoices
from simulator.histories import Run
from simulator.invariants import count_leaks, judge
from simulator.schedule import Breach, Call, faithful
from simulator.stage import Stage, build_stage
from simulator.verbs.arrivals import Event
from simulator.verbs.calls import VERBS, Client
from tests.simulation import faults
from tests.simulation.failing import Killed, Kind, Turn, failing

pytestmark = pytest.mark.slow

# What was done before: nothing; rows that change something; rows that say what the commit says;
# rows in a sealed token under rows in the open one.
BEFORE: dict[str, tuple[tuple[str, ...], ...]] = {
    "clean": (),
    "staged": (("write", "k1", "k1-7"), ("delete", "m1", "")),
    "idle": (("write", "k1", "k1-0"), ("delete", "k2", "")),
    "sealed": (
        ("write", "k1", "k1-7"),
        ("write", "i/c", "i/c-7"),
        ("prefix", "i", ""),
        ("write", "m2", "m2-7"),
    ),
    "dropped": (("write", "k1", "k1-7"), ("drop", "", "")),
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "delete_many": ("k1", "k2"),
    "prefix": ("k", ""),
    "upload_many": ("k1", "k1-8", "k2", "k2-8", "k1", "k1-9"),
    "create_only": ("k2", "k2-9"),
}
ARGUMENTS["link_only"] = ARGUMENTS["create_only"]
ARGUMENTS["arrive"] = (Event("k1", 1), Event("k2", 2))  # they close a batch, which is committed
WRITING = sorted(set(VERBS) - {"read", "list"})
CALLS_MAX = 60


@pytest.fixture(scope="module")
def stage() -> Stage:
    return build_stage()


def _broken(
    stage: Stage, verb: str, before: str, turn: Turn, breach: Breach = faithful
) -> tuple[list[str], int]:
    """What is wrong after one call of a verb of which one port call went wrong; leaks."""
    run = Run(stage, PathChoices(Bound(0, 0, 0)), breach=breach)
    arrived = ArrivalWatch(run)
    if verb.startswith("pull_"):
        run.propose()
    if verb == "commit_vetoed":
        run.veto()
    calls = [run.alone(Call(0, name, (key, value))) for name, key, value in BEFORE[before]]
    call = Call(1, verb, ARGUMENTS.get(verb, ("k1", "k1-9")))
    call.start = run.world.step + 1
    client = run.client(1)
    client = Client(failing(client.ports, turn), client.stage, client.repo)
    try:
        call.answer = VERBS[verb](client, call)
        call.end = run.world.step + 1
    except Killed:
        pass
    except Exception as error:
        call.error, call.end = error, run.world.step + 1
    run.world.step += 1
    if verb == "arrive" and before != "dropped":
        calls += arrived.settle([[call]])
        arrived.judge([calls, [call]])
    judge(run, [calls, [call]])
    return run.wrong, count_leaks(run)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
@pytest.mark.parametrize("verb", WRITING)
def test_each_port_call_of_each_verb_goes_wrong(stage: Stage, verb: str, kind: Kind) -> None:
    for before in BEFORE:
        for number in range(1, CALLS_MAX):
            turn = Turn(number, kind)
            wrong, leaked = _broken(stage, verb, before, turn)
            assert not wrong, f"{verb} after {before}, call {number}: {wrong}"
            assert not leaked, f"{verb} after {before}, call {number}: {leaked} rows left"
            if not turn.reached:
                break
        else:
            pytest.fail(f"{verb} makes more than {CALLS_MAX} calls")


def test_clean_ups_that_are_not_kept_are_noticed(stage: Stage) -> None:
    breach = faults.at("kv", faults.Unkept, faults.RECORDS, faults.CLEANUPS)
    turns = [Turn(number, Kind.KILLED) for number in range(1, 9)]
    assert any(_broken(stage, "commit", "staged", turn, breach)[1] for turn in turns)
