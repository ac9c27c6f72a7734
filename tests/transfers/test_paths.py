"""Which paths can be files, which links stay inside, what `.gravelerignore` leaves alone."""

import pytest

from graveler.core.errors import Invalid
from graveler.lake.transfers import link as state
from graveler.lake.transfers import paths as names
from graveler.lake.transfers.link import Link, Prefix
from graveler.lake.transfers.paths import EVERYTHING, Folding, Ignore, Neighbours


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../a", "a/../b", "a/..", ".", "./a", "/a", "/etc/passwd", "a//b", "a\0b"),
        *("x" * 256, ".git", "d/.GIT/config", ".git/HEAD", "\udcff"),
        # what file systems of other platforms take for .git
        *("git~1/config", "d/GIT~1", ".git ", ".git./x", ".git . /x", ".git::$INDEX_ALLOCATION/x"),
        *(".g\u200cit/config", "\ufeff.GiT", ".gi\u202et", "a\\.git\\config", ".git\\config"),
        *(".hg/hgrc", "d/.Hg", "hg~1", ".bzr/branch", ".svn", "_darcs/prefs", ".jj/x", ".pijul"),
        # what `graveler local` keeps
        *(".lakefs_ref.yaml", "d/.LAKEFS_REF.yaml", ".lakefs_ref.yaml./x", ".graveler-shelf/new/0"),
        *(".data.graveler-1a2b3c4d/old/0", ".data.graveler-1a2b3c4d.ref"),
    ],
)
def test_paths_that_no_file_may_have(path: str) -> None:
    with pytest.raises(Invalid, match="cannot be files"):
        names.check([path], [path], Folding(case=False, form=False))


GIT = ("HEAD", "objects/x", "refs/heads/main")


@pytest.mark.parametrize("top", ["", "d/", "d/e/"])
@pytest.mark.parametrize("parts", [GIT, ("head", "Objects/x", "REFS"), ("HEAD", "commondir")])
def test_a_folder_that_git_takes_for_a_repository(top: str, parts: tuple[str, ...]) -> None:
    paths = [top + part for part in parts]
    for new in ([paths[-1]], [paths[0]], paths):
        with pytest.raises(Invalid, match="a repository of Git"):
            names.check(paths, new, EVERYTHING)
    names.check(paths[1:], paths[1:], EVERYTHING)
    names.check(paths, [], EVERYTHING)
    other = [*paths[1:], f"x/{paths[0]}"]
    names.check(other, other, EVERYTHING)


def test_what_is_in_the_destination_counts_for_a_repository() -> None:
    known = Neighbours(Folding(case=False, form=False), {"d/HEAD", "d/objects"}.__contains__)
    assert known.reason("d/refs/x") == "would make d a repository of Git"
    assert known.reason("refs/x") == known.reason("d/config") == known.reason("d/objects/y") == ""


@pytest.mark.parametrize(
    ("paths", "clash"),
    [
        (["a.csv", "A.csv"], "A.csv|a.csv"),
        (["d/x", "D/y"], "differs by case alone"),
        (["é", "e\u0301"], "differs by Unicode normalization alone"),
        (["é", "E\u0301"], "differs by case and Unicode normalization alone"),
        (["a", "a/b"], "a is a file too"),
        (["a/b/c", "a/b"], "a/b is a file too"),
    ],
)
def test_paths_that_clash(paths: list[str], clash: str) -> None:
    with pytest.raises(Invalid, match=clash):
        names.check(paths, paths, EVERYTHING)
    for new in paths:
        with pytest.raises(Invalid):
            names.check(paths, [new], EVERYTHING)
    names.check(paths, [], EVERYTHING)  # what is there already is not looked at


@pytest.mark.parametrize("case", [False, True])
@pytest.mark.parametrize("form", [False, True])
def test_paths_clash_only_where_the_file_system_folds_them(case: bool, form: bool) -> None:
    folding = Folding(case=case, form=form)
    for paths, is_one in (
        (["a.csv", "A.csv"], case),
        (["é", "e\u0301"], form),
        (["é", "E\u0301"], case and form),
    ):
        if is_one:
            with pytest.raises(Invalid, match="here both are one file"):
                names.check(paths, paths, folding)
        else:
            names.check(paths, paths, folding)


def test_paths_that_do_not_clash() -> None:
    paths = [
        ".gitignore",
        "a.git/x",
        "a",
        "b/a",
        "b/c/a",
        "B.csv",
        "b.tsv",
        "ab",
        "a.b/c",
        "...",
        "..a",
        *("a~1", "git~x", "_data", ".gitattributes", ".github/x", "refs/x", "objects/x", "d/HEAD"),
    ]
    names.check(paths, paths, EVERYTHING)


@pytest.mark.parametrize(
    ("path", "link", "is_inside"),
    [
        ("a", "b", True),
        ("d/a", "../b", True),
        ("d/a", "../d/./b", True),
        ("a", "../b", False),
        ("d/a", "../../b", False),
        ("d/a", "..", True),
        ("a", "..", False),
        ("a", "/etc/passwd", False),
        ("a", "", False),
        ("a", "b/../../c", False),
        ("a", "..b", True),
        ("a", "b/../c", False),  # b may be a link that leads up: then b/.. is out of the folder
        ("a/b/t", "../s/../../x", False),
        ("a/b/s", "../..", True),
    ],
)
def test_links_stay_in_the_folder(path: str, link: str, is_inside: bool) -> None:
    assert names.is_inside(path, link) is is_inside


IGNORE = """
# a comment
*.tmp
!keep.tmp
/cache
logs/
doc/*.txt
deep/**/x
\\#odd
"""


@pytest.mark.parametrize(
    ("path", "is_ignored"),
    [
        ("a.tmp", True),
        ("d/a.tmp", True),
        ("keep.tmp", False),
        ("d/keep.tmp", False),
        ("cache", True),
        ("cache/x/y", True),
        ("d/cache", False),
        ("logs", False),
        ("logs/a", True),
        ("d/logs/a", True),
        ("doc/a.txt", True),
        ("doc/d/a.txt", False),
        ("x/doc/a.txt", False),
        ("deep/x", True),
        ("deep/a/b/x", True),
        ("deep/a/b/y", False),
        ("#odd", True),
        ("a.tmpx", False),
    ],
)
def test_patterns_of_ignored_files(path: str, is_ignored: bool) -> None:
    assert Ignore(IGNORE).covers(path) is is_ignored


def test_stars_are_not_tried_at_all_places() -> None:
    for pattern in ("*a" * 7 + "*b", "**/a/" * 3 + "a*b"):
        assert not Ignore(pattern).fits("a" * 2_000)
        assert not Ignore(pattern).fits("a/" * 2_000 + "a")
    assert Ignore("a*bc*bc?").fits("abcbcbcd") and not Ignore("a*bc*bc").fits("abc")
    assert Ignore("**/b/**/c/**").fits("a/b/x/c/d") and not Ignore("b/**").fits("b")


def test_patterns_are_bounded() -> None:
    assert not Ignore("").covers("a") and not Ignore("# nothing")
    with pytest.raises(Invalid, match="patterns"):
        Ignore("a\n" * 1_001)


LINK = Link(Prefix("lake", "main", "data/"), "0" * 64)


@pytest.mark.parametrize(
    "content",
    [
        f'src: lakefs://lake/main/data/\nat_head: {"0" * 64}\nactive_operation: ""\n',
        f"at_head: {'0' * 64}\nsrc: lakefs://lake/main/data\nactive_operation:\n",
        f'"src": "lakefs://lake/main/data/"\nat_head: "{"0" * 64}"\n',
        f"src: lakefs://lake/main/data/ # a comment\nat_head: '{'0' * 64}'\nother: [1]\n",
    ],
)
def test_state_files_of_any_form(content: str) -> None:
    assert state.parse(content.encode()) == LINK


@pytest.mark.parametrize(
    "link",
    [
        LINK,
        LINK.during("pull"),
        Link(Prefix("lake", "a-b_c", "é x/: #1/"), "1" * 64, "clone"),
        Link(Prefix("lake", "main", ""), "f" * 64),
        Link(Prefix("lake", "main", 'a"b\\/'), "a" * 64),
    ],
)
def test_a_state_file_is_read_as_it_was_written(link: Link) -> None:
    assert state.parse(state.dump(link)) == link


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"src: lakefs://lake\n",
        b"src: /x/y/z\nat_head: a\n",
        b"\xff",
        b"src:\n",
        b"src: lakefs://a/b/\nat_head: 12",
    ],
)
def test_state_files_that_cannot_be_read(content: bytes) -> None:
    with pytest.raises(Invalid):
        state.parse(content)
