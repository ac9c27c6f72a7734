"""`graveler branch-protect`: rules of a served repository, and two who change them at once."""

import json

import pytest

import graveler
from graveler.api.branches import BranchProtectionRule
from graveler.core.errors import PreconditionFailed
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def test_rules_protect_branches(lake: Lake) -> None:
    user, name = lake.user, lake.name
    assert user.run("branch-protect", "list", name) == (0, "", "no branch is protected\n")
    assert user.run("branch-protect", "add", name, "main").code == 0
    assert user.run("branch-protect", "add", name, "release-*").err == (
        f"protected release-* in {name}\n"
    )
    rules = user.read(list[BranchProtectionRule], "branch-protect", "list", name)
    assert [rule.pattern for rule in rules] == ["main", "release-*"]
    refused = user.run("commit", f"{name}/main", "-m", "x", "--allow-empty")
    assert refused.code == 4
    assert user.run("branch-protect", "delete", name, "main").code == 0
    assert user.run("commit", f"{name}/main", "-m", "x", "--allow-empty").code == 0
    assert user.run("branch-protect", "list", name).out == "release-*\n"


def test_rules_that_exist_or_do_not(lake: Lake) -> None:
    user, name = lake.user, lake.name
    assert user.run("branch-protect", "add", name, "main").code == 0
    again = user.run("branch-protect", "add", name, "main")
    assert again.code == 5 and "protected already: main" in again.err
    absent = user.run("branch-protect", "delete", name, "dev")
    assert absent == (
        3,
        "",
        f"graveler: branch protection rule not found: {name} dev\n"
        f"try: graveler branch-protect list {name}\n",
    )


def test_a_change_in_between_is_read_and_kept(user: Client) -> None:
    """Another rule appears between reading and writing: it is read, and written again."""
    first = Said(200, b'[{"pattern": "a"}]', (("ETag", '"1"'),))
    second = Said(200, b'[{"pattern": "a"}, {"pattern": "b"}]', (("ETag", '"2"'),))
    failed = Said(412, b'{"message": "precondition failed"}')
    with scripted([first, failed, second, Said(204, b"")]) as server:
        user.know(server.url)
        assert user.run("branch-protect", "add", "lake", "c").code == 0
        bodies = [json.loads(asked.body) for asked in server.asked if asked.method == "PUT"]
    assert [[rule["pattern"] for rule in body] for body in bodies] == [["a", "c"], ["a", "b", "c"]]


def test_two_changes_in_between_are_too_many() -> None:
    read = Said(200, b"[]", (("ETag", '"1"'),))
    failed = Said(412, b'{"message": "precondition failed"}')
    with (
        scripted([read, failed, read, failed]) as server,
        pytest.raises(PreconditionFailed),
    ):
        graveler.connect(server.url, "id", "secret").repository("lake").protect("main")
    assert [asked.method for asked in server.asked] == ["GET", "PUT"] * 2
