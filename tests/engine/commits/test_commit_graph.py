"""The graph of commits: everything that heads lead to, children first, in few requests."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from graveler import limits
from graveler.engine.commits import commit, commit_graph
from graveler.engine.commits.commit_graph import GraphPage, GraphQuery
from graveler.engine.names import tags
from graveler.engine.upkeep import janitor
from graveler.errors import Corrupt, Invalid, NotFound, Unavailable, Unsupported
from graveler.ids import BranchId, CommitId
from graveler.records import ABSENT, CommitEntry
from graveler.refs.graph import commits, table
from graveler.refs.graph.table import TableState
from graveler.refs.keys import GRAPH, commit_key, graph_key, space
from graveler.refs.names import branches
from graveler.requests import Counts, counted_store
from tests.engine.lake import Lake, new_lake
from tests.refs.graphs import Table, ancestors, id_of, random_parents
from tests.refs.graphs import table as drawn
from tests.support.clockwork import TickingClock

STAMP = bytes(16)


def _stored(lake: Lake, made: Table) -> None:
    """Put all commits of a drawn graph into the store."""
    entries = [CommitEntry(id, commit) for id, commit in made.commits.items()]
    commits.put_many(lake.ports.kv, lake.repo, entries, STAMP)


def _say(lake: Lake, state: TableState) -> None:
    lake.ports.kv.set(*table.state_write(lake.repo, state, STAMP))


def _pages(lake: Lake, heads: Sequence[str], amount: int) -> Iterator[GraphPage]:
    after, begun = "", False
    while after or not begun:
        page = commit_graph.graph(lake.opened, GraphQuery(tuple(heads), after, amount))
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
def test_any_graph_in_pages_of_any_size_with_and_without_the_table(seed: int) -> None:
    rng = random.Random(seed)
    made, lake = drawn(random_parents(rng)), new_lake()
    _stored(lake, made)
    heads = rng.sample(range(len(made.parents)), min(3, len(made.parents)))
    names = [id_of(head) for head in heads]
    whole = _shown(lake, names)
    _check(made, heads, whole)
    for amount in (1, 3, 7):
        assert _shown(lake, names, amount) == whole
    _say(lake, TableState(after="7"))
    for amount in (2, 2_000):
        assert _shown(lake, names, amount) == whole


@pytest.mark.parametrize("seed", range(30))
def test_no_commit_is_lost_that_the_table_lacks(seed: int) -> None:
    """As while an earlier release writes beside: the records are the truth."""
    rng = random.Random(seed)
    made, lake = drawn(random_parents(rng)), new_lake()
    _stored(lake, made)
    for number in rng.sample(range(len(made.parents)), len(made.parents) // 3):
        key = graph_key(made.commit(number).generation, id_of(number))
        lake.ports.kv.delete(space(lake.repo), [key])
    heads = rng.sample(range(len(made.parents)), min(2, len(made.parents)))
    names = [id_of(head) for head in heads]
    _check(made, heads, _shown(lake, names))
    for amount in (1, 5):
        paged = _shown(lake, names, amount)
        assert set(paged) == set(_shown(lake, names))


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
    found = table.scan(lake.ports.kv, lake.repo, table.GraphPlace(2**62, ""), 100).lines
    listed = dict(commits.list_all(lake.ports.kv, lake.repo))
    assert dict(found) == {id: table.short(each) for id, each in listed.items()}
    assert len(found) == 5
    assert table.find_state(lake.ports.kv, lake.repo).is_complete


def test_refusals(lake: Lake) -> None:
    def ask(*heads: str, after: str = "") -> GraphPage:
        return commit_graph.graph(lake.opened, GraphQuery(heads, after))

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


def test_a_commit_without_a_record_is_damage(lake: Lake) -> None:
    made = drawn([(), (0,), (1,)])
    _stored(lake, made)
    lake.ports.kv.delete(space(lake.repo), [commit_key(id_of(1))])
    assert len(_shown(lake, [id_of(2)])) == 3  # the table has what it shows
    _say(lake, TableState())
    with pytest.raises(Corrupt):
        _shown(lake, [id_of(2)])
    root = drawn([(), (0,)])
    _stored(lake, root)
    _say(lake, TableState())
    lake.ports.kv.delete(space(lake.repo), [commit_key(id_of(0))])
    with pytest.raises(Corrupt):
        _shown(lake, [id_of(1)])


# ---- repositories of an earlier release ----------------------------------------------------------


@pytest.fixture
def earlier(lake: Lake) -> tuple[Lake, Table]:
    """A repository without a table."""
    made = drawn(random_parents(random.Random(5)))
    for id, each in made.commits.items():
        write = commits.write_of(lake.repo, id, each, STAMP)
        lake.ports.kv.set_many([write])
    kv = lake.ports.kv
    keys = [key for key, _ in kv.scan(space(lake.repo), GRAPH, GRAPH + b"g", 1_000).rows]
    kv.delete(space(lake.repo), [*keys, table.state_place(lake.repo)[1]])
    return lake, made


def _heads_of(made: Table) -> list[int]:
    return [len(made.parents) - 1]


def test_the_janitor_fills_the_table(earlier: tuple[Lake, Table]) -> None:
    lake, made = earlier
    heads = _heads_of(made)
    names = [id_of(head) for head in heads]
    before = _shown(lake, names)
    _check(made, heads, before)
    swept = janitor.sweep(lake.opened)
    assert swept.commits == len(made.commits) + 1
    assert table.find_state(lake.ports.kv, lake.repo) == TableState(is_complete=True)
    assert _shown(lake, names) == before
    assert janitor.sweep(lake.opened).commits == 0


def test_a_round_that_ends_early_is_continued(earlier: tuple[Lake, Table]) -> None:
    lake, made = earlier
    clock = _Steps()
    slow = Lake(replace(lake.ports, clock=clock), lake.repo)
    clock.left = 12
    filled = janitor.sweep(slow.opened, 1).commits
    state = table.find_state(lake.ports.kv, lake.repo)
    assert 0 < filled < len(made.commits) and not state.is_complete and state.after
    assert janitor.sweep(lake.opened).commits == len(made.commits) + 1 - filled
    names = [id_of(head) for head in _heads_of(made)]
    _check(made, _heads_of(made), _shown(lake, names))
    assert table.find_state(lake.ports.kv, lake.repo).is_complete


class _Steps(TickingClock):
    """A clock that jumps by an hour once it was looked at `left` times."""

    left = 1_000

    def steady_seconds(self) -> float:
        self.left -= 1
        return super().steady_seconds() + (3_600 if self.left < 0 else 0)


def test_too_many_commits_without_a_table_are_refused(
    earlier: tuple[Lake, Table],
) -> None:
    lake, made = earlier
    query, few = GraphQuery((id_of(0),)), len(made.commits)
    with pytest.raises(Unavailable, match="not ready"):
        commit_graph.graph(lake.opened, query, listed_count_max=few)
    janitor.sweep(lake.opened)
    (line,) = commit_graph.graph(lake.opened, query, listed_count_max=few).commits
    assert line.id == id_of(0)


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
        page = commit_graph.graph(cold.opened, query)
        spent.append(sum(counts.since({}).values()))
        assert len(page.commits) == 2_000 or not page.following
        after, pages = page.following, pages + 1
    assert pages == 3
    # state and branches, commits of the heads, table twice, because some lines of it lead to other
    # heads; later pages: state and table
    assert spent == [4, 3, 2]


def test_a_page_sends_no_more_requests_than_its_bound(long: Lake) -> None:
    """A store whose pages are tiny: each page of the graph ends early, and the next goes on."""

    counts = Counts()
    tiny = long.with_kv(lambda kv: counted_store(_Tiny(kv), counts))  # type: ignore[arg-type]
    page = commit_graph.graph(tiny.opened, GraphQuery(("one",)))
    assert counts.since({})["scan"] == limits.graph_scan_count_max
    assert sum(counts.since({}).values()) <= 10
    assert 0 < len(page.commits) < 2_000 and page.following
    again = commit_graph.graph(tiny.opened, GraphQuery((), page.following))
    assert not {entry.id for entry in again.commits} & {entry.id for entry in page.commits}


class _Tiny:
    """At most 50 rows to a page of a scan."""

    def __init__(self, kv: object) -> None:
        self._kv = kv

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> object:
        return self._kv.scan(partition, start, end, min(limit, 50))  # type: ignore[attr-defined]

    def __getattr__(self, verb: str) -> object:
        return getattr(self._kv, verb)
