"""`graveler user`, `group`, `policy` and `may-i`: from a new user to a right that it has."""

import json
from pathlib import Path

import pytest

from graveler.api.groups import Right
from graveler.api.users import (
    GroupShape,
    KeyShape,
    KeyWithSecret,
    PolicyShape,
    UserShape,
)
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake

READ_LAKE = [{"effect": "allow", "action": ["fs:Read*"], "resource": "*"}]


def signed_in(lake: Lake, key: KeyWithSecret, tmp_path: Path) -> Client:
    """Somebody with this key."""
    home = tmp_path / "another"
    home.mkdir()
    client = Client(home, lake.user.patch)
    profile = Profile("t", lake.live.client.url, key.access_key_id, key.secret_access_key)
    profiles.write(Profiles("t", {"t": profile}), client.variables)
    return client


def test_a_user_gets_a_key_and_rights(lake: Lake, tmp_path: Path) -> None:
    user = lake.user
    words = ("user", "create", "ann", "--name", "Ann", "--email", "ann@example.com")
    created = user.read(UserShape, *words)
    assert (created.id, created.friendly_name, created.email) == ("ann", "Ann", "ann@example.com")
    key = json.loads(user.run("user", "key", "create", "ann", "--name", "laptop", "--json").out)
    ann = signed_in(lake, KeyWithSecret(**key), tmp_path)
    assert ann.run("may-i", "fs:ReadRepository", lake.name).code == 1
    assert ann.run("repo", "show", lake.name).code == 3
    assert user.run("group", "add", "Viewers", "ann").err == "added ann to group Viewers\n"
    assert ann.run("may-i", "fs:ReadRepository", lake.name).out == (
        f"yes\tfs:ReadRepository\tarn:lakefs:fs:::repository/{lake.name}\n"
    )
    assert ann.run("repo", "show", lake.name).code == 0
    assert ann.run("commit", f"{lake.name}/main", "-m", "x", "--allow-empty").code == 4
    (shown,) = user.read(list[KeyShape], "user", "key", "list", "ann")
    assert (shown.access_key_id, shown.name) == (key["access_key_id"], "laptop")
    record = json.loads(user.run("user", "show", "ann", "--json").out)
    assert record["graveler"]["groups"] == ["Viewers"]
    assert "FSReadAll" in record["graveler"]["policies"]
    assert record["graveler"]["keys"] == [key["access_key_id"]]
    assert "groups:    Viewers\n" in user.run("user", "show", "ann").out
    assert user.run("user", "key", "delete", "ann", key["access_key_id"]).code == 2
    assert user.run("user", "key", "delete", "ann", key["access_key_id"], "-y").code == 0
    assert ann.run("whoami").code == 4
    assert user.run("user", "delete", "ann", "--yes").err == "deleted user ann\n"
    assert user.run("user", "key", "list", "ann").code == 3


def test_a_secret_is_shown_once(lake: Lake) -> None:
    assert lake.user.run("user", "create", "once").code == 0
    made = lake.user.run("user", "key", "create", "once", "-v")
    id, secret = (line.partition(": ")[2] for line in made.out.splitlines())
    assert secret and secret not in made.err and "not shown again" in made.err
    assert lake.user.run("user", "key", "list", "once").out.startswith(id)
    assert secret not in lake.user.run("user", "show", "once", "--json").out


def test_groups(lake: Lake) -> None:
    user = lake.user
    created = user.read(GroupShape, "group", "create", "team", "--description", "five")
    assert (created.id, created.description) == ("team", "five")
    assert user.run("user", "create", "bob").code == 0
    assert user.run("group", "add", "team", "bob").code == 0
    assert user.run("group", "attach", "team", "FSReadAll").code == 0
    record = json.loads(user.run("group", "show", "team", "--json").out)
    assert record["graveler"] == {"members": ["bob"], "policies": ["FSReadAll"]}
    assert any(each.id == "team" for each in user.read(list[GroupShape], "group", "list"))
    assert user.run("group", "detach", "team", "FSReadAll").code == 0
    assert user.run("group", "remove", "team", "bob").code == 0
    record = json.loads(user.run("group", "show", "team", "--json").out)
    assert record["graveler"] == {"members": [], "policies": []}
    shown = terminal(user, "group", "delete", "team")
    shown.until("Delete the group team with 0 members? [y/N]: ")
    shown.type("y\n")
    assert shown.end() == 0
    absent = user.run("group", "show", "team")
    assert absent.code == 3 and absent.err.endswith(": team\ntry: graveler group list\n")


def test_policies(lake: Lake, tmp_path: Path) -> None:
    user, file = lake.user, tmp_path / "p.json"
    file.write_text(json.dumps({"statement": READ_LAKE}))
    created = user.read(PolicyShape, "policy", "create", "readers", str(file))
    assert (created.id, created.statement) == ("readers", READ_LAKE)
    assert user.run("policy", "create", "readers", str(file)).code == 5
    both = [*READ_LAKE, {"effect": "deny", "action": ["fs:DeleteObject"], "resource": "*"}]
    changed = user.run("policy", "update", "readers", "-", "--yes", input=json.dumps(both).encode())
    assert changed.out == "policy readers has 2 statements\n"
    assert "  deny\n    action:    fs:DeleteObject\n" in user.run("policy", "show", "readers").out
    listed = user.run("policy", "list", "--prefix", "readers").out
    assert listed.endswith("\tallow fs:Read*; deny fs:DeleteObject\n")
    assert user.run("user", "create", "eve").code == 0
    for where in (("--user", "eve"), ("--group", "Viewers")):
        for verb in ("attach", "detach"):
            done = user.run("policy", verb, "readers", *where)
            assert done.code == 0, done
    assert user.run("user", "attach", "eve", "readers").code == 0
    assert user.run("user", "detach", "eve", "readers").code == 0
    assert user.run("policy", "attach", "readers").code == 2
    assert user.run("policy", "delete", "readers").code == 2
    assert user.run("policy", "delete", "readers", "-y").code == 0
    assert user.run("policy", "show", "readers").code == 3


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"statement": []}', "[" * 100_000, "7"])
def test_files_that_are_no_policies(lake: Lake, text: str) -> None:
    result = lake.user.run("policy", "create", "bad", "-", input=text.encode())
    assert result.code == 1 and result.err.startswith("graveler: policy ")


def test_questions_about_rights(lake: Lake) -> None:
    right = lake.user.read(Right, "may-i", "fs:WriteObject", f"{lake.name}/main/a/b")
    assert right.resource == f"arn:lakefs:fs:::repository/{lake.name}/object/a/b"
    right = lake.user.read(Right, "may-i", "fs:CreateBranch", f"lakefs://{lake.name}/dev")
    assert right.resource == f"arn:lakefs:fs:::repository/{lake.name}/branch/dev"
    assert lake.user.read(Right, "may-i", "fs:ListRepositories").allowed
    unknown = lake.user.run("may-i", "fs:Fly")
    assert unknown.code == 1 and "no such action" in unknown.err


def test_a_file_that_is_not_there(lake: Lake, tmp_path: Path) -> None:
    result = lake.user.run("policy", "create", "bad", str(tmp_path / "none.json"))
    assert result.code == 2 and "No such file" in result.err


def test_lakectls_tree(lake: Lake, tmp_path: Path) -> None:
    user = lake.user
    document = tmp_path / "p.json"
    document.write_text(json.dumps(READ_LAKE))
    tree = "auth policies create --id kea-reads --statement-document"
    assert user.line(f"{tree} {document}").code == 0
    for line in (
        "auth users create --id kea",
        "auth groups create --id birds",
        "auth groups members add --id birds --user kea",
        "auth users policies attach --id kea --policy kea-reads",
        "auth groups policies attach --id birds --policy FSReadAll",
    ):
        assert user.line(line).code == 0, line
    assert user.line("auth users groups list --id kea").out == "birds\n"
    assert user.line("auth users policies list --id kea").out == "kea-reads\n"
    assert "FSReadAll" in user.line("auth users policies list --id kea --effective").out
    assert user.line("auth groups members list --id birds").out == "kea\n"
    assert user.line("auth groups policies list --id birds").out == "FSReadAll\n"
    for name, listed in (("users", "kea"), ("groups", "birds"), ("policies", "kea-reads")):
        assert listed in user.line(f"auth {name} list").out
    assert "fs:Read*" in user.line("auth policies show --id kea-reads").out
    for line in (
        "auth users policies detach --id kea --policy kea-reads",
        "auth groups policies detach --id birds --policy FSReadAll",
        "auth groups members remove --id birds --user kea",
        "auth policies delete --id kea-reads --yes",
        "auth groups delete --id birds --yes",
        "auth users delete --id kea --yes",
    ):
        assert user.line(line).code == 0, line
    assert user.line("auth users delete --id kea --yes").code == 3
    assert " auth " not in user.run("--help").out


def test_a_key_to_end_is_not_the_key_to_sign_in_with(lake: Lake) -> None:
    user = lake.user
    assert user.line("auth users create --id kiwi").code == 0
    created = user.line("auth users credentials create --id kiwi --json")
    key = json.loads(created.out)["access_key_id"]
    assert key in user.line("auth users credentials list --id kiwi").out
    assert user.line("auth users credentials list").out.startswith("AKIA")
    end = f"auth users credentials delete --id kiwi --access-key-id {key} --yes"
    other = user.run(
        *("--access-key-id", "AKIAOTHER", "--secret-stdin", *end.split()),
        input=b"not-the-secret-of-anybody-but-long\n",
    )
    assert other.code == 4
    assert user.line(end).err == f"deleted access key {key} of kiwi\n"
    assert user.line("auth users credentials list --id kiwi").out == ""
