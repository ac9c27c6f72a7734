"""The checks of random programs: listings, differences, logs, and the whole state at the end.

Each check reads all pages, with a drawn page size.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from graveler.core.records import ABSENT, Absent, Entry
from graveler.engine import names
from graveler.engine.commits import diff, log, merge
from graveler.engine.commits.diff import DiffLine, DiffPage, DiffQuery
from graveler.engine.objects import read
from simulator.programs import merge as mm
from simulator.programs import model as m
from simulator.programs.world import CONTENT_OF, World, blob_of

PREFIXES: Final = ("", "", "", "a", "a/", "a/b", "b/x/", "z/", "é", "q")
DELIMITERS: Final = ("", "", "/", "/", "b/", "!")
_PAGE_COUNT_MAX = 1_000


def _window(rng: random.Random) -> tuple[str, str, str, int]:
    """Prefix, delimiter, after, page size."""
    after = rng.choice(("", "", "", "a/", "a/b", "ab", "z/1", "é/ü", "~"))
    return rng.choice(PREFIXES), rng.choice(DELIMITERS), after, rng.choice((1, 2, 3, 7, 100))


def check_stat(world: World, rng: random.Random, ref: str, path: str) -> None:
    """Compare one path, and its bytes or a range of them."""
    done, entry, blob = world.both(
        f"stat {ref} {path}",
        lambda: read.stat(world.opened, ref, path),
        lambda: m.stat(world.model, ref, path),
    )
    if not done:
        return
    world.same("what stat answered", blob_of(entry), blob)
    content = CONTENT_OF[blob.checksum]
    start = rng.randrange(len(content)) if content else 0
    end = rng.randrange(start + 1, len(content) + 1) if content else 0
    if content:
        body = read.open_body(world.opened, entry, start, end)
        world.same("bytes", b"".join(body.chunks), content[start:end])


def check_listing(world: World, rng: random.Random, ref: str) -> None:
    """Compare all pages of a listing."""
    prefix, delimiter, after, amount = _window(rng)

    def engine() -> list[mm.ListedLine]:
        return _pages(
            world,
            lambda last: read.list_objects(
                world.opened, ref, read.ListQuery(prefix, delimiter, last, amount)
            ),
            after,
            amount,
            lambda line: (line[0], None if line[1] is ABSENT else blob_of(line[1])),
        )

    done, got, wanted = world.both(
        f"list {ref} {prefix=} {delimiter=} {after=} {amount=}",
        engine,
        lambda: mm.listing(m.tree_of(world.model, ref), prefix, delimiter, after),
    )
    if done:
        world.same("listing", got, wanted)


def _pages(
    world: World,
    page_of: Callable[[str], Any],
    after: str,
    amount: int,
    view: Callable[[Any], Any],
) -> list[Any]:
    found: list[Any] = []
    for _ in range(_PAGE_COUNT_MAX):
        page = page_of(after)
        found += [view(line) for line in page.lines]
        if not page.more:
            return found
        if len(page.lines) != amount:
            world.fail(f"a page of {len(page.lines)} lines says more: {amount=}")
        last = page.lines[-1]
        after = last.path if isinstance(last, DiffLine) else last[0]
    world.fail(f"pages without end: {after=}")
    return found


def _line(line: DiffLine) -> mm.Line:
    def side(entry: Entry | Absent) -> Any:
        return ABSENT if isinstance(entry, Absent) else blob_of(entry)

    return mm.Line(line.kind, line.path, side(line.left), side(line.right))


def _check_lines(
    world: World,
    rng: random.Random,
    title: str,
    engine: Callable[[DiffQuery], DiffPage],
    model: Callable[[], list[mm.Line]],
) -> None:
    prefix, delimiter, after, amount = _window(rng)
    done, got, wanted = world.both(
        f"{title} {prefix=} {delimiter=} {after=} {amount=}",
        lambda: _pages(
            world,
            lambda last: engine(DiffQuery(prefix, delimiter, last, amount)),
            after,
            amount,
            _line,
        ),
        lambda: mm.shown(model(), prefix, delimiter, after),
    )
    if done:
        world.same(title, got, wanted)


def check_uncommitted(world: World, rng: random.Random, branch: str) -> None:
    """Compare the staged changes."""
    _check_lines(
        world,
        rng,
        f"diff_uncommitted {branch}",
        lambda query: diff.diff_branch(world.opened, branch, query),
        lambda: mm.diff_uncommitted(world.model, branch),
    )


def check_diff(world: World, rng: random.Random, left: str, right: str) -> None:
    """Compare the diff of two refs, with two or three dots."""
    three_dot = rng.random() < 0.5
    model = mm.diff_three_dot if three_dot else mm.diff_two_dot
    _check_lines(
        world,
        rng,
        f"diff {left} {right} {three_dot=}",
        lambda query: diff.diff_refs(world.opened, left, right, query, three_dot=three_dot),
        lambda: model(world.model, left, right),
    )


def check_preview(world: World, rng: random.Random, source: str, dest: str) -> None:
    """Compare the changes of a merge, or only its conflicts."""
    if rng.random() < 0.5:
        _check_lines(
            world,
            rng,
            f"preview {source} into {dest}",
            lambda query: merge.preview(world.opened, source, dest, query),
            lambda: _merge_lines(world, source, dest),
        )
    else:
        _check_lines(
            world,
            rng,
            f"conflicts {source} into {dest}",
            lambda query: merge.conflicts(world.opened, source, dest, query),
            lambda: [ln for ln in _merge_lines(world, source, dest) if ln.kind == "conflict"],
        )


def _merge_lines(world: World, source: str, dest: str) -> list[mm.Line]:
    return mm.diff_three_dot(world.model, dest, source)


def check_merge_base(world: World, source: str, dest: str) -> None:
    """Compare the merge base."""
    done, got, wanted = world.both(
        f"merge_base {source} {dest}",
        lambda: log.merge_base(world.opened, source, dest),
        lambda: _bases(world, source, dest),
    )
    if done:
        world.same("merge base", tuple(got), tuple(world.model.ids[key] for key in wanted))


def _bases(world: World, source: str, dest: str) -> tuple[int, int, int]:
    one, other = (m.resolve(world.model, ref).commit for ref in (source, dest))
    return one, other, mm.merge_base(world.model, one, other)


def check_log(world: World, rng: random.Random, ref: str) -> None:
    """Compare all pages of a log, or of those commits that touch a path."""
    first, amount = rng.random() < 0.3, rng.choice((1, 2, 5, 100))
    objects_, prefixes = rng.choice(
        (((), ()), ((), ()), (("a/b",), ()), ((), ("z/",)), (("c", "~"), ("a/",)))
    )

    def engine() -> list[str]:
        found: list[str] = []
        following = ""
        for number in range(_PAGE_COUNT_MAX):
            request = log.LogRequest(
                after=found[-1] if found and number % 2 else following,
                amount=amount,
                first_parent=first,
                objects=objects_,
                prefixes=prefixes,
            )
            entries, following = log.log(world.opened, ref, request)
            found += [entry.id for entry in entries]
            if not following:
                break
        return found

    def model() -> list[str]:
        keys = mm.log(world.model, ref, first)
        if objects_ or prefixes:
            commits = world.model.commits
            keys = [
                key for key in keys if mm.touches(world.model, commits[key], objects_, prefixes)
            ]
        return [world.model.ids[key] for key in keys]

    title = f"log {ref} {first=} {amount=} {objects_} {prefixes}"
    done, got, wanted = world.both(title, engine, model)
    if done:
        world.same("log", got, wanted)


def check_all(world: World, rng: random.Random) -> None:
    """Compare every branch with its staged rows, every commit, and the names."""
    model = world.model
    query = names.PageQuery(amount=rng.choice((1, 2, 100)))
    views_, more = names.list_branches(world.opened, query)
    shown = sorted(name for name, branch in model.branches.items() if not branch.hidden)
    world.same("branches", [view.id for view in views_], shown[: query.amount])
    world.same("more branches", more, len(shown) > query.amount)
    for name, branch in model.branches.items():
        head = names.get_branch(world.opened, name).branch.commit
        world.same(f"head of {name}", head, model.ids[branch.head])
        _whole_tree(world, name, m.visible(model, name))
        check_listing(world, rng, name)
        check_uncommitted(world, rng, name)
    for name, key in model.tags.items():
        world.same(f"tag {name}", names.get_tag(world.opened, name), model.ids[key])
    for made in model.commits:
        _whole_tree(world, model.ids[made.key], made.content)
    check_log(world, rng, rng.choice(model.ids))


def _whole_tree(world: World, ref: str, tree: m.Tree) -> None:
    page = read.list_objects(world.opened, ref, read.ListQuery(amount=1_000))
    got = {path: blob_of(entry) for path, entry in page.lines if not isinstance(entry, Absent)}
    world.same(f"content of {ref}", got, dict(tree))
