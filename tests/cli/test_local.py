"""`graveler local` against a served store: a folder goes up and comes down."""

import json
import os
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.core.clock import SystemClock
from graveler.lake import profiles, state
from graveler.lake.profiles import Profile, Profiles
from graveler.lake.transfers.folder import Folder
from graveler.lake.transfers.records import Operation, Records, Settings, identity
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.cli.test_past import commit
from tests.cli.test_transfers import content, tree

ROOT = Path(__file__).parents[2]
FILES = {"a.csv": b"a", "empty": b"", "more/b c+d.bin": bytes(70_000), "more/e/é%.txt": b"e"}


@pytest.fixture
def folder(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of `data/` of a fresh repository, and the working folder of the test."""
    for path, body in FILES.items():
        lake.put(f"data/{path}", body)
    lake.put("other/x", b"x")
    lake.commit()
    monkeypatch.chdir(tmp_path)
    lake.user.variables["XDG_STATE_HOME"] = str(tmp_path / "state")
    result = lake.user.run("local", "clone", f"{lake.name}/main/data/", "d")
    assert result.code == 0, result
    monkeypatch.chdir(tmp_path / "d")
    return tmp_path / "d"


def local(lake: Lake, *words: str, code: int = 0) -> Any:
    """Run a command of the group; its JSON, or its error."""
    result = lake.user.run("local", *words, "--json")
    assert result.code == code, result
    return json.loads(result.out) if not code else json.loads(result.err)["error"]


def status(lake: Lake) -> list[tuple[str, str, str]]:
    rows = local(lake, "status")
    return [(row["location"], row["type"], row["path"]) for row in rows]


def files(folder: Path) -> dict[str, bytes]:
    return {path: body for path, body in content(folder).items() if path != ".lakefs_ref.yaml"}


def test_a_clone_has_the_files_and_the_state_of_lakectl(lake: Lake, folder: Path) -> None:
    assert files(folder) == FILES
    head = lake.user.read(dict[str, Any], "branch", "show", f"{lake.name}/main")["commit_id"]
    assert (folder / ".lakefs_ref.yaml").read_text() == (
        f'src: lakefs://{lake.name}/main/data/\nat_head: {head}\nactive_operation: ""\n'
    )
    assert status(lake) == []
    assert sorted(path.name for path in folder.parent.iterdir()) == ["d", "home", "state"]
    again = lake.user.run("local", "clone", f"{lake.name}/main/data/", str(folder))
    assert again.code == 5 and "linked" in again.err


def test_changes_go_up_and_come_down(lake: Lake, folder: Path, tmp_path: Path) -> None:
    (folder / "a.csv").write_bytes(b"b")  # of equal size
    (folder / "new").mkdir()
    (folder / "new/n").write_bytes(b"new")
    os.utime(folder / "new/n", (1_000_000_000, 1_000_000_000))
    (folder / "empty").unlink()
    assert status(lake) == [
        ("local", "changed", "a.csv"),
        ("local", "removed", "empty"),
        ("local", "added", "new/n"),
    ]
    record = local(lake, "commit", "-m", "mine", "--meta", "k=v")
    assert record["graveler"] == {"written": 2, "removed": 1, "aside": []}
    assert status(lake) == []
    commit = lake.user.read(dict[str, Any], "show", f"{lake.name}/main")
    assert (commit["message"], commit["metadata"]["k"]) == ("mine", "v")
    changes = {change["path"] for change in commit["graveler"]["changes"]}
    assert changes == {"data/a.csv", "data/new/n", "data/empty"}
    stats = lake.user.read(dict[str, Any], "stat", f"{lake.name}/main/data/new/n")
    assert stats["metadata"] == {"::lakefs::client-mtime": "1000000000"}
    nothing = local(lake, "commit", "-m", "again", code=1)
    assert "nothing to commit" in nothing["message"]
    other = tmp_path / "other"
    local(lake, "clone", f"{lake.name}/main/data/", str(other))
    assert files(other) == files(folder)
    assert (other / "new/n").stat().st_mtime == 1_000_000_000
    (other / "a.csv").write_bytes(b"other")
    (other / "more/b c+d.bin").unlink()
    local(lake, "commit", str(other), "-m", "theirs")
    assert status(lake) == [("remote", "changed", "a.csv"), ("remote", "removed", "more/b c+d.bin")]
    local(lake, "pull")
    assert files(folder) == files(other) and status(lake) == []


def test_the_commands_of_the_branch_point_to_those_of_the_folder(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, branch = lake.user, f"{lake.name}/main"
    assert "graveler local status" in user.run("diff").err
    refused = user.run("commit", "-m", "x")
    nothing = f"graveler: nothing to commit on {branch}\ntry: graveler local commit\n"
    assert (refused.code, refused.err) == (1, nothing)
    assert user.run("diff", branch).err == ""  # the branch alone is meant
    assert "local commit" not in user.run("commit", branch, "-m", "x").err
    assert user.run("status", f"{lake.name}/nope").err.endswith(
        f"\ntry: graveler branch list {lake.name}\n"
    )
    monkeypatch.chdir(folder.parent)
    folder.rename("sales")
    for name in ("sales", "./sales"):
        meant = user.run("status", name)
        assert meant.code == 3 and meant.err.endswith(f"\ntry: graveler local status {name}\n")


def test_conflicts_are_listed_and_decided(lake: Lake, folder: Path) -> None:
    lake.put("data/a.csv", b"theirs")
    lake.commit()
    (folder / "a.csv").write_bytes(b"ours")
    for command in (("pull",), ("commit", "-m", "x")):
        error = local(lake, *command, code=5)
        assert "a.csv" in error["message"] and error["paths"] == ["a.csv"]
        assert (folder / "a.csv").read_bytes() == b"ours"
        assert "graveler local pull --ours" in error["hint"] and "copy your" in error["hint"]
        assert ("then commit again" in error["hint"]) == (command[0] == "commit")
    assert lake.user.read(list[Any], "diff", f"{lake.name}/main") == []
    local(lake, "pull", "--ours")
    assert status(lake) == [("local", "changed", "a.csv")]
    lake.put("data/a.csv", b"theirs again")
    lake.commit()
    refused = local(lake, "pull", "--theirs", code=2)["message"]
    assert refused.endswith(f"give --yes\nDiscard 1 local change in {folder}?  No copy is kept.")
    local(lake, "pull", "--theirs", "--yes")
    assert status(lake) == [] and (folder / "a.csv").read_bytes() == b"theirs again"
    assert local(lake, "pull", "--ours", "--theirs", code=2)


def test_uncommitted_changes_of_others_need_force(lake: Lake, folder: Path) -> None:
    lake.put("other/y", b"y")
    (folder / "n").write_bytes(b"n")
    error = local(lake, "commit", "-m", "x", code=5)
    assert "other/y" in error["message"] and "--force" in error["message"]
    local(lake, "commit", "-m", "x", "--force")
    assert status(lake) == [] and lake.user.read(list[Any], "diff", f"{lake.name}/main") == []


def test_checkout_discards_and_switches(lake: Lake, folder: Path) -> None:
    lake.user.line(f"branch create {lake.name}/dev")
    lake.put("data/dev", b"1", branch="dev")
    lake.commit(branch="dev")
    (folder / "a.csv").write_bytes(b"lost")
    (folder / "n").write_bytes(b"lost")
    refused = local(lake, "checkout", code=2)["message"]
    assert refused.endswith(f"give --yes\nDiscard 2 local changes in {folder}?  No copy is kept.")
    local(lake, "checkout", "--yes")
    assert files(folder) == FILES
    local(lake, "checkout", "--ref", "dev")
    assert files(folder) == {**FILES, "dev": b"1"} and status(lake) == []
    (folder / "n").write_bytes(b"n")
    local(lake, "commit", "-m", "on dev")
    assert lake.user.run("cat", f"{lake.name}/dev/data/n").out == "n"
    (folder / "n").write_bytes(b"lost")
    os.chdir(folder.parent)
    local(lake, "pull", "d", "--force", "--yes")
    assert (folder / "n").read_bytes() == b"n"
    assert lake.user.run("local", "checkout", "--all", "-y", "--ref", "main").code == 0
    assert files(folder) == FILES


@pytest.mark.parametrize(
    "line", ["checkout dev --yes", "commit dev -m x", "pull dev", "status dev"]
)
def test_a_word_that_is_no_folder_is_not_taken_for_the_linked_one(
    lake: Lake, folder: Path, line: str
) -> None:
    """As whoever knows Git writes the name of a branch."""
    lake.user.line(f"branch create {lake.name}/dev")
    (folder / "n").write_bytes(b"kept")
    error = local(lake, *line.split(), code=3)
    assert error["message"] == "folder not found: dev"
    if line.startswith("checkout"):
        assert error["hint"] == "graveler local checkout --ref dev, if that is a ref"
    assert (folder / "n").read_bytes() == b"kept" and status(lake) == [("local", "added", "n")]


def test_init_links_what_is_there(lake: Lake, folder: Path, tmp_path: Path) -> None:
    here = tree(tmp_path / "here", {"a.csv": b"a", "mine": b"1"})
    local(lake, "init", f"{lake.name}/main/data", str(here))
    result = lake.user.run("local", "status", str(here))
    assert result.out.splitlines() == [
        "local\tremoved\tempty",
        "local\tadded\tmine",
        "local\tremoved\tmore/b c+d.bin",
        "local\tremoved\tmore/e/é%.txt",
    ]
    assert local(lake, "init", f"{lake.name}/main/", str(here), code=5)
    local(lake, "init", f"{lake.name}/main/", str(here), "--force")
    rows = local(lake, "list", str(tmp_path))
    assert [(row["directory"], row["src"]) for row in rows] == [
        (str(folder), f"lakefs://{lake.name}/main/data/"),
        (str(here), f"lakefs://{lake.name}/main/"),
    ]
    assert local(lake, "init", f"{lake.name}/main/", str(here / "sub"), code=2)
    assert local(lake, "status", str(tmp_path), code=3)


def test_a_folder_is_found_by_the_path_that_it_has(
    lake: Lake, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "raw").mkdir()
    (folder / "a.csv").write_bytes(b"mine")
    for words in (("checkout", "../raw", "-y"), ("checkout", "--all", "../raw", "-y")):
        error = local(lake, *words, code=3)
        assert "linked folder" in error["message"]
    assert (folder / "a.csv").read_bytes() == b"mine"
    (tmp_path / "also").symlink_to(folder)
    for name in (".", "../d", "more/..", str(tmp_path / "also")):
        local(lake, "pull", name)
    assert len(list((tmp_path / "state/graveler/local").glob("*.json"))) == 1
    local(lake, "clone", f"{lake.name}/main/data/", "../raw")  # beside the linked folder
    assert files(tmp_path / "raw") == FILES


def test_commands_in_a_linked_folder_need_no_address(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "n").write_bytes(b"n")
    monkeypatch.chdir(folder / "more")
    assert lake.user.run("status").out == "local\tadded\tn\n"
    assert len(lake.user.read(list[Any], "log")) == 2
    head = lake.user.read(dict[str, Any], "show")["id"]
    for words in (("--", "data/", "none"), (":main", "none", "--", "other/x"), (":main", "data/")):
        shown = lake.user.run("log", "--json", *words)
        assert [commit["id"] for commit in json.loads(shown.out)] == [head], words
    assert lake.user.run("log", "--json", "--", "none") == (0, "[]\n", "")
    rows = lake.user.read(list[Any], "ls", "-r")
    assert [row["path"] for row in rows] == sorted(f"data/{path}" for path in FILES)
    assert lake.user.run("cat", ":main/data/a.csv").out == "a"
    assert lake.user.run("cat", ":main/other/x").out == "x"
    lake.put("other/y")
    assert [row["path"] for row in lake.user.read(list[Any], "diff")] == ["other/y"]
    assert lake.user.run("commit", "-m", "y").code == 0
    assert lake.user.read(dict[str, Any], "show")["message"] == "y"
    monkeypatch.chdir(folder.parent)
    for command in ("log", "ls", "diff", "show"):
        assert lake.user.run(command).code == 2
    assert lake.user.run("log", "--", "data/").code == 2
    assert lake.user.run("status").code == 2


def test_a_command_without_a_lock_makes_private_folders(
    lake: Lake, folder: Path, tmp_path: Path
) -> None:
    """With the widest umask."""
    lake.user.variables["XDG_STATE_HOME"] = str(tmp_path / "a/b")
    before = os.umask(0)
    try:
        assert status(lake) == []
    finally:
        os.umask(before)
    made = [tmp_path / name for name in ("a", "a/b", "a/b/graveler", "a/b/graveler/local")]
    assert [place.stat().st_mode & 0o777 for place in made] == [0o700] * 4


def test_links_and_permissions_go_there_and_back(lake: Lake, folder: Path, tmp_path: Path) -> None:
    """By the settings of lakectl."""
    for name in ("LOCAL_SYMLINK_SUPPORT", "EXPERIMENTAL_LOCAL_POSIX_PERMISSIONS_ENABLED"):
        lake.user.variables[f"LAKECTL_{name}"] = "true"
    local(lake, "clone", f"{lake.name}/main/other/", str(tmp_path / "first"))
    first = tmp_path / "first"
    (first / "link").symlink_to("x")
    (first / "x").chmod(0o640)
    local(lake, "commit", str(first), "-m", "a link and a mode")
    stored = json.loads(lake.user.run("stat", f"{lake.name}/main/other/x", "--json").out)
    (text,) = (value for key, value in stored["metadata"].items() if "posix" in key.lower())
    assert json.loads(text)["Mode"] & 0o777 == 0o640
    local(lake, "clone", f"{lake.name}/main/other/", str(tmp_path / "second"))
    second = tmp_path / "second"
    assert os.readlink(second / "link") == "x" and (second / "link").read_bytes() == b"x"
    assert (second / "x").stat().st_mode & 0o777 == 0o640


def test_a_bad_state_file_does_not_end_the_list(lake: Lake, folder: Path, tmp_path: Path) -> None:
    for name in ("bad", "folder", "link"):
        (tmp_path / "c" / name).mkdir(parents=True)
    (tmp_path / "c/bad/.lakefs_ref.yaml").write_text("src: lakefs://lake/main/\n")
    (tmp_path / "c/link/.lakefs_ref.yaml").symlink_to(folder / ".lakefs_ref.yaml")
    local(lake, "clone", f"{lake.name}/main/data/", str(tmp_path / "e"))
    result = lake.user.run("local", "list", str(tmp_path), "--json")
    assert result.code == 8
    rows = json.loads(result.out)
    assert [row["directory"] for row in rows] == [str(folder), str(tmp_path / "e")]
    message = json.loads(result.err)["error"]["message"]
    assert message.startswith("2 state files cannot be read:\n")
    assert f"{tmp_path}/c/bad/.lakefs_ref.yaml: at_head must be" in message
    assert f"{tmp_path}/c/link/.lakefs_ref.yaml: " in message


def test_a_folder_becomes_what_it_was_at_a_time(lake: Lake, tmp_path: Path) -> None:
    first = commit(lake, 2, "data/a")
    second = commit(lake, 4, "data/b")
    name, old = lake.name, tmp_path / "old"
    at = ("--at", "2026-01-03T00:00:00Z")
    record = local(lake, "clone", f"{name}/main/data/", str(old), *at)
    assert (record["at_head"], sorted(files(old))) == (first, ["a"])
    assert record["src"] == f"lakefs://{name}/{first}/data/"
    assert local(lake, "checkout", str(old), "--ref", "main")["at_head"] == second
    assert local(lake, "checkout", str(old), *at)["at_head"] == first
    lake.user.run("branch", "create", f"{name}/dev")
    commit(lake, 6, "data/c", "dev")
    words = ("checkout", "--all", str(tmp_path), "--ref", "dev", "--at", "2026-01-05")
    result = lake.user.run("local", *words)
    assert (result.code, sorted(files(old))) == (0, ["a", "b"])
    local(lake, "checkout", str(old), "--ref", "dev@{2026-01-07}")
    assert sorted(files(old)) == ["a", "b", "c"]


def test_a_checkout_of_all_without_an_answer_changes_no_folder(lake: Lake, tmp_path: Path) -> None:
    """The first folder is clean, and would have been switched before the next one asks."""
    first = lake.commit_of("data/a")
    lake.user.run("branch", "create", f"{lake.name}/dev")
    lake.put("data/b", branch="dev")
    lake.commit(branch="dev")
    for folder in ("1", "2", "3", "4"):
        local(lake, "clone", f"{lake.name}/main/data/", str(tmp_path / folder))
    for folder in ("2", "4"):
        (tmp_path / folder / "a").write_bytes(b"edited")
    (tmp_path / "4/new").touch()
    words = ("checkout", "--all", str(tmp_path), "--ref", "dev")
    message = local(lake, *words, code=2)["message"]
    assert message.splitlines()[1:] == [
        f"  {tmp_path}/2: 1 local change",
        f"  {tmp_path}/4: 2 local changes",
    ]
    rows = local(lake, "list", str(tmp_path))
    assert {row["at_head"] for row in rows} == {first}
    assert (tmp_path / "2/a").read_bytes() == b"edited"
    assert lake.user.run("local", *words, "--yes").code == 0
    assert all((tmp_path / folder / "b").exists() for folder in ("1", "2", "3", "4"))


def test_an_interrupted_folder_is_undone_without_an_answer(lake: Lake, tmp_path: Path) -> None:
    """A checkout of all undoes it, which discards nothing."""
    lake.commit_of("data/a")
    root = tmp_path / "1"
    local(lake, "clone", f"{lake.name}/main/data/", str(root))
    (root / "a").write_bytes(b"edited")
    folder = Folder(root, Settings())
    link = folder.link()
    assert link is not None
    file = state.folder(lake.user.variables) / "local" / identity(root)
    folder.write_link(link.during("pull"))
    with closing(Records(file, SystemClock())) as records:
        records.begin(Operation("pull", "place", link, link), [])
    result = lake.user.run("local", "checkout", "--all", str(tmp_path))
    assert result.code == 0 and result.out.startswith("undone: pull"), result
    assert (root / "a").read_bytes() == b"edited"


def test_a_folder_that_is_younger_than_a_time_does_not_end_the_checkout_of_all(
    lake: Lake, tmp_path: Path
) -> None:
    name = lake.name
    lake.user.run("branch", "create", f"{name}/young")
    first = commit(lake, 2, "data/a")
    commit(lake, 4, "data/b")
    young = commit(lake, 6, "data/c", "young")
    for folder, branch in (("1", "main"), ("2", "young"), ("3", "main")):
        local(lake, "clone", f"{name}/{branch}/data/", str(tmp_path / folder))
    words = ("local", "checkout", "--all", str(tmp_path), "--at", "2026-01-03")
    result = lake.user.run(*words)
    assert result.code == 8
    assert "1 folder not checked out:\n" in result.err
    assert f"  {tmp_path}/2: no commit of {name}/young is that old: " in result.err
    rows = local(lake, "list", str(tmp_path))
    assert [row["at_head"] for row in rows] == [first, young, first]


def test_a_no_for_one_folder_does_not_end_the_checkout_of_all(lake: Lake, tmp_path: Path) -> None:
    lake.commit_of("data/a")
    for folder in ("1", "2", "3"):
        local(lake, "clone", f"{lake.name}/main/data/", str(tmp_path / folder))
        (tmp_path / folder / "a").write_bytes(b"edited")
    shown = terminal(lake.user, "local", "checkout", "--all", str(tmp_path))
    for folder, answer in (("1", "y"), ("2", "n"), ("3", "y")):
        shown.until(f"Discard 1 local change in {tmp_path}/{folder}?  No copy is kept. [y/N]: ")
        shown.type(f"{answer}\n")
    assert shown.end() == 8
    assert f"1 folder not checked out:\n  {tmp_path}/2: the answer was no\n" in shown.text
    contents = [(tmp_path / folder / "a").read_bytes() for folder in ("1", "2", "3")]
    assert contents == [b"data/a", b"edited", b"data/a"]


def test_the_server_of_one_folder_is_not_that_of_the_next(
    lake: Lake, public: Served, folder: Path
) -> None:
    """The folder before it in `--all` is on another server than the profile's."""
    top = folder.parent
    first = profiles.read(lake.user.variables).by_name["test"]
    other = replace(first, name="other", server=public.client.url)
    profiles.write(Profiles("test", {"test": first, "other": other}), lake.user.variables)
    name = public.fresh_repository()
    local(lake, "clone", f"{name}/main/", str(top / "a"), "--profile", "other")
    (top / "a/n").write_bytes(b"new")
    (folder / "n").write_bytes(b"new")
    result = lake.user.run("local", "checkout", "--all", str(top), "--yes")
    assert result.code == 0, result
    assert files(top / "a") == {} and files(folder) == FILES
    assert status(lake) == [] == local(lake, "status", str(top / "a"))


def test_given_credentials_go_to_no_server_that_was_not_named(
    lake: Lake, public: Served, folder: Path
) -> None:
    first = profiles.read(lake.user.variables).by_name["test"]
    other = replace(first, name="other", server=public.client.url)
    profiles.write(Profiles("other", {"test": first, "other": other}), lake.user.variables)
    key = ("--access-key-id", first.access_key_id, "--secret-stdin")
    secret = first.secret_access_key.encode()
    refused = lake.user.run("local", "status", *key, input=secret)
    assert refused.code == 2 and "give --profile or --server" in refused.err
    named = lake.user.run("local", "status", "--profile", "test", *key, input=secret)
    assert named.code == 0, named
    wrong = replace(first, secret_access_key="another-secret-of-sufficient-length")
    profiles.write(Profiles("other", {"test": wrong, "other": other}), lake.user.variables)
    assert local(lake, "status", code=4)["message"].startswith(f"{first.server} does not ")


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served(tmp_path_factory.mktemp("public") / "store", public=True) as running:
        yield running


def test_contents_go_by_signed_urls(
    public: Served, user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.know(public.client.url)
    user.variables["XDG_STATE_HOME"] = str(tmp_path / "state")
    name = public.fresh_repository()
    here = tree(tmp_path / "here", FILES)
    assert user.run("local", "init", f"{name}/main/x/", str(here)).code == 0
    up = user.run("-v", "local", "commit", str(here), "-m", "m")
    assert up.code == 0, up
    assert up.err.count("/_presigned/") == 4 and "signature" not in up.err
    down = user.run("-v", "local", "clone", f"{name}/main/x/", str(tmp_path / "down"))
    assert down.code == 0 and down.err.count("/_presigned/") == 4
    assert files(tmp_path / "down") == FILES


def test_git_ignores_the_folder_and_commits_name_its_commit(
    lake: Lake, folder: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "m")):
        work.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=work, check=True)
    local(lake, "clone", f"{lake.name}/main/data/", str(work / "d"))
    section = "\n# ignored by lakectl local:\nd/*\n!d/.lakefs_ref.yaml\n\n"
    assert (work / ".gitignore").read_text() == section
    (work / "d/a.csv").write_bytes(b"g")
    local(lake, "commit", str(work / "d"), "-m", "with git")
    commit = lake.user.read(dict[str, Any], "show", f"{lake.name}/main")
    head = ("git", "rev-parse", "--short", "HEAD")
    short = subprocess.run(head, cwd=work, check=True, capture_output=True, text=True).stdout
    assert commit["metadata"]["git_commit_id"] == short.strip()
    local(lake, "init", f"{lake.name}/main/data/", str(work / "d"), "--force")
    assert (work / ".gitignore").read_text() == section


def test_the_document_can_be_followed(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/how-to/local.md, in order."""
    text = (ROOT / "docs/how-to/local.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert len(lines) == 11
    lake.put("sales/february.csv")
    lake.commit()
    lake.user.variables["XDG_STATE_HOME"] = str(tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        if line == "cd sales":
            monkeypatch.chdir(tmp_path / "sales")
        elif line.startswith("printf"):
            subprocess.run(line, shell=True, check=True)
        else:
            result = lake.user.line(
                line.removeprefix("graveler ").replace("lake/", f"{lake.name}/")
            )
            assert result.code == 0, result
    assert sorted(files(tmp_path / "sales")) == ["april.csv", "february.csv", "march.csv"]
    assert status(lake) == []


def test_a_linked_folder_names_the_server_of_every_command(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default profile is of another server; options and variables still decide."""
    user, keys = lake.user, ADMINISTRATOR
    urls = {"here": lake.live.client.url, "there": "http://127.0.0.1:1"}
    known = {
        name: Profile(name, url, keys.access_key_id, keys.secret_access_key)
        for name, url in urls.items()
    }
    profiles.write(Profiles("there", known), user.variables)
    monkeypatch.chdir(folder)
    assert user.line("log").code == 0
    assert user.line("config show").out.count(urls["here"]) == 1
    assert user.line("log --profile there").code == 6
    monkeypatch.chdir(folder.parent)
    assert user.line(f"log {lake.name}/main").code == 6
    profiles.write(Profiles("there", {"there": known["there"]}), user.variables)
    monkeypatch.chdir(folder)
    refused = user.line("log")
    assert refused.code == 2 and f"linked on {urls['here']}" in refused.err
