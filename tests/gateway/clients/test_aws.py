"""The aws cli, unmodified, on branches.  A command takes a second to start, so that all but one are
called in a process that has started."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.clients.commands import FILES, PARTS, found, not_served, written
from tests.gateway.clients.elsewhere import ClientError, Elsewhere, run
from tests.gateway.clients.test_sizes import check_files
from tests.gateway.lake import EASY_NAMES, MANY, Lake


class Aws:
    """The command, in the other process."""

    def __init__(self, away: Elsewhere, *always: str) -> None:
        self._away, self._always = away, always

    def __call__(self, *arguments: Any) -> str:
        """What it prints.  Raises `ClientError` if it fails."""
        words = [str(each) for each in (*arguments, *self._always)]
        status, printed, errors = self._away("aws_calls:run", words)
        if status:
            raise ClientError(str(status), errors)
        return str(printed)

    def lines(self, *arguments: Any) -> list[str]:
        """The last word of each line that it prints."""
        return [line.split()[-1] for line in self(*arguments).splitlines()]


@pytest.fixture(scope="module")
def aws(away: Elsewhere) -> Aws:
    return Aws(away)


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}"


def test_aws_starts(aws_files: dict[str, str], there: Lake) -> None:
    """The command itself."""
    printed = run("aws", "s3", "cp", f"s3://{there.repo}/main/kept/a", "-", variables=aws_files)
    assert printed == b"after"


def test_aws_copies_folders(aws: Aws, uri: str, tmp_path: Path) -> None:
    """In parts of 5 MiB."""
    aws("s3", "cp", "--recursive", written(tmp_path / "source"), uri)
    aws("s3", "cp", "--recursive", uri, f"{uri}-2")
    aws("s3", "cp", "--recursive", f"{uri}-2", tmp_path / "back")
    assert found(tmp_path / "back") == FILES
    assert aws("s3", "cp", f"{uri}/a b+", "-") == "0123456789"


def test_aws_stores_every_size(aws: Aws, there: Lake, folder: str, tmp_path: Path) -> None:
    at = f"s3://{there.repo}/"
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: aws("s3", "cp", file, at + key),
        lambda file, key: aws("s3", "cp", at + key, file),
    )


def test_aws_synchronises(aws: Aws, uri: str, tmp_path: Path) -> None:
    source, back = written(tmp_path / "source"), written(tmp_path / "back", {"old": b"x"})
    aws("s3", "sync", source, uri)
    (source / "empty").unlink()
    (source / "a b+").write_bytes(b"another")
    assert "a b+" in aws("s3", "sync", "--delete", source, uri)
    assert aws("s3", "sync", "--delete", "--size-only", source, uri) == ""
    aws("s3", "sync", "--delete", "--exclude", "x/l*", uri, back)
    assert found(back) == {"a b+": b"another", "x/ü&%": b"2"}


def test_aws_uses_odd_names(aws: Aws, uri: str, tmp_path: Path) -> None:
    files = {name: name.encode() for name in EASY_NAMES}
    aws("s3", "cp", "--recursive", written(tmp_path / "source", files), uri)
    aws("s3", "mv", "--recursive", uri, f"{uri}-2")
    assert aws("s3", "ls", f"{uri}-2/").splitlines() == sorted(
        aws("s3", "ls", f"{uri}-2/").splitlines(), key=lambda line: line[31:].encode()
    )
    aws("s3", "sync", f"{uri}-2", tmp_path / "back")
    assert found(tmp_path / "back") == files
    aws("s3", "rm", "--recursive", f"{uri}-2")
    with pytest.raises(ClientError):  # nothing is there: it exits with 1
        aws("s3", "ls", f"{uri}-2/")


def test_aws_moves_and_deletes(aws: Aws, there: Lake, uri: str, tmp_path: Path) -> None:
    aws("s3", "mv", written(tmp_path) / "x" / "large", f"{uri}/large")
    aws("s3", "mv", f"{uri}/large", f"{uri}/ü&%")
    aws("s3", "cp", f"s3://{there.repo}/v1/kept/a", f"{uri}/old")
    assert aws.lines("s3", "ls", f"{uri}/") == ["old", "ü&%"]
    aws("s3", "cp", f"{uri}/ü&%", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == PARTS
    aws("s3", "rm", f"{uri}/old")
    assert aws.lines("s3", "ls", f"{uri}/") == ["ü&%"]


def test_aws_lists_more_than_one_page(aws: Aws, there: Lake) -> None:
    uri = f"s3://{there.repo}/"
    assert aws.lines("s3", "ls", "--recursive", f"{uri}main/many/") == [
        f"main/{path}" for path in MANY
    ]
    assert aws.lines("s3", "ls", uri) == ["main/", "other/", "protected/"]
    assert there.repo in aws.lines("s3", "ls")


def test_aws_calls_the_operations_of_s3(aws: Aws, there: Lake, folder: str, tmp_path: Path) -> None:
    """Ranges, conditions, batches, uploads."""
    file, back = written(tmp_path / "source") / "a b+", tmp_path / "back"
    bucket, one = ("--bucket", there.repo), ("--bucket", there.repo, "--key", folder + "a b")
    new = ("s3api", "put-object", *one, "--body", file, "--if-none-match", "*")
    etag = json.loads(aws(*new))["ETag"]
    with pytest.raises(ClientError, match="PreconditionFailed"):
        aws(*new)
    aws("s3api", "get-object", *one, "--range", "bytes=2-4", "--if-match", etag, back)
    assert back.read_bytes() == b"234"
    assert json.loads(aws("s3api", "head-object", *one))["ContentLength"] == 10
    upload = json.loads(aws("s3api", "create-multipart-upload", *one))["UploadId"]
    pending = ("s3api", "list-multipart-uploads", *bucket, "--prefix", folder)
    assert [each["UploadId"] for each in json.loads(aws(*pending))["Uploads"]] == [upload]
    aws("s3api", "abort-multipart-upload", *one, "--upload-id", upload)
    assert "Uploads" not in json.loads(aws(*pending) or "{}")
    objects = json.dumps({"Objects": [{"Key": folder + "a b"}, {"Key": folder + "none"}]})
    deleted = json.loads(aws("s3api", "delete-objects", *bucket, "--delete", objects))["Deleted"]
    assert [each["Key"] for each in deleted] == [folder + "a b", folder + "none"]


def test_aws_presigns_reads(aws: Aws, uri: str, tmp_path: Path) -> None:
    aws("s3", "cp", written(tmp_path) / "a b+", f"{uri}/a b+")
    with urllib.request.urlopen(aws("s3", "presign", f"{uri}/a b+").strip()) as answer:
        assert answer.read() == b"0123456789"


def test_aws_writes_over_https(away: Elsewhere, there: Lake, uri: str, tmp_path: Path) -> None:
    """It sends checksums in trailers then."""
    given = ("--endpoint-url", there.tls.url, "--ca-bundle", str(there.tls.certificate))
    secured = Aws(away, *given)
    secured("s3", "cp", written(tmp_path) / "x" / "large", f"{uri}/a")
    secured("s3", "cp", f"{uri}/a", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == PARTS


def test_aws_reads_commits(aws: Aws, there: Lake) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        assert aws("s3", "cp", f"s3://{there.repo}/{ref}/kept/a", "-") == body


def test_aws_is_refused_what_is_not_served(aws: Aws, there: Lake, tmp_path: Path) -> None:
    for arguments, code in not_served(there, written(tmp_path) / "a b+"):
        with pytest.raises(ClientError, match=code):
            aws("s3", *arguments)


def test_aws_is_told_what_is_denied(aws: Aws, away: Elsewhere, there: Lake, tmp_path: Path) -> None:
    file, kept = written(tmp_path) / "a b+", f"s3://{there.repo}/main/kept/a"
    with pytest.raises(ClientError, match="ErrWriteToProtectedBranch"):
        aws("s3", "cp", file, f"s3://{there.repo}/protected/a")
    there.may_read("kept")
    few = Aws(away, "--profile", "somebody")
    assert few("s3", "cp", kept, "-") == "after"
    for arguments in (
        ("cp", file, kept),
        ("rm", kept),
        ("cp", f"s3://{there.repo}/main/many/0001", "-"),
    ):
        with pytest.raises(ClientError, match=r"AccessDenied|403|Forbidden"):
            few("s3", *arguments)


def test_aws_is_refused_an_unknown_branch(aws: Aws, there: Lake, tmp_path: Path) -> None:
    kept = written(tmp_path / "kept", {"a": b"x"})
    for source in (f"s3://{there.repo}/none", f"s3://{there.repo}/none/in"):
        with pytest.raises(ClientError, match="NoSuchBucket"):
            aws("s3", "sync", "--delete", source, kept)
    assert found(kept) == {"a": b"x"}
