"""What a shell is offered: commands, options, and addresses that the server knows."""

import json
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from graveler.cli import overview, profiles
from graveler.cli.completion import limit
from tests.cli.commands import PROGRAM, Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def offered(user: Client, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    variables = {
        "_GRAVELER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
    }
    run = subprocess.run(
        [*PROGRAM],
        env=user.environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return [
        "a file" if kind == "file" else text
        for kind, text, _ in (each.split("\t") for each in run.stdout.splitlines() if each)
    ]


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
    assert offered(user, "graveler cher") == ["cherry-pick"]
    assert offered(user, "graveler branch cr") == ["create"]
    assert "--oneline" in offered(user, "graveler log --on")


def test_without_a_server_nothing_is_offered(user: Client) -> None:
    assert offered(user, "graveler ls la") == []
    user.know("http://127.0.0.1:1")
    assert offered(user, "graveler ls la") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(user: Client, shell: str) -> None:
    assert "_GRAVELER_COMPLETE" in user.run("completion", shell).out


def test_an_answer_is_kept_for_ten_seconds(user: Client) -> None:
    page = {"has_more": False, "next_offset": "", "max_per_page": 1, "results": 1}
    rows = [{"id": "lake", "creation_date": 1, "default_branch": "main", "storage_namespace": "x"}]
    answer = Said(200, json.dumps({"pagination": page, "results": rows}).encode())
    with scripted([answer, answer]) as server:
        user.know(server.url)
        file = user.home / "state/graveler/completion.json"
        assert offered(user, "graveler ls la") == ["lake/"] == offered(user, "graveler ls la")
        assert len(server.asked) == 1 and stat.S_IMODE(file.stat().st_mode) == 0o600
        known = json.loads(file.read_text())
        aged = {name: (at - 10, texts) for name, (at, texts) in known.items()}
        file.write_text(json.dumps(aged))
        assert offered(user, "graveler ls la") == ["lake/"] and len(server.asked) == 2
        file.write_text("[1")
        assert offered(user, "graveler ls la") == []  # it asks again, and nobody answers


def test_profiles_that_cannot_be_read_complete_nothing(user: Client) -> None:
    folder = profiles.folder(user.variables)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "credentials.toml").write_text("no table")
    assert offered(user, "graveler ls la") == []


def answers(user: Client, shell: str, *words: str) -> list[list[str]]:
    """The items that zsh or fish gets for the last word: kind, value and help."""
    env = user.environment() | {"_GRAVELER_COMPLETE": f"{shell}_complete"}
    run = subprocess.run([*PROGRAM, *words], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return [line.split("\t") for line in run.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_words_arrive_without_quotes_and_values_leave_without(lake: Lake, shell: str) -> None:
    paths = ["a,b: [c].csv", "a\tb", "a\nb"]
    for path in paths:
        lake.put(path)
    start = f"{lake.name}/main"
    items = answers(lake.user, shell, "cat", f"{start}/a")
    assert items == [["plain", f"{start}/a,b: [c].csv", ""]]  # no item of two lines or columns
    assert answers(lake.user, shell, "cat", f"{start}/a,b: [") == items
    assert answers(lake.user, shell, "log", start, "--stop-at=ma") == [
        ["plain", "--stop-at=main", ""]
    ]
    assert answers(lake.user, shell, "cp", "READ") == [["file", "READ", ""]]
    assert answers(lake.user, shell, "cherry") == [
        ["plain", "cherry-pick", overview.COMMANDS["cherry-pick"].help]
    ]


def test_the_names_of_lakectl_are_not_offered(user: Client) -> None:
    shown = [name for name, entry in overview.COMMANDS.items() if entry.section]
    assert offered(user, "graveler ") == shown
    assert [name for _, name, _ in answers(user, "zsh", "")] == shown
    assert answers(user, "fish") == answers(user, "fish", "")  # a script of an older release
    assert "--json" in offered(user, "graveler --js")


def test_an_unknown_shell_gets_no_answer(user: Client) -> None:
    env = user.environment() | {"_GRAVELER_COMPLETE": "tcsh_complete"}
    run = subprocess.run([*PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "")
