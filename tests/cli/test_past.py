"""Refs as they were at a time, logs of all refs, and conflicts of reverts and cherry-picks."""

import json
from typing import Any

from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted

DAY = 86_400
START = 1_767_225_600  # 2026-01-01T00:00:00Z


def commit(lake: Lake, day: int, path: str, branch: str = "main") -> str:
    """Add an object, and commit it as of that day of 2026 at midnight."""
    lake.put(path, path.encode(), branch)
    where = f"/repositories/{lake.name}/branches/{branch}/commits"
    body = {"message": f"add {path}", "date": START + (day - 1) * DAY}
    reply = lake.live.client.send("POST", where, body=body)
    assert reply.status == 201, reply.body
    return str(reply.json["id"])


def messages(lake: Lake, *words: str) -> list[str]:
    result = lake.user.run("--json", "log", *words)
    assert result.code == 0, result
    return [each["message"] for each in json.loads(result.out)]


def test_every_command_that_reads_a_ref_reads_it_as_it_was(lake: Lake) -> None:
    name, user = lake.name, lake.user
    ids = [commit(lake, day, path) for day, path in ((2, "a"), (4, "b"), (6, "c"))]
    at = ("--at", "2026-01-05T00:00:00Z")
    result = user.run("ls", f"{name}/main", *at)
    assert [line.split("\t")[2] for line in result.out.splitlines()] == ["a", "b"]
    assert result.err == (
        f"{name}/main at 2026-01-05T00:00:00Z: {ids[1][:12]} of 2026-01-04T00:00:00Z: add b\n"
        "by the dates of its history as it is now: what a reset or an undo took away is not seen\n"
    )
    assert user.run("cat", f"{name}/main/b", *at).out == "b"
    assert user.run("stat", f"{name}/main/c", *at).code == 3
    assert messages(lake, f"{name}/main", *at)[0] == "add b"
    assert messages(lake, name, *at)[0] == "add b"
    assert user.read(dict[str, Any], "show", f"{name}/main", *at)["id"] == ids[1]
    made = user.read(dict[str, Any], "tag", "create", f"{name}/v1", "main", *at)
    assert made["commit_id"] == ids[1]
    made = user.read(dict[str, Any], "branch", "create", f"{name}/old", *at)
    assert made["commit_id"] == ids[1]
    reset = ("reset", "--hard", f"{name}/old", "main", "--confirm", "old")
    moved = user.read(dict[str, Any], *reset, "--at", "2026-01-03T00:00:00Z")
    assert moved["commit_id"] == ids[0]
    base = user.read(dict[str, Any], "merge-base", f"{name}/main", "old", *at)
    assert base["base_commit_id"] == ids[0]
    copied = user.run("cp", f"lakefs://{name}/main/b", f"lakefs://{name}/main/copy", *at)
    assert copied.code == 0, copied
    assert user.run("cat", f"{name}/main/copy").out == "b"


def test_a_folder_is_downloaded_as_it_was(lake: Lake) -> None:
    for day, path in ((2, "d/a"), (6, "d/b")):
        commit(lake, day, path)
    target = lake.user.home / "old"
    words = ("download", "-r", f"{lake.name}/main/d/", str(target), "--at", "2026-01-03")
    assert lake.user.run(*words).code == 0
    assert [file.name for file in target.iterdir()] == ["a"]


def test_a_time_costs_one_request_if_the_commit_is_among_the_newest(lake: Lake) -> None:
    commit(lake, 2, "a")
    result = lake.user.run("ls", f"{lake.name}/main", "--at", "2026-01-03", "-v")
    requests = [line for line in result.err.splitlines() if line.startswith("> GET ")]
    assert len(requests) == 2 and "amount=32 " in requests[0]
    assert "first_parent=true" in requests[0]


def test_an_address_may_have_its_own_time(lake: Lake) -> None:
    name = lake.name
    commit(lake, 2, "a")
    commit(lake, 4, "b")
    old = f"{name}/main@{{2026-01-03T00:00:00Z}}"
    assert lake.user.run("ls", old).out.endswith("\ta\n")
    assert lake.user.run("diff", f"{old}..main").out.startswith("added\tb\t")
    for word in (f"{name}/main@{{soon}}", f"{name}/main@{{2026", f"{name}/@{{2026-01-03}}"):
        assert lake.user.run("ls", word).code == 2


def test_what_changed_since(lake: Lake) -> None:
    name = lake.name
    commit(lake, 2, "a")
    lake.user.run("branch", "create", f"{name}/dev")
    commit(lake, 4, "b")
    commit(lake, 5, "c", "dev")
    since = ("--at", "2026-01-03T00:00:00Z", "--name-only")
    assert lake.user.run("diff", f"{name}/main", *since).out == "b\n"
    assert lake.user.run("diff", f"{name}/main", "dev", *since).out == ""
    now = ("--at", "now", "--name-only")
    assert lake.user.run("diff", f"{name}/main", "dev", *now).out == "c\n"


def test_first_parents_decide(lake: Lake) -> None:
    """A commit of a merged branch was not on the branch before the merge."""
    name = lake.name
    first = commit(lake, 2, "a")
    lake.user.run("branch", "create", f"{name}/dev")
    commit(lake, 3, "b", "dev")
    assert lake.user.run("merge", f"{name}/dev", "main").code == 0
    at = ("--at", "2026-01-04T00:00:00Z")
    assert lake.user.read(dict[str, Any], "show", f"{name}/main", *at)["id"] == first


def test_a_time_before_the_first_commit(lake: Lake) -> None:
    """A new repository has a commit of the present; older ones of the test lie above it."""
    for day in range(1, 40):  # more than the first page
        commit(lake, day, f"{day}")
    result = lake.user.run("ls", f"{lake.name}/main", "--at", "2001-01-01")
    assert (result.code, result.out) == (3, "")
    assert f"no commit of {lake.name}/main is that old: the first one, " in result.err
    assert result.err.endswith(f"try: graveler log {lake.name}/main --first-parent\n")


def test_a_revert_undoes_the_commit_of_a_time(lake: Lake) -> None:
    name = lake.name
    ids = [commit(lake, day, path) for day, path in ((2, "a"), (4, "b"), (6, "c"))]
    words = ("revert", f"{name}/main", "main", "--yes", "--at", "2026-01-05T00:00:00Z")
    result = lake.user.run(*words)
    assert (result.code, result.out.partition("] ")[2]) == (0, 'Revert "add b"\n')
    assert result.err.startswith(f"{name}/main at 2026-01-05T00:00:00Z: {ids[1][:12]} ")
    result = lake.user.run("branch", *words[:2], "main@{2026-01-03}", "--yes")
    assert result.out.endswith('Revert "add a"\n')


def test_a_log_ends_with_the_commit_of_a_time(lake: Lake) -> None:
    name = lake.name
    for day, path in ((2, "a"), (4, "b"), (6, "c")):
        commit(lake, day, path)
    lake.user.run("branch", "create", f"{name}/dev")
    commit(lake, 7, "d", "dev")
    stop = ("--stop-at", "main@{2026-01-05}")
    assert messages(lake, f"{name}/main", *stop) == ["add c", "add b"]
    at = ("--at", "2026-01-06T12:00:00Z")
    assert messages(lake, f"{name}/dev", "--stop-at", "main~1", *at) == ["add c", "add b"]
    assert messages(lake, f"{name}/main", "--stop-at", "dev", *at) == ["add c"]


def test_a_search_takes_commits_of_a_time(lake: Lake) -> None:
    name, user = lake.name, lake.user
    ids = [commit(lake, day, path) for day, path in ((2, "a"), (4, "b"), (6, "c"), (8, "d"))]

    def candidates(*words: str) -> list[str]:
        assert user.run("bisect", *words).code == 0
        return [row["id"] for row in json.loads(user.run("bisect", "view", "--json").out)]

    at = ("--at", "2026-01-03T00:00:00Z")
    assert candidates("start", f"{name}/main", *at) == ids[:0:-1]
    assert candidates("start", f"{name}/main", ids[0], "--at", "2026-01-07") == ids[2:0:-1]
    candidates("start", f"{name}/main", f"{name}/main@{{2026-01-03}}")
    assert candidates("good", "main", "--at", "2026-01-05") == ids[:1:-1]
    assert candidates("bad", "main@{2026-01-07}") == ids[2:3]
    assert user.run("bisect", "start", f"{name}/main").code == 2
    assert user.run("bisect", "skip", *at).code == 2


def test_a_search_begins_at_one_time_and_ends_at_that_of_its_address(lake: Lake) -> None:
    name, user = lake.name, lake.user
    ids = [commit(lake, day, path) for day, path in ((2, "a"), (4, "b"), (6, "c"), (8, "d"))]
    bad = f"{name}/main@{{2026-01-07}}"
    assert user.run("bisect", "start", bad, "--at", "2026-01-03").code == 0
    rows = json.loads(user.run("bisect", "view", "--json").out)
    assert [row["id"] for row in rows] == ids[2:0:-1]
    answers = json.loads(user.run("bisect", "log", "--json").out)
    assert [(row["verdict"], row["id"]) for row in answers] == [("bad", ids[2]), ("good", ids[0])]
    assert user.run("bisect", "start", f"{name}/main@{{2026", "--at", "2026-01-03").code == 2


def test_what_changed_between_two_times(lake: Lake) -> None:
    for day, path in ((2, "a"), (4, "b"), (6, "c"), (8, "d")):
        commit(lake, day, path)
    until = f"{lake.name}/main@{{2026-01-07}}"
    result = lake.user.run("diff", until, "--at", "2026-01-03", "--name-only")
    assert (result.code, result.out) == (0, "b\nc\n")


def test_a_page_of_a_ref_as_it_was(lake: Lake) -> None:
    first = commit(lake, 2, "a")
    commit(lake, 4, "b")
    words = ("open", "--print", "--at", "2026-01-03")
    assert f"objects?ref={first}\n" in lake.user.run(*words, f"{lake.name}/main").out
    assert lake.user.run(*words, lake.name).code == 2


def test_json_names_the_commit_that_was_read(lake: Lake) -> None:
    name, user = lake.name, lake.user
    ids = [commit(lake, day, path) for day, path in ((2, "a"), (4, "b"), (6, "c"))]
    read = {"ref": f"{name}/main", "time": START + 4 * DAY, "commit_id": ids[1]}
    for line in (
        *(f"ls {name}/main", f"stat {name}/main/a", f"log {name}", f"show {name}/main"),
        *(f"annotate {name}/main/", f"diff {name}/main", f"open {name}/main"),
        *(f"branch create {name}/old main", f"tag create {name}/v1 main", f"ls {name}/main --du"),
        *(f"diff {name}/main --stat", f"diff {name}/main --rows", f"bisect start {name}/main"),
        f"cp lakefs://{name}/main/a lakefs://{name}/main/copy --dry-run",
    ):
        words = (*line.split(), "--at", "2026-01-05", "-q")
        result = user.run(*words, "--json")
        assert (result.code, result.err) == (0, ""), result
        document = json.loads(result.out)
        for record in document if isinstance(document, list) else [document]:
            assert record["graveler"]["at"][:1] == [read], line
    (first, *_) = user.run("log", f"{name}/main@{{2026-01-05}}", "--jsonl").out.splitlines()
    assert json.loads(first)["graveler"]["at"] == [read]
    both = user.read(
        list[dict[str, Any]], "diff", f"{name}/main@{{2026-01-03}}", "main@{2026-01-05}"
    )
    assert [each["commit_id"] for each in both[0]["graveler"]["at"]] == ids[:2]
    assert "graveler" not in user.read(list[dict[str, Any]], "log", name)[0]


def test_the_search_for_an_old_commit_is_bounded(user: Client) -> None:
    commit = {"id": "c", "parents": ["b"], "committer": "", "message": "", "metadata": {}}
    rows = [{**commit, "creation_date": START}] * 1_000

    def page(following: str) -> Said:
        pagination = {"has_more": True, "next_offset": following}
        return Said(200, json.dumps({"results": rows, "pagination": pagination}).encode())

    with scripted([page(f"{number:03}") for number in range(120)]) as script:
        user.know(script.url)
        result = user.run("ls", "lake/main", "--at", "2020-01-01")
    assert result.code == 1 and len(script.asked) == 101
    assert "more than 100,000 commits of lake/main are younger than 2020-01-01" in result.err


def test_times_that_make_no_sense(lake: Lake) -> None:
    name = lake.name
    for words in (
        ("ls", f"{name}/main", "--at", "soon"),
        ("log", name, "--all", "--at", "now"),
        ("cp", "a", f"lakefs://{name}/main/a", "--at", "now"),
        ("reset", f"{name}/main", "--at", "now", "--yes"),
    ):
        assert lake.user.run(*words).code == 2


# ---- log --all, diff -- PREFIX -------------------------------------------------------------------


def test_the_log_of_all_refs_lists_each_commit_once(lake: Lake) -> None:
    name = lake.name
    commit(lake, 2, "a")
    for branch in ("dev", "other"):
        lake.user.run("branch", "create", f"{name}/{branch}")
    commit(lake, 3, "b", "dev")
    commit(lake, 4, "c", "other")
    commit(lake, 5, "d")
    lake.user.run("tag", "create", f"{name}/v1", "other")
    lake.user.run("branch", "delete", f"{name}/other", "--yes")
    listed = messages(lake, name, "--all")
    assert listed[:4] == ["add d", "add c", "add b", "add a"] and len(listed) == 5
    assert messages(lake, name, "--all", "-n", "2") == ["add d", "add c"]
    assert messages(lake, name, "--all", "--first-parent", "--", "c") == ["add c"]
    drawn = lake.user.run("log", name, "--all", "--graph", "--oneline").out
    assert drawn.count("*") == 5
    assert lake.user.run("log", name, "--all", "--after", "main").code == 2


def test_a_log_takes_the_options_of_lakectl(lake: Lake) -> None:
    for day, path in ((2, "a/x"), (3, "b"), (4, "c")):
        commit(lake, day, path)
    options = ("--objects", "b", "--prefixes", "a/,d/", "--show-meta-range-id")
    assert messages(lake, f"{lake.name}/main", *options) == ["add b", "add a/x"]
    assert messages(lake, f"{lake.name}/main", "--limit", "-n", "1") == ["add c"]
    base = ("find-merge-base", f"{lake.name}/main", "main~1")
    assert len(lake.user.run(*base).out) == 65


def test_a_diff_of_a_prefix(lake: Lake) -> None:
    for path in ("a/x", "b/y"):
        lake.put(path)
    address = f"{lake.name}/main"
    assert lake.user.run("diff", address, "--name-only", "--", "b/").out == "b/y\n"
    assert lake.user.run("diff", address, "--", "a/", "b/").code == 2
    assert lake.user.run("diff", address, "--prefix", "a/", "--", "b/").code == 2


# ---- conflicts -----------------------------------------------------------------------------------


def test_conflicts_of_a_revert_and_of_a_cherry_pick_name_their_paths(lake: Lake) -> None:
    name, user = lake.name, lake.user
    for content in (b"1", b"2", b"3"):
        lake.put("same", content)
        lake.put(f"other-{content.decode()}", b"")
        lake.commit(f"write {content.decode()}")
    head = user.read(dict[str, Any], "show", f"{name}/main")["id"]
    result = user.run("revert", f"{name}/main", "main~1", "--yes")
    assert (result.code, result.out) == (5, "")
    assert result.err.splitlines()[1:] == ["  same"] and "nothing of it was reverted" in result.err
    user.run("branch", "create", f"{name}/dev", "main~2")
    assert user.run("cherry-pick", f"{name}/main~1", "dev").code == 0
    result = user.run("cherry-pick", f"{name}/main~1", "main", "--json")
    assert (result.code, result.out) == (5, "")
    assert json.loads(result.err)["error"]["code"] == "merge_conflict"
    assert "\n  same" in json.loads(result.err)["error"]["message"]
    assert user.read(dict[str, Any], "show", f"{name}/main")["id"] == head


def test_a_failure_of_a_revert_does_not_hide_the_ones_before(lake: Lake) -> None:
    name, user = lake.name, lake.user
    for content in (b"1", b"2", b"3", b"4"):
        lake.put("same", content)
        lake.commit(f"write {content.decode()}")
    revert = ("revert", f"{name}/main", "main", "main~2", "--yes")
    result = user.run(*revert)
    head = user.read(dict[str, Any], "show", f"{name}/main")
    assert head["message"].startswith('Revert "write 4"')
    assert result.code == 5 and "\n  same\n" in result.err
    assert result.out == f'[main {head["id"]}] Revert "write 4"\n'
    lake.put("same", b"5")
    lake.commit("write 5")
    result = user.run(*revert, "--json")
    (made,) = json.loads(result.out)
    assert result.code == 1 and "nothing to revert" in result.err
    assert made["message"].startswith('Revert "write 5"')
    assert made["id"] == user.read(dict[str, Any], "show", f"{name}/main")["id"]
