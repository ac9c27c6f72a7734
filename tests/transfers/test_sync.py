"""What a folder keeps: links, modes, ignored files, edits made meanwhile; what it refuses."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import (
    Conflict,
    Contended,
    Corrupt,
    Invalid,
    MergeConflict,
    NotFound,
    Unavailable,
)
from graveler.lake.transfers import commit, sync
from graveler.lake.transfers.folder import Shelf, shelf_place
from graveler.lake.transfers.link import Prefix
from graveler.lake.transfers.records import EMPTY_MD5, Entry, Posix, Settings
from graveler.lake.transfers.remote import Remote
from tests.transfers.lake import MTIME, SOURCE, Branches, Killed, Place, entry

MESSAGE = commit.Message("a message", {})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A clone of three files."""
    return cloned(tmp_path / "home")


def cloned(home: Path, settings: Settings = Settings()) -> Place:  # noqa: B008
    home.mkdir()
    branches = Branches()
    branches.add("main", {})
    branches.put(a=b"1", d__b=b"22", d__c=b"333")
    place = Place(home, branches, settings)
    place.do(lambda work: sync.clone(work, SOURCE))
    return place


def changes(place: Place) -> list[tuple[str, str]]:
    return place.do(lambda work: [(each.kind, each.path) for each in sync.changes_of(work)[0]])  # type: ignore[no-any-return]


class Dying:
    """A shelf whose process is killed before it places a second file."""

    def __init__(self, shelf: Any) -> None:
        self._shelf = shelf
        self._placed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shelf, name)

    def place(self, slot: int, path: str) -> None:
        if self._placed:
            raise Killed
        self._placed += 1
        self._shelf.place(slot, path)


def placing(place: Place, command: Any) -> None:
    """Kill a command when it has placed one file of several."""
    with pytest.raises(Killed):
        place.do(lambda work: command(replace(work, shelf=Dying(work.shelf))))


# ---- edits meanwhile -----------------------------------------------------------------------------


def no_goal() -> str:
    raise AssertionError("an undo needs no ref")


@pytest.mark.parametrize("undoes", [False, True])
def test_an_edit_between_a_kill_and_the_next_command_is_kept(place: Place, undoes: bool) -> None:
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    for path in ("a", "d/b"):
        (place.root / path).write_bytes(b"edited meanwhile")
    next_command = (lambda work: sync.checkout(work, no_goal)) if undoes else sync.pull
    outcome = place.do(next_command)
    contents = place.files()
    assert outcome.undone == ("pull" if undoes else "")
    assert all(contents[name] == b"edited meanwhile" for name in outcome.aside)
    assert list(contents.values()).count(b"edited meanwhile") == 2
    assert place.link().operation == "" and place.others() == []  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [Unavailable, NotFound])
def test_a_checkout_whose_goal_is_not_found_is_undone(place: Place, error: Any) -> None:
    def goal() -> str:
        raise error("no goal")

    (place.root / "a").write_bytes(b"edited")
    (place.root / "d/b").unlink()
    placing(place, sync.checkout)
    assert place.do(lambda work: sync.checkout(work, goal)).undone == "checkout"
    assert place.files()["a"] == b"edited" and "d/b" not in place.files()
    with pytest.raises(error, match="no goal"):
        place.do(lambda work: sync.checkout(work, goal))


def test_another_command_waits_for_the_interrupted_one(place: Place) -> None:
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    with pytest.raises(Conflict, match="pull was interrupted"):
        place.do(lambda work: sync.clone(work, SOURCE))
    place.do(lambda work: commit.commit(work, MESSAGE))
    assert place.files()["a"] == b"9"  # it ended the pull first


def test_displaced_files_without_a_journal_are_not_removed(place: Place) -> None:
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    (place.home / "state/x.journal").unlink()
    (place.home / "state/x.known").unlink(missing_ok=True)
    with pytest.raises(Conflict, match="journal is gone"):
        place.do(sync.pull)
    assert Shelf(place.root, place.settings).slots()[1]


def test_a_torn_state_file_is_written_anew(place: Place) -> None:
    file = place.root / ".lakefs_ref.yaml"
    before = file.read_bytes()
    file.write_bytes(before[:20])
    place.do(sync.pull)
    assert file.read_bytes() == before


def test_what_another_program_began_is_not_gone_on_with(place: Place) -> None:
    link = place.link()
    assert link is not None
    place.do(lambda work: work.folder.write_link(link.during("pull")))
    with pytest.raises(Conflict, match="another program"):
        place.do(sync.pull)
    place.do(sync.checkout)
    assert place.link() == link


def test_one_process_at_a_time_changes_a_folder(place: Place) -> None:
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    other = place.work()
    with pytest.raises(Contended):
        place.do(sync.pull)
    other.records.close()
    place.do(sync.pull)
    assert place.files()["d/b"] == b"99"


def test_torn_caches_cost_only_time_and_a_journal_that_cannot_be_opened_is_said(
    place: Place,
) -> None:
    state = place.home / "state"
    for end in ("base", "known", "json"):
        (state / f"x.{end}").write_bytes(b'{"torn": [')
    assert changes(place) == []
    (state / "x.journal").mkdir()
    with pytest.raises(Unavailable, match="cannot be kept"):
        changes(place)


@pytest.mark.parametrize("command", [sync.clone, sync.init])
def test_a_removed_folder_can_be_linked_again(place: Place, command: Any) -> None:
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    shutil.rmtree(place.root)
    for _ in range(2):  # its displaced files are kept until its user removes them
        with pytest.raises(Conflict, match="take what you need"):
            place.do(lambda work: command(work, SOURCE))
    (shelf,) = place.others()
    displaced = (place.home / shelf / "old").iterdir()
    assert sorted(file.read_bytes() for file in displaced) == [b"1", b"22"]
    shutil.rmtree(place.home / shelf)
    place.do(lambda work: command(work, SOURCE))
    place.do(lambda work: sync.checkout(work, lambda: "main"))
    assert place.files() == {"a": b"9", "d/b": b"99", "d/c": b"333"}
    assert place.link().operation == "" and place.others() == []  # type: ignore[union-attr]


# ---- comparison ----------------------------------------------------------------------------------


def test_equal_edits_do_not_conflict_and_touched_files_do_not_change(place: Place) -> None:
    place.branches.put(a=b"same", d__b=None)
    (place.root / "a").write_bytes(b"same")
    (place.root / "d/b").unlink()
    os.utime(place.root / "d/c", (1, 1))
    place.do(sync.pull)
    assert changes(place) == []
    (place.root / "d/c").write_bytes(b"444")  # of equal size, in the same second
    os.utime(place.root / "d/c", (MTIME, MTIME))
    assert changes(place) == [("changed", "d/c")]


def test_conflicts_of_all_kinds(place: Place) -> None:
    place.branches.put(a=b"9", d__b=None, d__c=b"9", new=b"9")
    (place.root / "a").write_bytes(b"x")
    (place.root / "d/b").write_bytes(b"x")
    (place.root / "d/c").unlink()
    (place.root / "new").write_bytes(b"x")
    before = place.files()
    with pytest.raises(MergeConflict) as raised:
        place.do(sync.pull)
    assert raised.value.paths == ("a", "d/b", "d/c", "new") and place.files() == before
    place.do(lambda work: sync.pull(work, "ours"))
    assert place.files() == before
    assert changes(place) == [
        ("changed", "a"),
        ("added", "d/b"),
        ("removed", "d/c"),
        ("changed", "new"),
    ]


def test_a_branch_that_moved_back_is_followed(place: Place) -> None:
    first = place.branches.heads["main"]
    place.branches.put(a=b"2")
    place.do(sync.pull)
    place.branches.heads["main"] = first
    place.do(sync.pull)
    assert place.files()["a"] == b"1"


def test_ignored_files_are_left_alone(place: Place) -> None:
    (place.root / ".gravelerignore").write_text("*.tmp\nd/\n")
    (place.root / "x.tmp").write_bytes(b"x")
    (place.root / "d/b").write_bytes(b"local")
    assert changes(place) == [("added", ".gravelerignore")]
    place.branches.put(d__c=None, y__tmp=b"1")
    place.do(sync.pull)
    assert place.files()["d/c"] == b"333"
    place.do(sync.checkout)
    assert place.files()["x.tmp"] == b"x" and place.files()["d/b"] == b"local"


def ignore(place: Place, text: str) -> None:
    (place.root / ".gravelerignore").write_text(text)


@pytest.mark.parametrize("loses", [False, True])
def test_files_that_are_no_longer_ignored_do_not_go_over_newer_ones(
    place: Place, loses: bool
) -> None:
    ignore(place, "d/\n")
    place.do(lambda work: commit.commit(work, MESSAGE))
    if loses:
        for file in (place.home / "state").iterdir():
            file.unlink()
        assert changes(place) == []
    place.branches.put(d__b=b"newer", d__new=b"new")
    place.do(sync.pull)
    (place.root / "x").touch()
    ignore(place, "")
    for command in (sync.pull, lambda work: commit.commit(work, MESSAGE)):
        with pytest.raises(MergeConflict) as raised:
            place.do(command)
        assert raised.value.paths == ("d/b",) and place.files()["d/b"] == b"22"
    place.do(lambda work: sync.pull(work, "theirs"))
    assert place.files()["d/b"] == b"newer" and place.files()["d/new"] == b"new"
    place.do(lambda work: commit.commit(work, MESSAGE))
    (place.root / "d/b").write_bytes(b"mine")
    place.do(lambda work: commit.commit(work, MESSAGE))
    assert changes(place) == [] and place.branches.view("main")["d/b"][1] == b"mine"


@pytest.mark.parametrize("ends", [sync.pull, sync.checkout])
def test_objects_that_were_never_downloaded_are_not_removed(
    place: Place, tmp_path: Path, ends: Any
) -> None:
    other = Place(tmp_path / "other", place.branches)
    other.root.mkdir(parents=True)
    ignore(other, "d/\n")
    (other.root / "a").write_bytes(b"1")
    other.do(lambda work: sync.init(work, SOURCE))
    other.do(lambda work: commit.commit(work, MESSAGE))
    ignore(other, "# none\n")
    assert changes(other) == [("changed", ".gravelerignore")]
    if ends is sync.pull:
        other.do(lambda work: commit.commit(work, MESSAGE))
    other.do(ends)
    assert place.branches.view("main")["d/b"][1] == other.files()["d/b"] == b"22"
    ignore(other, "# other\n")
    (other.root / "d/b").unlink()
    assert ("removed", "d/b") in changes(other)


def test_an_undone_pull_leaves_files_unseen(place: Place) -> None:
    ignore(place, "d/\n")
    place.branches.put(d__b=b"newer", d__x=b"1", d__y=b"2")
    place.do(lambda work: commit.commit(work, MESSAGE))
    (place.root / "d/b").unlink()
    ignore(place, "")
    placing(place, sync.pull)
    place.do(sync.checkout)
    assert [change for change in changes(place) if change[0] == "removed"] == []
    place.do(sync.pull)
    assert place.files()["d/b"] == b"newer" and place.files()["d/y"] == b"2"


# ---- links and modes -----------------------------------------------------------------------------


def test_links_are_an_error_or_skipped_or_objects(tmp_path: Path) -> None:
    place = cloned(tmp_path / "home")
    (place.root / "link").symlink_to("d/b")
    with pytest.raises(Invalid, match="skip_non_regular_files"):
        changes(place)
    place.settings = Settings(skip_special=True)
    assert changes(place) == []
    place.settings = Settings(symlinks=True)
    assert changes(place) == [("added", "link")]
    place.do(lambda work: commit.commit(work, MESSAGE))
    stored = place.branches.view("main")["link"]
    assert (stored[0].link, stored[0].checksum, stored[1]) == ("d/b", EMPTY_MD5, b"")
    (place.root / "link").unlink()
    place.do(sync.checkout)
    assert os.readlink(place.root / "link") == "d/b" and changes(place) == []
    (place.root / "out").symlink_to("../state")
    with pytest.raises(Invalid, match="leads out"):
        changes(place)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "d/../../x", "d/c/../secret"])
def test_links_from_the_server_stay_inside(tmp_path: Path, target: str) -> None:
    place = cloned(tmp_path / "home", Settings(symlinks=True))
    tree = place.branches.view("main")
    place.branches.add("main", {**tree, "evil": (Entry(0, MTIME, EMPTY_MD5, target), b"")})
    before = place.files()
    with pytest.raises(Invalid, match="leads out"):
        place.do(sync.pull)
    assert place.files() == before


def test_a_link_in_the_way_leads_nowhere(tmp_path: Path) -> None:
    place = cloned(tmp_path / "home", Settings(skip_special=True))
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "n").symlink_to(outside)
    place.branches.put(n__x=b"1")
    with pytest.raises(Invalid, match="symbolic link is in the way"):
        place.do(sync.pull)
    assert list(outside.iterdir()) == []


def test_modes_are_tracked_without_special_bits(tmp_path: Path) -> None:
    settings = Settings(posix=True)
    place = cloned(tmp_path / "home")
    place.settings = settings
    (place.root / "a").chmod(0o640)
    place.do(lambda work: commit.commit(work, MESSAGE))
    stored = place.branches.view("main")
    assert stored["a"][0].posix is not None and stored["a"][0].posix.mode == 0o100640
    assert "d/" in stored and changes(place) == []
    (place.root / "a").chmod(0o600)
    assert changes(place) == [("changed", "a")]
    place.do(sync.checkout)
    assert (place.root / "a").stat().st_mode & 0o7777 == 0o640
    evil = entry(b"1", posix=Posix(0o104755, 0, 0))
    place.branches.add("main", {**stored, "evil": (evil, b"1")})
    place.do(sync.pull)
    assert (place.root / "evil").stat().st_mode & 0o7777 == 0o755


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../out", "/out", "d", "a/b", ".hg/hgrc", ".graveler-shelf/new/0", "x/.LAKEFS_REF.yaml"],
)
def test_names_that_are_refused_change_nothing(place: Place, path: str) -> None:
    tree = place.branches.view("main")
    place.branches.add("main", {**tree, path: (entry(b"x"), b"x"), "fine": (entry(b"x"), b"x")})
    before = place.files()
    with pytest.raises(Invalid, match="nothing was changed"):
        place.do(sync.pull)
    assert place.files() == before and place.others() == []


def test_wrong_bytes_are_never_placed(place: Place) -> None:
    tree = place.branches.view("main")
    place.branches.add("main", {**tree, "a": (entry(b"right"), b"wrong")})
    with pytest.raises(Corrupt):
        place.do(sync.pull)
    assert place.files()["a"] == b"1"
    assert place.do(sync.checkout).undone == "pull" and place.others() == []


def test_clone_and_init_take_no_folder_that_is_used(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="linked"):
        place.do(lambda work: sync.clone(work, SOURCE))
    with pytest.raises(Conflict, match="linked"):
        place.do(lambda work: sync.init(work, SOURCE))
    place.do(lambda work: sync.init(work, Prefix("lake", "dev"), force=True))
    other = Place(tmp_path, place.branches)
    other.root.mkdir()
    (other.root / "x").touch()
    with pytest.raises(Conflict, match="not empty"):
        other.do(lambda work: sync.clone(work, SOURCE))
    with pytest.raises(NotFound, match="not linked"):
        other.do(sync.pull)


def test_a_file_that_changes_while_it_is_committed(place: Place) -> None:
    (place.root / "a").write_bytes(b"22")

    class Editing(Branches):
        """A server during whose upload the user writes."""

        def send(self, *arguments: Any) -> Any:
            (place.root / "a").write_bytes(b"333")
            return super().send(*arguments)

    place.branches = Editing(**vars(place.branches))
    with pytest.raises(Conflict, match="changed while"):
        place.do(lambda work: commit.commit(work, MESSAGE))
    assert not place.branches.staged and place.link().operation == ""  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("patterns", "mine", "theirs", "said"),
    [
        ("n/x\n", "n/x", "n", "a folder is in the way: n"),
        ("n\n!n/\n", "n", "n/x", "a file is in the way of a folder: n/x"),
    ],
)
def test_what_is_ignored_and_in_the_way_is_said(
    place: Place, patterns: str, mine: str, theirs: str, said: str
) -> None:
    (place.root / ".gravelerignore").write_text(patterns)
    (place.root / mine).parent.mkdir(exist_ok=True)
    (place.root / mine).touch()
    place.branches.put(**{theirs.replace("/", "__"): b"theirs"})
    with pytest.raises(Conflict, match=said):
        place.do(sync.pull)
    (place.root / mine).unlink()
    place.do(sync.pull)
    assert place.files()[theirs] == b"theirs"


@pytest.mark.parametrize(("mine", "theirs"), [("n", "n/x"), ("n/y", "n")])
def test_a_path_that_clashes_with_a_local_file_changes_nothing(
    place: Place, mine: str, theirs: str
) -> None:
    file = place.root / mine
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"mine")
    place.branches.put(a=b"9", **{theirs.replace("/", "__"): b"theirs"})
    (place.root / "d/c").write_bytes(b"9")
    before = place.files()
    for command in (sync.pull, lambda work: commit.commit(work, MESSAGE)):
        with pytest.raises(Invalid, match="nothing was changed"):
            place.do(command)
        assert (place.files(), place.others(), place.branches.staged) == (before, [], {})
    place.do(lambda work: sync.pull(work, force=True))
    assert place.files() == {"a": b"9", "d/b": b"22", "d/c": b"333", theirs: b"theirs"}


def test_names_that_are_not_utf8_are_refused(place: Place) -> None:
    (place.root / os.fsdecode(b"\xff")).touch()
    for command in (lambda work: commit.commit(work, MESSAGE), sync.checkout):
        with pytest.raises(Invalid, match=r"\\udcff: is not UTF-8"):
            place.do(command)


@pytest.mark.parametrize("name", ["", ".ref"])
def test_what_others_made_beside_the_folder_is_not_used(place: Place, name: str) -> None:
    place.branches.put(a=b"9")
    shelf = shelf_place(place.root)
    other = shelf.with_name(shelf.name + name)
    other.mkdir()
    (other / "new").mkdir()
    other.chmod(0o777)
    with pytest.raises(Invalid, match=f"{other.name}"):
        place.do(sync.pull)
    assert place.files()["a"] == b"1"
    (other / "new").rmdir()
    other.rmdir()
    place.do(sync.pull)
    assert place.files()["a"] == b"9"


def test_modes_of_folders_are_applied_last(tmp_path: Path) -> None:
    """So that files can be placed in a folder that forbids it."""
    place = cloned(tmp_path / "home", Settings(posix=True))
    mode = entry(b"", posix=Posix(0o040555, 0, 0))
    tree = place.branches.view("main")
    paths = ("n/", "n/m/", "n/m/x", "n/y")
    files = dict.fromkeys(paths[2:], (entry(b""), b""))
    place.branches.add("main", {**tree, **dict.fromkeys(paths[:2], (mode, b"")), **files})
    placing(place, sync.pull)
    assert (place.root / "n/m/x").exists() and (place.root / "n").stat().st_mode & 0o222
    place.do(sync.pull)
    assert (place.root / "n").stat().st_mode & 0o777 == 0o555


def test_the_shelf_is_inside_if_it_cannot_be_beside(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so what the system says of the parent is replaced."""
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != place.home and may(path, mode))
    inside = place.root / ".graveler-shelf"
    assert shelf_place(place.root) == inside
    place.branches.put(a=b"9", d__b=b"99")
    placing(place, sync.pull)
    assert place.others() == [] and (inside / "old").is_dir()
    assert [path for _, path in changes(place) if "graveler" in path] == []
    place.do(sync.pull)
    assert place.files() == {"a": b"9", "d/b": b"99", "d/c": b"333"}
    assert changes(place) == [] and not inside.exists()


def test_a_folder_of_which_no_mode_is_known_can_be_entered(tmp_path: Path) -> None:
    place = cloned(tmp_path / "home", Settings(posix=True))
    tree = place.branches.view("main")
    place.branches.add("main", {**tree, "n/": (entry(b""), b"")})
    place.do(sync.pull)
    assert (place.root / "n").stat().st_mode & 0o700 == 0o700


def test_many_deletions_are_several_requests() -> None:
    pages: list[list[str]] = []

    class Asked:
        def call(self, method: str, path: str, body: Any) -> dict[str, Any]:
            pages.append(body["paths"])
            return {}

    session: Any = Asked()
    remote = Remote(session, Prefix("lake", "main", "data/"), Settings())
    remote.delete([str(number) for number in range(2_001)])
    assert [len(page) for page in pages] == [1_000, 1_000, 1]
    assert (pages[0][0], pages[2]) == ("data/0", ["data/2000"])
