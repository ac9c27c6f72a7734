"""`graveler api`: requests of all methods with the key of the profile, and where none may go."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def test_requests_of_several_methods(lake: Lake, tmp_path: Path) -> None:
    user, name = lake.user, lake.name
    shown = user.run("api", "get", f"/repositories/{name}")
    assert (shown.code, json.loads(shown.out)["id"]) == (0, name)
    where = f"repositories/{name}/branches"
    words = ("api", "POST", where, "--field", "name=dev", "--field", "source=main")
    assert user.run(*words, "--field", "force=false").code == 0
    listed = json.loads(user.run("api", "GET", where, "--field", "amount=1").out)
    assert [branch["id"] for branch in listed["results"]] == ["dev"]
    body = json.dumps({"message": "x", "allow_empty": True}).encode()
    (tmp_path / "body").write_bytes(body)
    commits = ("api", "POST", f"{where}/dev/commits", "--body")
    assert user.run(*commits, str(tmp_path / "body")).code == 0
    assert json.loads(user.run(*commits, "-", input=body).out)["message"] == "x"
    assert user.run("api", "DELETE", f"{where}/dev") == (0, "", "")
    assert user.run("api", "GET", f"{where}/dev").code == 3


def test_people_see_json_in_lines(lake: Lake) -> None:
    shown = terminal(lake.user, "api", "GET", f"repositories/{lake.name}")
    assert shown.end() == 0 and f'\n  "id": "{lake.name}",\n' in shown.text


@pytest.mark.parametrize(
    "path",
    [
        *("http://elsewhere/api/v1/user", "https://elsewhere", "//elsewhere/user", "a/../../x"),
        *("%2e%2e/%2E%2E/x", "./x", "x y", "x#y", "x\r\nHost: elsewhere", "\\\\elsewhere\\x"),
    ],
)
def test_paths_that_lead_elsewhere(user: Client, path: str) -> None:
    with scripted([]) as server:
        user.know(server.url)
        result = user.run("api", "GET", path)
        assert result.code == 2 and "path invalid" in result.err and server.asked == []


def test_a_redirect_gets_no_key(user: Client) -> None:
    with scripted([]) as other:
        to = Said(302, b"", (("Location", f"{other.url}/api/v1/user"),))
        with scripted([to]) as server:
            user.know(server.url)
            assert user.run("api", "GET", "user").code == 1
            assert len(server.asked) == 1 and other.asked == []


def test_fields_that_are_none(user: Client) -> None:
    with scripted([]) as server:
        user.know(server.url)
        assert user.run("api", "POST", "x", "--field", "name").code == 2
        assert user.run("api", "POST", "x", "--field", "a=b", "--body", "-").code == 2
        assert user.run("api", "TRACE", "x").code == 2
