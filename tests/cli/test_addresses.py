"""Addresses: both schemes, and the base URI, mean the same to every command."""

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Lake
from tests.cli.test_completion import offered

SCHEMES = ("", "lakefs://", "graveler://")


def grown(lake: Lake) -> str:
    """A commit on `main` with one object, and an uncommitted one; the id of the commit."""
    lake.put("a/x")
    id = lake.commit("add x")
    lake.put("a/y")
    return id


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("command", ["log", "show", "status"])
@pytest.mark.parametrize("ref", ["", "/", "/main"])
def test_a_ref_or_its_repository_by_every_scheme(
    lake: Lake, command: str, scheme: str, ref: str
) -> None:
    id = grown(lake)
    result = lake.user.run(command, f"{scheme}{lake.name}{ref}", "--json")
    assert result.code == 0 and id in result.out, result


@pytest.mark.parametrize(
    "line",
    [
        *("log main", "show main", "status main", "branch show main", "stat main/a/x"),
        *("ls main/a/", "ls main", "diff main", "diff main main~1", "annotate main/a/x"),
        *("merge-base main main~1", "cat main/a/x", "open main", "tag create v1 main"),
        *("undo --list main", "log :main"),
    ],
)
def test_the_base_uri_stands_before_every_address(lake: Lake, line: str) -> None:
    grown(lake)
    lake.user.run("config", "set", "repository", lake.name)
    base = f"lakefs://{lake.name}/"
    words = line.split()
    by_option = lake.user.run("--base-uri", base, *words)
    assert (by_option.code, by_option.err.startswith("graveler:")) == (0, False), by_option
    if words[0] != "tag":
        assert lake.user.run(*words, LAKECTL_BASE_URI=base) == by_option


def test_a_base_uri_can_be_whole_or_end_within_a_path(lake: Lake) -> None:
    grown(lake)
    for base, word in ((f"{lake.name}/main/a/", "x"), (f"graveler://{lake.name}/ma", "in/a/x")):
        assert lake.user.run("cat", word, LAKECTL_BASE_URI=base).out == "x"
    assert lake.user.run("log", "", LAKECTL_BASE_URI=f"lakefs://{lake.name}").code == 0
    whole = lake.user.run("status", f"lakefs://{lake.name}/main", LAKECTL_BASE_URI="lakefs://b/")
    assert whole.code == 0


def test_a_command_that_a_message_names_works_beside_a_base_uri(lake: Lake) -> None:
    base = f"lakefs://{lake.name}/"
    lake.user.run("branch", "create", f"{lake.name}/dev")
    deleted = lake.user.run("branch", "delete", "dev", "--yes", LAKECTL_BASE_URI=base)
    again = shlex.split(deleted.err.splitlines()[-1].partition("graveler ")[2])
    assert lake.user.run(*again, LAKECTL_BASE_URI=base).code == 0
    assert lake.user.run("branch", "show", f"{lake.name}/dev").code == 0


def test_an_upload_that_a_message_proposes_goes_where_the_base_uri_leads(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("x")
    (tmp_path / "y.csv").write_text("y")
    base = f"lakefs://{lake.name}/"
    refused = lake.user.run("upload", "x.csv", "y.csv", "main/data/", LAKECTL_BASE_URI=base)
    proposed = shlex.split(refused.err.splitlines()[-1].partition("graveler ")[2])
    assert lake.user.run(*proposed, LAKECTL_BASE_URI=base).code == 0
    assert lake.user.run("cat", f"{lake.name}/main/data/y.csv").out == "y"
    swapped = lake.user.run("upload", "main/data/z.csv", "x.csv", LAKECTL_BASE_URI=base)
    proposed = shlex.split(swapped.err.splitlines()[-1].partition("graveler ")[2])
    assert lake.user.run(*proposed, LAKECTL_BASE_URI=base).code == 0
    assert lake.user.run("cat", f"{lake.name}/main/data/z.csv").out == "x"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_undo_takes_a_repository_by_every_scheme(lake: Lake, scheme: str) -> None:
    lake.user.run("branch", "create", f"{lake.name}/dev")
    assert lake.user.run("branch", "delete", f"{lake.name}/dev", "--yes").code == 0
    result = lake.user.run("undo", "--list", f"{scheme}{lake.name}")
    assert result.code == 0 and f"{lake.name}/dev" in result.out, result


def test_completion_goes_on_after_the_base_uri(lake: Lake) -> None:
    grown(lake)
    lake.user.run("branch", "create", f"{lake.name}/dev")
    lake.user.variables["LAKECTL_BASE_URI"] = f"lakefs://{lake.name}/"
    assert offered(lake.user, "graveler log ma") == ["main"]
    assert offered(lake.user, "graveler cat main/a/") == ["main/a/x", "main/a/y"]
    assert offered(lake.user, f"graveler log lakefs://{lake.name}/de") == [
        f"lakefs://{lake.name}/dev"
    ]
    lake.user.variables["LAKECTL_BASE_URI"] = f"lakefs://{lake.name}/ma"
    assert offered(lake.user, "graveler cat in/a/x") == ["in/a/x"]
