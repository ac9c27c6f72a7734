"""What a ref expression means, and what finding out costs."""

import pytest

from graveler.core.errors import Invalid, NotFound
from graveler.core.ids import BranchId, CommitId, TagId
from graveler.core.records import ABSENT, BranchState, Commit, Tag
from graveler.refs import branches, commits, tags
from graveler.refs.resolve import ResolvedRef, holders, resolve
from tests.refs.graphs import Table, id_of
from tests.refs.stores import IDS, Counted, branch, repository

REPO = repository()


class Lake(Counted):
    """A repository with a merge, two branches and a tag.

    0 ── 1 ── 2 ── 4   main, tag v1 at 1
          └── 3 ──┘    dev
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        for parents in ((), (0,), (1,), (1,), (2, 3)):
            self.table.add(*parents)
        for id, commit in self.table.commits.items():
            commits.put(self.kv, REPO, id, commit, IDS.stamp())
        self.point("main", 4)
        self.point("dev", 3)
        tags.create(self.kv, REPO, TagId("v1"), id_of(1), IDS)
        self.spent()

    def point(self, name: str, commit: int, state: BranchState = BranchState.LIVE) -> None:
        new = branch(commit=commit, state=state)
        branches.swap(self.kv, REPO, BranchId(name), ABSENT, new, IDS.stamp())

    def lookup(self, id: CommitId) -> Commit:
        return commits.get(self.kv, REPO, id)

    def resolve(self, text: str) -> ResolvedRef:
        return resolve(self.kv, REPO, text, self.lookup)


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("main", 4),
        ("dev", 3),
        ("v1", 1),
        ("main@", 4),
        ("main$", 4),
        ("main~", 2),
        ("main~0", 4),
        ("main~3", 0),
        ("main^0", 4),
        ("main^2", 3),
        ("main^2~1", 1),
        ("main@^2^1~1", 0),
        ("v1~1", 0),
        ("v1@", 1),
        (id_of(3), 3),
        (id_of(3) + "~", 1),
        (id_of(2)[:12], 2),
        (id_of(4)[:12] + "^2", 3),
    ],
)
def test_expressions_name_commits(lake: Lake, text: str, number: int) -> None:
    assert lake.resolve(text).commit == id_of(number)


@pytest.mark.parametrize(
    ("text", "kind", "staged", "branch_id"),
    [
        ("main", "branch", True, "main"),
        ("main$", "branch", True, "main"),
        ("main@", "branch", False, "main"),
        ("main~0", "branch", False, "main"),
        ("main^0", "branch", False, "main"),
        ("v1", "tag", False, ""),
        (id_of(1), "commit", False, ""),
        (id_of(1)[:20], "commit", False, ""),
    ],
)
def test_only_the_branch_itself_shows_what_is_uncommitted(
    lake: Lake, text: str, kind: str, staged: bool, branch_id: str
) -> None:
    found = lake.resolve(text)
    assert (found.kind, found.staged, found.branch_id) == (kind, staged, branch_id)
    assert (found.branch is not ABSENT) == bool(branch_id)
    if found.branch is not ABSENT:
        assert found.branch == branches.find(lake.kv, REPO, BranchId(branch_id))


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "main~4",
        "main^3",
        "main~3^1",
        "0" * 64,
        "f" * 63,
        "MAIN",
        "a/b",
        "a..b",
        "ä",
        "x" * 1_024,
        "none$",
        id_of(3).upper(),
        id_of(3)[:12].upper(),
    ],
)
def test_what_is_not_there_is_not_found(lake: Lake, text: str) -> None:
    with pytest.raises(NotFound, match=r"^(ref not found: ref=|not found)"):
        lake.resolve(text)


@pytest.mark.parametrize("text", ["v1$", id_of(1) + "$", "main^x", "", "~"])
def test_what_cannot_be_is_invalid(lake: Lake, text: str) -> None:
    with pytest.raises(Invalid, match=r"^ref "):
        lake.resolve(text)


def test_an_ambiguous_prefix_is_refused(lake: Lake) -> None:
    for text in ("ab" + "0" * 62, "ab" + "1" * 62):
        commits.put(lake.kv, REPO, CommitId(text), Commit("c", "m", 0), IDS.stamp())
    with pytest.raises(NotFound, match=r"^ref is ambiguous: .* ref=ab$"):
        lake.resolve("ab")
    assert lake.resolve("ab0").commit == "ab" + "0" * 62


def test_commit_then_branch_then_tag_then_prefix(lake: Lake) -> None:
    name = id_of(2)
    lake.point(name, 0)
    assert lake.resolve(name).commit == id_of(2), "a full commit id comes first"
    tags.create(lake.kv, REPO, TagId("main"), id_of(0), IDS)
    assert lake.resolve("main").commit == id_of(4), "a branch comes before a tag"
    prefix = id_of(3)[:5]
    tags.create(lake.kv, REPO, TagId(prefix), id_of(0), IDS)
    assert lake.resolve(prefix).commit == id_of(0), "a tag comes before a prefix"
    lake.point("e" * 64, 1)
    assert lake.resolve("e" * 64).commit == id_of(1), "an id that no commit has may be a branch"


def test_a_deleted_branch_is_not_found_and_hides_nothing(lake: Lake) -> None:
    lake.point("gone", 2, BranchState.DELETED)
    with pytest.raises(NotFound):
        lake.resolve("gone")
    tags.create(lake.kv, REPO, TagId("gone"), id_of(0), IDS)
    assert lake.resolve("gone").commit == id_of(0)


@pytest.mark.parametrize(
    ("text", "requests"),
    [
        ("main", 1),
        ("main$", 1),
        ("main@", 1),
        ("v1", 2),
        (id_of(1), 1),
        (id_of(1)[:20], 3),
        ("main~1", 2),
        ("main^2", 2),
        ("a/b", 1),
    ],
)
def test_costs(lake: Lake, text: str, requests: int) -> None:
    try:
        lake.resolve(text)
    except NotFound:
        requests -= 1  # a name that nothing can have, and that is no prefix of an id
    assert lake.spent() == requests


def test_another_repository_of_the_same_name_sees_nothing(lake: Lake) -> None:
    for text in ("main", "v1", id_of(1)[:20]):
        with pytest.raises(NotFound):
            resolve(lake.kv, repository(uid="u2"), text, Table().lookup)


def test_holders_of_a_name_cost_one_request(lake: Lake) -> None:
    found = holders(lake.kv, REPO, BranchId("main"))
    assert lake.spent() == 1
    assert found.branch == branches.find(lake.kv, REPO, BranchId("main"))
    assert (found.tag, found.commit) == (ABSENT, False)
    tagged = holders(lake.kv, REPO, BranchId("v1"))
    assert tagged.tag is not ABSENT and tagged.tag.tag == Tag(id_of(1))
    assert (tagged.branch, tagged.commit) == (ABSENT, False)
    assert tagged.live_tag and not tagged.live_branch
    assert holders(lake.kv, REPO, BranchId(id_of(1))) == (ABSENT, ABSENT, True)
    assert holders(lake.kv, REPO, TagId("free")) == (ABSENT, ABSENT, False)
