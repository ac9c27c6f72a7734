"""Texts of a server, and of those who wrote to it, on a terminal; and what the system refuses."""

import json
import subprocess
from typing import Any

import pytest

from graveler.cli.support.output import Output, field
from tests.cli.commands import PROGRAM, Client, Terminal, terminal
from tests.client.scripted import Said, scripted

EVIL = "1\x1b]0;title\x07\x9b2J\x7f\u202e\u2067\u200e"
SHOWN = "1\\x1b]0;title\\x07\\x9b2J\\x7f\\u202e\\u2067\\u200e"
RAW = ("\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\u2067", "\u200e")


def said(record: dict[str, Any]) -> Said:
    return Said(200, json.dumps(record).encode())


def ended(shown: Terminal) -> str:
    assert shown.end() == 0, shown.text
    assert not [each for each in RAW if each in shown.text], shown.text
    return shown.text


def test_names_and_ids_do_not_control_a_terminal(user: Client) -> None:
    head = said({"id": "main", "commit_id": EVIL})
    fresh = said({"id": EVIL, "creation_date": 0})
    with scripted([head, fresh, fresh]) as script:
        user.know(script.url)
        shown = ended(terminal(user, "branch", "show", "lake/main", "--color", "never"))
        assert SHOWN[:12] in shown
        for color in ("never", "always"):
            shown = ended(terminal(user, "user", "create", "ann", "--color", color))
            assert f"created user {SHOWN}" in shown


def test_colours_of_others_are_no_colours(user: Client) -> None:
    """Hidden text and colours come from us alone, in a line of a record too."""
    fresh = said({"id": "a\x1b[8mb\x1b[31mc", "creation_date": 0})
    with scripted([fresh]) as script:
        user.know(script.url)
        shown = ended(terminal(user, "user", "create", "ann", "--color", "always"))
    assert "created user a\\x1b[8mb\\x1b[31mc" in shown


def test_an_object_does_not_control_a_terminal(user: Client) -> None:
    """Its text may arrive in pieces of any length, and need not be UTF-8."""
    whole = Said(200, f"a\r\nö{EVIL}".encode())
    with scripted([whole._replace(body=whole.body + b"\xff"), whole]) as script:
        user.know(script.url)
        shown = ended(terminal(user, "cat", "--no-pre-sign", "lake/main/a"))
        assert shown == f"a\nö{SHOWN}\\xff"
        assert user.run("cat", "--no-pre-sign", "lake/main/a").out == f"a\r\nö{EVIL}"


def test_json_on_a_terminal_has_no_controls(user: Client) -> None:
    with scripted(
        [said({"id": EVIL}), Said(400, json.dumps({"message": EVIL}).encode())]
    ) as script:
        user.know(script.url)
        shown = ended(terminal(user, "user", "create", "ann", "--json"))
        assert json.loads(shown) == {"id": EVIL}
        failed = terminal(user, "user", "create", "ann", "--json")
        assert failed.end() == 1 and json.loads(failed.text)["error"]["message"] == EVIL
        assert "\x9b" not in failed.text


def test_ids_of_requests_do_not_control_a_terminal(user: Client) -> None:
    answer = Said(200, b'{"id": "ann"}', (("X-Request-Id", "a\x9bb"),))
    with scripted([answer]) as script:
        user.know(script.url)
        result = user.run("user", "create", "ann", "-v")
    assert result.code == 0 and result.err.endswith(" ms a\\x9bb\n")


def test_a_question_does_not_control_a_terminal(user: Client) -> None:
    """The commit that a branch would move to has a message of whoever committed it."""
    head = said({"id": "main", "commit_id": "1a"})
    for message, words in ((EVIL, f"({SHOWN})?"), ("", "()?")):
        fields = {"parents": [], "committer": "ann", "creation_date": 0, "metadata": {}}
        goal = said({"id": "2b", "message": message, **fields})
        with scripted([head, goal]) as script:
            user.know(script.url)
            shown = terminal(user, "reset", "--hard", "lake/main", "2b")
            shown.until("to go on: ")
            shown.type("no\n")
            assert shown.end() == 2 and words in shown.text
            assert not [each for each in RAW if each in shown.text]


@pytest.mark.parametrize("value", [1e300, 10**20, -(10**20), "9" * 30, "soon", float("inf")])
def test_times_that_no_calendar_has(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    for is_terminal in (False, True):
        output = Output(terminal=is_terminal)
        assert output.items([field("mtime", "time")], [{"mtime": value}]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[2] != ""


# ---- what the system refuses ---------------------------------------------------------------------


def test_a_full_disk_is_one_line(user: Client) -> None:
    with scripted([said({"id": "ann"})]) as script, open("/dev/full", "w") as full:
        user.know(script.url)
        done = subprocess.run(
            [*PROGRAM, "user", "create", "ann"],
            env=user.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "graveler: No space left on device\n")


def test_a_name_that_the_output_cannot_encode_is_escaped(user: Client) -> None:
    with scripted([said({"id": "\ud800é"})]) as script:
        user.know(script.url)
        result = user.run("user", "create", "ann")
    assert (result.code, result.out) == (0, "created user \\ud800é\n")


def test_a_file_that_the_system_refuses_is_named(user: Client) -> None:
    file = user.home / "state" / "graveler" / "bisect.json"
    file.mkdir(parents=True)
    result = user.run("bisect", "reset")
    assert result == (1, "", f"graveler: {file}: Is a directory\n")
    result = user.run("bisect", "reset", "--json")
    assert json.loads(result.err)["error"]["message"] == f"{file}: Is a directory"


def test_a_store_whose_credentials_are_no_words(user: Client) -> None:
    file = user.home / "credentials"
    for content in (b"export A='b", b"\xff"):
        file.write_bytes(content)
        result = user.run("login", "--store", str(user.home))
        assert result.code == 1 and result.err.startswith("graveler: credentials file has no ")
