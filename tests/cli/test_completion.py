"""What a shell is offered: commands, options, and addresses that the server knows."""

import subprocess

import pytest

from tests.cli.commands import PROGRAM, Client
from tests.cli.conftest import Lake


def offered(user: Client, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    words = line.split(" ")
    variables = {
        "_GRAVELER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    run = subprocess.run(
        [*PROGRAM],
        env=user.environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return [each.partition(",")[2] for each in run.stdout.splitlines() if each]


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
