"""Comments on pull requests: add, list, replace the text, resolve."""

from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Invalid, Refused
from graveler.core.ids import parse_path, parse_pull_id
from graveler.core.records import ABSENT, Absent
from graveler.engine.ports import OpenRepository, check_writable
from graveler.refs import comments, pulls
from graveler.refs.comments import Comment


class NewComment(NamedTuple):
    """A comment of the account `user` on the whole request, on the object `path` of it, or on the
    row `row` of the object, which people name as they want."""

    text: str
    author: str
    user: str
    path: str = ""
    row: str = ""


class CommentChanges(NamedTuple):
    """What an update replaces, and who asks for it: `by` for people, the account `user`; ABSENT
    stays as it is."""

    by: str
    user: str
    text: str | Literal[Absent.ABSENT] = ABSENT
    resolved: bool | Literal[Absent.ABSENT] = ABSENT


def add(repo: OpenRepository, pull: str, new: NewComment) -> Comment:
    """Add a comment to a request, in whichever state it is.

    Errors: `Invalid` (a text that is empty or too long, a bad path, a row without a path),
    `NotFound` (the request), `Conflict` (it has too many), `Refused`, `OutcomeUnknown`.
    Cost: 3 KV requests; with many comments one more for each MiB of them.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    _check_text("text", new.text, limits.comment_length_bytes_max)
    if new.path:
        parse_path(new.path)
    if new.row:
        _check_text("row", new.row, limits.comment_row_length_bytes_max)
        if not new.path:
            raise Invalid("a comment on a row must name the object: path is missing")
    pulls.get(repo.kv, repo.record, name)
    now_ns = repo.clock.now_ns()
    comment = Comment(0, new.author, new.text, now_ns, new.path, new.row, user=new.user)
    return comments.add(repo.kv, repo.record, name, repo.ids, comment)


def list_page(
    repo: OpenRepository, pull: str, after: int, amount: int
) -> tuple[tuple[Comment, ...], bool]:
    """At most `amount` comments behind the number `after`, the oldest first; and whether more
    follow.  `NotFound` (the request), `Invalid`.  Cost: 2 KV requests."""
    name = parse_pull_id(pull)
    pulls.get(repo.kv, repo.record, name)
    return comments.list_page(repo.kv, repo.record, name, after, amount)


def update(repo: OpenRepository, pull: str, number: int, changes: CommentChanges) -> None:
    """Replace the text of a comment, or resolve it, or open it again.  May be repeated.

    Errors: `Invalid`, `NotFound`, `Refused` (also for the text of somebody else's comment),
    `Contended`, `OutcomeUnknown`.  Cost: 2 KV requests.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    if changes.text is not ABSENT:
        _check_text("text", changes.text, limits.comment_length_bytes_max)

    def change(old: Comment) -> Comment:
        new = old
        if changes.text is not ABSENT and changes.text != old.text:
            if changes.user != old.user:
                raise Refused(f"only its author may change the text of a comment: {number=}")
            new = new._replace(text=changes.text, edited_ns=repo.clock.now_ns())
        if changes.resolved is not ABSENT and changes.resolved != bool(old.resolved_by):
            new = new._replace(resolved_by=changes.by if changes.resolved else "")
        return new

    comments.change(repo.kv, repo.record, name, number, repo.ids, change)


def _check_text(field: str, text: str, most: int) -> None:
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} is not valid Unicode") from error
    if not text.strip():
        raise Invalid(f"{field} is empty")
    if length > most:
        raise Invalid(f"{field} is too long: at most {most:,} bytes")
