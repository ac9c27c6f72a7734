"""`graveler mv`: what moves, what stays after a failure, and what is asked."""

import json
import os
import signal
import threading

import pytest

from graveler.core.errors import Unavailable
from graveler.lake import objects
from tests.cli.conftest import Lake
from tests.waiting import PATIENCE_SECONDS


def test_an_object_moves(lake: Lake) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    lake.put("a", b"content")
    assert user.run("mv", f"{place}/a", f"{place}/b").out == "moved 1 object, 7 B\n"
    assert user.run("cat", f"{lake.name}/main/b").out == "content"
    assert user.run("stat", f"{lake.name}/main/a").code == 3
    assert user.run("mv", f"{place}/b", f"{place}/in/").code == 0
    assert user.run("cat", f"{lake.name}/main/in/b").out == "content"
    assert user.run("mv", f"{place}/nope", f"{place}/x").code == 3


def test_a_prefix_moves(lake: Lake) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("raw/a", "raw/deep/b", "raw/deep/", "rawer"):
        lake.put(path, path.encode())
    assert user.run("mv", "-r", f"{place}/raw", f"{place}/new").code == 0
    listed = user.run("ls", f"{lake.name}/main", "-r").out.splitlines()
    paths = [line.split("\t")[2] for line in listed]
    assert paths == ["new/a", "new/deep/", "new/deep/b", "rawer"]
    assert user.run("cat", f"{lake.name}/main/new/deep/b").out == "raw/deep/b"


def test_a_move_takes_globs_and_a_dry_run(lake: Lake) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("raw/a.csv", "raw/b.txt", "raw/d/c.csv"):
        lake.put(path, path.encode())

    def paths() -> list[str]:
        listed = user.run("ls", f"{lake.name}/main", "-r", "--json")
        return [stats["path"] for stats in json.loads(listed.out)]

    order = ("mv", "-r", f"{place}/raw", f"{place}/new", "--include", "*.csv", "--exclude", "d/")
    plan = user.run(*order, "--dry-run", "--json")
    assert json.loads(plan.out) == [{"action": "move", "path": "new/a.csv", "size_bytes": 9}]
    assert paths() == ["raw/a.csv", "raw/b.txt", "raw/d/c.csv"]
    assert user.run(*order).code == 0
    assert paths() == ["new/a.csv", "raw/b.txt", "raw/d/c.csv"]
    single = user.run("mv", f"{place}/raw/b.txt", f"{place}/b.txt", "--include", "*.csv")
    assert single.code == 2 and "needs -r" in single.err
    assert user.run("mv", *order[1:4], "--delete").code == 2


def test_nothing_is_replaced_without_a_question(lake: Lake) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("a", "b", "in/a", "out/a"):
        lake.put(path, path.encode())
    for words in ((f"{place}/a", f"{place}/b"), ("-r", f"{place}/in", f"{place}/out")):
        assert user.run("mv", *words).code == 2
    assert user.run("cat", f"{lake.name}/main/b", f"{lake.name}/main/out/a").out == "bout/a"
    assert user.run("mv", f"{place}/a", f"{place}/b", "--yes").code == 0
    assert user.run("cat", f"{lake.name}/main/b").out == "a"


def test_a_failure_leaves_the_source(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("in/a", "in/b"):
        lake.put(path, path.encode())
    real = objects.copy

    def fails(*words: object) -> object:
        if words[-1] == "in/a":
            raise Unavailable("broken")
        copied = real(*words)  # type: ignore[arg-type]
        lake.put("in/b", b"written meanwhile")
        return copied

    monkeypatch.setattr(objects, "copy", fails)
    result = user.run("mv", "-r", f"{place}/in", f"{place}/out")
    assert result.code == 8 and "broken" in result.err and "while it was moved" in result.err
    both = user.run("cat", f"{lake.name}/main/in/a", f"{lake.name}/main/in/b")
    assert both.out == "in/awritten meanwhile"


def test_sides_that_cannot_be(lake: Lake) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    lake.put("in/a")
    for words in (
        ("a", f"{place}/b"),
        (f"{place}/in/a", f"{place}/in/a"),
        (f"{place}/in/a", f"{place}/in/"),
        (f"{place}/in/a", f"lakefs://{lake.name}/dev/a"),
        ("-r", f"{place}/in", f"{place}/in/deeper"),
        ("-r", f"{place}/in/", f"{place}/in"),
    ):
        assert user.run("mv", *words).code == 2, words
    assert user.run("cat", f"{lake.name}/main/in/a").out == "x"


@pytest.mark.parametrize("command", ["mv", "cp"])
@pytest.mark.parametrize("ref", ["main", "main$"])
def test_no_source_is_overwritten_before_it_is_copied(lake: Lake, command: str, ref: str) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("a/b/x", "a/b/b/x", "a/b/y"):
        lake.put(path, path.encode())
    come = f"lakefs://{lake.name}/{ref}/a/b/"
    for into in (f"{place}/a/", f"{place}/a"):
        for more in (("--yes",), ("--dry-run",)):
            refused = user.run(command, "-r", come, into, *more)
            assert refused.code == 2, refused
    paths = ("a/b/x", "a/b/b/x", "a/b/y")
    for path in paths:
        assert user.run("cat", f"{lake.name}/main/{path}").out == path
    assert user.run("stat", f"{lake.name}/main/a/x").code == 3
    apart = (command, "-r", f"{place}/a/b/", f"{place}/a/", "--exclude", "/b/")
    assert user.run(*apart, "--yes").code == 0
    assert user.run("cat", f"{lake.name}/main/a/x", f"{lake.name}/main/a/y").out == "a/b/xa/b/y"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mv -r -j 1", "2 objects copied, 1 failed; nothing was deleted"),
        ("cp -r -j 1", "2 objects done, 1 failed"),
        ("cp -r -j 1 --checksum", "2 objects done, 1 failed; repeat the command to do the rest"),
    ],
)
def test_an_interrupt_says_what_is_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    user, place = lake.user, f"lakefs://{lake.name}/main"
    for path in ("in/a", "in/b", "in/c", "in/d", "in/e"):
        lake.put(path, path.encode())
    copy, calls, over = objects.copy, iter(range(5)), threading.Event()

    def stops_at_the_fourth(*arguments: object) -> objects.Stats:
        number = next(calls)
        if number == 1:
            raise Unavailable("broken")
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(PATIENCE_SECONDS)
        return copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "copy", stops_at_the_fourth)
    try:
        result = user.run(*command.split(), f"{place}/in/", f"{place}/out/")
    finally:
        over.set()
    assert (result.code, result.err) == (130, f"graveler: interrupted: {said}\n")
    assert user.run("cat", f"{lake.name}/main/in/a").code == 0
