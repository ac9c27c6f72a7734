"""What is lost only after a question: where nobody can be asked, the command ends with 2 and does
nothing; `--yes` answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from graveler.assembly import Embedded, open_embedded
from graveler.auth.authenticator import Authenticator
from graveler.cli.support import administrator
from graveler.core.errors import Unauthenticated
from graveler.engine.commits import commit
from graveler.engine.gc import collect
from graveler.engine.objects import write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.lake import profiles
from tests.api.serving import ADMINISTRATOR, Served
from tests.cli import json_check
from tests.cli.commands import Client, Result, terminal
from tests.cli.conftest import Lake
from tests.cli.hooked import STATEMENT
from tests.cli.test_credentials import OLD
from tests.cli.test_gc import Days, days
from tests.cli.test_subject import store
from tests.client.scripted import Said, scripted

__all__ = ["days", "store"]  # fixtures
REFUSED = "graveler: this needs a confirmation, and nobody can be asked: give --yes\n"


class Held(NamedTuple):
    """What a store has that these commands take away."""

    rule: str
    accepts_key: bool
    accepts_session: bool
    runs: list[str]  # of garbage collection
    files: set[Path]


@contextmanager
def _opened(folder: Path) -> Iterator[Embedded]:
    opened = open_embedded(folder)
    try:
        yield opened
    finally:
        opened.close()


def _accepts_old(folder: Path) -> bool:
    with _opened(folder) as opened:
        return administrator.matches(opened, OLD)


def _with_old(folder: Path) -> None:
    with _opened(folder) as opened:
        administrator.ensure(opened, OLD)


def _make_garbage(folder: Path) -> None:
    """Stage an object twice, and commit the second one."""
    with _opened(folder) as opened:
        repo = open_repository(opened.ports, repository.get(opened.ports, "kept"))
        for content in (b"first", b"second"):
            write.upload(repo, "main", "a", write.Upload([content]))
        commit.commit(repo, "main", commit.CommitRequest("a commit", "me"))


def _authenticator(opened: Embedded) -> Authenticator:
    keeper = administrator.keeper(opened)
    return Authenticator(keeper)


def _session(folder: Path) -> str:
    with _opened(folder) as opened:
        return _authenticator(opened).login(OLD.access_key_id, OLD.secret_access_key).token


def _held(user: Client, folder: Path, session: str) -> Held:
    rule = user.run("retention", "--repository", "kept", "--store", str(folder)).out
    with _opened(folder) as opened:
        try:
            _authenticator(opened).identify(b"Bearer " + session.encode(), "")
            is_open = True
        except Unauthenticated:
            is_open = False
        repo = open_repository(opened.ports, repository.get(opened.ports, "kept"))
        runs = [run.id for run in collect.list_runs(repo)]
        accepts = administrator.matches(opened, OLD)
    files = {file for file in (folder / "objects").rglob("*") if file.is_file()}
    return Held(rule, accepts, is_open, runs, files)


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        (("credentials", "reset"), {"accepts_key", "accepts_session"}),
        (("credentials", "rotate", "--end-sessions"), {"accepts_session"}),
        (("gc", "--delete"), {"runs", "files"}),
        (("retention", "--repository", "kept", "--days", "30"), {"rule"}),
        (("retention", "--repository", "kept", "--branch", "main=30"), {"rule"}),
        (("retention", "--repository", "kept", "--unreachable-days", "6"), {"rule"}),
    ],
    ids=lambda each: " ".join(sorted(each) if isinstance(each, set) else each),
)
def test_a_store_is_left_alone_without_an_answer(
    user: Client, store: Path, days: Days, words: tuple[str, ...], taken: set[str]
) -> None:
    """`--yes` takes away what the test compares, so each comparison can fail."""
    _with_old(store)
    _make_garbage(store)
    days.pass_by(9)
    session = _session(store)
    before = _held(user, store, session)
    assert before.accepts_key and before.accepts_session and not before.runs
    refused = user.run(*words, "--store", str(store))
    assert (refused.code, refused.out, refused.err.splitlines(True)[0]) == (2, "", REFUSED)
    assert _held(user, store, session) == before
    done = user.run(*words, "--store", str(store), "--yes")
    assert done.code == 0, done
    after = _held(user, store, session)
    assert {name for name in Held._fields if getattr(after, name) != getattr(before, name)} == taken


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
    question = f"Condemn the unused files of {lake.name} in {lake.live.client.url}"
    assert (refused.code, refused.out) == (2, "") and f"{REFUSED}{question}" in refused.err
    shown = terminal(lake.user, *words)
    shown.until(question)
    shown.type("y\n")
    assert shown.end() == 0 and "condemned: 0 files" in shown.text


def test_new_credentials_ask_on_a_terminal(user: Client, store: Path) -> None:
    _with_old(store)
    shown = terminal(user, "credentials", "reset", "--store", str(store))
    shown.until("Its present keys and all its sessions end now.")
    shown.type("n\n")
    assert shown.end() == 1 and _accepts_old(store)


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_a_no_is_printed_as_other_failures_are(user: Client, store: Path, form: str) -> None:
    _with_old(store)
    shown = terminal(user, "credentials", "reset", "--store", str(store), form)
    shown.until("Its present keys and all its sessions end now.")
    shown.type("n\n")
    assert shown.end() == 1 and _accepts_old(store)
    last = shown.text.splitlines()[-1]
    json_check.check_failure(last)
    error = json.loads(last)["error"]
    assert (error["code"], error["message"]) == ("declined", "nothing was changed")


def _credentials(user: Client) -> str:
    return (profiles.folder(user.variables) / "credentials.toml").read_text()


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (("logout",), "Forget the profile test"),
        (("config", "set", "server", "http://127.0.0.1:1"), "Move the profile test to http://127."),
        (
            ("login", "http://127.0.0.1:1", "--setup", "--profile", "test"),
            "Replace the profile test of http://127.",
        ),
    ],
)
def test_the_secret_of_a_profile_is_lost_after_a_question(
    lake: Lake, words: tuple[str, ...], change: str
) -> None:
    user, before = lake.user, _credentials(lake.user)
    refused = user.run(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"{REFUSED}{change}")
    assert f"the secret of its access key {ADMINISTRATOR.access_key_id}?" in refused.err
    shown = terminal(user, *words)
    shown.until("The server does not show it again.")
    shown.type("n\n")
    assert shown.end() == 1 and change in shown.text
    assert _credentials(user) == before


def test_a_login_to_another_server_replaces_a_profile_after_a_question(
    lake: Lake, live: Served
) -> None:
    user, key = lake.user, ADMINISTRATOR
    elsewhere = live.client.url.replace("127.0.0.1", "localhost")
    secret = key.secret_access_key.encode()

    def login(url: str, *more: str) -> int:
        words = ("login", url, "--access-key-id", key.access_key_id, "--secret-stdin")
        return user.run(*words, "--profile", "test", *more, input=secret).code

    def server() -> str:
        return profiles.read(user.variables).by_name["test"].server

    assert login(live.client.url) == 0  # to the same server: nothing asks
    assert login(elsewhere) == 2 and server() == live.client.url
    assert login(elsewhere, "--yes") == 0 and server() == elsewhere


def test_a_login_replaces_the_secret_of_another_key_after_a_question(user: Client) -> None:
    """Both keys are valid on the server, which does not show the secret of the first one again."""
    answer = Said(200, b'{"user": {"id": "me", "creation_date": 1}}')
    with scripted([answer] * 4) as server:

        def login(key: str, *more: str) -> Result:
            words = ("login", server.url, "--access-key-id", key, "--secret-stdin", *more)
            return user.run(*words, input=b"a secret\n")

        assert login("AKIAFIRST").code == 0
        assert login("AKIAFIRST").code == 0
        before = _credentials(user)
        refused = login("AKIASECOND")
        assert refused.code == 2 and "the secret of its access key AKIAFIRST" in refused.err
        assert _credentials(user) == before
        assert login("AKIASECOND", "--yes").code == 0
    assert "AKIASECOND" in _credentials(user)


def test_a_setup_needs_a_url_before_a_confirmation(lake: Lake) -> None:
    result = lake.user.run("login", "--setup", "--profile", "test")
    assert (result.code, result.err) == (2, "graveler: --setup needs the URL of the server\n")


@pytest.mark.parametrize("url", ["lake.example.com", "http://me:hidden@lake.example.com"])
def test_the_server_of_a_profile_is_a_url(lake: Lake, url: str) -> None:
    """Nothing is asked before, and no password is printed."""
    before = profiles.read(lake.user.variables)
    for words in (("--profile", "test"), ("--profile", "new"), ("--profile", "test", "--yes")):
        result = lake.user.run("config", "set", "server", url, *words)
        assert result.code == 2 and result.err.startswith("graveler: server URL invalid: ")
        assert "hidden" not in result.err
    assert profiles.read(lake.user.variables) == before


def test_a_profile_without_a_secret_is_forgotten_without_a_question(user: Client) -> None:
    assert user.run("config", "set", "server", "http://127.0.0.1:1").code == 0
    assert user.run("config", "set", "server", "http://127.0.0.1:2").code == 0
    assert user.run("logout").code == 0


def test_statements_of_a_policy_are_replaced_after_a_question(lake: Lake, tmp_path: Path) -> None:
    user, file = lake.user, tmp_path / "policy.json"
    file.write_text(STATEMENT)
    assert user.run("policy", "create", "replaced", str(file)).code == 0
    file.write_text(STATEMENT.replace('"allow"', '"deny"'))
    words = ("policy", "update", "replaced", str(file))
    before = user.run("policy", "show", "replaced", "--json")
    refused = user.run(*words)
    question = "Replace the 1 statement of the policy replaced, for everybody who has it?"
    assert (refused.code, refused.out, refused.err) == (2, "", f"{REFUSED}{question}\n")
    shown = terminal(user, *words, "--json")
    shown.until(question)
    shown.type("n\n")
    assert shown.end() == 1 and '"code": "declined"' in shown.text
    assert user.run("policy", "show", "replaced", "--json") == before
    assert user.run(*words, "--yes").code == 0
    assert user.run("policy", "show", "replaced", "--json") != before
    assert user.run("policy", "update", "nobody", str(file)).code == 3  # before it asks


def test_a_rule_and_metadata_are_taken_away_after_a_question(lake: Lake) -> None:
    user, name = lake.user, lake.name
    add = ("events", "rules", "add", name, "--branch", "main", "--bucket", "landing")
    id = json.loads(user.run(*add, "--json").out)["id"]
    assert user.run("repo", "meta", "set", name, "owner=sales").code == 0
    for words, question, listing in (
        (
            ("events", "rules", "remove", name, id),
            f"Remove the rule {id}, which takes s3://landing/ in to {name}/main?",
            ("events", "rules", "list", name),
        ),
        (
            ("repo", "meta", "delete", name, "owner", "nothing"),
            f"Delete owner=sales from the metadata of {name}?",
            ("repo", "meta", "show", name),
        ),
    ):
        before = user.run(*listing)
        refused = user.run(*words)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"{REFUSED}{question}")
        shown = terminal(user, *words)
        shown.until(question)
        shown.type("n\n")
        assert shown.end() == 1
        assert user.run(*listing) == before
        assert user.run(*words, "--yes").code == 0
        assert user.run(*listing).out == ""
    assert user.run("repo", "meta", "delete", name, "nothing").code == 0  # nothing is lost
