"""Comments on pull requests, numbered from 1 in each request, the oldest first.

    absent ──add──► open ◄──resolve──► resolved        every change is a compare-and-swap

A comment is about the whole request, or about an object of it, or about a row of the object.
Records are never removed.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import Code, Conflict, NotFound, OutcomeUnknown
from graveler.core.ids import PullId
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.replace import Found, replace_row, replace_seen
from graveler.kv.store import Row, Store
from graveler.refs import rows
from graveler.refs.keys import comment_key, comments_prefix, space


class Comment(NamedTuple):
    """`author`: the committer's name for people, which two accounts may share; `user`: the account.
    `path`: the object that it is about; `row`: which row of it, in words; both may be empty.
    `edited_ns`: when its text was replaced; 0: never.  `resolved_by`: empty while it is open."""

    number: int
    author: str
    text: str
    created_ns: int
    path: str = ""
    row: str = ""
    edited_ns: int = 0
    resolved_by: str = ""
    user: str = ""


def list_page(
    kv: Store, repository: Repository, pull: PullId, after: int, amount: int
) -> tuple[tuple[Comment, ...], bool]:
    """At most `amount` comments behind the number `after`, and whether more follow.  One
    request."""
    name = f"{after:06d}" if after else ""
    stretch = rows.Stretch(space(repository), comments_prefix(pull), after=name)
    return rows.page(kv, stretch, amount, _decoded)


def add(kv: Store, repository: Repository, pull: PullId, ids: Ids, comment: Comment) -> Comment:
    """Store a comment with the next number, and return it.

    Raises `Conflict` if the request has as many as it can have, and `OutcomeUnknown`.  Two requests
    if nobody else adds one; one more for each MiB of comments that there are.
    """
    stretch = rows.Stretch(space(repository), comments_prefix(pull))
    names = [name for name, _ in rows.rows(kv, stretch)]
    first = int(names[-1]) + 1 if names else 1
    for number in range(first, limits.comments_max + 1):
        new = comment._replace(number=number)
        if _add(kv, repository, pull, ids, new):
            return new
    raise Conflict(f"a pull request can have {limits.comments_max:,} comments: {pull=}")


def _add(kv: Store, repository: Repository, pull: PullId, ids: Ids, new: Comment) -> bool:
    """Whether its number was free."""
    is_taken = False

    def change(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        nonlocal is_taken
        is_taken = row is not ABSENT
        if is_taken and lost:  # by this comment, or by another one
            raise OutcomeUnknown(f"comment not confirmed: {pull=} number={new.number}")
        return ABSENT if is_taken else _encoded(new)

    place = (space(repository), comment_key(pull, new.number))
    replace_seen(kv, place, ids, change, ABSENT)
    return not is_taken


def change(
    kv: Store,
    repository: Repository,
    pull: PullId,
    number: int,
    ids: Ids,
    change_of: Callable[[Comment], Comment],
) -> None:
    """Replace a comment by the result of `change_of`, which may raise to refuse.

    Errors: those of `change_of`, `NotFound`, `Contended`, `OutcomeUnknown`.  Two requests.
    """

    def changed(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if row is ABSENT:
            raise NotFound(
                f"comment not found: {pull=} {number=}", Code.COMMENT_NOT_FOUND, comment=str(number)
            )
        old = _decoded(f"{number}", row)
        new = change_of(old)
        return ABSENT if new == old else _encoded(new)

    replace_row(kv, (space(repository), comment_key(pull, number)), ids, changed)


def _encoded(comment: Comment) -> bytes:
    fields = comment._asdict()
    del fields["number"]
    return wire.encode_pairs({name: str(value) for name, value in fields.items() if value})


def _decoded(name: str, row: Row) -> Comment:
    pairs = wire.decode_pairs(row.value)
    return Comment(
        int(name),
        pairs.get("author", ""),
        pairs.get("text", ""),
        int(pairs.get("created_ns", "0")),
        pairs.get("path", ""),
        pairs.get("row", ""),
        int(pairs.get("edited_ns", "0")),
        pairs.get("resolved_by", ""),
        pairs.get("user", ""),
    )
