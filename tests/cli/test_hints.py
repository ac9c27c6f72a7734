"""The commands that messages name lead to the server of the call."""

import json
import os
import signal
from pathlib import Path

import pytest

from graveler.cli.support import failures
from graveler.cli.support.address import Address
from graveler.cli.support.invocation import Invocation
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles
from tests.api.serving import ADMINISTRATOR
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted

NOWHERE = "http://127.0.0.1:9"
CHOSEN = ("--profile", "other")


def choose(user: Client, url: str) -> None:
    """Make a profile `other` for a server, beside a default one that leads nowhere."""
    key = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
    known = {"test": Profile("test", NOWHERE, *key), "other": Profile("other", url, *key)}
    profiles.write(Profiles("test", known), user.variables)


@pytest.fixture
def elsewhere(lake: Lake) -> Lake:
    """A lake whose server is not that of the default profile."""
    choose(lake.user, lake.live.client.url)
    return lake


def test_every_command_of_a_text_gets_the_options_that_chose_the_server() -> None:
    flags = {"server": "http://a", "profile": "my own", "config": "f.yaml", "json": True}
    flags |= {"access_key_id": "K", "secret_stdin": True, "base_uri": "lakefs://lake/"}
    options = (
        "--server http://a --profile 'my own' --config f.yaml --access-key-id K --secret-stdin "
        "--base-uri ''"
    )
    text = "graveler commit lake/main, or `graveler cherry-pick a b`"
    assert failures.of_server(Invocation(flags), text) == (
        f"graveler {options} commit lake/main, or `graveler {options} cherry-pick a b`"
    )
    assert failures.of_server(Invocation(), text) == text


def test_commands_that_choose_no_server_stay_as_they_are() -> None:
    made = Invocation({"profile": "p", "server": ""})
    for text in (
        "graveler login http://a",
        "graveler config list",
        "graveler verify --store DIR",
        "graveler gc --server URL --repository lake",
        "graveler --profile q ls lake/main",
        "see /tmp/graveler ls",
        "the graveler is there",
    ):
        assert failures.of_server(made, text) == text


def test_the_profile_of_an_address_is_that_of_the_command() -> None:
    place = Address("lake", "main", "a", "q")
    text = failures.on(Invocation(), place, f"graveler ls {place.unprofiled}")
    assert text == "graveler --profile q ls lake/main/a"
    assert failures.of_server(Invocation({"profile": "p"}), text) == text
    based = Invocation({"base_uri": "lakefs://lake/"})
    assert failures.on(based, place, "graveler ls a") == "graveler --profile q --base-uri '' ls a"


# ---- as commands print them ----------------------------------------------------------------------


def test_an_import_that_nobody_waits_for(user: Client) -> None:
    with scripted([Said(202, b'{"id": "i1"}')]) as server:
        choose(user, server.url)
        begun = user.run("import", "s3://b/p/", "lake/main/p/", "--no-wait", "--yes", *CHOSEN)
    show, cancel = begun.err.splitlines()
    assert show == "the import goes on: graveler --profile other jobs show lake i1"
    assert cancel == "to cancel it: graveler --profile other jobs cancel lake i1"


def test_an_import_whose_cancellation_fails(user: Client) -> None:
    begun = Said(202, b'{"id": "i1"}', before=lambda: os.kill(os.getpid(), signal.SIGINT))
    with scripted([begun, Said(403)]) as server:
        choose(user, server.url)
        result = user.run("import", "s3://b/p/", "lake/main/p/", "--yes", *CHOSEN)
    assert result.code == 130
    show, cancel = result.err.splitlines()
    assert show.endswith("the import may go on: graveler --profile other jobs show lake i1")
    assert cancel == "to cancel it: graveler --profile other jobs cancel lake i1"


@pytest.mark.usefixtures("no_pauses")
def test_an_import_whose_outcome_is_unknown(user: Client) -> None:
    with scripted([Said(202, b'{"id": "i1"}'), *[Said(0)] * 100]) as server:
        choose(user, server.url)
        result = user.run("import", "s3://b/p/", "lake/main/p/", "--yes", *CHOSEN)
    assert result.code == 7
    assert result.err.endswith("try: graveler --profile other jobs show lake i1\n")


def test_a_collection_whose_wait_is_interrupted(user: Client) -> None:
    ordered = Said(202, b'{"id": "7f3c9a"}')
    asked = Said(200, b"{}", before=lambda: os.kill(os.getpid(), signal.SIGINT))
    with scripted([ordered, asked]) as server:
        choose(user, server.url)
        ended = user.run("gc", "--repository", "lake", *CHOSEN)
    assert ended.code == 130
    assert ended.err.endswith(
        "the server goes on: graveler --profile other jobs show lake 7f3c9a\n"
    )


def test_the_merge_of_a_request_that_is_undone(elsewhere: Lake) -> None:
    name, user = elsewhere.name, elsewhere.user
    assert user.run("branch", "create", f"{name}/dev", *CHOSEN).code == 0
    elsewhere.put("a", branch="dev")
    elsewhere.commit(branch="dev")
    created = user.run("pr", "create", f"{name}/dev", "main", "--title", "t", *CHOSEN, "--json")
    id = json.loads(created.out)["id"]
    assert user.run("pr", "merge", name, id, *CHOSEN).code == 0
    undone = user.run("undo", "--yes", *CHOSEN)
    again = f"graveler --profile other pr reopen {name} {id}"
    assert undone.err.endswith(f"to open it again: {again}\n")
    assert user.line(again.removeprefix("graveler ")).code == 0


def test_what_makes_deleted_things_again(elsewhere: Lake) -> None:
    name, user = elsewhere.name, elsewhere.user
    for kind in ("branch", "tag"):
        assert user.run(kind, "create", f"{name}/made", "main", *CHOSEN).code == 0
        deleted = user.run(kind, "delete", f"{name}/made", "--yes", *CHOSEN)
        again = deleted.err.splitlines()[-1].removeprefix("to make it again: graveler ")
        assert again.startswith(f"--profile other {kind} create {name}/made ")
        assert user.line(again).code == 0
        assert user.run(kind, "delete", f"{name}/made", "--yes", *CHOSEN).code == 0


def test_what_commits_a_change(elsewhere: Lake, tmp_path: Path) -> None:
    """A person is told, a script is not."""
    branch, user = f"{elsewhere.name}/main", elsewhere.user
    elsewhere.put("a")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "u").write_bytes(b"1")
    chosen = " ".join(CHOSEN)
    said = f"uncommitted until `graveler --profile other commit {branch}`"
    upload = f"upload -r {folder} {branch}/in/ {chosen}"
    for line in (
        upload,
        f"cp lakefs://{branch}/a lakefs://{branch}/b {chosen}",
        f"mv lakefs://{branch}/b lakefs://{branch}/c {chosen}",
        f"cp lakefs://other@{branch}/a lakefs://other@{branch}/d",
    ):
        code, text = user.on_terminal(line)
        assert code == 0 and text.splitlines()[-1] == said
    assert said not in user.on_terminal(upload)[1]  # it was the same
    assert user.line(f"cp lakefs://{branch}/a lakefs://{branch}/e {chosen}").err == ""


def test_what_goes_back_from_a_reset_and_commits_a_deletion(elsewhere: Lake) -> None:
    name, user = elsewhere.name, elsewhere.user
    elsewhere.commit_of("a")
    moved = user.run("reset", "--hard", f"{name}/main", "main~1", "--confirm", "main", *CHOSEN)
    back = moved.out.splitlines()[-1].removeprefix("to go back: graveler ")
    assert back.startswith(f"--profile other reset --hard {name}/main ")
    assert user.line(f"{back} --confirm main").code == 0
    deleted = user.run("rm", f"{name}/main/a", *CHOSEN)
    assert deleted.err.endswith(f"`graveler --profile other commit {name}/main`\n")


def test_what_to_try_after_a_failure(elsewhere: Lake) -> None:
    name, user = elsewhere.name, elsewhere.user
    failed = user.run("ls", f"{name}/nope", *CHOSEN)
    assert failed.err.endswith(f"try: graveler --profile other branch list {name}\n")
    failed = user.run("stat", f"{name}/main/nope", *CHOSEN, "--json")
    hint = json.loads(failed.err)["error"]["hint"]
    assert hint == f"graveler --profile other ls {name}/main"
