"""`annotate` and `open`."""

import json
from typing import Any

import pytest

from graveler.cli.commands.server import page
from graveler.cli.support.address import Address
from tests.cli.commands import terminal
from tests.cli.conftest import Lake


def rows(lake: Lake, *words: str) -> list[tuple[str, str]]:
    result = lake.user.run("annotate", *words, "--json")
    assert result.code == 0, result
    every = [(row["path"], row["graveler"]["commit"]) for row in json.loads(result.out)]
    return [(path, commit["message"] if commit else "") for path, commit in every]


def test_each_object_has_the_commit_that_last_changed_it(lake: Lake) -> None:
    name = lake.name
    for path in ("d/a", "d/b", "c"):
        lake.put(path)
        lake.commit(f"add {path}")
    lake.put("d/a", b"again")
    lake.commit("change d/a")
    lake.put("fresh")
    branch = f"{name}/main/"
    every = [("c", "add c"), ("d/a", "change d/a"), ("d/b", "add d/b"), ("fresh", "")]
    assert rows(lake, branch, "-r") == every
    assert rows(lake, branch) == [("c", "add c"), ("d/", "change d/a"), ("fresh", "")]
    assert rows(lake, f"{name}/main~1/d/a") == [("d/a", "add d/a")]
    assert rows(lake, branch, "-r", "-n", "1") == every[:1]
    line = lake.user.run("blame", branch, "-r").out.splitlines()[0].split("\t")
    assert line[2:] == ["administrator", "c", "add c"] and len(line[0]) == 64
    assert lake.user.run("annotate", f"{name}/main/nothing/").out == ""


def test_rows_come_in_the_order_of_the_paths(lake: Lake) -> None:
    """More objects than calls that are under way."""
    for number in range(100):
        lake.put(f"{number:03}")
    lake.commit("all")
    assert [path for path, _ in rows(lake, f"{lake.name}/main/", "-r")] == [
        f"{number:03}" for number in range(100)
    ]


def test_a_ref_that_does_not_exist(lake: Lake) -> None:
    assert lake.user.run("annotate", f"{lake.name}/nothing/").code == 3


# ---- open ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (None, "/repositories"),
        (Address("lake"), "/repositories/lake/objects"),
        (Address("lake", "main"), "/repositories/lake/objects?ref=main"),
        (Address("lake", "main", "a b/"), "/repositories/lake/objects?ref=main&path=a+b%2F"),
        (Address("lake", "main", "a&b"), "/repositories/lake/object?ref=main&path=a%26b"),
    ],
)
def test_urls_of_pages(place: Address | None, path: str) -> None:
    assert page("https://host", place) == f"https://host{path}"


def test_a_url_is_printed_and_on_a_terminal_opened(lake: Lake) -> None:
    url = f"{lake.live.client.url}/repositories/{lake.name}/objects?ref=main"
    address = f"{lake.name}/main"
    assert lake.user.run("open", address).out == f"{url}\n"
    answer: Any = json.loads(lake.user.run("open", "--json").out)
    assert answer == {"graveler": {"url": f"{lake.live.client.url}/repositories"}}
    browser = lake.user.home / "browser"
    browser.write_text('#!/bin/sh\necho "opened:$1"\n')
    browser.chmod(0o700)
    lake.user.variables["BROWSER"] = str(browser)
    shown = terminal(lake.user, "open", address)
    assert shown.end() == 0 and f"opened:{url}" in shown.text
    shown = terminal(lake.user, "open", address, "--print")
    assert shown.end() == 0 and "opened:" not in shown.text
