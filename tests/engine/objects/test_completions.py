"""Completions that meet other calls: each upload is staged once, and undoes nothing newer."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.block.adapter import CREATE, OVERWRITE, Part, Update
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Contended,
    GravelerError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
    Unavailable,
)
from graveler.engine import names as branches
from graveler.engine import protection
from graveler.engine.objects import multipart, read
from graveler.engine.objects.copies import set_user_metadata
from graveler.engine.objects.multipart import UploadId
from graveler.engine.objects.write import Condition
from graveler.engine.ports import OpenRepository
from graveler.refs import uploads
from tests.engine.objects.test_part_uploads import begun, sent
from tests.engine.overridden import Overridden
from tests.engine.storage import DAY, Storage, new_storage

STEPS = range(1, 12)  # more than the requests of a completion


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return new_storage(tmp_path)


def meeting(storage: Storage, at: int, act: Callable[[], None]) -> OpenRepository:
    """The repository of a process that stalls before its request number `at`, while `act` runs."""
    left = [at]

    def around(port: Any) -> Any:
        def verb(name: str) -> Callable[..., Any]:
            def called(*arguments: Any, **more: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    act()
                return getattr(port, name)(*arguments, **more)

            return called

        names = [name for name in dir(port) if not name.startswith("_")]
        return Overridden(port, **{name: verb(name) for name in names})

    repo = storage.restarted().opened
    return replace(repo, kv=around(repo.kv), blocks=around(repo.blocks))


def fresh(storage: Storage, branch: str = "main") -> tuple[UploadId, list[Part]]:
    """An upload of `a` that is ready to be completed."""
    upload = begun(storage.opened, branch=branch)
    return upload, sent(storage.opened, upload, b"one")


def shown(storage: Storage, branch: str = "main") -> bytes | None:
    try:
        return storage.restarted().read(branch, "a")
    except NotFound:
        return None


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("mode", [OVERWRITE, CREATE])
def test_a_call_that_stalls_does_not_undo_what_came_after_its_repetition(
    storage: Storage, at: int, commits: bool, mode: Condition
) -> None:
    upload, parts = fresh(storage)
    answers = []

    def repetition() -> None:
        answers.append(multipart.complete(storage.opened, upload, parts, mode))
        if commits:
            storage.commit(other="1")
        storage.put(a="newer")
        if commits:
            storage.commit(other="2")

    late = multipart.complete(meeting(storage, at, repetition), upload, parts, mode)
    if answers:
        assert late == answers[0]
        assert shown(storage) == b"newer"
    else:
        assert shown(storage) == b"one"


@pytest.mark.parametrize("at", STEPS)
def test_a_newer_write_stands_that_came_before_the_repetition_was_answered(
    storage: Storage, at: int
) -> None:
    """The first call has read the path when the second one stages it, which has no answer yet."""
    upload, parts = fresh(storage)

    def overwritten(*arguments: Any, **more: Any) -> Any:
        outcome = storage.ports.kv.set_if(*arguments, **more)
        if shown(storage) == b"one":
            storage.put(a="newer")
        return outcome

    def repetition() -> None:
        multipart.complete(storage.with_kv(set_if=overwritten).opened, upload, parts)

    multipart.complete(meeting(storage, at, repetition), upload, parts)
    assert shown(storage) in (b"newer", b"one")
    assert shown(storage) == b"newer" or at > 8  # the repetition came after the answer, or never


@pytest.mark.parametrize("at", STEPS)
def test_of_an_abort_and_a_completion_one_wins(storage: Storage, at: int) -> None:
    upload, parts = fresh(storage)
    aborted = []

    def abort() -> None:
        try:
            multipart.abort(storage.opened, upload)
            aborted.append(True)
        except NotFound:
            aborted.append(False)

    try:
        multipart.complete(meeting(storage, at, abort), upload, parts)
        assert aborted in ([], [False])
        assert shown(storage) == b"one"
    except NotFound as error:
        assert error.code is Code.UPLOAD_NOT_FOUND
        assert aborted == [True]
        assert shown(storage) is None


@pytest.mark.parametrize("at", range(1, 6))
def test_of_a_completion_and_an_abort_that_stalls_one_wins(storage: Storage, at: int) -> None:
    upload, parts = fresh(storage)
    done = []

    def complete() -> None:
        try:
            done.append(multipart.complete(storage.opened, upload, parts).size)
        except NotFound:
            done.append(0)

    try:
        multipart.abort(meeting(storage, at, complete), upload)
        assert done in ([], [0])
        assert shown(storage) is None
    except NotFound:
        assert done == [3]
        assert shown(storage) == b"one"


def test_an_abort_goes_on_after_a_plan_that_was_made_meanwhile(storage: Storage) -> None:
    upload, parts = fresh(storage)

    def stopped(*_: Any) -> None:
        raise Unavailable("stopped before the join")

    def planned(*arguments: Any) -> None:
        if not record(storage).upload.entry:
            with pytest.raises(Unavailable):
                broken = storage.with_blocks(complete_upload=stopped)
                multipart.complete(broken.opened, upload, parts)
        storage.blocks.abort_upload(*arguments)

    multipart.abort(storage.with_blocks(abort_upload=planned).opened, upload)
    assert list(uploads.list_all(storage.ports.kv, storage.repo)) == []


def test_an_abort_whose_record_keeps_changing_gives_up(storage: Storage) -> None:
    upload, _ = fresh(storage)
    with pytest.raises(Contended, match="not aborted"):
        multipart.abort(storage.with_kv(delete=lambda *_, **more: None).opened, upload)


def record(storage: Storage) -> uploads.VersionedUpload:
    (only,) = uploads.list_all(storage.ports.kv, storage.repo)
    return only


@pytest.mark.parametrize("at", STEPS)
def test_a_branch_that_was_created_anew_does_not_get_the_upload_of_the_old_one(
    storage: Storage, at: int
) -> None:
    branches.create_branch(storage.opened, "dev", "main")
    upload, parts = fresh(storage, "dev")
    anew = []

    def replaced() -> None:
        branches.delete_branch(storage.opened, "dev")
        branches.create_branch(storage.opened, "dev", "main")
        anew.append(True)

    try:
        multipart.complete(meeting(storage, at, replaced), upload, parts)
        assert not anew
        assert shown(storage, "dev") == b"one"
    except NotFound as error:
        assert anew
        assert error.code is Code.UPLOAD_NOT_FOUND
        assert shown(storage, "dev") is None


@pytest.mark.parametrize("at", STEPS)
def test_a_branch_that_was_deleted_gets_no_upload(storage: Storage, at: int) -> None:
    branches.create_branch(storage.opened, "dev", "main")
    upload, parts = fresh(storage, "dev")
    deleted = []

    def delete() -> None:
        deleted.append(True)
        branches.delete_branch(storage.opened, "dev")

    try:
        multipart.complete(meeting(storage, at, delete), upload, parts)
        assert not deleted
    except NotFound as error:
        assert deleted
        assert error.code is Code.BRANCH_NOT_FOUND


@pytest.mark.parametrize("at", STEPS)
def test_a_commit_meanwhile_takes_the_object_or_leaves_it_uncommitted(
    storage: Storage, at: int
) -> None:
    upload, parts = fresh(storage)
    multipart.complete(meeting(storage, at, lambda: void(storage.commit(b="1"))), upload, parts)
    assert shown(storage) == b"one"
    storage.commit(b="2")
    assert storage.read("main@", "a") == b"one"


def void(_: object) -> None:
    """Drop a result."""


@pytest.mark.parametrize("at", STEPS)
def test_a_collection_meanwhile_leaves_the_object(storage: Storage, at: int) -> None:
    upload, parts = fresh(storage)

    def collect() -> None:
        storage.wait(DAY)
        storage.collected()

    multipart.complete(meeting(storage, at, collect), upload, parts)
    storage.collected()
    assert shown(storage) == b"one"


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("commits", [False, True])
def test_a_condition_holds_at_the_moment_of_the_row(
    storage: Storage, at: int, commits: bool
) -> None:
    upload, parts = fresh(storage)
    created = []

    def create() -> None:
        try:
            multipart.write.upload(
                storage.opened, "main", "a", multipart.write.Upload([b"other"], mode=CREATE)
            )
            created.append(True)
        except PreconditionFailed:
            created.append(False)
        if commits:
            storage.commit(b="1")

    try:
        multipart.complete(meeting(storage, at, create), upload, parts, CREATE)
        assert created in ([], [False])
        assert shown(storage) == b"one"
    except PreconditionFailed:
        assert created == [True]
        assert shown(storage) == b"other"
    else:
        return
    present = read.stat(storage.opened, "main", "a").checksum
    assert multipart.complete(storage.opened, upload, parts, Update(present)).size == 3


@pytest.mark.parametrize("mode", [OVERWRITE, CREATE, Update("none")])
def test_a_change_of_the_row_or_the_branch_meanwhile_is_met_again(
    storage: Storage, mode: Condition
) -> None:
    """Each attempt meets another change; the last one wins."""
    storage.put(b="x")
    if mode is not CREATE:
        storage.put(a="x")
    if isinstance(mode, Update):
        mode = Update(read.stat(storage.opened, "main", "a").checksum)
    upload, parts = fresh(storage)
    changes = iter((lambda: storage.commit(b="1"), lambda: storage.commit(b="2")))

    def late(*arguments: Any, **more: Any) -> Any:
        if arguments[0].startswith(b"s/"):
            next(changes, lambda: None)()
        return storage.ports.kv.set_if(*arguments, **more)

    multipart.complete(storage.with_kv(set_if=late).opened, upload, parts, mode)
    assert shown(storage) == b"one"


def test_a_refusal_by_what_this_branch_no_longer_shows_is_looked_at_again(
    storage: Storage,
) -> None:
    upload, parts = fresh(storage)
    storage.put(a="there")
    calls: list[int] = []

    def get(partition: bytes, key: bytes) -> Any:
        row = storage.ports.kv.get(partition, key)
        if partition.startswith(b"s/") and not calls:
            calls.append(1)
            multipart.write.delete(storage.opened, "main", "a")
            storage.commit(b="1")
        return row

    multipart.complete(storage.with_kv(get=get).opened, upload, parts, CREATE)
    assert shown(storage) == b"one"


def row_writes(storage: Storage, *acts: Callable[..., Any]) -> OpenRepository:
    """The repository of a process whose n-th write of a row is the n-th act."""
    left = iter(acts)

    def set_if(*arguments: Any, **more: Any) -> Any:
        if arguments[0].startswith(b"s/"):
            act = next(left, storage.ports.kv.set_if)
            return act(*arguments, **more)
        return storage.ports.kv.set_if(*arguments, **more)

    return storage.with_kv(set_if=set_if).opened


def lost(storage: Storage, *, applied: bool) -> Callable[..., Any]:
    def answer(*arguments: Any, **more: Any) -> Any:
        if applied:
            storage.ports.kv.set_if(*arguments, **more)
        raise OutcomeUnknown("no answer")

    return answer


@pytest.mark.parametrize("mode", [OVERWRITE, CREATE])
@pytest.mark.parametrize("applied", [False, True])
def test_an_answer_that_was_lost_is_found_out_from_the_record(
    storage: Storage, mode: Condition, applied: bool
) -> None:
    upload, parts = fresh(storage)
    repo = row_writes(storage, lost(storage, applied=applied))
    entry = multipart.complete(repo, upload, parts, mode)
    assert read.stat(storage.opened, "main", "a") == entry


def test_a_condition_that_fails_after_an_answer_was_lost_is_of_unknown_outcome(
    storage: Storage,
) -> None:
    upload, parts = fresh(storage)

    def other(*_: Any, **more: Any) -> Any:
        storage.put(a="other")
        raise OutcomeUnknown("no answer")

    with pytest.raises(OutcomeUnknown):
        multipart.complete(row_writes(storage, other), upload, parts, CREATE)
    with pytest.raises(PreconditionFailed):
        multipart.complete(storage.opened, upload, parts, CREATE)
    assert shown(storage) == b"other"


@pytest.mark.parametrize("applied", [False, True])
def test_a_refusal_after_an_answer_was_lost_says_no_more_than_is_known(
    storage: Storage, applied: bool
) -> None:
    upload, parts = fresh(storage)

    def protected(*arguments: Any, **more: Any) -> Any:
        protection.set_rules(storage.opened, ["main"])
        return lost(storage, applied=applied)(*arguments, **more)

    repo = row_writes(storage, protected)
    if applied:
        multipart.complete(repo, upload, parts)
        assert shown(storage) == b"one"
    else:
        with pytest.raises(OutcomeUnknown):
            multipart.complete(repo, upload, parts)
        with pytest.raises(Refused):
            multipart.complete(storage.opened, upload, parts)
        assert shown(storage) is None


def test_a_completion_that_keeps_losing_gives_up(storage: Storage) -> None:
    upload, parts = fresh(storage)

    def changes() -> Iterator[Callable[..., Any]]:
        while True:
            yield lambda *arguments, **more: (
                storage.commit(b=storage.ports.ids.unique(9)),
                storage.ports.kv.set_if(*arguments, **more),
            )[1]

    with pytest.raises(Contended, match="kept losing"):
        multipart.complete(row_writes(storage, *zip_first(changes())), upload, parts)
    multipart.complete(storage.opened, upload, parts)
    assert shown(storage) == b"one"


def zip_first(acts: Iterator[Callable[..., Any]]) -> list[Callable[..., Any]]:
    return [next(acts) for _ in range(limits.conditional_round_count_max)]


def test_an_upload_that_expires_while_its_parts_are_joined_is_not_staged(storage: Storage) -> None:
    upload, parts = fresh(storage)

    def slow(*arguments: Any) -> Any:
        head = storage.blocks.complete_upload(*arguments)
        storage.clock.sleep(limits.multipart_upload_seconds + 1)
        return head

    with pytest.raises(NotFound) as unknown:
        multipart.complete(storage.with_blocks(complete_upload=slow).opened, upload, parts)
    assert unknown.value.code is Code.UPLOAD_NOT_FOUND
    assert shown(storage) is None


def test_a_change_of_metadata_meanwhile_is_overwritten_or_kept(storage: Storage) -> None:
    storage.put(a="old")
    upload, parts = fresh(storage)

    def changed() -> None:
        set_user_metadata(storage.opened, "main", "a", {"x": "1"})

    for at in STEPS:
        try:
            multipart.complete(meeting(storage, at, changed), upload, parts)
        except GravelerError as error:
            pytest.fail(repr(error))
    assert shown(storage) == b"one"
