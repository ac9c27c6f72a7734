"""The graph of commits: everything that heads lead to, children first, in few requests."""

import random
from collections.abc import Iterator, Sequence

import pytest

from graveler.core import limits
from graveler.core.errors import Corrupt, Invalid, NotFound, Unsupported
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, CommitEntry
from graveler.core.requests import Counts, counted_store
from graveler.engine import names as tags
from graveler.engine.commits import commit, log
from graveler.engine.commits.log import GraphPage, GraphQuery
from graveler.refs import branches, commits
from graveler.refs.keys import commit_key, graph_key, space
from tests.engine.lake import Lake, new_lake
from tests.refs.graphs import Table, ancestors, id_of, random_parents
from tests.refs.graphs import table as drawn

STAMP = bytes(16)


def _stored(lake: Lake, made: Table) -> None:
    """Put all commits of a drawn graph into the store."""
    entries = [CommitEntry(id, commit) for id, commit in made.commits.items()]
    commits.put_many(lake.ports.kv, lake.repo, entries, STAMP)


def _pages(lake: Lake, heads: Sequence[str], amount: int) -> Iterator[GraphPage]:
    after, begun = "", False
    while after or not begun:
        page = log.graph_page(lake.opened, GraphQuery(tuple(heads), after, amount))
        assert len(page.commits) <= amount
        yield page
        after, begun = page.following, True


def _shown(lake: Lake, heads: Sequence[str], amount: int = 2_000) -> list[CommitId]:
    return [entry.id for page in _pages(lake, heads, amount) for entry in page.commits]


def _check(made: Table, heads: Sequence[int], shown: Sequence[CommitId]) -> None:
    """All ancestors of the heads, once, children first."""
    sets = ancestors(made.parents)
    bits = 0
    for head in heads:
        bits |= sets[head]
    wanted = {id_of(number) for number in range(len(made.parents)) if bits >> number & 1}
    assert len(shown) == len(set(shown)) and set(shown) == wanted
    places = {id: place for place, id in enumerate(shown)}
    for id in shown:
        for parent in made.commits[id].parents:
            assert places[id] < places[parent]


@pytest.mark.parametrize("seed", range(30))
def test_any_graph_in_pages_of_any_size(seed: int) -> None:
    rng = random.Random(seed)
    made, lake = drawn(random_parents(rng)), new_lake()
    _stored(lake, made)
    heads = rng.sample(range(len(made.parents)), min(3, len(made.parents)))
    names = [id_of(head) for head in heads]
    whole = _shown(lake, names)
    _check(made, heads, whole)
    for amount in (1, 3, 7):
        assert _shown(lake, names, amount) == whole


def test_heads_are_named_in_any_way(lake: Lake) -> None:
    made = [lake.commit_of(a=f"{number}") for number in range(4)]
    lake.branch("dev", "main~1")
    lake.commit_of("dev", b="1")
    tags.create_tag(lake.opened, "v1", "main~2")
    heads = ("main", "dev", "v1", "main~3", made[2][:9], made[0], "main")
    (page,) = _pages(lake, heads, 2_000)
    ids = [lake.head(), lake.head("dev"), made[1], made[0], made[2], made[0], lake.head()]
    assert list(page.heads) == ids
    assert len(page.commits) == len(made) + 2
    assert page.commits[-1].commit.parents == ()
    alone = _shown(lake, ["v1"])
    assert alone[0] == made[1] and len(alone) == 3


def test_later_pages_show_the_state_of_the_first(lake: Lake) -> None:
    for number in range(5):
        lake.commit_of(a=f"{number}")
    whole = _shown(lake, ["main"])
    pages = _pages(lake, ["main"], 2)
    shown = [entry.id for entry in next(pages).commits]
    lake.commit_of(b="1")
    assert shown + [entry.id for page in pages for entry in page.commits] == whole


def test_lines_are_short(lake: Lake) -> None:
    message = "\n  The subject \nand more\n" + "x" * 5_000
    request = commit.CommitRequest(message, "c" * 300, {"k": "v"}, allow_empty=True)
    made = commit.commit(lake.opened, "main", request)
    page = next(_pages(lake, ["main"], 1))
    found = page.commits[0].commit
    assert (found.message, found.committer) == ("The subject", "c" * 200)
    assert (found.parents, found.created_ns) == (made.commit.parents, made.commit.created_ns)
    assert (found.generation, found.metadata) == (made.commit.generation, {})


def test_every_verb_that_makes_commits_adds_a_line(lake: Lake) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="1")
    lake.commit(allow_empty=True)
    lake.merge("dev")
    found = commits.scan_lines(lake.ports.kv, lake.repo, commits.GraphPlace(2**62, ""), 100).lines
    listed = dict(commits.list_all(lake.ports.kv, lake.repo))
    assert dict(found) == {id: commits.short(each) for id, each in listed.items()}
    assert len(found) == 5


def test_a_head_without_a_line_gets_one(lake: Lake) -> None:
    """Its maker died between the record of the commit and the line."""
    made = drawn([(), (0,), (1,)])
    _stored(lake, made)
    key = graph_key(made.commit(2).generation, id_of(2))
    lake.ports.kv.delete(space(lake.repo), [key])
    for _ in range(2):
        _check(made, [2], _shown(lake, [id_of(2)]))
    assert lake.ports.kv.get(space(lake.repo), key) is not ABSENT


def test_a_first_commit_without_a_line_gets_one(lake: Lake) -> None:
    """The table ends while the commit is still waited for."""
    made = drawn([(), (0,)])
    _stored(lake, made)
    key = graph_key(made.commit(0).generation, id_of(0))
    initial = lake.head()
    others = [graph_key(1, initial), key]
    lake.ports.kv.delete(space(lake.repo), others)
    _check(made, [1], _shown(lake, [id_of(1)]))
    assert lake.ports.kv.get(space(lake.repo), key) is not ABSENT


def test_a_parent_without_a_record_is_damage(lake: Lake) -> None:
    made = drawn([(), (0,), (1,)])
    _stored(lake, made)
    place = space(lake.repo)
    lake.ports.kv.delete(
        place, [graph_key(made.commit(1).generation, id_of(1)), commit_key(id_of(1))]
    )
    with pytest.raises(Corrupt):
        _shown(lake, [id_of(2)])


def test_refusals(lake: Lake) -> None:
    def ask(*heads: str, after: str = "") -> GraphPage:
        return log.graph_page(lake.opened, GraphQuery(heads, after))

    for missing in ("none", "0" * 64, "main~9"):
        with pytest.raises(NotFound):
            ask("main", missing)
    with pytest.raises(Invalid):
        ask("main$~1")
    with pytest.raises(Invalid):
        ask(*["main"] * (limits.graph_heads_count_max + 1))
    good = f"3.{'0' * 64}."
    for wrong in ("x", good[:-1], "-" + good, good + "A", good + "*", "9" * 19 + good[1:]):
        with pytest.raises(Invalid):
            ask(after=wrong)
    assert ask(after=good).commits == ()


def test_a_graph_that_is_too_wide_for_a_token_is_refused(lake: Lake) -> None:
    made = Table()
    root = made.add()
    width = limits.graph_waiting_count_max + 1
    tops = [made.add(made.add(root)) for _ in range(width)]
    top = made.add(*tops)
    _stored(lake, made)
    _check(made, [top], _shown(lake, [id_of(top)]))
    with pytest.raises(Unsupported, match="too wide"):
        _shown(lake, [id_of(top)], 1)


# ---- cost ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long() -> Lake:
    """5,000 commits in a row, and 500 merged branches beside them."""
    lake, made = new_lake(), Table()
    last = made.add()
    for number in range(500):
        side = made.add(last)
        for _ in range(9):
            last = made.add(last)
        last = made.add(last, side) if number % 2 else last
    for number, name in enumerate(("one", "two", "three")):
        lake.branch(name, "main")
        _move(lake, name, id_of(len(made.parents) - 1 - number))
    _stored(lake, made)
    return lake


def _move(lake: Lake, branch: str, head: CommitId) -> None:
    seen = branches.find(lake.ports.kv, lake.repo, BranchId(branch))
    assert seen is not ABSENT
    new = seen.branch._replace(rev=seen.branch.rev + 1, commit=head)
    branches.swap(lake.ports.kv, lake.repo, BranchId(branch), seen, new, b"s" * 16)


def test_a_cold_page_of_two_thousand_commits_costs_few_requests(long: Lake) -> None:
    spent: list[int] = []
    after, pages = "", 0
    while after or not pages:
        counts = Counts()
        cold = long.with_kv(lambda kv, counts=counts: counted_store(kv, counts))  # type: ignore[misc]
        query = GraphQuery(("one", "two", "three"), after)
        page = log.graph_page(cold.opened, query)
        spent.append(sum(counts.since({}).values()))
        assert len(page.commits) == 2_000 or not page.following
        after, pages = page.following, pages + 1
    assert pages == 3
    # branches, commits of the heads, table twice, because some lines of it lead to other heads
    assert spent == [4, 2, 1]


def test_a_page_sends_no_more_requests_than_its_bound(long: Lake) -> None:
    """A store whose pages are tiny: each page of the graph ends early, and the next goes on."""

    counts = Counts()
    tiny = long.with_kv(lambda kv: counted_store(_Tiny(kv), counts))  # type: ignore[arg-type]
    page = log.graph_page(tiny.opened, GraphQuery(("one",)))
    assert counts.since({})["scan"] == limits.graph_scan_count_max
    assert sum(counts.since({}).values()) <= 10
    assert 0 < len(page.commits) < 2_000 and page.following
    again = log.graph_page(tiny.opened, GraphQuery((), page.following))
    assert not {entry.id for entry in again.commits} & {entry.id for entry in page.commits}


class _Tiny:
    """At most 50 rows to a page of a scan."""

    def __init__(self, kv: object) -> None:
        self._kv = kv

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> object:
        return self._kv.scan(partition, start, end, min(limit, 50))  # type: ignore[attr-defined]

    def __getattr__(self, verb: str) -> object:
        return getattr(self._kv, verb)
