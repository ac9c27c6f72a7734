"""What a shell is offered: commands, options, and addresses that the server knows."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from graveler.cli.commands import COMMANDS
from graveler.cli.support.completion import limit
from graveler.lake import profiles
from tests.cli.commands import PROGRAM, Client, completing
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def offered(user: Client, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    return items(user.completions(line))


def items(told: str) -> list[str]:
    """What bash makes of what it is told."""
    found = [each.split(",", 1) for each in told.splitlines() if each]
    return ["a file" if kind == "file" else text for kind, text in found]


def test_addresses_are_completed_by_the_server(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    user.run("tag", "create", f"{name}/dated")
    lake.put("sales/2026.csv")
    lake.put("sales.txt")
    assert f"{name}/" in offered(user, "graveler ls ")
    assert offered(user, f"graveler ls {name}")[:1] == [f"{name}/"]
    assert offered(user, f"graveler ls {name}/d") == [f"{name}/dev", f"{name}/dated"]
    paths = [f"{name}/main/sales.txt", f"{name}/main/sales/"]
    assert offered(user, f"graveler cat {name}/main/sa") == paths
    assert offered(user, f"graveler branch delete {name}/de") == [f"{name}/dev"]
    assert offered(user, f"graveler ls lakefs://{name}/de") == [f"lakefs://{name}/dev"]


def test_both_sides_of_a_move_are_whole_addresses(lake: Lake) -> None:
    name, user = lake.name, lake.user
    lake.put("sales.csv")
    for start in (name, f"lakefs://{name}"):
        path = f"{start}/main/sales.csv"
        assert offered(user, f"graveler mv {start}/main/sa") == [path]
        assert offered(user, f"graveler mv {path} {start}/ma") == [f"{start}/main"]
    assert offered(user, f"graveler mv {name}/main/sales.csv ma") == []


def test_sides_of_a_copy_are_addresses_or_files(lake: Lake) -> None:
    name, user, command = lake.name, lake.user, "cp"
    lake.put("sales.csv")
    path = f"lakefs://{name}/main/sales.csv"
    assert offered(user, f"graveler {command} lakefs://{name}/main/sa") == [path]
    assert offered(user, f"graveler {command} {path} lakefs://{name}/ma") == [path[:-10]]
    assert offered(user, f"graveler {command} {path} graveler://{name}/ma") == [
        f"graveler://{name}/main"
    ]
    assert offered(user, f"graveler {command} lakefs:") == ["lakefs://"]
    assert offered(user, f"graveler {command} sa") == ["a file"]


def test_sides_of_an_upload(lake: Lake) -> None:
    name, user = lake.name, lake.user
    for command in ("upload", "fs upload"):
        assert offered(user, f"graveler {command} sa") == ["a file"]
        assert offered(user, f"graveler {command} sales.csv {name}/ma") == [f"{name}/main"]
    assert offered(user, "graveler fs upload -s sa") == ["a file"]
    assert offered(user, f"graveler fs upload -s sales.csv {name}/ma") == [f"{name}/main"]
    assert offered(user, f"graveler fs upload lakefs://{name}/ma") == [f"lakefs://{name}/main"]


def test_refs_without_a_repository(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    user.run("tag", "create", f"{name}/dated")
    lake.put("sales/2026.csv")
    assert offered(user, f"graveler merge {name}/dev ma") == ["main"]
    assert offered(user, f"graveler merge {name}/dev {name}") == [f"{name}/"]
    assert offered(user, f"graveler merge {name}/dev {name}/ma") == [f"{name}/main"]
    assert offered(user, f"graveler merge {name}/dev :ma") == [":main"]
    assert offered(user, f"graveler log {name}/dev --stop-at da") == ["dated"]
    assert offered(user, f"graveler log --stop-at da {name}/de") == [f"{name}/dev"]
    assert offered(user, "graveler ls :ma") == []  # there is no current repository
    user.run("config", "set", "repository", name)
    assert offered(user, "graveler ls :ma") == [":main"]
    assert offered(user, "graveler ls :main/sa") == [":main/sales/"]
    assert offered(user, "graveler log --stop-at da") == ["dated"]


def test_the_ref_of_a_linked_folder(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, user = lake.name, lake.user
    lake.put("sales.csv")
    folder = tmp_path / "folder"
    assert user.run("local", "clone", f"{name}/main", str(folder)).code == 0
    monkeypatch.chdir(folder)
    assert offered(user, "graveler local checkout --ref ma") == ["main"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0.3), ("2", 2.0), ("none", 0.3), ("0", 0.3), ("-1", 0.3), ("nan", 0.3), ("1e9", 0.3)],
)
def test_the_time_that_a_completion_has(text: str, seconds: float) -> None:
    assert limit({"GRAVELER_COMPLETION_SECONDS": text}) == seconds
    assert limit({}) == 0.3


@pytest.mark.parametrize("waits", [True, False])
def test_all_requests_of_a_completion_have_this_time_together(user: Client, waits: bool) -> None:
    """Without an answer to the second one, the first one completes nothing."""
    if waits:
        del user.variables["GRAVELER_COMPLETION_SECONDS"]
    page = {"has_more": False, "next_offset": "", "max_per_page": 1, "results": 1}
    rows = [{"id": "dev", "commit_id": "c"}]
    body = json.dumps({"pagination": page, "results": rows}).encode()
    goes_on = threading.Event()
    quick, slow = Said(200, body), Said(200, body, before=goes_on.wait)
    with scripted([quick, slow if waits else quick]) as server:
        user.know(server.url)
        found = offered(user, "graveler ls lake/d")  # branches and tags
        goes_on.set()
    assert found == ([] if waits else ["lake/dev", "lake/dev"])


def test_commands_and_options(user: Client) -> None:
    """The first one is asked for as a shell does it: in a process of its own."""
    run = subprocess.run(
        [*PROGRAM],
        env=user.environment() | completing("graveler cher"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (items(run.stdout), run.stderr) == (["cherry-pick"], "")
    assert offered(user, "graveler branch cr") == ["create"]
    assert "--oneline" in offered(user, "graveler log --on")


def test_without_a_server_nothing_is_offered(user: Client) -> None:
    assert offered(user, "graveler ls la") == []
    user.know("http://127.0.0.1:1")
    assert offered(user, "graveler ls la") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(user: Client, shell: str) -> None:
    assert "_GRAVELER_COMPLETE" in user.run("completion", shell).out


def test_profiles_that_cannot_be_read_complete_nothing(user: Client) -> None:
    folder = profiles.folder(user.variables)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "credentials.toml").write_text("no table")
    assert offered(user, "graveler ls la") == []


def test_a_path_that_a_shell_or_a_terminal_would_act_on_is_not_offered(lake: Lake) -> None:
    hostile = ("a\tb", "a\nb", "a\x1b[31m", "a$(touch x)", "a`x`", "a;b", "a b", "a'b", "a*")
    for path in ("a.csv", *hostile):
        lake.put(path)
    assert offered(lake.user, f"graveler cat {lake.name}/main/a") == [f"{lake.name}/main/a.csv"]


def test_the_names_of_lakectl_are_not_offered(user: Client) -> None:
    assert offered(user, "graveler ") == [name for name, entry in COMMANDS.items() if entry.section]
