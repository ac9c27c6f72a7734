"""Which paths a transfer is about, what it would do, and what `--delete` deletes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import StorageFull
from graveler.lake import objects
from graveler.lake.transfers.paths import filter_of
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.cli.test_transfers import content, tree
from tests.client.scripted import Said, scripted


def paths(lake: Lake, prefix: str = "", branch: str = "main") -> list[str]:
    listed = lake.user.run("ls", "-r", f"{lake.name}/{branch}/{prefix}", "--json")
    return [stats["path"] for stats in json.loads(listed.out)]


def plan(out: str) -> list[tuple[str, str]]:
    return [(row["action"], row["path"]) for row in json.loads(out)]


@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        ((), (), "a.csv b.txt d/a.csv d/e/b.txt logs/x"),
        (("*.csv",), (), "a.csv d/a.csv"),
        ((), ("*.csv",), "b.txt d/e/b.txt logs/x"),
        (("d/",), ("*.txt",), "d/a.csv"),
        (("*.csv", "!d/*"), (), "a.csv"),
        ((), ("/d", "logs/"), "a.csv b.txt"),
        (("d/**/b.txt",), (), "d/e/b.txt"),
        (("*.csv",), ("*.csv",), ""),
    ],
)
def test_an_exclusion_wins_and_the_last_glob_of_a_kind_decides(
    include: tuple[str, ...], exclude: tuple[str, ...], chosen: str
) -> None:
    choice = filter_of(include, exclude)
    names = ["a.csv", "b.txt", "d/a.csv", "d/e/b.txt", "logs/x"]
    assert " ".join(name for name in names if choice.chooses(name)) == chosen


def test_every_transfer_takes_globs(lake: Lake, tmp_path: Path) -> None:
    source = tree(tmp_path / "in", {"a.csv": b"a", "b.txt": b"b", "d/c.csv": b"c"})
    main, dev = f"{lake.name}/main", f"lakefs://{lake.name}/main/copy/"
    assert lake.user.run("upload", "-r", str(source), f"{main}/x", "--exclude", "*.txt").code == 0
    assert paths(lake) == ["x/a.csv", "x/d/c.csv"]
    lake.put("x/b.txt")
    copied = lake.user.run("cp", "-r", f"lakefs://{main}/x/", dev, "--include", "d/")
    assert copied.code == 0 and paths(lake, "copy/") == ["copy/d/c.csv"]
    out = tmp_path / "out"
    assert lake.user.run("download", "-r", f"{main}/x/", str(out), "--include", "*.txt").code == 0
    assert content(out) == {"b.txt": b"x"}
    assert lake.user.run("rm", "-r", f"{main}/x/", "--exclude", "*.csv", "--yes").code == 0
    assert paths(lake, "x/") == ["x/a.csv", "x/d/c.csv"]
    for wrong in (("--include", "*"), ("--delete",)):
        refused = lake.user.run("download", f"{main}/x/a.csv", str(out), *wrong)
        assert refused.code == 2 and "needs -r" in refused.err


def test_a_dry_run_shows_all_and_does_nothing(lake: Lake, tmp_path: Path) -> None:
    source = tree(tmp_path / "in", {"new": b"1", "same": b"2"})
    main = f"{lake.name}/main"
    lake.put("x/same", b"2")
    lake.put("x/old", b"3")
    up = lake.user.run("upload", "-r", str(source), f"{main}/x", "--delete", "--dry-run", "--json")
    assert plan(up.out) == [("upload", "x/new"), ("leave", "x/same"), ("delete", "x/old")]
    down = lake.user.run(
        "download", "-r", f"{main}/x/", str(source), "--delete", "--dry-run", "--json"
    )
    assert plan(down.out) == [
        ("download", str(source / "old")),
        ("leave", str(source / "same")),
        ("delete", str(source / "new")),
    ]
    copy = ("cp", "-r", f"lakefs://{main}/x/", f"lakefs://{main}/y/", "--dry-run")
    assert plan(lake.user.run(*copy, "--json").out) == [("copy", "y/old"), ("copy", "y/same")]
    gone = lake.user.run("rm", "-r", f"{main}/x/", "--dry-run", "--json")
    assert plan(gone.out) == [("delete", "x/old"), ("delete", "x/same")]
    told = lake.user.run(*copy)
    assert told.err == "nothing was done; it would copy 2\n"
    assert paths(lake) == ["x/old", "x/same"]
    assert content(source) == {"new": b"1", "same": b"2"}


def test_an_upload_deletes_what_the_folder_has_not(lake: Lake, tmp_path: Path) -> None:
    source = str(tree(tmp_path / "in", {"a": b"1", "d/b": b"2"}))
    for path in ("x/a", "x/gone", "x/d/gone", "x/keep.log", "x/d/", "xy"):
        lake.put(path)
    order = ("upload", "-r", source, f"{lake.name}/main/x", "--delete", "--exclude", "*.log")
    refused = lake.user.run(*order)
    assert refused.code == 2 and "--yes" in refused.err and "x/gone" in paths(lake)
    done = lake.user.run(*order, "--yes", "--json")
    assert json.loads(done.out)["graveler"]["deleted"] == 2
    assert paths(lake) == ["x/a", "x/d/", "x/d/b", "x/keep.log", "xy"]


def test_a_download_deletes_what_the_prefix_has_not(lake: Lake, tmp_path: Path) -> None:
    lake.put("x/a")
    outside = tree(tmp_path / "outside", {"mine": b"1"})
    part = f".a.{'0' * 32}.part"
    kept = {".lakefs_ref.yaml": b"", part: b"", "d/keep.log": b""}
    target = tree(tmp_path / "out", {"gone": b"", "d/e/gone": b"", **kept})
    (target / "link").symlink_to(outside)
    order = ("download", "-r", f"{lake.name}/main/x/", str(target), "--delete")
    done = lake.user.run(*order, "--exclude", "*.log", "--yes")
    assert done.code == 0 and "deleted 3 files" in done.out
    assert content(target) == {"a": b"x", **kept}
    assert not (target / "d/e").exists() and (outside / "mine").exists()


OWN = {
    ".lakefs_ref.yaml": b"1",
    ".graveler-shelf/old/0": b"2",
    ".graveler-shelf.ref": b"3",
    "d/linked/.lakefs_ref.yaml": b"4",
    "d/.linked.graveler-1a2b3c4d/old/0": b"5",
    "d/.linked.graveler-1a2b3c4d.ref": b"6",
    f"d/.a.{'0' * 32}.part": b"7",
}


def test_the_state_of_linked_folders_is_neither_deleted_nor_sent(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tree(tmp_path / "in", {**OWN, "a": b"x", "d/.linked.graveler-note": b"x"})
    main = f"{lake.name}/main"
    lake.put("x/d/.lakefs_ref.yaml")
    up = ("upload", "-r", str(folder), f"{main}/x", "--delete", "--yes")
    assert lake.user.run(*up).code == 0
    assert paths(lake) == ["x/a", "x/d/.lakefs_ref.yaml", "x/d/.linked.graveler-note"]
    lake.put("y/a")
    down = ("download", "-r", f"{main}/y/", str(folder), "--delete", "--yes")
    assert "deleted 1 file" in lake.user.run(*down).out
    assert content(folder) == {**OWN, "a": b"x"}


def test_a_deletion_needs_the_name_of_the_folder(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("x/a")
    folder = tree(tmp_path / "project", {"mine": b"1"})
    monkeypatch.chdir(folder)
    order = ("download", "-r", f"{lake.name}/main/x/")
    refused = lake.user.run(*order, "--delete", "--yes")
    assert refused.code == 2 and "needs DEST" in refused.err
    assert content(folder) == {"mine": b"1"}
    shown = terminal(lake.user, *order, ".", "--delete", folder=folder)
    shown.until(f"Delete 1 file at {folder.resolve()}")
    shown.interrupt()
    assert lake.user.run(*order).code == 0
    assert content(folder) == {"mine": b"1", "a": b"x"}
    assert lake.user.run(*order, ".", "--delete", "--yes").code == 0
    assert content(folder) == {"a": b"x"}


def test_a_copy_deletes_what_its_source_has_not(lake: Lake) -> None:
    lake.put("x/a")
    lake.put("y/a", b"old")
    lake.put("y/gone")
    main = f"lakefs://{lake.name}/main"
    assert lake.user.run("cp", "-r", f"{main}/x/", f"{main}/y/", "--delete", "--yes").code == 0
    assert paths(lake) == ["x/a", "y/a"]
    inside = lake.user.run("cp", "-r", f"{main}/x/", f"{main}/", "--delete", "--yes")
    assert inside.code == 2 and "would delete SRC" in inside.err and paths(lake) == ["x/a", "y/a"]


def unreadable_file(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff")).write_bytes(b"")


def symbolic_link(folder: Path) -> None:
    (folder / "link").symlink_to("/etc")


@pytest.mark.parametrize("spoil", [unreadable_file, symbolic_link])
def test_a_source_that_is_not_listed_whole_deletes_nothing(
    lake: Lake, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    source = tree(tmp_path / "in", {"a": b"1"})
    spoil(source)
    lake.put("x/link/b")
    order = ("upload", "-r", str(source), f"{lake.name}/main/x", "--delete", "--yes")
    result = lake.user.run(*order)
    assert result.code == 8 and "nothing is deleted" in result.err
    assert paths(lake) == ["x/a", "x/link/b"]


LIST = {"pagination": {"has_more": True, "next_offset": "x/a"}}
OBJECT = {"path": "x/a", "path_type": "object", "checksum": "", "mtime": 1, "size_bytes": 1}


def test_a_list_that_breaks_off_deletes_nothing(user: Client, tmp_path: Path) -> None:
    target = tree(tmp_path / "out", {"mine": b"1"})
    page = Said(200, json.dumps({"results": [OBJECT], **LIST}).encode())
    with scripted([Said(200), page, Said(500)]) as server:
        user.know(server.url)
        order = ("download", "-r", "lake/main/x/", str(target), "--delete", "--yes")
        assert user.run(*order).code == 1
    assert content(target) == {"mine": b"1"}


def test_a_transfer_that_fails_deletes_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SRC has under another name may be the only copy."""
    source = tree(tmp_path / "in", {"a": b"1", "renamed": b"2"})
    target = tree(tmp_path / "out", {"name": b"2"})
    for path in ("x/a", "x/renamed", "y/name", "z/name"):
        lake.put(path)
    main = f"{lake.name}/main"

    def fails(*words: Any, **more: Any) -> Any:
        raise StorageFull("broken")

    for function in ("upload", "copy", "open_object"):
        monkeypatch.setattr(objects, function, fails)
    for verb, order in (
        ("uploaded", ("upload", "-r", str(source), f"{main}/z")),
        ("downloaded", ("download", "-r", f"{main}/x/", str(target))),
        ("copied", ("cp", "-r", f"lakefs://{main}/x/", f"lakefs://{main}/y/")),
    ):
        result = lake.user.run(*order, "--delete", "--yes")
        assert result.code == 8, result
        assert f"nothing is deleted: 2 objects were not {verb}" in result.err
    assert paths(lake) == ["x/a", "x/renamed", "y/name", "z/name"]
    assert content(target) == {"name": b"2"}


def test_a_dry_run_shows_no_deletion_that_would_not_follow(lake: Lake, tmp_path: Path) -> None:
    target = tree(tmp_path / "out", {"name": b"2"})
    lake.put("x/a//b")
    order = ("download", "-r", f"{lake.name}/main/x/", str(target), "--delete")
    assert "delete" not in lake.user.run(*order, "--dry-run").out
    assert lake.user.run(*order, "--yes").code != 0 and content(target) == {"name": b"2"}


def test_nothing_is_overwritten_with_no_clobber(lake: Lake, tmp_path: Path) -> None:
    lake.put("x/a", b"new")
    main = f"{lake.name}/main"
    target = tree(tmp_path / "out", {"a": b"old"})
    for order in (("-r", f"{main}/x/"), (f"{main}/x/a",)):
        refused = lake.user.run("download", *order, str(target), "--no-clobber")
        assert refused.code in (5, 8) and "already exists" in refused.err
    assert content(target) == {"a": b"old"}
    assert lake.user.run("download", f"{main}/x/a", f"{target}/b", "--no-clobber").code == 0
    assert content(target) == {"a": b"old", "b": b"new"}
    lake.put("y/a", b"old")
    for into in (f"lakefs://{main}/y/a",):
        refused = lake.user.run("cp", f"lakefs://{main}/x/a", into, "--no-clobber")
        assert refused.code == 5 and "already exists" in refused.err
    assert lake.user.run("cat", f"{main}/y/a").out == "old"


def test_checksum_leaves_out_what_is_the_same(lake: Lake, tmp_path: Path) -> None:
    file = tree(tmp_path, {"a": b"1"}) / "a"
    main = f"{lake.name}/main"
    lake.put("x/a", b"1")
    lake.put("y/a", b"1")

    def same(*order: str) -> int:
        return int(json.loads(lake.user.run(*order, "--json").out)["graveler"]["same"])

    copy = ("cp", "-r", f"lakefs://{main}/x/", f"lakefs://{main}/y/")
    assert same("upload", str(file), f"{main}/x/a") == 0
    assert same("upload", str(file), f"{main}/x/a", "--checksum") == 1
    assert same(*copy) == 0
    assert same(*copy, "--checksum") == 1


def test_an_empty_source_deletes_nothing(lake: Lake, tmp_path: Path) -> None:
    target = tree(tmp_path / "out", {"mine": b"1"})
    order = ("download", "-r", f"{lake.name}/main/typo/", str(target), "--delete", "--yes")
    refused = lake.user.run(*order)
    assert refused.code == 1 and "the source has nothing" in refused.err
    assert content(target) == {"mine": b"1"}


def test_a_failed_deletion_stops_no_other(user: Client) -> None:
    """Neither one object that is refused, nor a request that fails."""
    names = [f"x/{number:04}" for number in range(2_500)]
    pagination = {"has_more": False, "next_offset": ""}
    page = {"results": [{**OBJECT, "path": name} for name in names], "pagination": pagination}
    refused = {"errors": [{"path": "x/0003", "message": "held"}]}
    answers = [Said(200, json.dumps(page).encode()), Said(200, json.dumps(refused).encode())]
    with scripted([*answers, Said(500), Said(200, b'{"errors": []}')]) as server:
        user.know(server.url)
        result = user.run("rm", "-r", "lake/main/x/", "--yes")
        bodies = [json.loads(each.body)["paths"] for each in server.asked[1:]]
    assert [len(body) for body in bodies] == [1_000, 1_000, 500]
    assert result.code == 8 and "1,001 objects of 2,500 not deleted" in result.err
    assert "x/0003: held" in result.err
