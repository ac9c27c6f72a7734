"""s5cmd, unmodified, on branches."""

import json
import urllib.request
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from graveler.auth.credentials import NewCredential
from tests.gateway.clients.commands import FILES, PARTS, found, not_served, written
from tests.gateway.clients.elsewhere import ClientError, run
from tests.gateway.lake import EASY_NAMES, MANY, REGION, Lake

IN_PARTS = ("--part-size", "5", "--concurrency", "2")
# A pattern, or the end of a name, to this client.
NAMES = [name for name in EASY_NAMES if not set("*?") & set(name)]


class S5cmd:
    """The command with the credentials of a caller."""

    def __init__(self, there: Lake, key: NewCredential, *, tls: bool = False) -> None:
        self._options = (
            *("--endpoint-url", there.tls.url if tls else there.url),
            *(("--no-verify-ssl",) if tls else ()),
            *("--retry-count", "0"),
        )
        self._variables = {
            "AWS_ACCESS_KEY_ID": key.access_key_id,
            "AWS_SECRET_ACCESS_KEY": key.secret_access_key,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def __call__(self, *arguments: Any, given: bytes = b"") -> str:
        """What it prints."""
        words = map(str, (*self._options, *arguments))
        return run("s5cmd", *words, variables=self._variables, given=given).decode()

    def lines(self, *arguments: Any) -> list[dict[str, Any]]:
        """The lines that it prints, as JSON."""
        return [json.loads(line) for line in self("--json", *arguments).splitlines()]

    def names(self, uri: str) -> list[str]:
        """The objects below a folder, without its name."""
        return [line["key"].removeprefix(uri) for line in self.lines("ls", uri + "*")]


@pytest.fixture(scope="module")
def s5cmd(there: Lake) -> S5cmd:
    return S5cmd(there, there.key)


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}/"


def test_s5cmd_copies_and_synchronises(s5cmd: S5cmd, uri: str, tmp_path: Path) -> None:
    source, back = written(tmp_path / "source"), written(tmp_path / "back", {"old": b"x"})
    s5cmd("cp", *IN_PARTS, f"{source}/", uri)
    assert s5cmd.names(uri) == sorted(FILES, key=str.encode)
    s5cmd("sync", "--delete", f"{uri}*", f"{back}/")
    assert found(back) == FILES
    (source / "empty").unlink()
    (source / "a b+").write_bytes(b"another one")
    s5cmd("sync", "--delete", f"{source}/", uri)
    assert s5cmd.names(uri) == ["a b+", "x/large", "x/ü&%"]
    assert s5cmd("cat", f"{uri}a b+") == "another one"


def test_s5cmd_uses_odd_names(s5cmd: S5cmd, uri: str, tmp_path: Path) -> None:
    files = {name: name.encode() for name in NAMES}
    s5cmd("cp", f"{written(tmp_path / 'source', files)}/", uri)
    copied = uri.removesuffix("/") + "-2/"
    s5cmd("cp", f"{uri}*", copied)
    assert s5cmd.names(copied) == sorted(NAMES, key=str.encode)
    s5cmd("cp", f"{copied}*", f"{tmp_path / 'back'}/")
    assert found(tmp_path / "back") == files
    s5cmd("rm", f"{copied}*")
    with pytest.raises(ClientError, match="no object found"):
        s5cmd("ls", copied)
    slashes = f"{uri}a//b *?"  # a pattern, unless it is meant literally
    s5cmd("cp", "--raw", tmp_path / "back" / "a b", slashes)
    assert s5cmd("cat", "--raw", slashes) == "a b"


def test_s5cmd_streams_in_parts(s5cmd: S5cmd, uri: str) -> None:
    s5cmd("pipe", *IN_PARTS, f"{uri}a", given=PARTS)
    (head,) = s5cmd.lines("head", f"{uri}a")
    assert (head["size"], head["etag"].strip('"')[-2:]) == (len(PARTS), "-2")
    s5cmd("pipe", f"{uri}empty")
    assert s5cmd("cat", f"{uri}empty") == ""


def test_s5cmd_copies_moves_and_deletes(
    s5cmd: S5cmd, there: Lake, uri: str, tmp_path: Path
) -> None:
    s5cmd("cp", written(tmp_path) / "a b+", f"{uri}a b+")
    s5cmd("cp", f"{uri}a b+", f"{uri}ü&%")
    s5cmd("mv", f"{uri}ü&%", f"{uri}moved")
    s5cmd("cp", f"s3://{there.repo}/v1/kept/a", f"{uri}old")
    assert s5cmd("cat", f"{uri}old") == "before"
    (head,) = s5cmd.lines("head", f"{uri}moved")
    assert (head["size"], head["etag"].strip('"')) == (10, md5(b"0123456789").hexdigest())
    s5cmd("rm", f"{uri}moved", f"{uri}old")
    assert s5cmd.names(uri) == ["a b+"]


def test_s5cmd_lists_more_than_one_page(s5cmd: S5cmd, there: Lake) -> None:
    many = f"s3://{there.repo}/main/many/"
    assert [f"many/{name}" for name in s5cmd.names(many)] == MANY
    few = [line["key"].removeprefix(many) for line in s5cmd.lines("ls", f"{many}1*03")]
    assert few == [path[5:] for path in MANY if path[5] == "1" and path.endswith("03")]
    branches = [line["key"] for line in s5cmd.lines("ls", f"s3://{there.repo}")]
    assert [name.removeprefix(f"s3://{there.repo}/") for name in branches] == [
        "main/",
        "other/",
        "protected/",
    ]
    assert there.repo in [line["name"] for line in s5cmd.lines("ls")]
    (used,) = s5cmd.lines("du", f"{many}*")
    assert (used["count"], used["size"]) == (len(MANY), sum(map(len, MANY)))


def test_s5cmd_presigns_reads(s5cmd: S5cmd, uri: str) -> None:
    s5cmd("pipe", f"{uri}a b+", given=b"signed")
    with urllib.request.urlopen(s5cmd("presign", f"{uri}a b+").strip()) as answer:
        assert answer.read() == b"signed"


def test_s5cmd_writes_over_https(there: Lake, uri: str, tmp_path: Path) -> None:
    secured = S5cmd(there, there.key, tls=True)
    secured("cp", *IN_PARTS, f"{written(tmp_path / 'source')}/", uri)
    secured("cp", f"{uri}*", f"{tmp_path / 'back'}/")
    assert found(tmp_path / "back") == FILES


def test_s5cmd_reads_commits(s5cmd: S5cmd, there: Lake) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        assert s5cmd("cat", f"s3://{there.repo}/{ref}/kept/a") == body
        assert s5cmd.names(f"s3://{there.repo}/{ref}/kept/") == ["a"]


def test_s5cmd_is_refused_what_is_not_served(s5cmd: S5cmd, there: Lake, tmp_path: Path) -> None:
    for arguments, code in not_served(there, written(tmp_path) / "a b+"):
        with pytest.raises(ClientError, match=code):
            s5cmd(*arguments)


def test_s5cmd_is_told_what_is_denied(s5cmd: S5cmd, there: Lake, tmp_path: Path) -> None:
    file = written(tmp_path) / "a b+"
    with pytest.raises(ClientError, match="ErrWriteToProtectedBranch"):
        s5cmd("cp", file, f"s3://{there.repo}/protected/a")
    there.may_read("kept")
    few = S5cmd(there, there.somebodys_key)
    assert few("cat", f"s3://{there.repo}/main/kept/a") == "after"
    for arguments in (
        ("cp", file, f"s3://{there.repo}/main/kept/a"),
        ("rm", f"s3://{there.repo}/main/kept/a"),
        ("cat", f"s3://{there.repo}/main/many/0001"),
    ):
        with pytest.raises(ClientError, match=r"AccessDenied|403|Forbidden"):
            few(*arguments)
    assert s5cmd("cat", f"s3://{there.repo}/main/kept/a") == "after"


def test_s5cmd_is_refused_an_unknown_branch(s5cmd: S5cmd, there: Lake, tmp_path: Path) -> None:
    """s5cmd deletes while it lists: what is in the folder may be gone before it sees the error."""
    kept = written(tmp_path / "kept", {"a": b"x"})
    for source in (f"s3://{there.repo}/none/*", f"s3://{there.repo}/none/in/*"):
        with pytest.raises(ClientError, match="NoSuchBucket"):
            s5cmd("sync", "--delete", source, f"{kept}/")
