"""A process that is killed at any step: the same command goes on, or `checkout` goes back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import GravelerError
from graveler.lake.transfers import commit, sync
from graveler.lake.transfers.compare import Work
from tests.transfers.lake import SOURCE, Branches, Killed, Place, Steps

pytestmark = pytest.mark.slow

MESSAGE = commit.Message("a message", {})


def linked(home: Path, **how: Any) -> Place:
    """A clone of three files, and a branch `dev`."""
    home.mkdir()
    branches = Branches(**how)
    branches.add("main", {})
    branches.put(a=b"1", d__b=b"22", d__c=b"333")
    branches.heads["dev"] = branches.heads["main"]
    branches.put("dev", a=b"dev", e__x=b"dev")
    place = Place(home, branches)
    place.do(lambda work: sync.clone(work, SOURCE))
    return place


def fresh(home: Path) -> Place:
    """A branch of which nothing is cloned."""
    home.mkdir()
    branches = Branches()
    branches.add("main", {})
    branches.put(a=b"1", d__b=b"22")
    return Place(home, branches)


def moved(home: Path) -> Place:
    """The branch changed, removed and added paths; a folder became a file.  The user changed
    another one."""
    place = linked(home)
    place.branches.put(a=b"9", d__b=None, d__c=None, d=b"file", n__m__o=b"new")
    (place.root / "own").write_bytes(b"own")
    return place


def in_conflict(home: Path) -> Place:
    place = moved(home)
    (place.root / "a").write_bytes(b"edited")
    return place


def edited(home: Path, **how: Any) -> Place:
    """The user changed, added and removed a file."""
    place = linked(home, **how)
    (place.root / "a").write_bytes(b"edited")
    (place.root / "new").write_bytes(b"new")
    (place.root / "d/b").unlink()
    return place


def edited_without_urls(home: Path) -> Place:
    return edited(home, signs=False)


def edited_and_moved(home: Path) -> Place:
    place = edited(home)
    place.branches.put(d__c=b"theirs")
    return place


@dataclass(frozen=True)
class Story:
    """A place, and a command in it."""

    name: str
    begin: Callable[[Path], Place]
    command: Callable[[Work], Any]


STORIES = [
    Story("clone", fresh, lambda work: sync.clone(work, SOURCE)),
    Story("pull", moved, sync.pull),
    Story("pull theirs", in_conflict, lambda work: sync.pull(work, "theirs")),
    Story("pull force", in_conflict, lambda work: sync.pull(work, force=True)),
    Story("checkout", edited, sync.checkout),
    Story("checkout ref", edited, lambda work: sync.checkout(work, lambda: "dev")),
    Story("commit", edited, lambda work: commit.commit(work, MESSAGE)),
    Story("commit without URLs", edited_without_urls, lambda work: commit.commit(work, MESSAGE)),
    Story("commit on a moved branch", edited_and_moved, lambda work: commit.commit(work, MESSAGE)),
]


def seen(place: Place) -> Any:
    """All that a user sees: the files, the state, the branch."""
    head = place.branches.view(place.branches.head())
    contents = {path: content for path, (_, content) in head.items()}
    return place.files(), place.link(), contents, place.branches.staged, place.others()


def killed(story: Story, home: Path) -> Iterator[Place]:
    """A place for each step of the command, at which it was killed."""
    for number in count(1):
        place = story.begin(home / f"{number}")
        try:
            place.do(story.command, Steps(number))
        except Killed:
            yield place
        else:
            assert number > 10
            return


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_same_command_goes_on(story: Story, tmp_path: Path) -> None:
    whole = story.begin(tmp_path / "whole")
    whole.do(story.command)
    end = seen(whole)
    assert end[1] is not None and not end[1].operation and not end[3] and not end[4]
    for place in killed(story, tmp_path):
        try:
            place.do(story.command)
        except GravelerError as error:  # it had ended but for the traces
            assert story.name.startswith(("commit", "clone")), error
            assert "nothing to commit" in str(error) or "linked" in str(error)
        assert _alike(seen(place), end)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_checkout_goes_back(story: Story, tmp_path: Path) -> None:
    begin = story.begin(tmp_path / "begin")
    before = seen(begin)
    begin.do(story.command)
    end = seen(begin)
    for place in killed(story, tmp_path):
        is_pending = place.do(lambda work: work.records.operation()) is not None
        if not is_pending:
            continue  # nothing to undo: an ordinary checkout
        outcome = place.do(_settled)
        now = seen(place)
        if outcome is None or outcome.landed:
            assert _alike(now, before) or _alike(now, end) or now[2] == end[2]
        elif outcome.undone == story.name.split()[0]:
            assert _alike(now, before)
        else:  # a pull after the commit
            assert now[0] == before[0]
        assert not now[3] and not now[4]
        try:
            place.do(story.command)
        except GravelerError as error:
            assert "nothing to commit" in str(error) or "linked" in str(error)
        assert _alike(seen(place), end)


def _settled(work: Work) -> Any:
    operation = sync.unfinished(work, "checkout", any_name=True)
    return sync.go_back(work, operation) if operation is not None else None


def _alike(left: Any, right: Any) -> bool:
    """Whether two places look the same.  Commits have other ids if the branch has more of them."""
    for one, other in zip(left, right, strict=True):
        if hasattr(one, "source") and hasattr(other, "source"):
            if (one.source, one.operation) != (other.source, other.operation):
                return False
        elif one != other:
            return False
    return True


@pytest.mark.parametrize("signs", [True, False])
def test_an_interrupted_commit_leaves_nothing_staged(tmp_path: Path, signs: bool) -> None:
    texts = set()
    for number in count(1):
        place = edited(tmp_path / f"{number}", signs=signs)
        before = seen(place)
        try:
            place.do(lambda work: commit.commit(work, MESSAGE), Steps(number, KeyboardInterrupt))
        except KeyboardInterrupt as interrupt:
            assert not place.branches.staged or place.do(_is_committing)
            assert place.files() == before[0]
            texts.add(str(interrupt))
        else:
            assert number > 20
            assert "nothing was changed" in texts
            return


def _is_committing(work: Work) -> bool:
    """Whether the interrupt came while the server committed: nobody knows the outcome then."""
    operation = work.records.operation()
    return operation is not None and operation.phase == "stage"
