"""What a beginner gets wrong: the message says what was meant, and how to write it."""

import json
from hashlib import md5
from pathlib import Path

import pytest

from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def refused(lake: Lake, line: str) -> tuple[int, list[str]]:
    """The code and the lines of a command that fails; `NAME` is the repository."""
    result = lake.user.line(line.replace("NAME", lake.name))
    assert result.code and not result.out, result
    return result.code, result.err.replace(lake.name, "NAME").splitlines()


# ---- names and addresses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("repo create Lake", "repository name invalid: it must be 3 to 63 characters of"),
        ("repo create other-lake -d a%b", "branch name invalid: it must be letters, digits"),
        ("repo show Lake", "repository name invalid: it must be 3 to 63 characters of"),
        ("branch create NAME/a%b", "branch name invalid: it must be letters, digits"),
        ("tag create NAME/v..1", "tag name invalid: it must be ASCII without spaces"),
        ("branch create NAME/feature/x", "ref expected, without a path: 'NAME/feature/x': no br"),
        (
            "tag show NAME/v/1",
            "ref expected, without a path: 'NAME/v/1': no branch has a '/', and a tag",
        ),
        ("commit NAME/x%y -m text", "'x%y' is no name of a branch"),
        ("ls lakefs:/NAME/main", "address invalid: 'lakefs:/NAME/main': write NAME/main"),
        ("ls /NAME/main", "address invalid: '/NAME/main': write NAME/main"),
        ("ls s3://NAME/main", "address invalid: 's3://NAME/main': it must look like REPOSITORY"),
        ("merge NAME main", "ref missing: 'NAME' alone is a repository.  Which branch? For exam"),
        ("stat NAME", "ref missing.  Which branch? For example NAME/main/PATH"),
    ],
)
def test_a_wrong_name_is_wrong_usage(lake: Lake, line: str, reason: str) -> None:
    code, (first, *_) = refused(lake, line)
    assert code == 2 and first.startswith(f"graveler: {reason}"), first


def test_a_refused_namespace(lake: Lake) -> None:
    code, (reason, remedy) = refused(lake, "repo create NAME-2 s3://bucket/lake")
    assert code == 2 and "invalid namespace" in reason
    assert remedy.startswith("try: graveler repo create NAME-2")
    assert lake.user.run("repo", "create", f"{lake.name}-2").code == 0
    assert lake.user.run("repo", "delete", f"{lake.name}-2", "--yes").code == 0
    code, (reason, remedy) = refused(lake, "repo create NAME-2")
    assert code == 1 and "local://NAME-2 is in use until the purge" in reason
    again = remedy.removeprefix("try: graveler ").replace("NAME", lake.name)
    assert lake.user.line(again).code == 0


def test_a_folder_where_an_object_is_expected(lake: Lake) -> None:
    lake.put("data/a")
    code, lines = refused(lake, "download NAME/main/data")
    assert (code, lines[1]) == (3, "try: graveler ls NAME/main; a folder needs -r")


# ---- nothing to do -------------------------------------------------------------------------------


def test_a_change_that_changes_nothing_says_what_has_it_all(lake: Lake) -> None:
    lake.commit_of("a")
    lake.user.run("branch", "create", f"{lake.name}/dev")
    picked = lake.commit_of("b")
    assert lake.user.run("revert", f"{lake.name}/main", picked, "--yes").code == 0
    for line, lines in (
        (
            "commit NAME/main -m text",
            ["nothing to commit on NAME/main", "try: graveler status NAME/main"],
        ),
        (
            "merge NAME/dev main",
            ["nothing to merge: NAME/main has all that is committed on NAME/dev"],
        ),
        (
            f"revert NAME/main {picked} --yes",
            [f"nothing to revert: NAME/main has nothing of {picked[:12]} any more"],
        ),
        ("cherry-pick NAME/main~2 main", ["nothing to pick: NAME/main has all that NAME/main~2 "]),
    ):
        code, (first, *rest) = refused(lake, line)
        assert code == 1 and first.startswith(f"graveler: {lines[0]}"), first
        assert rest == lines[1:]
    head = lake.user.run("show", f"{lake.name}/main", "--json")
    assert head.code == 0
    code, (first,) = refused(lake, "restore NAME/main main --yes")
    assert code == 1 and first.startswith("graveler: nothing to restore: NAME/main is equal to ")


# ---- confirmations -------------------------------------------------------------------------------


# ---- folders -------------------------------------------------------------------------------------


def test_a_name_that_only_begins_like_an_object_is_no_folder(lake: Lake) -> None:
    lake.put("data.csv")
    code, (reason, _) = refused(lake, "stat NAME/main/data")
    assert (code, reason) == (3, "graveler: not found: NAME/main/data")


def test_a_destination_with_a_slash_is_a_folder(lake: Lake, tmp_path: Path) -> None:
    lake.put("data/a", b"1")
    down = lake.user.run("download", f"{lake.name}/main/data/a", f"{tmp_path}/new/folder/")
    assert down.code == 0
    assert (tmp_path / "new" / "folder" / "a").read_bytes() == b"1"
    copied = lake.user.run("cp", f"lakefs://{lake.name}/main/data/a", f"{tmp_path}/other/")
    assert copied.code == 0
    assert (tmp_path / "other" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("more", ["", "--dry-run", "--include '*.csv'", "--exclude a --dry-run"])
@pytest.mark.parametrize("command", ["download", "cp", "mv", "rm"])
def test_a_transfer_of_nothing_does_not_exist(
    lake: Lake, tmp_path: Path, command: str, more: str
) -> None:
    lake.put("data/a")
    source = "lakefs://NAME/main/" + ("data/" if "clude" in more else "nodir/")
    target = {"download": f"{tmp_path}/out", "rm": "--yes"}.get(command, "lakefs://NAME/main/copy/")
    code, (reason, *_) = refused(lake, f"{command} -r {source} {target} {more}")
    nothing = "no objects below this prefix"
    if "clude" in more:
        nothing = "no object below this prefix matches --include/--exclude"
    assert (code, reason.split(": ", 1)[1].split(":")[0]) == (3, nothing)


def test_an_object_and_a_folder_of_one_name(lake: Lake, tmp_path: Path) -> None:
    """One of them cannot be a file: it counts as nothing, and leaves no part behind."""
    lake.put("c/d", b"1")
    lake.put("c/d/a", b"23")
    out = tmp_path / "out"
    (out / "d").mkdir(parents=True)
    for _ in range(2):  # the second time, `d/a` is the same
        result = lake.user.run("download", "-r", f"{lake.name}/main/c/", str(out))
        assert result.code == 8
        assert result.err.splitlines()[1:] == [f"  c/d: a folder is in the way: {out}/d"]
        assert sorted(path.name for path in out.rglob("*")) == ["a", "d"]
    assert result.out == "downloaded 0 objects, 0 B; 1 were the same\n"
    (tmp_path / "file").write_text("")
    blocked = lake.user.run("download", f"{lake.name}/main/c/d/a", f"{tmp_path}/file/x")
    assert blocked.code == 1
    assert blocked.err == (f"graveler: a file is in the way: {tmp_path}/file must be a folder\n")


def test_a_folder_that_appears_during_a_download(lake: Lake, tmp_path: Path) -> None:
    def appear() -> None:
        (tmp_path / "out").mkdir()

    stats = {"path": "a", "path_type": "object", "checksum": md5(b"12").hexdigest(), "mtime": 1}
    found = Said(200, json.dumps({**stats, "size_bytes": 2, "physical_address": "x"}).encode())
    config = Said(200, b"{}")
    with scripted([config, found, Said(200, b"12", before=appear)]) as server:
        lake.user.know(server.url)
        result = lake.user.run("download", "lake/main/a", f"{tmp_path}/out")
    assert (result.code, result.err) == (
        1,
        f"graveler: a folder is in the way: {tmp_path}/out\n",
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# ---- what is said of the past and of removals ----------------------------------------------------


def test_a_removal_that_is_not_committed_has_no_size(lake: Lake) -> None:
    """Servers answer 0."""
    lake.put("a", b"1234567")
    lake.put("b", b"123")
    lake.commit()
    assert lake.user.run("rm", f"{lake.name}/main/a").code == 0
    lake.put("b", b"")
    assert lake.user.run("diff", f"{lake.name}/main").out == "removed\ta\t\nchanged\tb\t0\n"
    rows = json.loads(lake.user.run("diff", f"{lake.name}/main", "--json").out)
    assert [("size_bytes" in row, row["path"]) for row in rows] == [(False, "a"), (True, "b")]
    lake.commit()
    compared = lake.user.run("diff", f"{lake.name}/main~1..main").out
    assert compared == "removed\ta\t7\nchanged\tb\t0\n"


# ---- words of other tools ------------------------------------------------------------------------


# ---- uploads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "a.csv b.csv c.txt",  # no address
        "a.csv data/a.csv NAME/main/",  # several folders
        "a b c d NAME/main/",
        "a b* NAME/main/",
        "data/[ab].csv NAME/main/",
    ],
)
def test_nothing_is_proposed_for_files_that_cannot_be_known(
    lake: Lake, files: Path, words: str
) -> None:
    code, lines = refused(lake, f"upload {words}")
    assert code in (2, 3) and not [line for line in lines if "graveler upload -r" in line]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files that nobody names."""
    folder = tmp_path / "files"
    for name in (
        *("a.csv", "b.csv", "c.csv", "c.txt", "star*", "starred", "deep/a.csv", "deep/b.csv"),
        *("data/a.csv", "data/c.txt", "data/deep/b.csv", "more/x", "more/a.csv"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "uploaded"),
    [
        ("a.csv b.csv", ["a.csv", "b.csv"]),
        ("data/a.csv data/c.txt", ["a.csv", "c.txt"]),
        ("data/*.csv", ["a.csv"]),
    ],
)
def test_the_command_that_is_proposed_uploads_the_files_alone(
    lake: Lake, files: Path, words: str, uploaded: list[str]
) -> None:
    _, lines = refused(lake, f"upload {words} NAME/main/")
    again = lines[1].removeprefix("try: graveler ").replace("NAME", lake.name)
    assert lake.user.line(again).code == 0
    listed = lake.user.run("ls", "-r", f"{lake.name}/main/").out
    assert [line.split("\t")[-1] for line in listed.splitlines()] == uploaded


def test_the_sides_of_an_upload_are_exchanged(lake: Lake, files: Path) -> None:
    for file in (f"{files}/a.csv", "a.csv"):
        code, lines = refused(lake, f"upload NAME/main/x {file}")
        reason = f"graveler: SRC comes first: NAME/main/x is no file here, and {file} is one"
        assert (code, lines) == (2, [reason, f"try: graveler upload {file} NAME/main/x"])
    code, lines = refused(lake, "upload nofile.csv a.csv")
    assert code == 2 and lines[0].startswith("graveler: ref missing")


def test_a_file_is_not_corrected_to_an_address(lake: Lake, files: Path) -> None:
    code, lines = refused(lake, f"stat {files}/a.csv")
    form = "it must look like REPOSITORY, REPOSITORY/REF or REPOSITORY/REF/PATH"
    assert (code, lines) == (2, [f"graveler: address invalid: '{files}/a.csv': {form}"])


@pytest.mark.parametrize("path", ["/x", "../x", "a//b", "a/./b", "../", ".git/x"])
def test_a_path_that_no_file_can_have_is_warned_of(lake: Lake, tmp_path: Path, path: str) -> None:
    """Object stores take every path, so it is uploaded all the same."""
    file = tmp_path / "x"
    file.write_text("x")
    result = lake.user.run("upload", str(file), f"{lake.name}/main/{path}")
    assert result.code == 0 and "is taken as it is, and download -r will leave it" in result.err
    usual = lake.user.run("upload", str(file), f"{lake.name}/main/a/b/")
    assert (usual.code, usual.err) == (0, "")
    quiet = lake.user.run("upload", str(file), f"{lake.name}/main/{path}", "--json")
    assert (quiet.code, quiet.err) == (0, "")


# ---- moves and commits ---------------------------------------------------------------------------


def test_a_move_needs_no_scheme(lake: Lake) -> None:
    lake.put("a", b"1")
    name = lake.name
    assert lake.user.run("mv", f"{name}/main/a", f"lakefs://{name}/main/b").code == 0
    assert lake.user.run("cat", f"{name}/main/b").out == "1"
    assert "In cp it" in lake.user.run("--help").out


# ---- servers and credentials ---------------------------------------------------------------------

KEY = ("--access-key-id", "AKIAOTHER", "--secret-stdin")
SECRET = b"not-the-secret-of-anybody-but-long\n"
CLOSED = "http://127.0.0.1:9"


def test_login_names_what_is_missing(user: Client) -> None:
    for words, missing in (
        ((), "a URL, --access-key-id and --secret-stdin"),
        ((CLOSED,), "--access-key-id and --secret-stdin"),
        ((CLOSED, *KEY[:2]), "--secret-stdin"),
    ):
        result = user.run("login", *words)
        assert (result.code, result.err) == (
            2,
            f"graveler: login needs {missing} if nobody can be asked\n",
        )


def test_login_at_a_wrong_url_asks_for_the_url(user: Client, lake: Lake) -> None:
    for url, code in ((CLOSED, 6), (f"{lake.live.client.url}/elsewhere", 3)):
        for words in ((url, *KEY, "--yes"), (url, "--setup", "--yes")):
            result = user.run("login", *words, input=SECRET)
            assert result.code == code, result
            assert result.err.endswith(
                "try: is the server running, is the URL right, does a firewall or a proxy block "
                "it?\n"
            )
    wrong = user.run("login", "127.0.0.1:1", *KEY, input=SECRET)
    assert wrong.code == 2 and wrong.err.startswith("graveler: server URL invalid: ")


def test_a_server_without_a_login_is_told_apart_from_ours(lake: Lake) -> None:
    result = lake.user.run("repo", "list", "--server", CLOSED)
    kept = f"no login is kept for this URL; yours is for {lake.live.client.url}"
    assert result.code == 4
    assert result.err.splitlines()[0] == f"graveler: no credentials for {CLOSED}: {kept}"
    wrong = lake.user.run("repo", "list", "--server", "lake.example.com")
    assert wrong.code == 2 and "server URL invalid" in wrong.err
    secret = lake.user.run("repo", "list", "--server", "http://ann:secret@lake.example.com")
    assert secret.code == 2 and "ann" not in secret.err


def test_a_wrong_secret_is_said_as_login_says_it(lake: Lake) -> None:
    url = lake.live.client.url
    reason = f"{url} does not accept this access key id with this secret"
    result = lake.user.run("whoami", *KEY, input=SECRET)
    assert (result.code, result.err.splitlines()) == (
        4,
        [f"graveler: {reason}", f"try: graveler login {url}"],
    )
    assert f"key\tfailed\t{reason}\t" in lake.user.run("doctor", *KEY, input=SECRET).out
