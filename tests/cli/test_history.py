"""JSON of refs and commits against the types of the API; graphs; times; questions on a terminal."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from graveler.api.commits import FindMergeBaseResult
from graveler.api.shapes import (
    Commit,
    Diff,
    ObjectStats,
    Ref,
    Repository,
)
from graveler.cli.support import times
from graveler.cli.support.address import Address, parse
from graveler.core.errors import UsageMistake
from graveler.lake import graph
from graveler.lake.show import size
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.waiting import until


def test_json_has_the_objects_of_the_api(lake: Lake) -> None:
    user, name = lake.user, lake.name
    assert any(repo.id == name for repo in user.read(list[Repository], "repo", "list"))
    assert user.read(Repository, "repo", "show", name).default_branch == "main"
    made = user.read(Ref, "branch", "create", f"{name}/dev")
    assert made == user.read(Ref, "branch", "show", f"{name}/dev")
    lake.put("a/x", b"12", "dev")
    lake.put("b", b"3", "dev")
    (one, two) = user.read(list[Diff], "diff", f"{name}/dev")
    assert (one.type, one.path, one.size_bytes, two.path) == ("added", "a/x", 2, "b")
    commit = user.read(Commit, "commit", f"{name}/dev", "-m", "both", "--meta", "k=v")
    assert (commit.message, commit.metadata["k"]) == ("both", "v")
    assert user.read(Commit, "show", f"{name}/dev") == commit
    tag = user.read(Ref, "tag", "create", f"{name}/v1", "dev")
    assert tag == Ref("v1", commit.id) == user.read(Ref, "tag", "show", f"{name}/v1")
    assert user.read(list[Ref], "tag", "list", name) == [tag]
    assert user.read(FindMergeBaseResult, "merge-base", f"{name}/dev", "main").base_commit_id
    stats = user.read(ObjectStats, "stat", f"{name}/v1/a/x")
    assert user.read(list[ObjectStats], "ls", f"{name}/v1/a/")[0].checksum == stats.checksum
    merged = user.read(dict[str, str], "merge", f"{name}/dev", "main")["reference"]
    log = user.read(list[Commit], "log", name)
    assert [each.id for each in log[:2]] == [merged, commit.id] and len(log) == 3
    assert user.read(dict[str, Any], "status", name)["graveler"]["folders"] == []
    assert user.read(dict[str, Any], "whoami")["id"]


def test_empty_lists_are_empty(lake: Lake) -> None:
    for words in (("tag", "list", lake.name), ("diff", f"{lake.name}/main")):
        assert lake.user.read(list[Any], *words) == []
        assert lake.user.run(*words, "--jsonl").out == ""
        assert lake.user.run(*words).out == ""


def test_a_line_an_item(lake: Lake) -> None:
    for path in ("a", "b"):
        lake.put(path)
    lines = lake.user.run("ls", f"{lake.name}/main", "--jsonl").out.splitlines()
    assert [json.loads(line)["path"] for line in lines] == ["a", "b"]


def test_values_cannot_break_a_line_or_a_terminal(lake: Lake) -> None:
    lake.put("a\tb\nc\\d\x1b[31m")
    out = lake.user.run("ls", f"{lake.name}/main").out
    assert out.endswith("\ta\\tb\\nc\\\\d\x1b[31m\n") and out.count("\n") == 1
    shown = terminal(lake.user, "ls", f"{lake.name}/main", "--color", "never")
    assert shown.end() == 0
    assert "a\\x09b\\x0ac\\d\\x1b[31m" in shown.text and "\x1b" not in shown.text


def test_the_counts_of_folders_are_rows_in_a_pipe(lake: Lake) -> None:
    name, user = lake.name, lake.user
    for path in ("top", "a/x", "t\tb\n/x"):
        lake.put(path, b"1")
    rows = [".\t1\t0\t0\t0", "a/\t1\t0\t0\t0", "t\\tb\\n/\t1\t0\t0\t0"]
    assert user.run("status", f"{name}/main").out.splitlines()[1:] == rows
    assert user.run("diff", f"{name}/main", "--stat").out.splitlines() == rows
    folders = user.read(dict[str, Any], "status", f"{name}/main")["graveler"]["folders"]
    assert [folder["path"] for folder in folders] == ["", "a/", "t\tb\n/"]


def test_lists_run_to_their_end(lake: Lake) -> None:
    """More than the page of the server, which is a thousand."""
    where = f"/repositories/{lake.name}/tags"
    for number in range(3):
        lake.live.client.send("POST", where, body={"id": f"t{number}", "ref": "main"})
    assert lake.user.run("tag", "list", lake.name, "-n", "2").out.count("\n") == 2
    assert lake.user.run("tag", "list", lake.name, "--after", "t1").out.startswith("t2\t")
    assert lake.user.run("tag", "list", lake.name, "--prefix", "t1").out.count("\n") == 1


def test_the_log_of_some(lake: Lake) -> None:
    name = lake.name
    for path in ("a/x", "b"):
        lake.put(path)
        lake.commit(f"add {path}")

    def shown(*options: str) -> list[str]:
        result = lake.user.run("log", f"{name}/main", "--json", *options)
        assert result.code == 0, result
        return [commit["message"] for commit in json.loads(result.out)]

    assert shown() == ["add b", "add a/x", "Repository created"]
    assert shown("-n", "1") == ["add b"]
    assert shown("--", "b") == ["add b"] and shown("--", "a/") == ["add a/x"]
    assert shown("--author", "NOBODY") == []
    assert shown("--author", "Admin") == ["add b", "add a/x"]
    assert shown("--until", "2 days ago") == [] and len(shown("--since", "2 days ago")) == 3
    assert shown("--after", f"{name}/main".partition("/")[2]) == ["add a/x", "Repository created"]
    assert lake.user.run("log", name, "--since", "some day").code == 2


def conflicting(lake: Lake) -> None:
    """Let `main` and `dev` change one path, and each another one."""
    lake.user.run("branch", "create", f"{lake.name}/dev")
    for branch in ("main", "dev"):
        lake.put("same", branch.encode(), branch)
        lake.put(branch, b"", branch)
        lake.commit("change", branch)


def test_a_conflict_names_its_paths(lake: Lake) -> None:
    name, user = lake.name, lake.user
    conflicting(lake)
    result = user.run("merge", f"{name}/dev", "main")
    assert result.code == 5 and result.out == ""
    path, hint = result.err.splitlines()[1:]
    assert path == "  same"
    assert hint.startswith("try: --strategy source-wins or dest-wins; or graveler merge ")
    error = json.loads(user.run("merge", f"{name}/dev", "main", "--json").err)["error"]
    assert (error["code"], error["paths"]) == ("merge_conflict", ["same"])
    assert [item.type for item in user.read(list[Diff], "diff", f"{name}/main", "dev")] == [
        "added",
        "conflict",
    ]
    assert user.run("merge", f"{name}/dev", "main", "--strategy", "source-wins").code == 0
    assert user.run("cat", f"{name}/main/same").out == "dev"


def test_the_hint_of_a_conflict_combines_both_sides(lake: Lake) -> None:
    name, user = lake.name, lake.user
    conflicting(lake)
    said = user.run("merge", f"{name}/dev", "main").err
    line = said.partition("; or graveler ")[2].partition(",")[0]
    assert line == f"merge {name}/main dev --strategy dest-wins" and user.line(line).code == 0
    lake.put("same", b"both", "dev")
    lake.commit("combined", "dev")
    assert user.run("merge", f"{name}/dev", "main").code == 0
    assert user.run("cat", f"{name}/main/same").out == "both"
    assert user.run("ls", f"{name}/main/").out.count("\n") == 3
    assert user.run("merge", f"{name}/dev", "main").code == 1  # nothing to merge


def test_a_branch_with_uncommitted_changes_is_named(lake: Lake) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    lake.put("a", branch="dev")
    first = lake.commit("change", "dev")
    lake.put("b")
    lake.put("c", branch="dev")
    for words, branch in (
        (("merge", f"{name}/dev", "main"), "main"),
        (("cherry-pick", f"{name}/{first}", "main"), "main"),
        (("revert", f"{name}/dev", first, "--yes"), "dev"),
        (("restore", f"{name}/main", first, "--yes"), "main"),
        (("reset", "--hard", f"{name}/main", first, "--confirm", "main"), "main"),
    ):
        place = f"{name}/{branch}"
        assert user.run(*words) == (
            1,
            "",
            f"graveler: {place} has uncommitted changes; nothing was done\n"
            f"try: graveler commit {place}, or graveler reset {place}\n",
        ), words


def test_two_repositories_are_refused(lake: Lake) -> None:
    other = lake.live.fresh_repository()
    for words in (
        ("merge", f"{lake.name}/main", f"{other}/main"),
        ("diff", f"{lake.name}/main", f"{other}/main"),
        ("tag", "create", f"{lake.name}/v1", f"{other}/main"),
    ):
        assert lake.user.run(*words).code == 2


def test_a_reset_says_whether_there_was_something_to_discard(lake: Lake) -> None:
    name, user = lake.name, lake.user
    lake.put("ab")
    for address, nothing in ((f"{name}/main/a", True), (f"{name}/main", False)):
        for words in (("--yes",), ("--yes",), ()):
            note = user.run("reset", address, *words).err
            assert note.startswith("no uncommitted" if nothing else "discarded"), (address, words)
            nothing = True


def test_branches_are_reset_and_reverted_by_the_names_of_lakectl(lake: Lake) -> None:
    name, user = lake.name, lake.user
    address = f"lakefs://{name}/main"
    for path in ("a/x", "b/y", "c"):
        lake.put(path)
    assert user.run("branch", "reset", address, "--prefix", "a", "--yes").code == 0
    assert user.run("branch", "reset", address, "--object", "c", "--yes").code == 0
    assert user.run("diff", address, "--name-only").out == "b/y\n"
    assert user.run("branch", "reset", address, "--prefix", "b", "--object", "c").code == 2
    assert user.run("branch", "reset", address, "--yes").code == 0
    for path in ("d", "e"):
        lake.put(path)
        lake.commit(f"add {path}")
    assert user.run("branch", "revert", address, "main~1", "--yes").code == 0
    assert user.run("ls", address).out.endswith("\te\n")
    words = ("branch", "reset", address, "--commit", "main~1", "--confirm", "main")
    assert user.run(*words).code == 0
    assert user.run("ls", address).out.count("\n") == 2
    assert "revert" not in user.run("branch", "--help").out


# ---- questions -----------------------------------------------------------------------------------


def test_a_question_is_asked_and_no_changes_nothing(lake: Lake) -> None:
    address = f"{lake.name}/dev"
    lake.user.run("branch", "create", address)
    lake.put("a", b"", "dev")
    for answer, code in (("n", 1), ("y", 0)):
        shown = terminal(lake.user, "branch", "delete", address)
        shown.until(f"Delete the branch {address} with 1 uncommitted change? [y/N]: ")
        shown.type(f"{answer}\n")
        assert shown.end() == code, shown.text
    assert lake.user.run("branch", "show", address).code == 3


def test_what_cannot_be_undone_wants_the_name(lake: Lake) -> None:
    name = lake.name
    for answer, code in (("wrong", 2), (name, 0)):
        shown = terminal(lake.user, "repo", "delete", name)
        shown.until(f"Type {name} to go on: ")
        shown.type(f"{answer}\n")
        assert shown.end() == code, shown.text
    assert lake.user.run("repo", "show", name).code == 3


def test_an_interrupt_at_a_question(lake: Lake) -> None:
    shown = terminal(lake.user, "repo", "delete", lake.name)
    shown.until("to go on: ")
    assert shown.interrupt() == 130
    assert lake.user.run("repo", "show", lake.name).code == 0


def test_no_input_fails_and_names_the_option(lake: Lake) -> None:
    shown = terminal(lake.user, "repo", "delete", lake.name, "--no-input")
    assert shown.end() == 2 and f"--confirm {lake.name}" in shown.text


def test_a_message_is_written_in_the_editor(lake: Lake) -> None:
    lake.put("a")
    lake.user.variables["EDITOR"] = "sed -i 1iWritten"
    shown = terminal(lake.user, "commit", f"{lake.name}/main")
    assert shown.end() == 0 and "] Written" in shown.text
    lake.put("b")
    lake.user.variables["EDITOR"] = "true"
    shown = terminal(lake.user, "commit", f"{lake.name}/main")
    assert shown.end() == 2 and "the message is empty" in shown.text
    assert lake.user.run("commit", f"{lake.name}/main").code == 2


def test_a_pager_shows_a_log(lake: Lake) -> None:
    lake.user.variables["PAGER"] = "sed s/^/PAGED:/"
    shown = terminal(lake.user, "log", lake.name, "--color", "never")
    assert shown.end() == 0 and shown.text.startswith("PAGED:commit ")


@pytest.mark.parametrize("pager", ["head -c 1", "true", "no-such-program-anywhere"])
def test_a_pager_may_be_left_early(lake: Lake, pager: str) -> None:
    """The text is longer than what a pipe holds, so that the command still writes."""
    for number in range(100):
        lake.put(f"{number:03}" + "x" * 900)
    lake.user.variables["PAGER"] = pager
    shown = terminal(lake.user, "diff", f"{lake.name}/main", "--color", "never")
    assert shown.end() == 0
    assert "Traceback" not in shown.text and "graveler: " not in shown.text
    assert shown.text[:1] == ("" if pager == "true" else "+")
    assert ("100 added" in shown.text) is pager.startswith("no-such")


# It waits for the signal itself: one that came just before a read would be seen after that read.
PAGER = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
sys.stdin.read()
print("SHOWN", flush=True)
signal.sigwait([signal.SIGINT])
print("INTERRUPTED", flush=True)
open("/dev/tty").readline()
"""


def test_an_interrupt_in_the_pager_is_the_pagers(lake: Lake, tmp_path: Path) -> None:
    """As with git: the command ends when the pager ends, which would fight with the shell."""
    (tmp_path / "pager.py").write_text(PAGER)
    lake.user.variables["PAGER"] = f"{sys.executable} {tmp_path / 'pager.py'}"
    shown = terminal(lake.user, "log", lake.name)
    shown.until("SHOWN")
    shown.type("\x03")
    shown.until("INTERRUPTED")
    shown.type("q\n")
    assert shown.end() == 0 and "graveler: " not in shown.text


def test_a_terminal_has_no_colours_with_no_color(lake: Lake) -> None:
    lake.put("a")
    for words in (("log", lake.name), ("diff", f"{lake.name}/main"), ("branch", "list", lake.name)):
        shown = terminal(lake.user, *words)
        assert shown.end() == 0 and "\x1b[" in shown.text
        lake.user.variables["NO_COLOR"] = "1"
        plain = terminal(lake.user, *words)
        assert plain.end() == 0 and "\x1b" not in plain.text
        assert plain.text == re.sub(r"\x1b\[[0-9;]*m", "", shown.text)
        lake.user.variables["NO_COLOR"] = ""  # as if it were not set


def test_colours(lake: Lake) -> None:
    colored = "\x1b["
    words = ("log", lake.name, "--oneline")
    assert colored not in lake.user.run(*words).out
    assert colored in lake.user.run(*words, "--color", "always").out
    assert colored in lake.user.run(*words, FORCE_COLOR="1").out
    assert colored not in lake.user.run(*words, FORCE_COLOR="1", NO_COLOR="1").out
    lake.user.variables["TERM"] = "dumb"
    shown = terminal(lake.user, *words)
    assert shown.end() == 0 and colored not in shown.text


# ---- graph ---------------------------------------------------------------------------------------


def _commit(id: str, *parents: str, date: int = 0) -> dict[str, Any]:
    return {"id": id, "parents": list(parents), "creation_date": date}


def _drawn(*commits: dict[str, Any]) -> list[str]:
    rows = graph.draw(graph.ordered(commits))
    return [f"{row.drawing} {row.commit.get('id', '')}".rstrip() for row in rows]


def test_graphs() -> None:
    assert _drawn(_commit("c", "b"), _commit("b", "a"), _commit("a")) == ["* c", "* b", "* a"]
    diamond = (_commit("m", "x", "y"), _commit("x", "r"), _commit("y", "r"), _commit("r"))
    assert _drawn(*diamond) == ["* m", "|\\", "* | x", "| * y", "|/", "* r"]


def test_a_parent_with_a_newer_date_comes_after_its_children() -> None:
    commits = (_commit("p", date=9), _commit("c", "p", date=1), _commit("d", "p", date=5))
    assert [row["id"] for row in graph.ordered(commits)] == ["d", "c", "p"]


@pytest.mark.parametrize("seed", range(20))
def test_every_commit_and_every_edge_is_drawn_once(seed: int) -> None:
    """Follow the lines downwards: they lead from each commit to exactly its parents."""
    chance = random.Random(seed)
    commits = []
    for number in range(30):
        older = [f"{each:02}" for each in range(max(0, number - 6), number)]
        parents = chance.sample(older, min(len(older), chance.choice((1, 1, 2))))
        commits.append(_commit(f"{number:02}", *parents, date=chance.randrange(5)))
    rows = list(graph.draw(graph.ordered(commits)))
    assert sorted(row.commit["id"] for row in rows if row.commit) == [
        commit["id"] for commit in commits
    ]
    drawn = {row.commit["id"]: place for place, row in enumerate(rows) if row.commit}
    for commit in commits:
        assert all(drawn[parent] > drawn[commit["id"]] for parent in commit["parents"])
    edges = _edges(rows)
    assert edges == {commit["id"]: set(commit["parents"]) for commit in commits}


def _edges(rows: list[graph.Row]) -> dict[str, set[str]]:
    """The commits that the lines below each commit reach."""
    reached: dict[str, set[str]] = {}
    lanes: dict[int, set[str]] = {}  # column -> the commits whose lines are in it
    place = 0
    for row in rows:
        if row.commit:
            column = row.drawing.index("*") // 2
            for child in lanes.pop(column, set()):
                reached[child].add(row.commit["id"])
            reached[row.commit["id"]] = set()
            lanes[column] = {row.commit["id"]}
            place = column
            continue
        children, text = lanes.get(place, set()), row.drawing
        for step, mark in ((-1, "/"), (1, "\\")):
            at = 2 * place + step
            if 0 <= at < len(text) and text[at] == mark:
                goal = place + step
                while text[2 * goal + step : 2 * goal + step + 1] == "_":
                    goal += step
                lanes.setdefault(goal, set()).update(children)
        if text[2 * place : 2 * place + 1] != "|":
            lanes.pop(place)
    return reached


# ---- words ---------------------------------------------------------------------------------------

NOW_NS = 1_800_000_000 * 10**9  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2027-01-15T08:00:00Z"),
        ("Yesterday", "2027-01-14T08:00:00Z"),
        ("2 days ago", "2027-01-13T08:00:00Z"),
        ("90 minutes ago", "2027-01-15T06:30:00Z"),
        ("1 week", "2027-01-08T08:00:00Z"),
        ("2026-11-23T10:00:00Z", "2026-11-23T10:00:00Z"),
        ("2026-11-23T10:00:00+02:00", "2026-11-23T08:00:00Z"),
    ],
)
def test_times(text: str, moment: str) -> None:
    assert times.rfc3339(times.parse(text, NOW_NS)) == moment


@pytest.mark.parametrize("text", ["", "soon", "2 moons ago", "2026-13-01", "999999 weeks ago"])
def test_words_that_are_no_time(text: str) -> None:
    with pytest.raises(UsageMistake, match="time invalid"):
        times.parse(text, NOW_NS)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("lake", Address("lake")),
        ("lakefs://lake/main", Address("lake", "main")),
        ("graveler://lake/main/", Address("lake", "main")),
        ("lake/main/a//b/", Address("lake", "main", "a//b/")),
        (":main/x", Address("current", "main", "x")),
        ("lake/main~2/:x y", Address("lake", "main~2", ":x y")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse(text, current="current") == address


def test_a_base_stands_before_an_address_without_scheme() -> None:
    assert parse("x/y", base_uri="lakefs://lake/main/") == Address("lake", "main", "x/y")
    assert parse("lakefs://a/b", base_uri="lakefs://lake/main/") == Address("a", "b")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 << 10, "1.5 MiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
    assert size((1 << 20) - 1) == "1.0 MiB"  # not 1024.0 KiB


def test_show_commit_of_lakectl(lake: Lake) -> None:
    lake.put("a")
    lake.commit("Add a")
    shown = lake.user.run("show", "commit", f"lakefs://{lake.name}/main")
    assert shown == lake.user.run("show", f"{lake.name}/main") and shown.code == 0


def test_a_commit_of_a_time_is_picked(lake: Lake) -> None:
    assert lake.user.run("branch", "create", f"{lake.name}/dev").code == 0
    lake.put("a", b"dev", "dev")
    lake.commit("Add a", "dev")
    pick = ("cherry-pick", f"{lake.name}/dev", "main", "--at")
    assert lake.user.run(*pick, "2000-01-01").code == 3
    assert lake.user.run(*pick, "now").code == 0
    assert lake.user.run("cat", f"{lake.name}/main/a").out == "dev"


def test_a_log_ends_at_a_ref(lake: Lake) -> None:
    name, user = lake.name, lake.user
    first, *rest = [lake.commit_of(f"f{number}") for number in range(3)]
    rows = json.loads(user.line(f"log {name}/main --stop-at {first} --json").out)
    assert [row["id"] for row in rows] == [*reversed(rest), first]
    assert user.line(f"log {name} --all --stop-at {first}").code == 2


def test_a_log_is_a_graph_of_graphviz(lake: Lake) -> None:
    name, user = lake.name, lake.user
    id = lake.commit_of("f", 'say "hi" \\ there')
    text = user.line(f"log {name}/main -n 1 --dot").out
    parent = json.loads(user.line(f"log {name}/main -n 1 --json").out)[0]["parents"][0]
    assert text.splitlines() == [
        "digraph commits {",
        '  node [shape=box, fontname="monospace"]',
        f'  "{id}" [label="{id[:12]}\\nsay \\"hi\\" \\\\ there"]',
        f'  "{id}" -> "{parent}"',
        "}",
    ]


def test_a_commit_of_which_nobody_waits_for_the_end(lake: Lake) -> None:
    name, user = lake.name, lake.user
    lake.put("a")
    begun = user.line(f"commit {name}/main -m Later --no-wait")
    assert begun.code == 0, begun
    show = f"jobs show {name} {begun.out.strip()} --json"
    until(lambda: json.loads(user.line(show).out)["state"] == "done", "the commit is made")
    assert user.line(f"log {name}/main -n 1 --oneline").out.split()[1:] == ["Later"]


def test_a_commit_has_the_date_that_it_is_given(lake: Lake) -> None:
    name, user = lake.name, lake.user
    lake.put("a")
    assert user.line(f"commit {name}/main -m Old --date 2020-01-01T00:00:00Z").code == 0
    head = json.loads(user.line(f"show {name}/main --json").out)
    assert head["creation_date"] == 1_577_836_800
    assert user.line(f"commit {name}/main -m Old --date nonsense").code == 2


def test_the_sizes_of_folders(lake: Lake) -> None:
    name, user = lake.name, lake.user
    for path, length in (("a/1", 10), ("a/b/2", 20), ("a-b", 1), ("z", 5)):
        lake.put(path, b"x" * length)
    rows = json.loads(user.line(f"ls {name}/main --du --json").out)
    assert [
        (row["path"], row["graveler"]["objects"], row["graveler"]["size_bytes"]) for row in rows
    ] == [
        ("a-b", 1, 1),
        ("a/", 2, 30),
        ("z", 1, 5),
        (".", 4, 36),
    ]
    below = user.line(f"ls {name}/main/a/ --du").out.splitlines()
    assert below == ["10\t1\ta/1", "20\t1\ta/b/", "30\t2\t."]
    assert user.line(f"ls {name}/main --du -r").code == 2
    assert user.line(f"ls {name}/main/none/ --du").out == ""
    size, _, checksum, kind, path = user.line(f"ls -l {name}/main/z").out.strip().split("\t")
    assert (size, len(checksum), path) == ("5", 32, "z") and "/" in kind


def test_help_is_a_command_too(user: Client) -> None:
    assert user.line("help").out == user.line("--help").out
    assert user.line("help branch create").out == user.line("branch create --help").out
    assert user.line("help nonsense").code == 2


def test_a_revert_names_what_it_undoes_as_a_cherry_pick_names_what_it_repeats(lake: Lake) -> None:
    lake.commit_of("a")
    name, user = lake.name, lake.user
    first = user.run("log", f"{name}/main", "-n", "1", "--json").out
    old = json.loads(first)[0]
    result = user.run("revert", f"{name}/main", "main", "--yes")
    (new,) = json.loads(user.run("log", f"{name}/main", "-n", "1", "--json").out)
    assert result.out == f'[main {new["id"]}] Revert "{old["message"]}"\n'
    assert new["message"] == f'Revert "{old["message"]}"\n\nUndoes commit {old["id"]}.'
