"""Garbage collection beside everybody else, under random schedules; and recipes that must fail.

A failure prints profile and seed.
"""

from collections.abc import Callable, Mapping, Sequence

import pytest

from graveler.block.adapter import ANY_VERSION, BlockStore
from graveler.engine import names
from graveler.engine.commits import heads
from graveler.engine.gc import collect, content, mark, retention
from graveler.engine.gc import listing as candidates_module
from graveler.engine.gc import listing as listed
from graveler.engine.gc.collect import CollectSettings
from graveler.engine.gc.content import Content
from graveler.engine.gc.listing import Candidates, GarbageFile, Listing
from graveler.engine.gc.retention import Heads, KeptCommits, Refs
from graveler.engine.jobs.checkpoints import Steps
from graveler.engine.ports import OpenRepository
from graveler.errors import GravelerError
from graveler.ids import CommitId
from graveler.records import AddressType, Commit, Repository
from graveler.refs.gc.retention import Retention
from simulator.gc import run as sim_collect
from simulator.gc.programs import PROFILES
from simulator.gc.programs import check_collect_seed as check
from simulator.gc.stage import CollectStage, build_collect_stage
from tests.simulation.witnesses import seeds

SEEDS = 60
MUTANT_SEEDS = 2_000
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def stage() -> CollectStage:
    return build_collect_stage()


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_in_use_is_deleted_and_nothing_else_stays(
    stage: CollectStage, profile: str
) -> None:
    deleted = 0
    for seed in range(SEEDS):
        run = check(stage, profile, seed)
        assert not run.wrong, f"{profile} {seed}: {run.wrong}"
        deleted += run.deleted
    assert deleted > SEEDS  # it does delete


# ---- recipes that lose something -----------------------------------------------------------------


def without_waiting(patch: pytest.MonkeyPatch) -> None:
    """No age, no undo period."""
    patch.setattr(collect, "check_settings", lambda settings: None)
    _settings(patch, CollectSettings(0, 0))


def in_one_run(patch: pytest.MonkeyPatch) -> None:
    """What has been listed as old is deleted without waiting."""
    patch.setattr(collect, "check_settings", lambda settings: None)
    _settings(patch, CollectSettings(undo_seconds=0))


def _settings(patch: pytest.MonkeyPatch, settings: CollectSettings) -> None:
    plan = collect._plan
    patch.setattr(collect, "_plan", lambda repo, _, steps: plan(repo, settings, steps))


def by_the_first_marking(patch: pytest.MonkeyPatch) -> None:
    """What was condemned is deleted without looking again."""

    def strike(self: Candidates, name: str, *, is_kept: bool) -> None:
        due = set(self.due)
        _STRIKE(self, name, is_kept=is_kept)
        self.due |= due

    patch.setattr(Candidates, "strike", strike)


_STRIKE = Candidates.strike


def whatever_version(patch: pytest.MonkeyPatch) -> None:
    """A file that was written again is deleted with the old one."""

    def delete(repo: OpenRepository, doomed: Sequence[GarbageFile]) -> None:
        for each in doomed:
            repo.blocks.delete(f"{repo.namespace}/{each.address}", ANY_VERSION)

    patch.setattr(collect, "_delete", delete)


def without_deadlines(patch: pytest.MonkeyPatch) -> None:
    """Operations live as long as they like."""
    patch.setattr(sim_collect, "LIFE_SECONDS", 1 << 40)


def condemned_commits_may_be_used(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the marks."""
    verbs = ("merge", "replay", "reset", "adopt")
    for module in ("names.branches", "names.tags", *(f"commits.{verb}" for verb in verbs)):
        patch.setattr(f"graveler.engine.{module}.check_kept", lambda *_: None)
    patch.setattr(heads, "check_kept", lambda *_: None)


def staged_rows_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mark, "_strike_staged", lambda *_: None)


def only_relative_addresses_count(patch: pytest.MonkeyPatch) -> None:
    used = candidates_module.used_name

    def relative(repo: Repository, entry: candidates_module.AddressedEntry) -> str:
        return "" if entry.address_type == AddressType.FULL else used(repo, entry)

    patch.setattr(mark, "used_name", relative)
    patch.setattr(content, "used_name", relative)


def refs_before_commits_only(patch: pytest.MonkeyPatch) -> None:
    """Refs are looked at once, before the records of commits; young metaranges do not count."""
    look = retention.list_refs
    looks: dict[int, int] = {}

    def once(repo: OpenRepository) -> Refs:
        looks[id(repo)] = looks.get(id(repo), 0) + 1
        found = look(repo)
        return found if looks[id(repo)] % 2 else Refs(Heads((), ()), frozenset())

    patch.setattr(mark, "list_refs", once)
    patch.setattr(mark, "_is_young", lambda *_: False)


def refs_of_the_first_run(patch: pytest.MonkeyPatch) -> None:
    """Whoever goes on with a list believes the refs that were first read behind it."""
    look, listing = retention.list_refs, listed.list_files
    begun: dict[int, int] = {}
    known: dict[int, Refs] = {}

    def noted(blocks: BlockStore, repo: Repository, steps: Steps, now_ns: int) -> Listing:
        found = listing(blocks, repo, steps, now_ns)
        if found.began_ns == now_ns:
            known.clear()
        begun[0] = found.began_ns if steps.row_count else 0
        return found

    def first(repo: OpenRepository) -> Refs:
        found = known.setdefault(begun[0], look(repo))
        return found if begun[0] else look(repo)

    patch.setattr(listed, "listing", noted)
    patch.setattr(mark, "list_refs", first)
    patch.setattr(mark, "_is_young", lambda *_: False)


def tables_of_what_has_expired_go(patch: pytest.MonkeyPatch) -> None:
    """Whoever merges an old branch misses the base."""
    patch.setattr(Content, "_note_files", lambda *_, **__: None)


def by_the_date_of_the_author(patch: pytest.MonkeyPatch) -> None:
    """What no ref leads to any more is as old as its commit says."""
    patch.setattr(mark, "kept", _by_its_date)


def _by_its_date(
    rule: Retention,
    history: Mapping[CommitId, Commit],
    refs: Heads,
    _: object,
    now_ns: int,
) -> KeptCommits:
    dates = {id: commit.created_ns for id, commit in history.items()}
    return retention.kept(rule, history, refs, dates, now_ns)


class _KeptMoments:
    """Stands for the records of unreachable commits, and removes none."""

    @staticmethod
    def forget(*_: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("seed", [1025690432591, 1025690432658])
def test_a_deletion_that_leaves_the_old_moment_is_caught(
    stage: CollectStage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(names, "unreachable", _KeptMoments)
    wrong = check(stage, "clean", seed).wrong
    assert wrong and all(each.startswith("deleted too early") for each in wrong), wrong


BROKEN = (
    tables_of_what_has_expired_go,
    by_the_date_of_the_author,
    refs_of_the_first_run,
    without_waiting,
    in_one_run,
    by_the_first_marking,
    whatever_version,
    without_deadlines,
    condemned_commits_may_be_used,
    staged_rows_do_not_count,
    only_relative_addresses_count,
    refs_before_commits_only,
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_a_broken_recipe_is_caught(
    stage: CollectStage, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    broken(monkeypatch)
    for seed in seeds(broken.__name__, MUTANT_SEEDS):
        if _is_wrong(stage, seed):
            print(f"{broken.__name__} {seed}")
            return
    pytest.fail("the checker saw nothing")


def _is_wrong(stage: CollectStage, seed: int) -> bool:
    profile = tuple(PROFILES)[seed % len(PROFILES)]
    try:
        return bool(check(stage, profile, seed).wrong)
    except GravelerError:  # whoever goes on with a list may look for what is gone
        return True
