"""Comments on pull requests: what they say, their numbers, who may change them."""

import pytest

from graveler.core import limits
from graveler.core.errors import Code, Conflict, Invalid, NotFound, Refused, Unavailable
from graveler.engine import comments
from graveler.engine.comments import CommentChanges, NewComment
from graveler.engine.repositories import repository
from graveler.refs.comments import Comment
from tests.engine.lake import COMMITTER, Lake
from tests.engine.pulls.world import merged, opened
from tests.support.faults import Fault, FaultyStore, nth


@pytest.fixture
def lake(forked: Lake) -> Lake:
    return forked


def said(lake: Lake, pull: str, text: str = "why?", **about: str) -> Comment:
    return comments.add(lake.opened, pull, NewComment(text, COMMITTER, "ann", **about))


def listed(lake: Lake, pull: str, after: int = 0, amount: int = 100) -> list[Comment]:
    return list(comments.list_page(lake.opened, pull, after, amount)[0])


def update(lake: Lake, pull: str, number: int, user: str = "ann", **changes: object) -> None:
    asked = CommentChanges(COMMITTER if user == "ann" else f"{user}@x.org", user, **changes)  # type: ignore[arg-type]
    comments.update(lake.opened, pull, number, asked)


def test_comments_are_numbered_in_their_request(lake: Lake) -> None:
    pull, other = opened(lake), opened(lake)
    made = [said(lake, pull, f"{n}") for n in range(12)]
    first = said(lake, other, "ä\nmore", path="a/b.csv", row="id 2")
    assert [each.number for each in made] == list(range(1, 13))
    assert listed(lake, pull) == made
    assert listed(lake, other) == [first]
    assert (first.number, first.text, first.path, first.row) == (1, "ä\nmore", "a/b.csv", "id 2")
    assert (first.author, first.edited_ns, first.resolved_by) == (COMMITTER, 0, "")
    page, more = comments.list_page(lake.opened, pull, 9, 2)
    assert ([each.number for each in page], more) == ([10, 11], True)
    page, more = comments.list_page(lake.opened, pull, 11, 2)
    assert ([each.number for each in page], more) == ([12], False)


def test_a_merged_request_takes_comments(lake: Lake) -> None:
    pull = opened(lake)
    said(lake, pull)
    merged(lake, pull)
    assert said(lake, pull).number == 2


def test_what_no_comment_can_be(lake: Lake) -> None:
    pull = opened(lake)
    long = "x" * (limits.comment_length_bytes_max + 1)
    for text in ("", " \n", long, "\ud800"):
        with pytest.raises(Invalid):
            said(lake, pull, text)
    for about in ({"row": "1"}, {"path": "x" * 1_025}, {"path": "a", "row": "x" * 1_025}):
        with pytest.raises(Invalid):
            said(lake, pull, **about)
    assert listed(lake, pull) == []
    with pytest.raises(NotFound) as missing:
        said(lake, "0" * 20)
    assert missing.value.code is Code.PULL_NOT_FOUND
    for call in (said, listed):
        with pytest.raises(Invalid):
            call(lake, "none")
    with pytest.raises(NotFound) as none:
        update(lake, pull, 1, resolved=True)
    assert none.value.code is Code.COMMENT_NOT_FOUND


def test_a_request_has_so_many_comments_at_most(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "comments_max", 2)
    pull = opened(lake)
    for _ in range(2):
        said(lake, pull)
    with pytest.raises(Conflict):
        said(lake, pull)
    assert len(listed(lake, pull)) == 2
    assert said(lake, opened(lake)).number == 1


def test_everybody_resolves_and_the_author_edits(lake: Lake) -> None:
    pull = opened(lake)
    made = said(lake, pull)
    update(lake, pull, 1, "eve", resolved=True)
    update(lake, pull, 1, "ben", resolved=True)
    assert listed(lake, pull) == [made._replace(resolved_by="eve@x.org")]
    with pytest.raises(Refused):
        update(lake, pull, 1, "eve", text="mine")
    with pytest.raises(Refused):  # another account with the same address
        comments.update(lake.opened, pull, 1, CommentChanges(COMMITTER, "eve", text="mine"))
    update(lake, pull, 1, text="better", resolved=False)
    (now,) = listed(lake, pull)
    assert now == made._replace(text="better", edited_ns=now.edited_ns) and now.edited_ns > 0
    update(lake, pull, 1, text="better")
    assert listed(lake, pull) == [now]


def test_a_read_only_repository_takes_no_comments(lake: Lake) -> None:
    new = repository.NewRepository("kept", "mem://bucket/kept", read_only=True)
    kept = Lake(lake.ports, repository.create(lake.ports, new))
    with pytest.raises(Refused):
        said(kept, "0" * 20)
    with pytest.raises(Refused):
        update(kept, "0" * 20, 1, resolved=True)


def test_two_who_comment_at_once_get_two_numbers(lake: Lake) -> None:
    pull = opened(lake)
    slow, script = lake.interposed()
    script.before("set_if", lambda: said(lake, pull, "other"))
    assert said(slow, pull, "own").number == 2
    assert [each.text for each in listed(lake, pull)] == ["other", "own"]


@pytest.mark.parametrize(
    "fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]
)
def test_a_request_that_goes_wrong_never_adds_a_comment_twice(lake: Lake, fault: Fault) -> None:
    for number in range(1, 5):
        pull = opened(lake)
        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        broken = lake.with_kv(lambda _, store=store: store)  # type: ignore[misc]
        try:
            answered = said(broken, pull).number == 1
        except Unavailable:
            answered = False
        store.land()
        assert len(listed(lake, pull)) in ((1,) if answered else (0, 1)), number
