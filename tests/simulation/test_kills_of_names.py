"""Repositories and tags: creation and deletion go wrong at each port call, in each way.

Afterwards the same call, by somebody else, ends as if the first had happened or had not.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from graveler.assembly import open_memory
from graveler.core.errors import AlreadyExists, NotFound, Unavailable
from graveler.engine import names
from graveler.engine.commits import commit
from graveler.engine.commits import log as history
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import InitialContent, InitialFile
from simulator.stage import entry
from tests.simulation.failing import Killed, Kind, Turn, failing
from tests.support.clockwork import SeededIds, TickingClock

NEW = repository.NewRepository("lake", "mem://sim/lake")
FILES = (InitialFile("b/c", b"two", "text/plain"), InitialFile("a", b"one", "text/plain"))
FILLED = replace(NEW, content=InitialContent(FILES, "sim", "the first files"))
CALLS_MAX = 40


def _turns(kind: Kind) -> Iterator[tuple[Turn, Ports]]:
    """One turn after the other, each with a new store, until one is not reached."""
    for number in range(1, CALLS_MAX):
        turn = Turn(number, kind)
        yield turn, open_memory(TickingClock(), SeededIds(number))
        if not turn.reached:
            return
    pytest.fail(f"more than {CALLS_MAX} calls")


def _tried(call: Callable[[], object]) -> bool:
    """Whether it was acknowledged; nobody else is there, so only the fault may refuse it."""
    with contextlib.suppress(Killed, Unavailable):
        call()
        return True
    return False


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_repository_is_created_in_the_end(kind: Kind) -> None:
    for turn, ports in _turns(kind):
        done = _tried(lambda ports=ports, turn=turn: repository.create(failing(ports, turn), NEW))
        ports.clock.sleep(600)  # an abandoned claim of the namespace may be taken over
        if done:
            with pytest.raises(AlreadyExists):
                repository.create(ports, NEW)
        else:
            with contextlib.suppress(AlreadyExists):
                repository.create(ports, NEW)
        repo = repository.get(ports, "lake")
        write.stage(open_repository(ports, repo), "main", "k", entry("v"))
        commit.commit(open_repository(ports, repo), "main", commit.CommitRequest("first", "sim"))
        assert names.get_branch(open_repository(ports, repo), "main").id == "main"


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_repository_that_is_there_has_all_of_its_first_files(kind: Kind) -> None:
    for turn, ports in _turns(kind):
        _tried(lambda ports=ports, turn=turn: repository.create(failing(ports, turn), FILLED))
        ports.clock.sleep(600)
        with contextlib.suppress(AlreadyExists):
            repository.create(ports, FILLED)
        repo = repository.get(ports, "lake")
        listed = read.list_objects(open_repository(ports, repo), "main", read.ListQuery())
        assert [path for path, _ in listed.lines] == ["a", "b/c"]
        for path, body in (("a", b"one"), ("b/c", b"two")):
            found = read.stat(open_repository(ports, repo), "main", path)
            assert b"".join(read.open_body(open_repository(ports, repo), found).chunks) == body
        log, following = history.log(open_repository(ports, repo), "main", history.LogRequest())
        assert [each.commit.message for each in log] == ["the first files", "Repository created"]
        assert (log[0].commit.committer, log[0].commit.generation, following) == ("sim", 2, "")


def _tagged(repo: OpenRepository) -> str:
    try:
        return names.get_tag(repo, "v1")
    except NotFound:
        return ""


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_tag_is_there_or_not(kind: Kind) -> None:
    for turn, ports in _turns(kind):
        repo = repository.create(ports, NEW)
        head = names.get_branch(open_repository(ports, repo), "main").branch.commit
        broken = failing(ports, turn)
        done = _tried(
            lambda b=broken, r=repo: names.create_tag(open_repository(b, r), "v1", "main")
        )
        there = _tagged(open_repository(ports, repo))
        assert there == head if done else there in ("", head)
        if not there:
            names.create_tag(open_repository(ports, repo), "v1", "main")


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_tag_is_deleted_or_not(kind: Kind) -> None:
    for turn, ports in _turns(kind):
        repo = repository.create(ports, NEW)
        names.create_tag(open_repository(ports, repo), "v1", "main")
        broken = failing(ports, turn)
        done = _tried(lambda b=broken, r=repo: names.delete_tag(open_repository(b, r), "v1"))
        assert not (done and _tagged(open_repository(ports, repo)))
        with contextlib.suppress(NotFound):
            names.delete_tag(open_repository(ports, repo), "v1")
        assert not _tagged(open_repository(ports, repo))
