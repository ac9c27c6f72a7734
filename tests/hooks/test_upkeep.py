"""Runs do not stay for ever; jobs of a deployment without hooks end."""

from dataclasses import replace

import pytest

from graveler.block import address
from graveler.core import limits
from graveler.core.clock import descending_id
from graveler.core.errors import NotFound
from graveler.core.records import ABSENT, JobState
from graveler.engine import janitor
from graveler.engine.hooks import NO_HOOKS
from graveler.engine.jobs import record as jobs
from graveler.hooks import run_pages
from graveler.refs import action_runs
from graveler.refs.action_runs import ActionRun, HookRun
from tests.engine.lake import Lake
from tests.hooks.test_faults import Killed, _end_leases
from tests.hooks.world import OtherSide, World, action, new_world

DAY_NS = 24 * 3600 * limits.SECOND_NS


def _run(lake: Lake, ended_ns: int) -> ActionRun:
    """A run with a log, as it is stored."""
    id = descending_id(ended_ns, lake.ports.ids.stamp())
    hook = HookRun("0000_0000", "check", "first", ended_ns, ended_ns, passed=True)
    run = ActionRun(
        id, "pre-commit", lake.repo.default_branch, lake.record().commit, ended_ns, ended_ns, True,
        (hook,),
    )  # fmt: skip
    lake.ports.kv.set_many(action_runs.writes_of(lake.repo, run, lake.ports.ids.stamp()))
    lake.ports.blocks.put(address.hook_log(lake.repo.namespace, id, hook.id), [b"log"])
    return run


def test_the_janitor_forgets_old_runs_with_their_logs() -> None:
    lake = new_world().lake
    now_ns = lake.ports.clock.now_ns()
    old, young = _run(lake, now_ns - 31 * DAY_NS), _run(lake, now_ns - 29 * DAY_NS)
    assert janitor.sweep(lake.opened).runs == 1
    assert list(action_runs.every(lake.ports.kv, lake.repo)) == [young]
    for filters in ({"branch": "main"}, {"commit": young.commit}):
        branch = lake.repo.default_branch if "branch" in filters else ABSENT
        commit = young.commit if "commit" in filters else ABSENT
        page, more = run_pages.page(lake.opened, branch, commit, "", 10)
        assert (list(page), more) == ([young], False)
    assert run_pages.output(lake.opened, young.id, "0000_0000") == b"log"
    with pytest.raises(NotFound):
        lake.ports.blocks.head(address.hook_log(lake.repo.namespace, old.id, "0000_0000"))
    assert janitor.sweep(lake.opened).runs == 0


def test_the_janitor_keeps_the_newest_runs_only() -> None:
    lake = new_world().lake
    settings = lake.ports.settings._replace(hook_runs_max=3)
    lake = Lake(replace(lake.ports, settings=settings), lake.repo)
    now_ns = lake.ports.clock.now_ns()
    every = [_run(lake, now_ns - number * 1_000_000) for number in range(5)]
    assert janitor.sweep(lake.opened).runs == 2
    assert list(action_runs.every(lake.ports.kv, lake.repo)) == every[:3]


def test_a_log_that_is_gone_is_not_found() -> None:
    lake = new_world().lake
    run = _run(lake, lake.ports.clock.now_ns())
    lake.ports.blocks.delete(address.hook_log(lake.repo.namespace, run.id, "0000_0000"))
    with pytest.raises(NotFound, match="log of the hook not found"):
        run_pages.output(lake.opened, run.id, "0000_0000")


def _waiting() -> tuple[World, str]:
    world = new_world()
    world.action("a.yaml", action("post-commit"))
    world.lake.commit("m")
    (message,) = world.queue.messages
    return world, message[1]


def test_without_hooks_a_post_event_ends() -> None:
    world, job = _waiting()
    plain = Lake(replace(world.lake.ports, hooks=NO_HOOKS), world.lake.repo)
    World(plain, OtherSide(), world.queue).run_job(job)
    assert jobs.status(plain.opened, job).state is JobState.DONE
    assert world.side.events == []


def test_without_hooks_a_post_event_is_given_up() -> None:
    world, job = _waiting()
    plain = Lake(replace(world.lake.ports, hooks=NO_HOOKS), world.lake.repo)
    for _ in range(limits.job_restart_count_max):
        lake, script = plain.interposed()
        script.before("set_if", _strike, 3)  # it has claimed the job, and counted its run
        with pytest.raises(Killed):
            World(lake, OtherSide(), world.queue).run_job(job)
        _end_leases(world)
    World(plain, OtherSide(), world.queue).run_job(job)
    assert jobs.status(plain.opened, job).state is JobState.FAILED
    assert world.runs == []


def _strike() -> None:
    raise Killed


def test_run_ids_sort_newest_first() -> None:
    now_ns = new_world().lake.ports.clock.now_ns()
    ids = [
        descending_id(now_ns + number * 1_000, bytes([255 - number]) * 16) for number in range(9)
    ]
    assert ids == sorted(ids, reverse=True)
    assert {len(id) for id in ids} == {20}
    assert descending_id(now_ns, b"a") != descending_id(now_ns, b"b")
