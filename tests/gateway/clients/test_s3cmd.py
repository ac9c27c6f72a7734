"""s3cmd, unmodified, on branches."""

import urllib.request
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from graveler.auth.credentials import NewCredential
from tests.gateway.clients.commands import FILES, PARTS, found, written
from tests.gateway.clients.elsewhere import ClientError, run
from tests.gateway.lake import MANY, REGION, Lake

CONFIGURATION = """[default]
access_key = {key.access_key_id}
secret_key = {key.secret_access_key}
host_base = {host}
host_bucket = {host}
bucket_location = {region}
use_https = {secured}
ca_certs_file = {certificate}
multipart_chunk_size_mb = 5
max_retries = 1
"""
NAMES = ["a b", "a+b", "a%2Fb", "a%b", "a&b", "ü", "😀", "q\"'<>", "#=;@:$,", "{}|^`~!()"]


class S3cmd:
    """The command with a file of settings."""

    def __init__(self, there: Lake, folder: Path, key: NewCredential, url: str = "") -> None:
        scheme, _, host = (url or there.url).partition("://")
        secured = scheme == "https"
        self._file = folder / "s3cfg"
        self._file.write_text(
            CONFIGURATION.format(
                key=key,
                host=host,
                region=REGION,
                secured=secured,
                certificate=there.tls.certificate if secured else "",
            )
        )

    def __call__(self, *arguments: Any) -> list[str]:
        """The lines that it prints."""
        words = ("--config", self._file, "--no-progress", *arguments)
        printed = run("s3cmd", *map(str, words), variables={"LC_ALL": "C.UTF-8"})
        return printed.decode().splitlines()


@pytest.fixture(scope="module")
def s3cmd(there: Lake, tmp_path_factory: pytest.TempPathFactory) -> S3cmd:
    return S3cmd(there, tmp_path_factory.mktemp("s3cmd"), there.key)


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}"


def names(printed: list[str], below: str) -> list[str]:
    """The objects of a listing."""
    return [line.partition(below)[2] for line in printed]


def test_s3cmd_puts_and_gets(s3cmd: S3cmd, uri: str, tmp_path: Path) -> None:
    """In parts of 5 MiB, and the rest of a file that is partly there."""
    source = written(tmp_path / "source")
    s3cmd("put", "--recursive", f"{source}/", f"{uri}/")
    assert names(s3cmd("ls", "--recursive", f"{uri}/"), f"{uri}/") == sorted(FILES)
    (tmp_path / "back").mkdir()
    s3cmd("get", "--recursive", f"{uri}/", f"{tmp_path / 'back'}/")
    assert found(tmp_path / "back") == FILES
    part = tmp_path / "part"
    part.write_bytes(PARTS[:100])
    s3cmd("get", "--continue", f"{uri}/x/large", part)
    assert part.read_bytes() == PARTS
    total = sum(map(len, FILES.values()))
    assert s3cmd("du", f"{uri}/")[0].split()[:2] == [str(total), str(len(FILES))]


def test_s3cmd_synchronises(s3cmd: S3cmd, uri: str, tmp_path: Path) -> None:
    source, back = written(tmp_path / "source"), written(tmp_path / "back", {"old": b"x"})
    s3cmd("sync", f"{source}/", f"{uri}/")
    (source / "empty").unlink()
    (source / "a b+").write_bytes(b"another")
    s3cmd("sync", "--delete-removed", f"{source}/", f"{uri}/")
    s3cmd("sync", "--delete-removed", f"{uri}/", f"{back}/")
    assert found(back) == {"a b+": b"another", "x/ü&%": b"2", "x/large": PARTS}


def test_s3cmd_uses_odd_names(s3cmd: S3cmd, uri: str, tmp_path: Path) -> None:
    files = {name: name.encode() for name in NAMES}
    s3cmd("put", "--recursive", f"{written(tmp_path / 'source', files)}/", f"{uri}/")
    assert names(s3cmd("ls", f"{uri}/"), f"{uri}/") == sorted(NAMES, key=str.encode)
    s3cmd("cp", "--recursive", f"{uri}/", f"{uri}-2/")
    (tmp_path / "back").mkdir()
    s3cmd("get", "--recursive", f"{uri}-2/", f"{tmp_path / 'back'}/")
    assert found(tmp_path / "back") == files
    s3cmd("del", "--recursive", "--force", f"{uri}/")
    assert s3cmd("ls", f"{uri}/") == []


def test_s3cmd_copies_moves_and_deletes(
    s3cmd: S3cmd, there: Lake, uri: str, tmp_path: Path
) -> None:
    """It reads the ACL of an object before it copies it, and goes on without one."""
    s3cmd("put", written(tmp_path) / "a b+", f"{uri}/a b+")
    s3cmd("cp", f"{uri}/a b+", f"{uri}/ü&%")
    s3cmd("mv", f"{uri}/ü&%", f"{uri}/moved")
    s3cmd("cp", f"s3://{there.repo}/v1/kept/a", f"{uri}/old")
    s3cmd("modify", "--add-header", "x-amz-meta-some: thing", f"{uri}/moved")
    assert names(s3cmd("ls", f"{uri}/"), f"{uri}/") == ["a b+", "moved", "old"]
    described = [line.strip() for line in s3cmd("info", f"{uri}/moved")]
    assert "File size: 10" in described and "x-amz-meta-some: thing" in described
    assert "MD5 sum:   781e5e245d69b566979b86e28d23f2c7" in described
    s3cmd("del", f"{uri}/moved", f"{uri}/old")
    assert names(s3cmd("ls", f"{uri}/"), f"{uri}/") == ["a b+"]


def test_s3cmd_lists_uploads_in_parts(s3cmd: S3cmd, there: Lake, folder: str) -> None:
    upload = {"Bucket": there.repo, "Key": folder + "a"}
    upload["UploadId"] = there.boto().create_multipart_upload(**upload)["UploadId"]
    there.boto().upload_part(**upload, PartNumber=1, Body=b"part")
    listed = s3cmd("multipart", f"s3://{there.repo}")
    uri = f"s3://{there.repo}/{upload['Key']}"
    assert [uri, upload["UploadId"]] in [line.split("\t")[1:] for line in listed]
    assert s3cmd("listmp", uri, upload["UploadId"])[-1].split("\t")[1:3] == [
        "1",
        f'"{md5(b"part").hexdigest()}"',
    ]
    s3cmd("abortmp", uri, upload["UploadId"])
    assert uri not in "".join(s3cmd("multipart", f"s3://{there.repo}"))


def test_s3cmd_lists_more_than_one_page(s3cmd: S3cmd, there: Lake) -> None:
    uri = f"s3://{there.repo}/"
    assert names(s3cmd("ls", f"{uri}main/many/"), f"{uri}main/") == MANY
    few = names(s3cmd("ls", f"{uri}main/many/000*"), f"{uri}main/")
    assert few == MANY[:10]
    assert names(s3cmd("ls", uri), uri) == ["main/", "other/", "protected/"]
    assert there.repo in names(s3cmd("ls"), "s3://")


def test_s3cmd_presigns_reads(s3cmd: S3cmd, uri: str, tmp_path: Path) -> None:
    """In version 2."""
    s3cmd("put", written(tmp_path) / "a b+", f"{uri}/a b+")
    (url,) = s3cmd("signurl", f"{uri}/a b+", "+600")
    assert "AWSAccessKeyId=" in url
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"0123456789"


def test_s3cmd_writes_over_https(there: Lake, uri: str, tmp_path: Path) -> None:
    secured = S3cmd(there, tmp_path, there.key, there.tls.url)
    secured("put", written(tmp_path / "source") / "x" / "large", f"{uri}/a")
    secured("get", f"{uri}/a", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == PARTS


def test_s3cmd_reads_commits(s3cmd: S3cmd, there: Lake, tmp_path: Path) -> None:
    for ref, body in (("v1", b"before"), (there.commit, b"before"), ("main", b"after")):
        s3cmd("get", "--force", f"s3://{there.repo}/{ref}/kept/a", tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == body


def test_s3cmd_describes_a_bucket(s3cmd: S3cmd, there: Lake) -> None:
    """It asks for the policy, the rules and the ACL of the bucket, and goes on without them."""
    first, *described = [line.strip() for line in s3cmd("info", f"s3://{there.repo}")]
    assert first == f"s3://{there.repo}/ (bucket):"
    assert {f"Location:  {REGION}", "CORS:      none", "Expiration rule: none"} <= set(described)


def test_s3cmd_is_refused_what_is_not_served(s3cmd: S3cmd, there: Lake, tmp_path: Path) -> None:
    file, kept = written(tmp_path) / "a b+", f"s3://{there.repo}/main/kept/a"
    for arguments, code in (
        (("put", file, f"s3://{there.repo}/v1/kept/a"), "MethodNotAllowed"),
        (("put", file, f"s3://{there.repo}/none/a"), "NoSuchBucket"),
        (("mb", "s3://none-of-these"), "NotImplemented"),
        (("rb", f"s3://{there.repo}"), "MethodNotAllowed"),
        (("setacl", "--acl-public", kept), "NotImplemented"),
        (("settagging", kept, "a=b"), "MethodNotAllowed"),
    ):
        with pytest.raises(ClientError, match=code):
            s3cmd(*arguments)


def test_s3cmd_is_told_what_is_denied(s3cmd: S3cmd, there: Lake, tmp_path: Path) -> None:
    file, kept = written(tmp_path) / "a b+", f"s3://{there.repo}/main/kept/a"
    with pytest.raises(ClientError, match="ErrWriteToProtectedBranch"):
        s3cmd("put", file, f"s3://{there.repo}/protected/a")
    there.may_read("kept")
    few = S3cmd(there, tmp_path, there.somebodys_key)
    few("get", kept, tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == b"after"
    for arguments in (
        ("put", file, kept),
        ("del", kept),
        ("get", f"s3://{there.repo}/main/many/0001", tmp_path / "no"),
    ):
        with pytest.raises(ClientError, match=r"AccessDenied|403"):
            few(*arguments)
