"""Branches in the order of their names with a slash behind them, as listings of S3 need it.

    by name            a    a-b    a-b-c    a0
    with the slash     a-b-c/    a-b/    a/    a0/          because "-" < "/" < "0"

The store lists by name.  A branch therefore waits until every branch has come whose name goes on
with `-` behind its own; the waiting ones are a stack.  Used by listings.py.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from graveler import limits
from graveler.engine import names as branches
from graveler.engine.names import PageQuery
from graveler.engine.ports import OpenRepository
from graveler.errors import Invalid, NotFound

_BEFORE_SLASH = "-"  # the only character of branch names that sorts before the slash
_BEHIND_DASH = "."  # the character after it


class BranchPage(NamedTuple):
    """At most `amount` branches whose names begin with `prefix`, and whose names with a slash sort
    after `after`."""

    prefix: str
    after: str
    amount: int


def branches_after(repo: OpenRepository, page: BranchPage) -> tuple[list[str], bool]:
    """The names on the page, and whether more follow.  Hidden branches are left out.

    Cost: 1 KV request for each 1,000 branches, and 1 for each `-` in `after`.
    """
    name, slash, _ = page.after.partition("/")
    name = name[: limits.name_length_max + 1]
    waiting = [
        short for short in _shorter(name, is_whole=not slash) if short.startswith(page.prefix)
    ]
    start = name + _BEHIND_DASH if slash else name
    names = _ordered(
        [short for short in waiting if _is_shown(repo, short)], _listed(repo, page, start)
    )
    shown = list(islice(names, page.amount + 1))
    return shown[: page.amount], len(shown) > page.amount


def branches_from(repo: OpenRepository, page: BranchPage) -> tuple[list[str], bool]:
    """As `branches_after`, but a branch with which `after` begins, before a slash, comes first."""
    names, more = branches_after(repo, page)
    name, slash, _ = page.after.partition("/")
    if slash and name.startswith(page.prefix) and _is_shown(repo, name):
        names.insert(0, name)
    return names, more


def _shorter(name: str, *, is_whole: bool) -> Iterator[str]:
    """The names that sort before `name`, but with a slash after it."""
    for length in range(1, len(name)):
        if name[length] < "/":
            yield name[:length]
    if is_whole and name:
        yield name


def _is_shown(repo: OpenRepository, name: str) -> bool:
    with suppress(NotFound, Invalid):
        return not branches.get_branch(repo, name).branch.hidden
    return False


def _listed(repo: OpenRepository, page: BranchPage, after: str) -> Iterator[str]:
    """Names in the order of the store."""
    more = True
    while more:
        query = PageQuery(page.prefix, after, min(page.amount + 1, limits.page_count_max))
        views, more = branches.list_branches(repo, query)
        for view in views:
            yield view.id
            after = view.id


def _ordered(waiting: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Names in the order with a slash, from names in their own order."""
    stack = list(waiting)
    for name in names:
        while stack and not name.startswith(stack[-1] + _BEFORE_SLASH):
            yield stack.pop()
        stack.append(name)
    yield from reversed(stack)
