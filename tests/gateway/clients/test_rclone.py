"""rclone, unmodified, on branches."""

import json
import urllib.request
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from graveler.auth.credentials import NewCredential
from tests.gateway.clients.commands import FILES, PARTS, found, written
from tests.gateway.clients.elsewhere import ClientError, run
from tests.gateway.lake import EASY_NAMES, MANY, REGION, Lake

IN_PARTS = ("--s3-upload-cutoff", "5M", "--s3-copy-cutoff", "5M", "--s3-chunk-size", "5M")


class Rclone:
    """The command with a remote `lake`."""

    def __init__(self, there: Lake, folder: Path, key: NewCredential, **more: str) -> None:
        remote = {
            "type": "s3",
            "provider": "Other",
            "endpoint": there.url,
            "region": REGION,
            "access_key_id": key.access_key_id,
            "secret_access_key": key.secret_access_key,
            **more,
        }
        configuration = folder / "rclone.conf"
        lines = (f"{name} = {value}\n" for name, value in remote.items())
        configuration.write_text("[lake]\n" + "".join(lines))
        self._variables = {"RCLONE_CONFIG": str(configuration), "HOME": str(folder)}

    def __call__(self, *arguments: Any, given: bytes = b"") -> str:
        """What it prints."""
        once = ("--retries", "1", "--low-level-retries", "1")
        words = map(str, (*arguments, *once))
        return run("rclone", *words, variables=self._variables, given=given).decode()


@pytest.fixture(scope="module")
def rclone(there: Lake, tmp_path_factory: pytest.TempPathFactory) -> Rclone:
    return Rclone(there, tmp_path_factory.mktemp("rclone"), there.key)


@pytest.fixture
def remote(place: str) -> str:
    return f"lake:{place}"


def lines(text: str) -> list[str]:
    return sorted(text.splitlines(), key=str.encode)


def test_rclone_copies_and_synchronises(rclone: Rclone, remote: str, tmp_path: Path) -> None:
    source, back = written(tmp_path / "source"), tmp_path / "back"
    rclone("copy", source, remote, *IN_PARTS)
    rclone("check", source, remote)
    rclone("check", source, remote, "--download")
    rclone("copy", remote, back)
    assert found(back) == FILES
    (source / "empty").unlink()
    (source / "a b+").write_bytes(b"another")
    rclone("sync", source, remote)
    assert lines(rclone("lsf", "-R", "--files-only", remote)) == ["a b+", "x/large", "x/ü&%"]
    assert rclone("cat", f"{remote}/a b+") == "another"


def test_rclone_shows_sizes_and_hashes(rclone: Rclone, remote: str, tmp_path: Path) -> None:
    """The hash of what was uploaded in parts stands in its metadata."""
    rclone("copy", written(tmp_path), remote, *IN_PARTS)
    listed = json.loads(rclone("lsjson", "-R", "--hash", "--files-only", remote))
    assert {each["Path"]: (each["Size"], each["Hashes"]["md5"]) for each in listed} == {
        name: (len(body), md5(body).hexdigest()) for name, body in FILES.items()
    }
    size = json.loads(rclone("size", "--json", remote))
    assert (size["count"], size["bytes"]) == (4, sum(map(len, FILES.values())))


def test_rclone_reads_ranges(rclone: Rclone, remote: str) -> None:
    rclone("rcat", f"{remote}/a b+", given=b"0123456789")
    assert rclone("cat", f"{remote}/a b+", "--offset", "3", "--count", "4") == "3456"
    assert rclone("cat", f"{remote}/a b+", "--tail", "3") == "789"


def test_rclone_uses_odd_names(rclone: Rclone, remote: str, tmp_path: Path) -> None:
    files = {name: name.encode() for name in EASY_NAMES}
    rclone("copy", written(tmp_path / "source", files), remote)
    rclone("copy", remote, f"{remote}-2")
    rclone("copy", f"{remote}-2", tmp_path / "back")
    assert found(tmp_path / "back") == files
    assert lines(rclone("lsf", f"{remote}-2")) == sorted(EASY_NAMES, key=str.encode)
    rclone("delete", f"{remote}-2")
    assert rclone("lsf", f"{remote}-2") == ""


def test_rclone_lists_more_than_one_page(rclone: Rclone, there: Lake) -> None:
    repo = f"lake:{there.repo}"
    assert rclone("lsf", f"{repo}/main/many").splitlines() == [
        path.removeprefix("many/") for path in MANY
    ]
    few = rclone("lsf", f"{repo}/main/many", "--include", "*0[03]").splitlines()
    assert few == [path[5:] for path in MANY if path.endswith(("00", "03"))]
    assert rclone("lsf", repo).splitlines() == ["main/", "other/", "protected/"]
    assert f"{there.repo}/" in rclone("lsf", "lake:").splitlines()


def test_rclone_copies_moves_and_deletes(
    rclone: Rclone, there: Lake, remote: str, tmp_path: Path
) -> None:
    rclone("copyto", written(tmp_path) / "x" / "large", f"{remote}/a")
    rclone("copyto", f"{remote}/a", f"{remote}/b c", *IN_PARTS)
    rclone("moveto", f"{remote}/b c", f"{remote}/d/moved")
    rclone("moveto", f"{remote}/d", f"{remote}/e")
    rclone("touch", f"{remote}/e/moved", "--timestamp", "2020-01-01T00:00:00")  # only its metadata
    assert lines(rclone("lsf", "-R", "--files-only", remote)) == ["a", "e/moved"]
    assert rclone("md5sum", f"{remote}/a").split()[0] == md5(PARTS).hexdigest()
    times = rclone("lsf", "--format", "ts", "--time-format", "2006", f"{remote}/e")
    assert times.split() == [f"2020;{len(PARTS)}"]
    rclone("deletefile", f"{remote}/a")
    rclone("copyto", f"lake:{there.repo}/v1/kept/a", f"{remote}/old")
    assert rclone("cat", f"{remote}/old") == "before"
    rclone("purge", remote)
    assert rclone("lsf", "-R", remote) == ""


def test_rclone_streams_in_parts(rclone: Rclone, there: Lake, remote: str) -> None:
    small = ("--streaming-upload-cutoff", "1M", *IN_PARTS)
    rclone("rcat", f"{remote}/a", *small, given=PARTS)
    key = f"{remote}/a".removeprefix(f"lake:{there.repo}/")
    head = there.boto().head_object(Bucket=there.repo, Key=key)
    assert (head["ContentLength"], head["ETag"][-3:-1]) == (len(PARTS), "-2")
    upload = {"Bucket": there.repo, "Key": key + "-open"}
    there.boto().create_multipart_upload(**upload)
    pending = json.loads(rclone("backend", "list-multipart-uploads", remote))[there.repo]
    assert upload["Key"] in [each["Key"] for each in pending]
    rclone("backend", "cleanup", remote, "-o", "max-age=0s")
    left = there.boto().list_multipart_uploads(Bucket=there.repo, Prefix=upload["Key"])
    assert left.get("Uploads", []) == []


def test_rclone_presigns_reads(rclone: Rclone, remote: str) -> None:
    rclone("rcat", f"{remote}/a b+", given=b"signed")
    url = rclone("link", f"{remote}/a b+", "--expire", "1h").strip()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"signed"


def test_rclone_writes_over_https(there: Lake, remote: str, tmp_path: Path) -> None:
    """It sends checksums in trailers then, if it is told so."""
    secured = Rclone(there, tmp_path, there.key, endpoint=there.tls.url)
    given = ("--ca-cert", there.tls.certificate, "--s3-use-data-integrity-protections", "true")
    secured("copyto", written(tmp_path / "source") / "x" / "large", f"{remote}/a", *given)
    assert secured("md5sum", f"{remote}/a", *given).split()[0] == md5(PARTS).hexdigest()


def test_rclone_reads_commits(rclone: Rclone, there: Lake) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        assert rclone("cat", f"lake:{there.repo}/{ref}/kept/a") == body
        assert "a" in rclone("lsf", f"lake:{there.repo}/{ref}/kept").splitlines()


def test_rclone_is_refused_what_is_not_served(rclone: Rclone, there: Lake) -> None:
    """It shows the code of an answer, or only the status if it was still sending the body."""
    for arguments, code in (
        (("rcat", f"lake:{there.repo}/v1/kept/a"), "MethodNotAllowed|StatusCode: 405"),
        (("rcat", f"lake:{there.repo}/none/a"), "NoSuchBucket|StatusCode: 404"),
        (("mkdir", "lake:none-of-these"), "NotImplemented"),
        (("rmdir", f"lake:{there.repo}"), "MethodNotAllowed"),
    ):
        with pytest.raises(ClientError, match=code):
            rclone(*arguments, given=b"x")


def test_rclone_is_told_what_is_denied(rclone: Rclone, there: Lake, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"ErrWriteToProtectedBranch|StatusCode: 403"):
        rclone("rcat", f"lake:{there.repo}/protected/a", given=b"x")
    there.may_read("kept")
    few = Rclone(there, tmp_path, there.somebodys_key)
    assert few("cat", f"lake:{there.repo}/main/kept/a") == "after"
    for arguments in (
        ("rcat", f"lake:{there.repo}/main/kept/a"),
        ("deletefile", f"lake:{there.repo}/main/kept/a"),
        ("cat", f"lake:{there.repo}/main/many/0001"),
    ):
        with pytest.raises(ClientError, match=r"AccessDenied|403|Forbidden"):
            few(*arguments, given=b"x")
    assert rclone("cat", f"lake:{there.repo}/main/kept/a") == "after"


def test_rclone_is_refused_an_unknown_branch(rclone: Rclone, there: Lake, tmp_path: Path) -> None:
    kept = written(tmp_path / "kept", {"a": b"x"})
    for source in (f"lake:{there.repo}/none", f"lake:{there.repo}/none/in"):
        for more in ((), ("--fast-list",)):
            with pytest.raises(ClientError, match="directory not found"):
                rclone("sync", source, kept, *more)
    assert found(kept) == {"a": b"x"}
