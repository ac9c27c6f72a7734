"""Names that others chose: what `download`, `cp -r` and `local` make of them on a disk."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graveler.core.errors import Invalid
from graveler.lake.transfers.folder import folding
from graveler.lake.transfers.paths import Folding
from graveler.lake.transfers.receive import Destination
from tests.cli.conftest import Lake
from tests.cli.test_transfers import content, tree

ATTACK = """#!/bin/sh
touch {mark}
"""
CONFIG = """[core]
	repositoryformatversion = 0
	bare = false
	worktree = {tree}
	fsmonitor = "touch {mark} #"
	hooksPath = hooks
"""


def hostile(mark: Path) -> dict[str, bytes]:
    """Objects that a git command in a folder would run, if they were files there."""
    config = CONFIG.format(tree=mark.parent, mark=mark).encode()
    hook = ATTACK.format(mark=mark).encode()
    head, ref = b"ref: refs/heads/main\n", b"0" * 40
    bare = {"HEAD": head, "config": config, "objects/x": b"", "refs/heads/x": ref}
    linked = {"HEAD": head, "commondir": b"bare\n", "config": config}
    return {
        **{f".git/{path}": body for path, body in bare.items()},
        ".git/hooks/post-index-change": hook,
        **{f"d/.GIT/{path}": body for path, body in bare.items()},
        "gitfile/.git": b"gitdir: ../bare\n",
        **bare,
        **{f"bare/{path}": body for path, body in bare.items()},
        **{f"linked/{path}": body for path, body in linked.items()},
        "bare/hooks/post-index-change": hook,
        ".hg/hgrc": f"[hooks]\npre-status = touch {mark}\n".encode(),
        "fine/a.csv": b"a",
        "fine/HEAD": b"b",
    }


def git(folder: Path, *words: str) -> None:
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    variables["GIT_CEILING_DIRECTORIES"] = str(folder.parent.parent)
    subprocess.run(["git", *words], cwd=folder, env=variables, capture_output=True, check=False)


def is_attacked(top: Path, mark: Path) -> bool:
    """Whether git runs the code of the author in any folder."""
    for folder in (top, *(path for path in sorted(top.rglob("*")) if path.is_dir())):
        for command in ("status", "log"):
            git(folder, command)
    return mark.exists()


@pytest.mark.parametrize("case", ["empty", "work tree"])
def test_git_runs_nothing_of_a_download(lake: Lake, tmp_path: Path, case: str) -> None:
    folder, mark = tmp_path / "out", tmp_path / "mark"
    objects = hostile(mark)
    assert is_attacked(tree(tmp_path / "copied", objects), mark)  # as other tools write them
    mark.unlink()
    shutil.rmtree(tmp_path / "copied")
    for path, body in objects.items():
        lake.put(f"x/{path}", body)
    lake.commit()
    if case == "work tree":
        folder.mkdir()
        git(folder, "init")
        assert (folder / ".git/HEAD").exists()
    for command, source in (("download", f"{lake.name}/main/x/"), ("cp", "")):
        result = lake.user.run(
            *(command, "-r", source or f"lakefs://{lake.name}/main/x/", str(folder)), "-j", "1"
        )
        assert result.code == 8 and "belongs to Git" in result.err, result
        assert "would make bare a repository of Git" in result.err
    written = content(folder)
    assert {path: written[path] for path in ("fine/a.csv", "fine/HEAD")} == {
        "fine/a.csv": b"a",
        "fine/HEAD": b"b",
    }
    assert not is_attacked(folder, mark)
    clone = lake.user.run("local", "clone", f"{lake.name}/main/x/", str(tmp_path / "clone"))
    assert clone.code == 1 and "nothing was changed" in clone.err
    assert list((tmp_path / "clone").iterdir()) == []


def test_a_second_download_does_not_complete_a_repository(lake: Lake, tmp_path: Path) -> None:
    for path in ("a/d/HEAD", "a/d/objects/x", "b/d/refs/x", "b/d/y"):
        lake.put(path)
    folder = str(tmp_path / "out")
    assert lake.user.run("download", "-r", f"{lake.name}/main/a/", folder).code == 0
    refused = lake.user.run("download", "-r", f"{lake.name}/main/b/", folder)
    assert refused.code == 8 and "would make d a repository of Git" in refused.err
    assert sorted(content(tmp_path / "out")) == ["d/HEAD", "d/objects/x", "d/y"]


def test_a_pull_does_not_complete_a_repository_with_what_is_ignored(
    lake: Lake, tmp_path: Path
) -> None:
    """The author writes `.gravelerignore`, too: what it names stays in the folder, unseen."""
    folder = str(tmp_path / "out")
    commits = (
        {"objects/a": b"a", "refs/b": b"b"},
        {".gravelerignore": b"objects/\nrefs/\n"},
        {"HEAD": b"ref: refs/heads/main\n", "config": b"[core]\n"},
    )
    for number, objects in enumerate(commits):
        for path, body in objects.items():
            lake.put(f"x/{path}", body)
        lake.commit()
        words = ("pull", folder) if number else ("clone", f"{lake.name}/main/x/", folder)
        result = lake.user.run("local", *words)
        if number < 2:
            assert result.code == 0, result
    assert result.code == 1 and "HEAD: would make the folder a repository of Git" in result.err
    assert sorted(content(tmp_path / "out")) == [
        *(".gravelerignore", ".lakefs_ref.yaml", "objects/a", "refs/b")
    ]


def test_a_download_does_not_link_a_folder_with_another_repository(
    lake: Lake, tmp_path: Path
) -> None:
    lake.put("data/a", b"1")
    lake.commit()
    folder = tmp_path / "d"
    assert lake.user.run("local", "clone", f"{lake.name}/main/data/", str(folder)).code == 0
    state = (folder / ".lakefs_ref.yaml").read_bytes()
    other = b"src: lakefs://evil/main/\nat_head: " + b"0" * 64 + b'\nactive_operation: ""\n'
    part = f".b.{'0' * 32}.part"
    own = (".lakefs_ref.yaml", "e/.lakefs_ref.yaml", ".graveler-shelf/new/0", part)
    for path in (*own, "b"):
        lake.put(f"x/{path}", other)
    for order in (
        ("download", "-r", f"{lake.name}/main/x/", str(folder)),
        ("download", f"{lake.name}/main/x/.lakefs_ref.yaml", str(folder)),
    ):
        refused = lake.user.run(*order, "--yes")
        assert refused.code in (1, 8) and "graveler local, which keeps its state" in refused.err
    assert sorted(content(folder)) == [".lakefs_ref.yaml", "a", "b"]
    assert (folder / ".lakefs_ref.yaml").read_bytes() == state


# ---- what is in the current folder ---------------------------------------------------------------


def test_files_of_the_current_folder_are_not_replaced_unasked(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {".bashrc": b"mine", "same": b"x", "d/a": b"mine"}
    folder = tree(tmp_path / "here", mine)
    monkeypatch.chdir(folder)
    for path in (*mine, "new"):
        lake.put(f"x/{path}")
    order = ("download", "-r", f"{lake.name}/main/x/")
    for more in ((), (".",), (str(folder),), (".", "--dry-run")):
        refused = lake.user.run(*order, *more)
        assert refused.code == 8 and "--yes replaces it" in refused.err
        assert {path: content(folder)[path] for path in mine} == mine
    one = lake.user.run("download", f"{lake.name}/main/x/.bashrc")
    assert one.code == 5 and "file exists and differs: .bashrc: --yes replaces it" in one.err
    assert content(folder) == {**mine, "new": b"x"}
    # a name that was typed is meant
    assert lake.user.run("download", f"{lake.name}/main/x/.bashrc", "same").code == 0
    assert lake.user.run(*order, "--yes").code == 0
    assert set(content(folder).values()) == {b"x"}


def test_a_deletion_leaves_what_no_download_writes(lake: Lake, tmp_path: Path) -> None:
    lake.put("x/a")
    kept = {".git/HEAD": b"1", ".lakefs_ref.yaml": b"2"}
    folder = tree(tmp_path / "out", {**kept, "old": b"3"})
    order = ("download", "-r", "--delete", f"{lake.name}/main/x/", str(folder), "--yes")
    assert lake.user.run(*order).code == 0
    assert content(folder) == {**kept, "a": b"x"}


def test_a_line_break_in_a_name_begins_no_line_of_ours(lake: Lake, tmp_path: Path) -> None:
    name = "bad\ngraveler: all is well"
    for path in (f"x/{name}", f"x/.git/{name}", f"y/.git/{name}"):
        lake.put(path)
    lake.commit()
    folder = tree(tmp_path / "here", {name: b"mine"})
    for words, code in (
        (("download", "-r", f"{lake.name}/main/x/", str(folder)), 8),
        (("local", "clone", f"{lake.name}/main/y/", str(tmp_path / "clone")), 1),
    ):
        refused = lake.user.run(*words)
        assert refused.code == code and "all is well" in refused.err
        assert "\ngraveler: all is well" not in refused.err, refused.err


# ---- names that a file system takes for one ------------------------------------------------------


def test_paths_that_the_destination_takes_for_one_file(tmp_path: Path) -> None:
    def paths(found: Folding) -> list[str]:
        destination = Destination(tmp_path, lambda folder: found)
        refusals = []
        for path in ("d/a", "D/b", "d/A", "é", "e\u0301", "d/c"):
            try:
                assert destination.file(path) == tmp_path / path
            except Invalid as error:
                refusals.append(f"{path}: {str(error).partition('differs by ')[2]}")
        return refusals

    end = "and here both are one file"
    case = [f"D/b: case alone from d, {end}", f"d/A: case alone from d/a, {end}"]
    form = [f"e\u0301: Unicode normalization alone from é, {end}"]
    assert paths(Folding(case=False, form=False)) == []
    assert paths(Folding(case=True, form=False)) == case
    assert paths(Folding(case=False, form=True)) == form
    assert paths(Folding(case=True, form=True)) == [*case, *form]


@pytest.mark.parametrize("case", [False, True])
@pytest.mark.parametrize("form", [False, True])
def test_the_destination_is_asked_by_a_folder_of_another_spelling(
    tmp_path: Path, case: bool, form: bool
) -> None:
    """Where both spellings are one, the folder that was made has the other one too, as here."""
    if case:
        (tmp_path / f".GRAVELER-SHELF-{os.getpid()}-é").mkdir()
    if form:
        (tmp_path / f".graveler-shelf-{os.getpid()}-e\u0301").mkdir()
    before = sorted(tmp_path.iterdir())
    assert folding(tmp_path) == folding(tmp_path / "new/deep") == Folding(case=case, form=form)
    assert sorted(tmp_path.iterdir()) == before


def test_names_that_differ_by_case_are_two_files_here(lake: Lake, tmp_path: Path) -> None:
    for path in ("a", "A", "é", "e\u0301"):
        lake.put(f"x/{path}", path.encode())
    folder = tmp_path / "out"
    assert lake.user.run("download", "-r", f"{lake.name}/main/x/", str(folder)).code == 0
    assert content(folder) == {path: path.encode() for path in ("a", "A", "é", "e\u0301")}
