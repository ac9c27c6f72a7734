"""How collections by steps end: given up, without room for steps; and when steps go."""

from pathlib import Path
from typing import Any

from graveler.block.adapter import ObjectHead
from graveler.core import limits
from graveler.core.errors import OutcomeUnknown, Refused, StorageFull
from graveler.core.ids import JobId
from graveler.core.records import JobState
from tests.engine.storage import Storage
from tests.jobs.aged import aged, due, lines, ordered, puts, totals, undisturbed
from tests.jobs.cut_off import folder_of, result_of, run_of, runs_of, status, steps_of

# ---- given up, and tidied up ---------------------------------------------------------------------


def check_given_up(storage: Storage, job: JobId) -> None:
    ended = status(storage, job)
    assert ended.state is JobState.FAILED and "gc given up" in ended.error
    assert steps_of(storage) == []


def test_a_run_that_adds_nothing_counts_and_the_last_of_twelve_gives_up(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    job = ordered(storage)
    run_of(storage, job, after_put="/listed-")
    assert steps_of(storage)
    for _ in range(limits.job_run_count_max):
        run_of(storage, job, 12)
        assert not status(storage, job).ended
    run_of(storage, job)
    check_given_up(storage, job)


def test_a_collection_whose_last_worker_died_behind_its_result_is_done(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = aged(tmp_path / "other")
    verbs = [verb for verb, _ in run_of(other, ordered(other)).requests]
    end = max(number for number, verb in enumerate(verbs, 1) if verb == "set_if")
    storage = aged(tmp_path)
    job = ordered(storage)
    run_of(storage, job, end, dies=True)
    result = result_of(storage, job)
    storage.clock.sleep(limits.job_seconds_max + 1)
    run_of(storage, job)
    assert status(storage, job).state is JobState.DONE and result_of(storage, job) == result
    assert steps_of(storage) == []


def test_a_job_that_is_too_old_is_not_begun_once_more(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    job = ordered(storage)
    storage.clock.sleep(limits.job_seconds_max + 1)  # nobody had time for it so far
    run_of(storage, job, after_put="/listed-")
    assert not status(storage, job).ended and steps_of(storage)
    run_of(storage, job)
    check_given_up(storage, job)


def test_the_next_collection_removes_what_jobs_left_that_have_ended(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    dry, job = ordered(storage, dry_run=True), ordered(storage)
    run_of(storage, dry, after_put="/listed-", dies=True)
    ours = folder_of(storage, job)
    for folder in ("gc-unknown", ours):
        for name in ("listed-00000-x-00000.json.gz", "notes.txt", "more/x.json.gz"):
            place = f"{storage.repo.namespace}/_graveler/steps/{folder}/{name}"
            storage.blocks.put(place, [b"not a step"])
    # `dry` is on its way; a job of its id was there before.
    for name in ("x.json.gz", f"{dry}.1/listed-00000-x-00000.json.gz"):
        storage.blocks.put(f"{storage.repo.namespace}/_graveler/steps/{name}", [b"not a step"])
    run_of(storage, job)
    assert status(storage, job).state is JobState.DONE
    left = {name for name in steps_of(storage) if not name.startswith(dry)}
    others = {
        f"{folder}/{name}"
        for folder in ("gc-unknown", ours)
        for name in ("notes.txt", "more/x.json.gz")
    }
    assert left == {"x.json.gz", *others}
    assert len(steps_of(storage, dry)) == 1  # it goes on
    runs_of(storage, dry)
    assert steps_of(storage, dry) == []


def test_steps_that_cannot_be_removed_end_no_job_otherwise(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    job = ordered(storage)
    real = storage.blocks.delete

    def denied(where: str, version: str = "") -> None:
        if "/steps/" in where:
            raise Refused("not allowed")
        real(where, version)

    run_of(storage.with_blocks(delete=denied), job)
    assert status(storage, job).state is JobState.DONE and steps_of(storage)
    runs_of(storage, ordered(storage))
    assert steps_of(storage) == []


def full(storage: Storage, part: str) -> Storage:
    """The same without room for what has that in its address."""
    put = storage.blocks.put

    def refused(where: str, *arguments: Any, **named: Any) -> ObjectHead:
        if part in where:
            raise StorageFull("no room")
        return put(where, *arguments, **named)

    return storage.with_blocks(put=refused)


def test_where_there_is_no_room_for_steps_collection_does_without(tmp_path: Path) -> None:
    whole, first = due(tmp_path)
    runs_of(whole, first)
    storage, job = due(tmp_path)
    [worker] = runs_of(full(storage, "/steps/"), job)
    assert puts(worker, "/steps/") and steps_of(storage) == []
    assert totals(storage, job) == totals(whole, first)
    assert storage.stored() == whole.stored()


def test_a_list_that_cannot_be_closed_deletes_nothing(tmp_path: Path) -> None:
    storage, job = due(tmp_path)
    before = storage.stored()
    [_] = runs_of(full(storage, "/closed-"), job)
    ended = status(storage, job)
    assert ended.state is JobState.FAILED and "as outdated" in ended.error
    assert storage.stored() == before and steps_of(storage) == []


def test_a_step_whose_answer_is_lost_is_put_again_in_the_same_run(tmp_path: Path) -> None:
    whole, first, _ = undisturbed(tmp_path)
    storage = aged(tmp_path)
    job = ordered(storage)
    put, lost = storage.blocks.put, [3, 4, 5]

    def losing(where: str, *arguments: Any, **named: Any) -> ObjectHead:
        made = put(where, *arguments, **named)
        if "/steps/" in where and lost:
            lost[0] -= 1
            if not lost[0]:
                lost.pop(0)
                raise OutcomeUnknown("no answer")
        return made

    [_] = runs_of(storage.with_blocks(put=losing), job)
    assert not lost and lines(storage, job) == lines(whole, first)


def test_a_small_collection_keeps_no_steps(tmp_path: Path) -> None:
    storage = aged(tmp_path, limits.step_row_count)
    worker = run_of(storage, ordered(storage))
    asked = [verb for verb, address in worker.requests if "/steps/" in address]
    assert asked == ["list", "list", "list"]
