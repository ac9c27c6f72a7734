"""What is lost only after a question: where nobody can be asked, the command ends with 2 and does
nothing; `--yes` answers."""

from pathlib import Path

import pytest

from graveler.assembly import open_embedded
from graveler.cli import administrator
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.cli.test_credentials import OLD
from tests.cli.test_subject import store

__all__ = ["store"]  # a fixture
REFUSED = "graveler: this needs a confirmation, and nobody can be asked: give --yes\n"


def _accepts_old(folder: Path) -> bool:
    opened = open_embedded(folder)
    try:
        return administrator.matches(opened, OLD)
    finally:
        opened.close()


def _with_old(folder: Path) -> None:
    opened = open_embedded(folder)
    administrator.ensure(opened, OLD)
    opened.close()


@pytest.mark.parametrize(
    "words",
    [
        ("credentials", "reset"),
        ("credentials", "rotate", "--end-sessions"),
        ("gc", "--delete"),
        ("retention", "--repository", "kept", "--days", "30"),
        ("retention", "--repository", "kept", "--branch", "main=30"),
        ("retention", "--repository", "kept", "--unreachable-days", "6"),
    ],
    ids=" ".join,
)
def test_a_store_is_left_alone_without_an_answer(
    user: Client, store: Path, words: tuple[str, ...]
) -> None:
    _with_old(store)
    rule = ("retention", "--repository", "kept", "--store", str(store))
    before = user.run(*rule)
    refused = user.run(*words, "--store", str(store))
    assert (refused.code, refused.out, refused.err.splitlines(True)[0]) == (2, "", REFUSED)
    assert user.run(*rule) == before and _accepts_old(store)
    done = user.run(*words, "--store", str(store), "--yes")
    assert done.code == 0, done
    assert _accepts_old(store) == (words[1] != "reset")


def test_only_a_shorter_rule_asks(lake: Lake) -> None:
    rule = ("retention", "--repository", lake.name)
    assert lake.user.run(*rule, "--days", "30", "--branch", "main=90", "--yes").code == 0
    for longer in (("--days", "60"), ("--branch", "dev=61"), ("--branch", "main=0"), ()):
        assert lake.user.run(*rule, *longer).code == 0
    shorter = (
        ("--days", "59"),
        ("--branch", "dev=60"),
        ("--branch", "main=900"),
        ("--branch", "main="),
    )
    before = lake.user.run(*rule)
    for words in shorter:
        refused = lake.user.run(*rule, *words)
        assert (refused.code, refused.out) == (2, ""), words
    assert lake.user.run(*rule) == before
    shown = terminal(lake.user, *rule, "--branch", "main=", "--days", "3")
    shown.until(f"Keep {lake.name} for less time than now?")
    shown.until("default: 3 days, branch main: 3 days")
    shown.type("n\n")
    assert shown.end() == 1 and "nothing was changed" in shown.text
    assert lake.user.run(*rule) == before


def test_a_collection_on_a_server_asks(lake: Lake) -> None:
    words = ("gc", "--repository", lake.name, "--delete")
    refused = lake.user.run(*words)
    assert (refused.code, refused.out, refused.err) == (2, "", REFUSED)
    shown = terminal(lake.user, *words)
    shown.until(f"Condemn the unused files of {lake.name} in {lake.live.client.url}")
    shown.type("y\n")
    assert shown.end() == 0 and "condemned: 0 files" in shown.text


def test_new_credentials_ask_on_a_terminal(user: Client, store: Path) -> None:
    _with_old(store)
    shown = terminal(user, "credentials", "reset", "--store", str(store))
    shown.until("Its present keys and all its sessions end now.")
    shown.type("n\n")
    assert shown.end() == 1 and _accepts_old(store)
