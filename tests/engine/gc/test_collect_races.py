"""Garbage collection where answers are lost, others act in between, and files lie about."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import Conflict, Contended, Corrupt, Gone, NotFound, OutcomeUnknown
from graveler.core.records import ABSENT, AddressType
from graveler.engine.commits import commit, reset
from graveler.engine.gc import collect, retention
from graveler.engine.gc import mark as marking
from graveler.engine.gc.content import ContentUses
from graveler.engine.gc.listing import Candidates
from graveler.engine.objects import read, write
from graveler.engine.ports import open_repository
from graveler.kv.store import Declined, Outcome, ScanPage
from graveler.refs import repositories
from graveler.refs.garbage import Retention, RunState
from graveler.refs.keys import COMMITS
from tests.engine.storage import DAY, Storage, new_storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A branch whose first commit has expired."""
    made = new_storage(tmp_path)
    retention.set_rule(made.opened, Retention(default_days=7))
    made.commit(a="old")
    made.commit(a="new")
    made.wait(8 * DAY)
    return made


# ---- answers -------------------------------------------------------------------------------------


class Answers:
    """Breaks the answers of conditional writes of some keys: `lost` before or after applying, or
    `declined` though applied; each once, or for ever."""

    def __init__(self, storage: Storage, kinds: list[str], prefix: bytes) -> None:
        kv = storage.ports.kv
        real: Callable[..., Outcome] = kv.set_if
        self.left = kinds

        def set_if(partition: bytes, key: bytes, *more: Any) -> Outcome:
            if not (self.left and key.startswith(prefix)):
                return real(partition, key, *more)
            kind = self.left[0] if self.left[0] == "never" else self.left.pop(0)
            if kind in ("never", "lost"):
                raise OutcomeUnknown("no answer")
            outcome = real(partition, key, *more)
            if kind == "applied":
                raise OutcomeUnknown("no answer")
            row = kv.get(partition, key)
            return Declined(row) if kind == "declined" else outcome

        self.storage = storage.with_kv(set_if=set_if)


@pytest.mark.parametrize("prefix", [b"h/", b"lake"], ids=["run", "repository"])
@pytest.mark.parametrize("kind", ["lost", "applied", "declined"])
def test_a_lost_answer_changes_nothing(storage: Storage, kind: str, prefix: bytes) -> None:
    for _ in range(2):
        answers = Answers(storage, [kind], prefix)
        answers.storage.collect()
        assert not answers.left or prefix == b"lake"
        storage.wait(DAY)
    runs = collect.list_runs(storage.opened)
    assert [(run.state, run.count) for run in runs] == [(RunState.SWEPT, 1)]


@pytest.mark.parametrize("prefix", [b"h/", b"lake"], ids=["run", "repository"])
def test_a_record_that_cannot_be_written_ends_the_run(storage: Storage, prefix: bytes) -> None:
    before = storage.stored()
    with pytest.raises(Contended):
        Answers(storage, ["never"], prefix).storage.collect()
    assert storage.collected() == 1 and before > storage.stored()


def test_a_sweep_that_cannot_be_noted_deletes_nothing(storage: Storage) -> None:
    storage.collect()
    storage.wait(DAY)
    before = storage.stored()
    with pytest.raises(Contended):
        Answers(storage, ["never"], b"h/").storage.collect()
    assert storage.stored() == before


# ---- others in between ---------------------------------------------------------------------------


def _in_the_middle(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, after marking and before anything is deleted or condemned."""
    real = marking.mark
    acts = [act]

    def mark(*arguments: Any) -> marking.MarkResult:
        verdict = real(*arguments)
        if acts:
            acts.pop()()
        return verdict

    patch.setattr(marking, "mark", mark)


def test_a_run_that_is_undone_during_the_next_one_deletes_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = storage.collect().run
    storage.wait(DAY)
    before = storage.stored()
    _in_the_middle(monkeypatch, lambda: collect.undo(storage.opened, run))
    assert storage.collect().deleted == ()
    assert storage.stored() == before


def test_a_repository_that_is_deleted_meanwhile(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, repo = storage.stored(), storage.repo
    _in_the_middle(
        monkeypatch, lambda: monkeypatch.setattr(repositories, "find", lambda *_: ABSENT)
    )
    with pytest.raises(NotFound):
        collect.collect(open_repository(storage.ports, repo), delete=True)
    assert storage.stored() == before


def test_what_is_committed_behind_the_list_is_found_by_its_ref(storage: Storage) -> None:
    late = ["late", "later"]

    def scan(partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        page = storage.ports.kv.scan(partition, start, end, limit)
        if start.startswith(COMMITS):
            while late:
                storage.commit(a=late.pop(0))
        return page

    found = storage.with_kv(scan=scan).collect(delete=False)
    assert not late
    assert (found.commits, found.kept) == (5, 3)
    assert storage.collected() == 1
    assert storage.read("main~1", "a") == b"late"


# ---- what lies about -----------------------------------------------------------------------------


def _dies(writes: object) -> None:
    raise Conflict("the committer ends here")


def _metarange_without_commit(storage: Storage) -> str:
    before = storage.stored()
    storage.put(z="orphan")
    dying = storage.with_kv(set_many=_dies)
    with pytest.raises(Conflict):
        commit.commit(dying.opened, "main", commit.CommitRequest("m", "me"))
    reset.reset(storage.opened, "main")
    files = sorted(name for name in storage.stored() - before if name.startswith("_lakefs/"))
    content = ContentUses(storage.opened, Candidates(names=set(files)))
    (found,) = content.add_orphans(set(), set())
    return found


def test_a_metarange_that_no_commit_has_can_be_committed_until_it_is_condemned(
    storage: Storage,
) -> None:
    metarange = _metarange_without_commit(storage)
    given = commit.CommitRequest("given", "me", source_metarange=metarange)
    young = {each.address for each in storage.collect().condemned}
    assert len(young) == 1  # only what has expired
    storage.wait(DAY + 3 * 3600)
    doomed = {each.address for each in storage.collect().condemned}
    assert f"_lakefs/{metarange}" in doomed and len(doomed) >= 3
    with pytest.raises(Gone):
        commit.commit(storage.opened, "main", given)
    storage.wait(DAY)
    storage.collect()
    assert not doomed & storage.stored()


def test_a_metarange_that_was_committed_in_time_stays(storage: Storage) -> None:
    metarange = _metarange_without_commit(storage)
    before = storage.repo
    storage.wait(DAY + 3 * 3600)
    storage.collect()
    unaware = replace(before, collected=False)  # somebody who looked before
    given = commit.CommitRequest("given", "me", source_metarange=metarange)
    commit.commit(open_repository(storage.ports, unaware), "main", given)
    storage.wait(DAY)
    storage.collect()
    assert storage.restarted().read("main", "z") == b"orphan"


def test_commits_that_share_their_content_lose_it_with_the_last_of_them(storage: Storage) -> None:
    empty = commit.CommitRequest("again", "me", allow_empty=True)
    for _ in range(2):
        commit.commit(storage.opened, "main", empty)
        storage.wait(2 * DAY)
    assert storage.collected() == 1  # that of the first one
    storage.wait(3 * DAY)
    commit.commit(storage.opened, "main", empty)
    storage.commit(a="other")
    storage.wait(6 * DAY)
    assert storage.collected() == 0
    storage.wait(DAY)
    assert storage.collected() == 1
    assert storage.read("main", "a") == b"other"


def test_entries_that_cannot_be_ours_do_not_disturb(storage: Storage) -> None:
    made = read.stat(storage.opened, "main", "a")
    for number, (where, kind) in enumerate(
        [
            ("data/../x", AddressType.RELATIVE),
            ("s3://elsewhere/x", AddressType.FULL),
            ("no scheme", AddressType.FULL),
            ("s3://elsewhere/y", AddressType.BY_PREFIX),
        ]
    ):
        entry = made._replace(address=where, address_type=kind)
        write.stage(storage.opened, "main", f"x{number}", entry)
    storage.commit()
    assert storage.collected() == 1


def test_a_list_that_is_no_list_is_refused(storage: Storage) -> None:
    run = storage.collect().run
    where = f"mem://bucket/lake/_graveler/gc/{run}/condemned-00000.jsonl"
    storage.blocks.put(where, [b"{"])
    with pytest.raises(Corrupt):
        storage.collect()
