"""`undo` and `restore`: what a client moved, deleted or merged comes back."""

import json
import os
import signal
import threading
from typing import Any

import pytest

from graveler import Branch
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def head(lake: Lake, ref: str = "main") -> str:
    return str(lake.user.read(dict[str, Any], "show", f"{lake.name}/{ref}")["id"])


def added(lake: Lake, path: str, branch: str = "main") -> str:
    lake.put(path, path.encode(), branch)
    return lake.commit(f"add {path}", branch)


def test_a_hard_reset_a_merge_and_deletions_are_undone_one_after_the_other(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first = added(lake, "a")
    user.run("branch", "create", f"{name}/dev")
    second = added(lake, "b", "dev")
    assert user.run("merge", f"{name}/dev", "main").code == 0
    merged = head(lake)
    assert user.run("reset", "--hard", f"{name}/dev", "main", "--confirm", "dev").code == 0
    user.run("tag", "create", f"{name}/v1", "dev~1")
    assert user.run("tag", "delete", f"{name}/v1", "--yes").code == 0
    assert user.run("branch", "delete", f"{name}/dev", "--yes").code == 0
    rows = json.loads(user.run("undo", "--list", "--json").out)
    assert [(row["action"], row["ref"]) for row in rows] == [
        ("deletion", f"{name}/dev"),
        ("deletion", f"{name}/v1"),
        ("reset", f"{name}/dev"),
        ("merge", f"{name}/main"),
    ]
    assert user.run("undo").code == 2  # nobody can be asked
    for ref, commit in (("dev", merged), ("v1", first), ("dev", second), ("main", first)):
        result = user.run("undo", "--yes")
        assert (result.code, result.err) == (0, "")
        assert result.out == f"{name}/{ref} is at {commit} again\n"
        assert head(lake, ref) == commit
    result = user.run("undo", "--yes")
    assert result.code == 3 and "nothing to undo" in result.err


def test_the_move_of_a_tag_is_undone(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first = added(lake, "a")
    assert user.run("tag", "create", f"{name}/v1").code == 0
    second = added(lake, "b")
    move = ("tag", "create", f"{name}/v1", "main", "--force", "--yes")
    assert user.run(*move).code == 0
    assert head(lake, "v1") == second
    (row,) = json.loads(user.run("undo", "--list", "--json").out)
    assert (row["action"], row["kind"], row["before"], row["after"]) == (
        *("move", "tag", first),
        second,
    )
    result = user.run("undo", "--yes")
    assert (result.code, result.out) == (0, f"{name}/v1 is at {first} again\n")
    assert head(lake, "v1") == first
    assert user.run("undo", "--yes").code == 3
    assert user.run(*move).code == 0
    elsewhere = str(user.home / "elsewhere")
    other = ("tag", "create", f"{name}/v1", "main~2", "--force", "--yes")
    assert user.run(*other, XDG_STATE_HOME=elsewhere).code == 0
    result = user.run("undo", "--yes")
    assert result.code == 5 and "has moved since the move" in result.err
    assert f"try: graveler tag create {name}/v1 {first[:12]} --force\n" in result.err


def test_a_tag_that_is_there_already_is_left_alone(lake: Lake) -> None:
    name, user = lake.name, lake.user
    assert user.run("tag", "create", f"{name}/v1", "main").code == 0
    assert user.run("tag", "create", f"{name}/v1", "main", "--force").code == 0
    assert json.loads(user.run("undo", "--list", "--json").out) == []


def of_tag(status: int, commit: str = "") -> Said:
    return Said(status, json.dumps({"id": "v1", "commit_id": commit, "message": "full"}).encode())


OLD, NEW = "1" * 64, "2" * 64
TEXTS = dict.fromkeys(("committer", "message", "creation_date", "metadata"), "")
COMMIT = TEXTS | {"id": NEW, "parents": []}
BEGUN = [Said(200, json.dumps(COMMIT).encode()), of_tag(200, OLD), Said(204)]
MOVE = ("tag", "create", "lake/v1", "main", "-f", "--yes")


@pytest.mark.parametrize(("refused", "code"), [(of_tag(507), 6), (Said(0), 7)])
def test_a_tag_that_cannot_be_moved_is_made_again(user: Client, refused: Said, code: int) -> None:
    with scripted([*BEGUN, refused, of_tag(201, OLD)]) as server:
        user.know(server.url)
        result = user.run(*MOVE)
        assert [asked.method for asked in server.asked] == ["GET", "GET", "DELETE", "POST", "POST"]
        assert json.loads(server.asked[-1].body) == {"id": "v1", "ref": OLD}
        assert json.loads(user.run("undo", "--list", "--json").out) == []
    assert (result.code, result.out) == (code, "")
    assert f"; the tag lake/v1 is at {OLD[:12]}\n" in result.err


def test_a_tag_that_is_lost_is_said_and_can_be_undone(user: Client) -> None:
    unknown = Said(404)  # the tag, then the repository
    answers = [*BEGUN, of_tag(507), of_tag(507), unknown, unknown, of_tag(201, OLD)]
    with scripted(answers) as server:
        user.know(server.url)
        result = user.run(*MOVE)
        assert (
            result.code != 0
            and f"the tag lake/v1 was perhaps deleted, it was at {OLD}" in result.err
        )
        assert f"try: graveler tag create lake/v1 {OLD}, or graveler undo\n" in result.err
        undone = user.run("undo", "--yes")
        assert (undone.code, undone.out) == (0, f"lake/v1 is at {OLD} again\n")
        assert json.loads(server.asked[-1].body) == {"id": "v1", "ref": OLD}


def test_a_tag_whose_move_has_no_answer_is_looked_at(user: Client) -> None:
    """It is where it should be: that is a success."""
    with scripted([*BEGUN, Said(0), of_tag(409), of_tag(200, NEW)]) as server:
        user.know(server.url)
        assert user.run(*MOVE).code == 0
        (row,) = json.loads(user.run("undo", "--list", "--json").out)
    assert (row["action"], row["before"], row["after"]) == ("move", OLD, NEW)


def test_a_tag_that_another_one_has_made_meanwhile_is_not_taken_for_a_move(user: Client) -> None:
    other = "3" * 64
    with scripted([*BEGUN, of_tag(409), of_tag(409), of_tag(200, other)]) as server:
        user.know(server.url)
        result = user.run(*MOVE)
        assert json.loads(user.run("undo", "--list", "--json").out or "[]") == []
    assert result.code != 0 and f"; the tag lake/v1 is at {other[:12]}\n" in result.err


def test_a_tag_whose_move_is_interrupted_is_made_again(user: Client) -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    refused = Said(0, before=interrupt)
    with scripted([*BEGUN, refused, of_tag(201, OLD)]) as server:
        user.know(server.url)
        result = user.run(*MOVE)
        assert [asked.method for asked in server.asked][-2:] == ["POST", "POST"]
    assert result.code == 130 and f"the tag lake/v1 is at {OLD[:12]}" in result.err


def test_a_tag_that_was_not_deleted_is_left_alone(user: Client) -> None:
    with scripted([*BEGUN[:2], Said(403), *BEGUN[:2], Said(0), of_tag(409), of_tag(200, OLD)]) as (
        server
    ):
        user.know(server.url)
        assert user.run(*MOVE).code == 4
        assert [asked.method for asked in server.asked] == ["GET", "GET", "DELETE"]
        result = user.run(*MOVE)
    assert result.code == 7 and f"; the tag lake/v1 is at {OLD[:12]}\n" in result.err


def test_a_branch_that_moved_since_is_left_alone(lake: Lake) -> None:
    name, user = lake.name, lake.user
    added(lake, "a")
    user.run("branch", "create", f"{name}/dev", "main~1")
    assert user.run("merge", f"{name}/main", "dev").code == 0
    last = added(lake, "b", "dev")
    result = user.run("undo", f"{name}/dev", "--yes")
    assert result.code == 5 and "has moved since the merge" in result.err
    assert head(lake, "dev") == last
    assert user.run("undo", f"{name}/main", "--yes").code == 3


@pytest.mark.parametrize("squash", [(), ("--squash",)], ids=["merge", "squash"])
def test_the_way_back_of_a_branch_that_moved_keeps_the_later_commits(
    lake: Lake, squash: tuple[str, ...]
) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    added(lake, "a", "dev")
    assert user.run("merge", f"{name}/dev", "main", *squash).code == 0
    last = added(lake, "b")
    result = user.run("undo", "--yes")
    assert result.code == 5 and "reset --hard" not in result.err
    way = result.err.partition("try: graveler ")[2].split()
    assert way[:2] == ["revert", f"{name}/main"]
    assert user.run(*way, "--yes").code == 0
    assert user.run("ls", f"{name}/main/").out.split("\t")[-1] == "b\n"
    assert last in user.run("log", f"{name}/main").out


def test_the_commits_from_before_a_reset_that_cannot_be_undone_get_a_branch(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first = added(lake, "a")
    user.run("reset", "--hard", f"{name}/main", "main~1", "--confirm", "main")
    added(lake, "b")
    result = user.run("undo", "--yes")
    assert result.code == 5
    assert result.err.endswith(f"\ntry: graveler branch create {name}/NEW {first[:12]}\n")


@pytest.mark.parametrize("command", ["undo", "delete", "reset"])
def test_a_branch_that_moves_during_the_question_is_left_alone(lake: Lake, command: str) -> None:
    name, user = lake.name, lake.user
    added(lake, "a")
    user.run("branch", "create", f"{name}/dev", "main~1")
    assert user.run("merge", f"{name}/main", "dev").code == 0
    words, ending, answer = {
        "undo": (("undo", f"{name}/dev"), "[y/N]: ", "y"),
        "delete": (("branch", "delete", f"{name}/dev"), "[y/N]: ", "y"),
        "reset": (("reset", "--hard", f"{name}/dev", "main"), "to go on: ", "dev"),
    }[command]
    shown = terminal(user, *words)
    shown.until(ending)
    last = added(lake, "b", "dev")
    shown.type(f"{answer}\n")
    assert shown.end() == 5 and "has moved since" in shown.text
    assert head(lake, "dev") == last


def test_the_head_is_looked_at_for_servers_that_know_no_condition(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, user = lake.name, lake.user
    move = Branch.reset
    monkeypatch.setattr(Branch, "reset", lambda branch, *, to, expected="": move(branch, to=to))
    added(lake, "a")
    user.run("branch", "create", f"{name}/dev", "main~1")
    assert user.run("merge", f"{name}/main", "dev").code == 0
    last = added(lake, "b", "dev")
    assert user.run("undo", f"{name}/dev", "--yes").code == 5
    assert head(lake, "dev") == last


def test_an_undo_asks(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    user.run("branch", "delete", f"{name}/dev", "--yes")
    shown = terminal(user, "undo", name)
    shown.until(f"Undo the deletion of {name}/dev: make it again at ")
    shown.type("n\n")
    assert shown.end() == 1 and user.run("branch", "show", f"{name}/dev").code == 3


def test_lines_of_another_form_are_left_out(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    user.run("branch", "delete", f"{name}/dev", "--yes")
    file = user.home / "state" / "graveler" / "undo.jsonl"
    file.write_text('{"torn\n[]\n{"version": 2}\n' + file.read_text())
    assert user.run("undo", "--list").out.count("\n") == 1


def test_a_journal_that_cannot_be_written_fails_no_command(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    (user.home / "state").mkdir(exist_ok=True)
    (user.home / "state" / "graveler").write_text("a file, where a folder should be")
    result = user.run("branch", "delete", f"{name}/dev", "--yes")
    assert result.code == 0 and "`graveler undo` will not know of this" in result.err


def test_what_is_remembered_is_for_its_owner_alone(lake: Lake) -> None:
    """With the widest umask."""
    name, user = lake.name, lake.user
    before = os.umask(0)
    try:
        user.run("branch", "create", f"{name}/dev")
        assert user.run("branch", "delete", f"{name}/dev", "--yes").code == 0
    finally:
        os.umask(before)
    file = user.home / "state" / "graveler" / "undo.jsonl"
    modes = [each.stat().st_mode & 0o777 for each in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_the_journal_stays_short(lake: Lake) -> None:
    name, user = lake.name, lake.user
    file = user.home / "state" / "graveler" / "undo.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(('{"undone": 1}' + " " * 1_000 + "\n") * 1_100)
    user.run("branch", "create", f"{name}/dev")
    user.run("branch", "delete", f"{name}/dev", "--yes")
    lines = file.read_text().splitlines()
    assert len(lines) == 1_000 and "made_in" in lines[-1]
    assert user.run("undo", name, "--yes").code == 0


# ---- restore -------------------------------------------------------------------------------------


def test_a_restore_commits_the_content_of_an_old_commit(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first = added(lake, "a")
    added(lake, "b")
    last = added(lake, "c")
    made = user.read(dict[str, Any], "restore", f"{name}/main", "main~2", "--yes")
    assert made["parents"] == [last] and made["message"] == f"Restore {first[:12]}: add a"
    assert user.run("diff", f"{name}/main..{first}", "--exit-code").code == 0
    assert user.run("restore", f"{name}/main", first, "--yes").code == 1  # equal already
    assert user.run("undo", name, "--yes").code == 0
    assert head(lake) == last


def test_a_restore_asks_and_says_how_much_it_changes(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first = added(lake, "a")
    last = added(lake, "b")
    assert user.run("restore", f"{name}/main", "main~1").code == 2
    shown = terminal(user, "restore", f"{name}/main", "main~1")
    shown.until(f"Restore {name}/main to {first[:12]} (add a), which commits 1 change? [y/N]: ")
    shown.type("n\n")
    assert shown.end() == 1 and head(lake) == last
    other = lake.live.fresh_repository()
    assert user.run("restore", f"{name}/main", f"{other}/main", "--yes").code == 2


def test_a_restore_of_a_path_leads_to_a_copy(lake: Lake) -> None:
    name, user = lake.name, lake.user
    added(lake, "a")
    lake.put("a", b"new")
    lake.commit("change a")
    refused = user.run("restore", f"{name}/main/a", "main~1")
    assert refused.code == 2 and "restored as a whole" in refused.err
    way = refused.err.partition("try: graveler ")[2].split()
    assert user.run(*way).code == 0 and user.run("cat", f"{name}/main/a").out == "a"


def test_a_restore_keeps_uncommitted_changes_from_being_lost(lake: Lake) -> None:
    name, user = lake.name, lake.user
    added(lake, "a")
    last = added(lake, "b")
    lake.put("c")
    # The first commit of a repository is empty.
    for ref, reason in (("main~1", "uncommitted changes"), ("main~2", "is empty")):
        result = user.run("restore", f"{name}/main", ref, "--yes")
        assert result.code == 1 and reason in result.err
    assert head(lake) == last
    assert user.run("diff", f"{name}/main").out.startswith("added\tc\t")


def test_a_repository_that_was_made_again_has_none_of_the_old_moves(lake: Lake) -> None:
    name, user = f"{lake.name}-again", lake.user
    assert user.run("repo", "create", name, f"local://{name}/1").code == 0
    assert user.run("branch", "create", f"{name}/dev").code == 0
    assert user.run("branch", "delete", f"{name}/dev", "--yes").code == 0
    assert [row["ref"] for row in json.loads(user.run("undo", "--list", "--json").out)] == [
        f"{name}/dev"
    ]
    assert user.run("repo", "delete", name, "--yes").code == 0
    assert user.run("undo", "--list", "--json").out == "[]\n"
    assert user.run("repo", "create", name, f"local://{name}/2").code == 0
    assert user.run("undo", "--list", "--json").out == "[]\n"
    assert user.run("undo", "--yes").code == 3


def test_a_move_of_an_unknown_repository_is_still_undone(lake: Lake) -> None:
    """A crash, or a server that does not answer, left the identity out."""
    name, user = lake.name, lake.user
    assert user.run("branch", "create", f"{name}/dev").code == 0
    assert user.run("branch", "delete", f"{name}/dev", "--yes").code == 0
    file = user.home / "state" / "graveler" / "undo.jsonl"
    move, identity = file.read_text().splitlines()
    assert json.loads(identity).keys() == {"made_in", "of"}
    file.write_text(f"{move}\n")
    assert user.run("undo", "--yes").code == 0
    assert user.run("branch", "show", f"{name}/dev").code == 0


@pytest.mark.parametrize(
    ("answer", "is_pressed"),
    [
        (Said(200, b'{"id": "lake", "default_branch": "", "storage_namespace": ""}'), False),
        (Said(200, b"[]"), False),
        (Said(403), False),
        (Said(200), True),
    ],
    ids=["no date", "a list", "refused", "Ctrl-C"],
)
def test_a_move_is_recorded_before_the_server_is_asked_which_repository_it_is(
    user: Client, answer: Said, is_pressed: bool
) -> None:
    file = user.home / "state" / "graveler" / "undo.jsonl"
    recorded: list[str] = []

    def look() -> None:
        recorded.append(file.read_text())
        if is_pressed:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    asked = answer._replace(before=look)
    with scripted([of_tag(200, OLD), Said(204), asked]) as server:
        user.know(server.url)
        result = user.run("tag", "delete", "lake/v1", "--yes")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("deleted tag lake/v1, it was at ")
    assert [json.loads(line)["before"] for line in recorded] == [OLD]
    assert file.read_text() == recorded[0]


def test_a_tag_that_is_lost_is_said_after_a_second_interrupt(user: Client) -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressed = Said(0, before=interrupt)
    with scripted([*BEGUN, of_tag(507), of_tag(507), of_tag(404), pressed, *[Said(0)] * 9]) as (
        server
    ):
        user.know(server.url)
        result = user.run(*MOVE)
    assert f"the tag lake/v1 was perhaps deleted, it was at {OLD}" in result.err
    assert "or graveler undo\n" in result.err
    file = user.home / "state" / "graveler" / "undo.jsonl"
    assert json.loads(file.read_text())["before"] == OLD
