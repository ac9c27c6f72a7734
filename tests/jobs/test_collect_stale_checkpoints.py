"""The steps of collections: which are not believed, and which no longer hold."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graveler.block import address
from graveler.core import wire
from graveler.core.ids import RangeId
from graveler.core.records import JobState, RangeRef
from graveler.engine.gc import collect
from graveler.refs.garbage import RunState
from tests.engine.storage import HOUR, Storage
from tests.jobs.aged import (
    aged,
    cut_behind,
    due,
    lines,
    metaranges_in_use,
    ordered,
    puts,
    reads,
    tables_in_use,
    totals,
)
from tests.jobs.cut_off import Worker, run_of, runs_of, status, steps_of
from tests.jobs.world import World

# ---- what is not believed ------------------------------------------------------------------------


def changed(storage: Storage, change: Callable[[dict[str, Any]], object]) -> None:
    """Every step, sound as a file, says something else."""
    for place in places(storage):
        whole = json.loads(gzip.decompress(storage.blocks.read(place, 0, 1 << 20)))
        change(whole)
        storage.blocks.put(place, [gzip.compress(json.dumps(whole).encode())])


def places(storage: Storage) -> list[str]:
    """The addresses of all steps."""
    folder = f"{storage.repo.namespace}/_graveler/steps/"
    return [folder + name for name in steps_of(storage)]


def _cut_short(storage: Storage) -> None:
    for place in places(storage):
        raw = storage.blocks.read(place, 0, 1 << 20)
        storage.blocks.put(place, [raw[:-9]])


def _turned_bit(storage: Storage) -> None:
    for place in places(storage):
        raw = bytearray(storage.blocks.read(place, 0, 1 << 20))
        raw[len(raw) // 2] ^= 1
        storage.blocks.put(place, [bytes(raw)])


def _no_gzip(storage: Storage) -> None:
    for place in places(storage):
        storage.blocks.put(place, [b"{}"])


def _removed(storage: Storage) -> None:
    for place in places(storage):
        storage.blocks.delete(place)


def _no_object(storage: Storage) -> None:
    for place in places(storage):
        storage.blocks.put(place, [gzip.compress(b"[]")])


def _nested(storage: Storage) -> None:
    for place in places(storage):
        storage.blocks.put(place, [gzip.compress(b"[" * 100_000)])


def _says(**other: Any) -> Callable[[Storage], None]:
    return lambda storage: changed(storage, lambda whole: whole.update(other))


def _row(*values: Any) -> Callable[[Storage], None]:
    """A row that is none, in every step."""
    return lambda storage: changed(storage, lambda whole: whole["rows"].append(list(values)))


def _ends(**other: Any) -> Callable[[Storage], None]:
    return lambda storage: changed(storage, lambda whole: whole["said"].update(other))


HEX = "0" * 64
BAD_RANGE = wire.encode_range(RangeRef(RangeId("../x"), b"a", b"b", 1, 1))[1].hex()
DAMAGES = [
    _cut_short, _turned_bit, _no_gzip, _removed, _no_object, _nested,
    _says(job="gc-other"), _says(repository="other"), _says(step="uses-99999"),
    _says(rows=None), _says(said=None), _says(rows=[1]), _says(rows=[[]]),
    _row("../x", "1", 1, 1), _row(HEX, ["../x"]), _row(HEX, [-1]), _row("x", []), _row(1, []),
    _row(HEX, {}), _row(f"_lakefs/{HEX}", "1", "1", 1), _row(f"_lakefs/{HEX}"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_steps_that_are_not_what_was_written_are_not_believed(tmp_path: Path, number: int) -> None:
    cut = cut_behind(tmp_path, "/uses-")
    storage, job = cut.storage, cut.job
    assert len(steps_of(storage)) > 10
    DAMAGES[number](storage)
    [second] = runs_of(storage, job)
    cut.check_same()
    assert reads([second], tables_in_use(storage)) == dict.fromkeys(tables_in_use(storage), 1)
    assert steps_of(storage) == []


@pytest.mark.parametrize("ranges", [None, [1], ["zz"], ["00"], [BAD_RANGE]])
def test_metaranges_whose_ranges_are_none_are_read_again(tmp_path: Path, ranges: Any) -> None:
    cut = cut_behind(tmp_path, "/uses-")
    storage, job = cut.storage, cut.job

    def spoil(whole: dict[str, Any]) -> None:
        count = len(whole["said"].get("ranges", ()))
        if count:
            whole["said"]["ranges"] = ranges and ranges * count

    changed(storage, spoil)
    [second] = runs_of(storage, job)
    cut.check_same()
    assert metaranges_in_use(storage) <= second.read()


@pytest.mark.parametrize("said", [{"begins": "x"}, {"ends": 1}, {"ends": ""}])
def test_a_list_that_does_not_go_on_where_it_ended_is_made_again(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    cut = cut_behind(tmp_path, "/listed-")
    storage, job = cut.storage, cut.job
    _ends(**said)(storage)
    runs_of(storage, job)
    cut.check_same()


def test_a_part_that_another_runner_cut_shorter_leaves_no_gap(tmp_path: Path) -> None:
    cut = cut_behind(tmp_path, "/listed-")
    storage, job = cut.storage, cut.job

    def cut_shorter(step: dict[str, Any]) -> None:
        if step["step"].endswith("-00001"):
            step["rows"] = step["rows"][:2]
            step["said"]["ends"] = f"{storage.repo.namespace}/{step['rows'][-1][0]}"

    changed(storage, cut_shorter)
    second = run_of(storage, job)
    cut.check_same()
    read = [name for verb, name in second.requests if verb == "read" and "/listed-" in name]
    assert len(read) == 3  # the third does not begin where the second ends


def test_a_step_that_was_lost_is_made_again(tmp_path: Path) -> None:
    cut = cut_behind(tmp_path, "/uses-")
    storage, job = cut.storage, cut.job
    lists = [place for place in places(storage) if "/listed-" in place]
    storage.blocks.delete(lists[1])
    uses = [place for place in places(storage) if "/uses-" in place]
    storage.blocks.delete(uses[0])
    run_of(storage, job, dies=True, after_put="/condemned-00000")
    assert set(lists + uses) <= set(places(storage))
    runs_of(storage, job)
    cut.check_same()


def test_a_range_that_stands_in_two_steps_counts_once(tmp_path: Path) -> None:
    cut = cut_behind(tmp_path, "/uses-")
    storage, job = cut.storage, cut.job
    place = next(place for place in places(storage) if "/uses-00000" in place)
    whole_step = json.loads(gzip.decompress(storage.blocks.read(place, 0, 1 << 20)))
    twin = json.dumps(whole_step | {"step": "uses-00077"}).encode()
    storage.blocks.put(place.replace("00000.", "00077."), [gzip.compress(twin)])
    runs_of(storage, job)
    cut.check_same()


def test_steps_that_are_removed_under_a_runner_are_made_again(tmp_path: Path) -> None:
    """As by one that was thought dead and ends the job first."""
    cut = cut_behind(tmp_path, "/uses-")
    asked = enumerate(run_of(cut.storage, cut.job).requests, 1)
    at = next(number for number, (verb, name) in asked if verb == "read" and "/listed-" in name)
    cut = cut_behind(tmp_path, "/uses-")
    worker = Worker(cut.storage, at=at, act=lambda: _removed(cut.storage))
    lake = worker.lake()
    worker.requests.clear()
    World(lake).work(cut.job, lake)
    assert len(puts(worker, "/uses-")) > 3
    cut.check_same()


# ---- deleting ------------------------------------------------------------------------------------


def test_whoever_is_cut_off_while_it_deletes_is_followed_by_one_that_lists_anew(
    tmp_path: Path,
) -> None:
    whole, first = due(tmp_path)
    [undisturbed] = runs_of(whole, first)
    deletions = [
        number
        for number, (verb, name) in enumerate(undisturbed.requests, 1)
        if verb == "delete" and "/steps/" not in name
    ]
    assert len(deletions) > 5
    for at in (deletions[0], deletions[3], deletions[-1] + 1, deletions[-1] + 4):
        storage, job = due(tmp_path)
        run_of(storage, job, at, dies=True)
        assert [name for name in steps_of(storage) if "closed-00000" in name]
        left = storage.stored()
        second = run_of(storage, job)
        assert status(storage, job).state is JobState.DONE, status(storage, job)
        assert storage.stored() == whole.stored() and steps_of(storage) == []
        read = [name for verb, name in second.requests if verb == "read" and "/listed-" in name]
        assert not read and puts(second, "/listed-00001-")
        assert totals(storage, job)["condemned"]["count"] == 0
        gone = {each["address"] for each in deleted_lines(storage)}
        assert gone == {each["address"] for each in deleted_lines(whole)}
        assert left >= storage.stored()


def deleted_lines(storage: Storage) -> list[dict[str, Any]]:
    [run] = [seen for seen in collect.list_runs(storage.opened) if seen.state is RunState.SWEPT]
    folder = f"{storage.repo.namespace}/_graveler/gc/{run.id}/deleted-"
    pages = storage.blocks.list(folder, "", 100).lines
    raw = b"".join(b"".join(storage.blocks.get(each.address).chunks) for each in pages)
    return [json.loads(line) for line in raw.splitlines()]


def test_a_run_that_is_undone_between_the_runs_deletes_nothing(tmp_path: Path) -> None:
    whole, first = due(tmp_path)
    [undisturbed] = runs_of(whole, first)
    closed = puts(undisturbed, "/closed-")[0]
    for at in (closed - 8, closed):
        storage, job = due(tmp_path)
        run_of(storage, job, at, dies=True)
        before = storage.stored()
        [condemned] = collect.list_runs(storage.opened)
        collect.undo(storage.opened, condemned.id)
        runs_of(storage, job)
        assert storage.stored() == before


def test_age_is_judged_by_the_time_at_which_the_first_run_listed(tmp_path: Path) -> None:
    """What was young then is no garbage, however late the last run is."""
    storage = aged(tmp_path)
    name = address.new_data_address(storage.clock.now_ns(), storage.ports.ids, b"x")
    storage.blocks.put(f"{storage.repo.namespace}/{name}", [b"on its way"])
    storage.clock.sleep(23 * HOUR)
    job = ordered(storage)
    while not any(name in step for step in step_texts(storage)):
        assert not status(storage, job).ended
        run_of(storage, job, after_put="/listed-")
    storage.clock.sleep(2 * HOUR)
    runs_of(storage, job)
    assert name not in {each["address"] for each in lines(storage, job)} != set()
    again = ordered(storage)
    runs_of(storage, again)
    assert [each["address"] for each in lines(storage, again)] == [name]


def step_texts(storage: Storage) -> list[str]:
    """What all steps hold."""
    raw = [storage.blocks.read(place, 0, 1 << 20) for place in places(storage)]
    return [gzip.decompress(each).decode() for each in raw]
