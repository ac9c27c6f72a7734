"""The merge rule in all of its rows, conflicts in full, and which merge base is taken."""

import itertools
import json

import pytest

from graveler.committed.ranges import EMPTY_METARANGE
from graveler.core import identity
from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    MergeConflict,
    NoChanges,
    NotFound,
)
from graveler.core.ids import NO_METARANGE, CommitId
from graveler.core.records import Commit, Strategy
from graveler.engine import names
from graveler.engine.commits import adopt, diff, log, merge, reset
from graveler.engine.objects import read, write
from tests.engine.lake import COMMITTER, Lake

# base, source, destination ("" = absent), what the merge says ("!" = conflict)
ROWS = [
    ("", "", "s", "s"),  # added by the destination
    ("", "s", "", "s"),  # added by the source
    ("", "s", "s", "s"),  # added alike by both
    ("", "s", "d", "!"),  # added by both
    ("b", "", "", ""),  # removed by both
    ("b", "", "b", ""),  # removed by the source
    ("b", "b", "", ""),  # removed by the destination
    ("b", "b", "d", "d"),  # changed by the destination
    ("b", "s", "b", "s"),  # changed by the source
    ("b", "s", "s", "s"),  # changed alike by both
    ("b", "s", "d", "!"),  # changed by both
    ("b", "", "d", "!"),  # removed by the source, changed by the destination
    ("b", "s", "", "!"),  # changed by the source, removed by the destination
    ("b", "b", "b", "b"),  # untouched
]


def _three(lake: Lake, rows: dict[str, tuple[str, str, str]]) -> None:
    """`main` and `dev` with these (base, source, destination) at these paths."""
    lake.commit_of(**{path: base for path, (base, _, _) in rows.items() if base}, ground="1")
    lake.branch("dev")
    for branch, side in (("dev", 1), ("main", 2)):
        changes = {path: row[side] for path, row in rows.items() if row[side] != row[0]}
        lake.commit_of(branch, **changes, **{f"only_{branch}": "1"})


@pytest.mark.parametrize(("base", "source", "dest", "merged"), ROWS)
@pytest.mark.parametrize("strategy", ["", "source-wins", "dest-wins"])
def test_rule(
    lake: Lake, base: str, source: str, dest: str, merged: str, strategy: Strategy
) -> None:
    _three(lake, {"path": (base, source, dest)})
    before = lake.tree()
    if merged == "!":
        assert lake.conflicts("dev") == ["path"]
        if not strategy:
            with pytest.raises(MergeConflict) as refusal:
                lake.merge("dev")
            assert refusal.value.paths == ("path",)
            assert lake.tree() == before
            return
        merged = source if strategy == "source-wins" else dest
    made = lake.merge("dev", strategy=strategy)
    assert lake.tree(made).get("path", "") == merged
    assert {"only_dev", "only_main", "ground"} <= set(lake.tree(made))


def test_all_rows_at_once_in_ranges_of_any_cut(lake: Lake) -> None:
    """Rows next to one another: no row's answer may come from its neighbour's records."""
    rows = {
        f"{number:03}": (row[0], row[1], row[2])
        for number, row in enumerate(itertools.chain.from_iterable(itertools.repeat(ROWS, 6)))
    }
    _three(lake, rows)
    wanted = {path: ROWS[int(path) % len(ROWS)][3] for path in rows}
    conflicts = [path for path, merged in wanted.items() if merged == "!"]
    assert lake.conflicts("dev") == conflicts
    with pytest.raises(MergeConflict):
        lake.merge("dev")
    lake.merge("dev", strategy="source-wins")
    got = lake.tree()
    for path, (_, source, _) in rows.items():
        merged = source if wanted[path] == "!" else wanted[path]
        assert got.get(path, "") == merged, path


@pytest.mark.parametrize("changed_by_dest", ["", "F"])
def test_a_path_added_next_to_an_equal_record_of_the_base(lake: Lake, changed_by_dest: str) -> None:
    """The base's record behind the added path has its content; that says nothing of the path."""
    lake.commit_of(a="1", z="E")
    lake.branch("dev")
    lake.commit_of("dev", y="E")
    if changed_by_dest:
        lake.commit_of(y="F")
        assert lake.conflicts("dev") == ["y"]
        return
    lake.commit_of(z="")
    lake.merge("dev")
    assert lake.tree() == {"a": "1", "y": "E"}


def test_conflicts_are_listed_in_full_page_by_page_without_side_effects(lake: Lake) -> None:
    rows = {f"p{number:04}": ("b", "s", "d") for number in range(250)}
    _three(lake, rows)
    record = lake.record()
    found: list[str] = []
    query = diff.DiffQuery(amount=7)
    while True:
        page = merge.conflicts(lake.opened, "dev", "main", query)
        found += [line.path for line in page.lines]
        if not page.more:
            break
        query = diff.DiffQuery(amount=7, after=found[-1])
    assert found == list(rows)
    assert lake.record() == record
    with pytest.raises(MergeConflict) as refusal:
        lake.merge("dev")
    assert list(refusal.value.paths) == found[: len(refusal.value.paths)]
    assert refusal.value.paths


def test_a_preview_says_what_the_merge_then_does(lake: Lake) -> None:
    _three(
        lake, {"a": ("b", "s", "b"), "c": ("b", "", "b"), "d": ("", "s", ""), "e": ("b", "b", "d")}
    )
    page = merge.preview(lake.opened, "dev", "main", diff.DiffQuery())
    lines = {line.path: line.kind for line in page.lines}
    assert lines == {"a": "changed", "c": "removed", "d": "added", "only_dev": "added"}
    before = lake.head()
    made = lake.merge("dev")
    query = diff.DiffQuery()
    after = diff.diff_refs(lake.opened, before, made, query, three_dot=False)
    assert after.lines == page.lines


def test_parents_message_and_metadata(lake: Lake) -> None:
    _three(lake, {})
    parents = (lake.head(), lake.head("dev"))
    request = merge.MergeRequest(COMMITTER, metadata={"k": "v"})
    made = merge.merge(lake.opened, "dev", "main", request)
    entry = log.get_commit(lake.opened, made)
    assert entry.commit.parents == parents
    assert entry.commit.message == "Merge 'dev' into 'main'"
    assert entry.commit.metadata == {"k": "v", ".lakefs.merge.strategy": "default"}


def test_a_squashed_merge_has_one_parent_so_the_next_one_uses_the_old_base(lake: Lake) -> None:
    _three(lake, {})
    old = log.merge_base(lake.opened, "dev", "main").base
    made = lake.merge("dev", squash=True)
    assert len(log.get_commit(lake.opened, made).commit.parents) == 1
    assert log.merge_base(lake.opened, "dev", "main").base == old


def test_nothing_to_merge_changes_nothing(lake: Lake) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of(b="2")
    before = lake.head()
    with pytest.raises(NoChanges):
        lake.merge("dev")
    assert lake.head() == before and lake.tree() == {"a": "1", "b": "2"}
    made = lake.merge("dev", allow_empty=True)
    assert lake.tree(made) == {"a": "1", "b": "2"}


def test_a_source_that_was_emptied_again_is_nothing_to_merge(lake: Lake) -> None:
    lake.commit_of(ground="1")
    lake.branch("dev")
    lake.commit_of("dev", a="1")
    lake.commit_of("dev", a="")
    with pytest.raises(NoChanges):
        lake.merge("dev")


def _metarange(lake: Lake, ref: str) -> str:
    return log.get_commit(lake.opened, ref).commit.metarange


def test_an_emptied_source_is_merged_into_a_branch_that_never_held_anything(lake: Lake) -> None:
    lake.branch("dev")
    lake.commit_of("dev", a="1")
    emptied = lake.commit_of("dev", a="")
    made = lake.merge("dev")
    assert (_metarange(lake, made), lake.tree()) == (EMPTY_METARANGE, {})
    parents = log.get_commit(lake.opened, made).commit.parents
    assert parents[1] == emptied
    with pytest.raises(NoChanges):
        lake.merge("dev")


def test_a_source_without_metarange_is_merged_into_an_emptied_branch(lake: Lake) -> None:
    lake.commit_of(a="1")
    emptied = lake.commit_of(a="")
    record = Commit("elsewhere", "holds nothing", 10**18, parents=(CommitId(emptied),))
    record = record._replace(generation=4)
    bare = identity.commit_id(record)
    adopt.add_record(lake.opened, adopt.NewCommitRecord(bare, record))
    made = lake.merge(bare)
    assert (_metarange(lake, made), lake.tree()) == (NO_METARANGE, {})
    with pytest.raises(NoChanges):
        lake.merge(bare)


def test_a_commit_a_merge_and_a_revert_may_be_of_the_epoch(lake: Lake) -> None:
    first = lake.commit_of(a="1")
    lake.branch("dev")
    lake.put("b", "2", "dev")
    commits = [lake.commit("dated", "dev", created_ns=0).id]
    commits.append(lake.merge("dev", created_ns=0))
    request = merge.ReplayRequest(COMMITTER, created_ns=0)
    commits.append(merge.revert(lake.opened, "main", first, request).id)
    request = merge.ReplayRequest(COMMITTER, created_ns=0, message="again")
    commits.append(merge.cherry_pick(lake.opened, "main", first, request).id)
    found = [log.get_commit(lake.opened, each).commit for each in commits]
    assert [each.created_ns for each in found] == [0, 0, 0, 0]


@pytest.mark.parametrize("strategy", ["theirs", "dest_wins", "DEST-WINS"])
def test_an_unknown_strategy_is_refused(lake: Lake, strategy: str) -> None:
    lake.branch("dev")
    with pytest.raises(Invalid):
        lake.merge("dev", strategy=strategy)  # type: ignore[arg-type]


def test_uncommitted_changes_of_the_source_are_not_merged(lake: Lake) -> None:
    _three(lake, {})
    lake.put("uncommitted", "1", "dev")
    lake.merge("dev")
    assert "uncommitted" not in lake.tree()
    assert lake.tree("dev")["uncommitted"] == "1"


# --- merge bases ---


def test_of_several_bases_the_one_of_greatest_generation_then_of_smallest_id(lake: Lake) -> None:
    """A criss-cross: both heads merged each other's old head."""
    lake.commit_of(ground="1")
    lake.branch("dev")
    lake.commit_of("dev", x="1")
    lake.commit_of(y="1")
    old_main, old_dev = lake.head(), lake.head("dev")
    lake.merge(old_dev, "main")
    lake.merge(old_main, "dev")
    lake.commit_of(m="1")
    lake.commit_of("dev", d="1")
    assert log.merge_base(lake.opened, "dev", "main").base == min(old_main, old_dev)


def test_of_several_bases_a_deeper_one_wins_whatever_its_id(lake: Lake) -> None:
    for attempt in range(6):
        main, dev = f"main-{attempt}", f"dev-{attempt}"
        lake.branch(main)
        lake.commit_of(main, ground=f"{attempt}")
        lake.branch(dev, main)
        lake.commit_of(dev, x="1")
        lake.commit_of(main, y="1")
        lake.commit_of(main, z="1")
        old_main, old_dev = lake.head(main), lake.head(dev)
        lake.merge(old_dev, main)
        lake.merge(old_main, dev)
        assert log.merge_base(lake.opened, dev, main).base == old_main


def test_the_first_common_ancestor_that_both_walks_meet_is_not_taken_if_a_better_one_follows(
    lake: Lake,
) -> None:
    """A short way to an old ancestor, a long way to a newer one."""
    lake.commit_of(ground="1")
    lake.branch("old")
    for number in range(5):
        lake.commit_of(**{f"p{number}": "1"})
    better = lake.head()
    lake.branch("dev")
    lake.commit_of("dev", d="1")
    lake.commit_of("old", o="1")
    lake.merge("old", "dev")
    lake.merge("old", "main")
    found = log.merge_base(lake.opened, "dev", "main").base
    bases = {better, lake.head("old")}
    assert found in bases and found == better, "its generation is greater"


def test_unrelated_histories_have_the_empty_tree_as_base(lake: Lake) -> None:
    lake.commit_of(a="1", shared="1")
    main_tree = log.get_commit(lake.opened, "main").commit.metarange
    root = Commit(COMMITTER, "another root", 10**18, metarange=main_tree)
    commit_id = identity.commit_id(root)
    adopt.add_record(lake.opened, adopt.NewCommitRecord(commit_id, root))
    names.create_branch(lake.opened, "other", commit_id)
    lake.commit_of("other", b="2", shared="other")
    found = log.merge_base(lake.opened, "other", "main")
    assert found.base == ""
    assert lake.conflicts("other") == ["shared"]
    lake.merge("other", strategy="source-wins")
    assert lake.tree() == {"a": "1", "b": "2", "shared": "other"}


# --- revert and cherry-pick ---


def test_a_merge_is_reverted_against_the_parent_that_is_named(lake: Lake) -> None:
    _three(lake, {})
    made = lake.merge("dev")
    request = merge.ReplayRequest(COMMITTER)
    with pytest.raises(Conflict):
        merge.revert(lake.opened, "main", made, request)
    for number, missing in ((1, "only_dev"), (2, "only_main")):
        lake.branch(f"undo-{number}", made)
        request = merge.ReplayRequest(COMMITTER, number)
        merge.revert(lake.opened, f"undo-{number}", made, request)
        assert missing not in lake.tree(f"undo-{number}")
    with pytest.raises(Invalid):
        merge.revert(lake.opened, "main", made, merge.ReplayRequest(COMMITTER, 3))


def test_a_revert_keeps_what_came_after_and_refuses_what_was_changed_again(lake: Lake) -> None:
    changed = lake.commit_of(a="1", b="1")
    lake.commit_of(b="2", c="3")
    with pytest.raises(MergeConflict) as refusal:
        merge.revert(lake.opened, "main", changed, merge.ReplayRequest(COMMITTER))
    assert refusal.value.paths == ("b",)
    lake.commit_of(b="1")
    merge.revert(lake.opened, "main", changed, merge.ReplayRequest(COMMITTER))
    assert lake.tree() == {"c": "3"}


def test_a_cherry_pick_names_its_origin_and_a_second_one_has_nothing_to_do(lake: Lake) -> None:
    lake.branch("dev")
    origin = lake.commit_of("dev", a="1")
    request = merge.ReplayRequest("picker")
    made = merge.cherry_pick(lake.opened, "main", origin, request)
    assert made.commit.metadata["cherry-pick-origin"] == origin
    assert made.commit.metadata["cherry-pick-committer"] == COMMITTER
    with pytest.raises(NoChanges):
        merge.cherry_pick(lake.opened, "main", origin, request)


def test_the_first_commit_cannot_be_picked(lake: Lake) -> None:
    first = lake.head()
    with pytest.raises(Invalid):
        merge.cherry_pick(lake.opened, "main", first, merge.ReplayRequest("p"))


# --- what else belongs together ---


def test_a_commit_keeps_the_older_entry_of_what_did_not_change(lake: Lake) -> None:
    lake.commit_of(a="1")
    before = read.stat(lake.opened, "main", "a")
    again = before._replace(address="data/elsewhere", modified_ns=before.modified_ns + 1)
    write.stage(lake.opened, "main", "a", again)
    with pytest.raises(NoChanges):
        lake.commit()
    assert lake.record().sealed == ()
    write.stage(lake.opened, "main", "a", again)
    lake.commit_of(b="2")
    assert read.stat(lake.opened, "main", "a") == before


def test_resets_beyond_the_cap_of_sealed_tokens_are_refused_and_a_commit_drains_them(
    lake: Lake,
) -> None:
    lake.commit_of(a="1")
    done = 0
    for number in range(80):
        lake.put(f"p{number}", "1")
        lake.put("kept", "1")
        try:
            reset.reset_path(lake.opened, "main", f"p{number}")
        except Conflict:
            break
        done += 1
    assert len(lake.record().sealed) <= 130
    assert done >= 60
    lake.commit("drain")
    assert len(lake.record().sealed) <= 1
    wanted = {"a": "1", "kept": "1"} | ({f"p{done}": "1"} if done < 80 else {})
    assert lake.tree() == lake.tree("main@") == wanted


def test_content_of_older_commits_never_changes(lake: Lake) -> None:
    one = lake.commit_of(a="1", b="1")
    other = lake.commit_of(a="2", b="")
    lake.delete("a")
    assert lake.tree(one) == {"a": "1", "b": "1"}
    assert lake.tree(other) == {"a": "2"}
    reset.reset(lake.opened, "main")
    assert lake.tree() == {"a": "2"}


def test_a_name_is_free_for_one_thing_only(lake: Lake) -> None:
    head = lake.commit_of(a="1")
    lake.branch("dev")
    for name in ("dev", "main", head, head[:7], head[:12], head[:63]):
        with pytest.raises(AlreadyExists):
            lake.branch(name)
        with pytest.raises(AlreadyExists):
            names.create_tag(lake.opened, name, "main")
    for name in (head[:6], head[:8] + "x", head[:12] + "_", head[:12].upper() + "G"):
        lake.branch(name)  # no short id of a commit
    with pytest.raises(NotFound):
        lake.branch("new", "nothing")
    with pytest.raises(Invalid):
        lake.branch("new", "main$")


def test_what_takes_a_commit_refuses_the_name_of_uncommitted_changes(lake: Lake) -> None:
    """They would be left out in silence."""
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.put("b", "1", "dev")
    head = lake.tree()
    for verb in (
        lambda: lake.merge("dev$"),
        lambda: names.create_tag(lake.opened, "v1", "dev$"),
        lambda: merge.cherry_pick(lake.opened, "main", "dev$", merge.ReplayRequest(COMMITTER)),
        lambda: merge.revert(lake.opened, "main", "dev$", merge.ReplayRequest(COMMITTER)),
        lambda: reset.hard_reset(lake.opened, "main", "dev$"),
    ):
        with pytest.raises(Invalid, match="uncommitted changes"):
            verb()
    assert lake.tree() == head


def test_a_branch_made_again_sees_nothing_of_the_old_one(lake: Lake) -> None:
    lake.branch("dev")
    lake.put("a", "1", "dev")
    revision = lake.record("dev").rev
    names.delete_branch(lake.opened, "dev")
    lake.branch("dev")
    assert lake.tree("dev") == {}
    assert lake.record("dev").rev > revision


# ---- resolutions ---------------------------------------------------------------------------------


def test_the_longest_prefix_of_a_path_decides_its_conflict(lake: Lake) -> None:
    paths = ("a/1", "a/b/1", "a/b/c", "b", "z")
    _three(lake, {path: ("b", "s", "d") for path in paths})
    sides: dict[str, merge.Side] = {"": "dest", "a/": "source", "a/b/": "dest", "a/b/c": "source"}
    made = lake.merge("dev", resolutions=sides)
    got = lake.tree(made)
    assert [got[path] for path in paths] == ["s", "d", "s", "d", "d"]
    assert {"only_dev", "only_main"} <= set(got)
    recorded = log.get_commit(lake.opened, made).commit.metadata
    assert json.loads(recorded[merge.RESOLUTIONS_KEY]) == sides
    assert recorded[merge.STRATEGY_KEY] == "default"


def test_conflicts_that_nothing_resolves_refuse_the_merge(lake: Lake) -> None:
    _three(lake, {path: ("b", "s", "d") for path in ("a/1", "a/2", "b", "c")})
    before = lake.tree()
    with pytest.raises(MergeConflict) as refusal:
        lake.merge("dev", resolutions={"a/": "source", "b": "dest"})
    assert refusal.value.paths == ("c",) and lake.tree() == before
    made = lake.merge("dev", "main", "source-wins", resolutions={"a/": "dest", "b": "dest"})
    got = lake.tree(made)
    assert [got[path] for path in ("a/1", "a/2", "b", "c")] == ["d", "d", "d", "s"]


def test_a_resolution_decides_nothing_but_conflicts(lake: Lake) -> None:
    _three(lake, {"new": ("", "s", ""), "gone": ("b", "", "b"), "kept": ("b", "b", "d")})
    got = lake.tree(lake.merge("dev", resolutions={"": "dest"}))
    assert (got["new"], got.get("gone"), got["kept"]) == ("s", None, "d")


def test_a_conflict_of_a_deletion_is_resolved(lake: Lake) -> None:
    _three(lake, {"x": ("b", "", "d"), "y": ("b", "s", ""), "z": ("b", "", "d")})
    got = lake.tree(lake.merge("dev", resolutions={"": "source", "z": "dest"}))
    assert (got.get("x"), got["y"], got["z"]) == (None, "s", "d")


def test_resolutions_that_cannot_be_are_refused(forked: Lake) -> None:
    wrong: list[dict[str, object]] = [
        {"a": "ours"},
        {"x" * 1_025: "dest"},
        {f"{number}": "dest" for number in range(1_001)},
        {f"{number:0900}": "dest" for number in range(40)},
    ]
    before = forked.head()
    for named in wrong:
        with pytest.raises(Invalid, match="resolutions"):
            forked.merge("dev", resolutions=named)
    assert forked.head() == before
