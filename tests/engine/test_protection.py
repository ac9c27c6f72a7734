"""A protected branch: nothing but merges, reverts and cherry-picks changes it, by any verb, and a
rule that is set while a verb runs stops it before the write that decides."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler import assembly
from graveler.block.adapter import CREATE
from graveler.core import limits
from graveler.core.errors import Code, GravelerError, NotFound, OutcomeUnknown, Refused
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import JobState
from graveler.core.requests import Counts, counted_store
from graveler.engine import imports, names, protection
from graveler.engine.bulk.job import Mode
from graveler.engine.commits import merge, reset
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.commits.heads import commit_of
from graveler.engine.events import rules, take_in
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.objects import addresses, copies, multipart, rows, write
from graveler.engine.objects.addresses import Link
from graveler.engine.ports import OpenRepository
from graveler.engine.protection import is_protected
from graveler.engine.repositories import repository
from graveler.kv.store import Store
from tests.engine import bulk_world
from tests.engine.events.test_take_in import rule_of, told
from tests.engine.lake import COMMITTER, Lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore

SOURCE = "mem://elsewhere/in/"
IMPORT = ImportRequest([ImportPath("common_prefix", SOURCE, "in/")], "import", COMMITTER)


@pytest.fixture
def lake() -> Lake:
    """`main` has commits and something staged; `dev` is ahead of its fork; time stands still."""
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    lake = Lake(ports, repository.create(ports, repository.NewRepository("lake", "mem://b/lake")))
    ports.blocks.put(SOURCE + "a", [b"bytes"], CREATE)
    ports.blocks.put("mem://landing/a", [b"bytes"], CREATE)
    lake.commit_of(a="1")
    lake.commit_of(a="2", b="2")
    lake.branch("dev")
    lake.commit_of("dev", c="3")
    entry = write.upload(lake.opened, "main", "staged", write.Upload([b"bytes"]))
    assert entry.size == 5
    return lake


def protect(lake: Lake, *patterns: str) -> None:
    protection.set_rules(lake.opened, patterns)


def age(lake: Lake) -> None:
    """Let the caches of records expire."""
    lake.ports.clock.sleep(limits.repository_cache_seconds_max)


def later(lake: Lake, *patterns: str) -> None:
    """Another process sets rules, and the caches of records expire."""
    protect(lake.another_process(), *patterns)
    age(lake)


def deliver(lake: Lake) -> object:
    return take_in.take_in(lake.opened, rule_of(lake), [told("e", "1", "1")])


def stage_intended(lake: Lake) -> None:
    intent = rows.intend(lake.opened, "main", "copied")
    rows.write_once(lake.opened, "main", "copied", bulk_world.entry("x"), intent, lambda: None)


def link_one(lake: Lake) -> None:
    address = addresses.hand_out(lake.opened, "main", "linked")
    lake.ports.blocks.put(address, [b"12345"], CREATE)
    addresses.link(lake.opened, "main", "linked", Link(address, "sum", 5))


def finish_parts(lake: Lake) -> None:
    relative = addresses.hand_out(lake.opened, "main", "parts")
    upload = multipart.SignedUpload(relative, "none")
    multipart.finish_signed(lake.opened, "main", "parts", multipart.SignedFinish(upload, ()))


def watch(lake: Lake) -> None:
    rules.create(lake.opened, rules.NewRule("main", "landing"))


def submit_import(lake: Lake) -> None:
    imports.submit(lake.opened, "main", IMPORT, owner=b"me")


def commit_metarange(lake: Lake) -> None:
    metarange = commit_of(lake.opened, CommitId(lake.head("dev"))).metarange
    commit(lake.opened, "main", CommitRequest("m", COMMITTER, source_metarange=metarange))


STAGING: dict[str, Callable[[Lake], object]] = {
    "upload": lambda lake: write.upload(lake.opened, "main", "p", write.Upload([b"x"])),
    "stage": lambda lake: lake.put("p", "1"),
    "stage if absent": lambda lake: lake.put_if_absent("p", "1"),
    "stage if it matches": lambda lake: lake.put_over("staged", "1", "0"),
    "describe": lambda lake: copies.describe(lake.opened, "main", "staged", write.Description()),
    "link": link_one,
    "link elsewhere": lambda lake: addresses.link_any(
        lake.opened, "main", "p", Link("mem://landing/a", "sum", 5)
    ),
    "finish parts": finish_parts,
    "copy": lambda lake: copies.copy(lake.opened, "main", "p", copies.Source("main", "staged")),
    "copy as a job": stage_intended,
    "metadata": lambda lake: copies.set_user_metadata(lake.opened, "main", "a", {"k": "v"}),
    "delete": lambda lake: lake.delete("a"),
    "events": deliver,
    "event rule": watch,
    "reset": lambda lake: reset.reset(lake.opened, "main"),
    "reset path": lambda lake: reset.reset_path(lake.opened, "main", "staged"),
    "reset prefix": lambda lake: reset.reset_prefix(lake.opened, "main", "st"),
}
COMMITS: dict[str, Callable[[Lake], object]] = {
    "commit": lambda lake: lake.commit(),
    "empty commit": lambda lake: lake.commit(allow_empty=True),
    "commit of a metarange": commit_metarange,
    "import": submit_import,
    "bulk": lambda lake: bulk_world.begin(lake),
    "bulk commit": lambda lake: bulk_world.begin(lake, Mode.COMMIT),
}
DELETIONS: dict[str, Callable[[Lake], object]] = {
    "delete the branch": lambda lake: names.delete_branch(lake.opened, "dev"),
}
HEADS: dict[str, Callable[[Lake], object]] = {
    "hard reset": lambda lake: reset.hard_reset(lake.opened, "main", "main~"),
}
REFUSED = [
    *((name, call, Code.PROTECTED_WRITE) for name, call in STAGING.items()),
    *((name, call, Code.PROTECTED_COMMIT) for name, call in COMMITS.items()),
    *((name, call, Code.PROTECTED_HEAD) for name, call in HEADS.items()),
    *((name, call, Code.PROTECTED_DELETION) for name, call in DELETIONS.items()),
]


def shown(lake: Lake) -> tuple[object, ...]:
    return lake.head(), lake.uncommitted(), lake.tree("main@"), lake.tree(), lake.head("dev")


@pytest.mark.parametrize(("name", "call", "code"), REFUSED)
def test_a_verb_refuses_and_changes_nothing(
    lake: Lake, name: str, call: Callable[[Lake], object], code: Code
) -> None:
    branch = "dev" if name in DELETIONS else "main"
    protect(lake, "other", f"{branch[:2]}*")
    before = shown(lake)
    for process in (lake, lake.another_process()):
        with pytest.raises(Refused) as refused:
            call(process)
        assert refused.value.code is code
        assert refused.value.fields == {"branch": branch}
    assert shown(lake) == before


def test_a_verb_of_another_branch_or_after_the_rules_are_gone_is_not_refused(lake: Lake) -> None:
    protect(lake, "mai", "main?", "MAIN")
    lake.put("p", "1")
    protect(lake, "main")
    lake.put("p", "1", "dev")
    protect(lake)
    lake.put("p", "2")
    lake.commit()
    assert lake.tree("main@")["p"] == "2"


def test_each_path_of_a_bulk_deletion_fails(lake: Lake) -> None:
    protect(lake, "main")
    before = shown(lake)
    failed = write.delete_many(lake.opened, "main", ["a", "", "b"])
    codes = {each.path: each.error.code for each in failed}
    assert codes == {"": Code.INVALID, "a": Code.PROTECTED_WRITE, "b": Code.PROTECTED_WRITE}
    assert write.delete_many(lake.opened, "main", []) == []
    assert shown(lake) == before


def test_merges_reverts_and_cherry_picks_are_allowed(lake: Lake) -> None:
    reset.reset(lake.opened, "main")
    protect(lake, "*")
    lake.merge("dev")
    assert lake.tree() == {"a": "2", "b": "2", "c": "3"}
    picked = lake.head()
    request = merge.ReplayRequest(COMMITTER, parent_number=1)
    merge.revert(lake.opened, "main", "main", request)
    assert lake.tree() == {"a": "2", "b": "2"}
    merge.cherry_pick(lake.opened, "main", picked, request)
    assert lake.tree() == {"a": "2", "b": "2", "c": "3"}
    lake.branch("new")


def test_a_merge_into_a_protected_branch_with_staged_rows_is_dirty(lake: Lake) -> None:
    protect(lake, "main")
    with pytest.raises(GravelerError) as error:
        lake.merge("dev")
    assert error.value.code is Code.DIRTY_BRANCH


def test_force_does_not_lift_protection(lake: Lake) -> None:
    protect(lake, "main")
    with pytest.raises(Refused):
        write.delete(lake.opened, "main", "a", force=True)
    with pytest.raises(Refused):
        reset.reset(lake.opened, "main", force=True)


def test_a_repository_may_begin_with_its_default_branch_protected() -> None:
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    new = repository.NewRepository("lake", "mem://b/lake", "trunk", protected=True)
    lake = Lake(ports, repository.create(ports, new))
    with pytest.raises(Refused):
        lake.put("p", "1", "trunk")


def test_nothing_is_read_for_the_check_while_the_record_is_cached(lake: Lake) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))

    def cost() -> dict[str, int]:
        before = counts.snapshot()
        counted.put("p", "1")
        return dict(counts.since(before))

    protect(lake, "other")
    assert cost() == {"set_newer": 1, "get": 3}  # the repository, the branch, the branch again
    assert cost() == {"set_newer": 1, "get": 1}
    age(lake)
    assert cost()["get"] == 3
    repository.get(counted.ports, "lake")
    assert cost() == {"set_newer": 1, "get": 1}


def test_a_rule_is_in_force_once_the_cached_record_has_expired(lake: Lake) -> None:
    lake.put("p", "1")
    protect(lake.another_process(), "main")
    lake.put("p", "2")  # earlier, for this process
    age(lake)
    with pytest.raises(Refused):
        lake.put("p", "3")
    assert lake.tree()["p"] == "2"


def test_the_rules_of_a_successor_are_not_those_of_a_deleted_repository(lake: Lake) -> None:
    old = lake.opened
    repository.delete(old)
    assert not is_protected(old, BranchId("main"))
    new = repository.NewRepository("lake", "mem://b/later", protected=True)
    successor = Lake(lake.ports, repository.create(lake.ports, new)).opened
    assert is_protected(successor, BranchId("main"))
    assert not is_protected(old, BranchId("main"))
    nowhere = replace(old, record=replace(old.record, id="gone", protected=("main",)))  # type: ignore[arg-type]
    assert is_protected(nowhere, BranchId("main"))


# ---- a rule that is set while a verb runs --------------------------------------------------------


def test_a_commit_that_builds_when_the_rule_comes_does_not_land(lake: Lake) -> None:
    before = lake.head(), lake.uncommitted()
    slow, script = lake.interposed()
    script.before("scan", lambda: later(lake, "main"), nth=2)  # after the seal
    with pytest.raises(Refused):
        slow.commit()
    assert script.finished
    assert (lake.head(), lake.uncommitted()) == before
    protect(lake)
    age(lake)
    slow.commit()
    assert lake.uncommitted() == []


def test_a_commit_whose_swap_has_no_answer_when_the_rule_comes_is_unknown(lake: Lake) -> None:
    slow, store = _last_swap_lost(lake, swap=2)
    with pytest.raises(OutcomeUnknown):
        slow.commit()
    store.land()
    assert lake.uncommitted() == []


def _last_swap_lost(lake: Lake, swap: int) -> tuple[Lake, FaultyStore]:
    """A process whose swap of this number gets no answer; then somebody protects the branches."""
    stores: list[FaultyStore] = []
    swaps: list[int] = []

    def plan(number: int, verb: str) -> Fault:
        swaps.extend([number] * (verb == "set_if"))
        if verb != "set_if" or len(swaps) != swap:
            return Fault.NONE
        later(lake, "main", "dev")
        return Fault.LATE

    def wrap(kv: Store) -> FaultyStore:
        stores.append(FaultyStore(kv, plan))
        return stores[0]

    return lake.with_kv(wrap), stores[0]


def test_an_import_that_was_ordered_before_the_rule_does_not_land(lake: Lake) -> None:
    reset.reset(lake.opened, "main")
    job = imports.submit(lake.opened, "main", IMPORT, owner=b"me")
    before = lake.head()
    later(lake, "main")
    imports.run(lake.opened, BranchId("main"), IMPORT, job.id)
    assert imports.status(lake.opened, job.id).state is JobState.FAILED
    assert lake.head() == before


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.COMMIT])
def test_a_bulk_job_that_was_begun_before_the_rule_does_not_land(lake: Lake, mode: Mode) -> None:
    if mode is Mode.REPLACE:
        reset.reset(lake.opened, "main")
    job = bulk_world.begin(lake, mode)
    metarange = bulk_world.write(lake, {"a": "2", "b": "2", "new": "1"})
    later(lake, "main")
    before = lake.head()
    for _ in range(2):  # refused for certain, also again
        with pytest.raises(Refused):
            bulk_world.finish(lake, job, metarange)
    assert lake.head() == before
    protect(lake)
    age(lake)
    bulk_world.finish(lake, job, metarange)
    assert lake.head() != before


@pytest.mark.parametrize(
    "verb",
    [
        lambda repo: reset.reset(repo, "main"),
        lambda repo: reset.reset_prefix(repo, "main", "x/"),
        lambda repo: reset.reset_path(repo, "main", "x/1"),
    ],
)
def test_a_reset_that_runs_when_the_rule_comes_drops_nothing(
    lake: Lake, verb: Callable[[OpenRepository], None]
) -> None:
    lake.put("x/1", "1")
    before = lake.uncommitted()
    slow, script = lake.interposed()
    script.before("set_many", lambda: later(lake, "main"))
    with pytest.raises(Refused):
        verb(slow.opened)
    assert script.finished and lake.uncommitted() == before


def test_a_reset_whose_swap_has_no_answer_when_the_rule_comes_is_unknown(lake: Lake) -> None:
    lake.put("x/1", "1")
    slow, store = _last_swap_lost(lake, swap=1)
    with pytest.raises(OutcomeUnknown):
        reset.reset(slow.opened, "main")
    store.land()
    assert lake.uncommitted() == []


def test_a_hard_reset_is_checked_again_in_every_round(lake: Lake, rival: Lake) -> None:
    reset.reset(lake.opened, "main")
    slow, script = lake.interposed()

    def meanwhile() -> None:
        lake.commit_of(x="1")
        later(lake, "main")

    script.before("set_if", meanwhile)
    with pytest.raises(Refused):
        reset.hard_reset(slow.opened, "main", "dev~")
    assert lake.tree("main@")["x"] == "1"


def test_a_reset_that_is_refused_when_the_rule_comes_lands_no_more(lake: Lake) -> None:
    """Its swap got no answer, and is on its way."""
    reset.reset(lake.opened, "main")
    slow, store = _last_swap_lost(lake, swap=1)
    before = lake.head()
    with pytest.raises(Refused):
        reset.hard_reset(slow.opened, "main", lake.head("dev"))
    store.land()
    assert lake.head() == before


def test_a_deletion_that_runs_when_the_rule_comes_is_refused(lake: Lake) -> None:
    """Also one that lost its first round to a commit."""
    slow, script = lake.interposed()
    script.before("set_many", lambda: later(lake, "dev"))  # of the tokens that it drops
    with pytest.raises(Refused):
        names.delete_branch(slow.opened, "dev")
    assert script.finished
    protect(lake)
    age(lake)
    slow, script = lake.interposed()

    def meanwhile() -> None:
        lake.commit_of("dev", x="1")
        later(lake, "dev")

    script.before("set_if", meanwhile)
    with pytest.raises(Refused):
        names.delete_branch(slow.opened, "dev")
    assert script.finished and lake.tree("dev@")["x"] == "1"


def test_a_deletion_whose_swap_has_no_answer_when_the_rule_comes_is_unknown(lake: Lake) -> None:
    slow, store = _last_swap_lost(lake, swap=1)
    with pytest.raises(OutcomeUnknown):
        names.delete_branch(slow.opened, "dev")
    store.land()
    with pytest.raises(NotFound):
        lake.head("dev")


def test_a_branch_that_is_gone_is_not_found_even_if_a_rule_names_it(lake: Lake) -> None:
    """So a deletion that ended half way can be called again."""
    names.delete_branch(lake.opened, "dev")
    protect(lake, "dev")
    with pytest.raises(NotFound):
        names.delete_branch(lake.opened, "dev")
    lake.branch("dev")
