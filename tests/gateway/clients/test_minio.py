"""MinIO's client for Python, unmodified, on branches."""

import urllib.request
from hashlib import md5
from typing import Any
from urllib.parse import urlsplit

import pytest

from graveler.auth.credentials import NewCredential
from tests.gateway.clients.commands import PARTS
from tests.gateway.clients.elsewhere import ClientError, Elsewhere
from tests.gateway.lake import EASY_NAMES, MANY, REGION, Lake

NAMES = [*EASY_NAMES, "a//b", "tab\t", "cr\r", "nl\n"]


class Bucket:
    """A client for one bucket in the other process (minio_calls.py)."""

    def __init__(
        self, away: Elsewhere, name: str, there: Lake, key: NewCredential, *, tls: bool = False
    ) -> None:
        self._away, self._name = away, f"minio {name}"
        away.keep(
            self._name,
            "minio_calls:Client",
            there.repo,
            str(there.tls.certificate) if tls else "",
            endpoint=urlsplit(there.tls.url if tls else there.url).netloc,
            access_key=key.access_key_id,
            secret_key=key.secret_access_key,
            region=REGION,
            secure=tls,
        )

    def __getattr__(self, method: str) -> Any:
        return lambda *given, **named: self._away(f"@{self._name}.{method}", *given, **named)


@pytest.fixture(scope="module")
def bucket(there: Lake, away: Elsewhere) -> Bucket:
    return Bucket(away, "bucket", there, there.key)


def test_minio_writes_and_reads(bucket: Bucket, folder: str) -> None:
    sent = {"Color": "blue"}
    etag = bucket.put(folder + "a", b"0123456789", content_type="text/x", metadata=sent)
    size, same, headers = bucket.stat(folder + "a")
    assert (size, same, etag) == (10, etag, md5(b"0123456789").hexdigest())
    assert (headers["content-type"], headers["x-amz-meta-color"]) == ("text/x", "blue")
    assert bucket.get(folder + "a") == b"0123456789"
    assert bucket.get(folder + "a", offset=3, length=4) == b"3456"
    bucket.put(folder + "empty", b"")
    assert bucket.get(folder + "empty") == b""
    with pytest.raises(ClientError, match="NoSuchKey"):
        bucket.get(folder + "none")


def test_minio_uses_odd_names(bucket: Bucket, folder: str) -> None:
    keys = sorted((folder + name for name in NAMES), key=str.encode)
    for key in keys:
        bucket.put(key, key.encode())
        assert bucket.get(key) == key.encode()
        assert bucket.stat(key)[0] == len(key.encode())
        bucket.copy(key, key + " copy")
    copies = [key + " copy" for key in keys]
    assert bucket.names(folder, recursive=True) == sorted([*keys, *copies], key=str.encode)
    bucket.remove(folder + "cr\r copy")  # its batches have CR as it is, which XML reads as LF
    assert bucket.remove_many(copies) == []
    for key in keys:
        bucket.remove(key)
    assert bucket.names(folder, recursive=True) == []


def test_minio_writes_in_parts(bucket: Bucket, folder: str) -> None:
    """Also without a length, and joined on the server."""
    assert bucket.put(folder + "a", PARTS).endswith("-2")
    bucket.stream(folder + "b", PARTS)
    bucket.compose([folder + "a", folder + "b"], folder + "c")
    assert bucket.get(folder + "a") == bucket.get(folder + "b") == PARTS
    assert bucket.get(folder + "c") == PARTS * 2


def test_minio_copies_moves_and_deletes(bucket: Bucket, folder: str) -> None:
    bucket.put(folder + "a b+", b"x", metadata={"one": "1"})
    bucket.copy(folder + "a b+", folder + "ü&%")
    bucket.copy(folder + "ü&%", folder + "ü&%", {"two": "2"})
    bucket.copy("v1/kept/a", folder + "old")
    assert bucket.get(folder + "old") == b"before"
    assert bucket.stat(folder + "ü&%")[2]["x-amz-meta-two"] == "2"
    bucket.remove(folder + "a b+")
    bucket.remove(folder + "a b+")
    assert bucket.names(folder) == [folder + "old", folder + "ü&%"]


def test_minio_lists_more_than_one_page(bucket: Bucket, there: Lake) -> None:
    """In both versions of the operation."""
    expected = [f"main/{path}" for path in MANY]
    assert bucket.names("main/many/", recursive=True) == expected
    assert bucket.names("main/many/", recursive=True, use_api_v1=True) == expected
    assert bucket.names("main/many/", start_after=expected[-2]) == expected[-1:]
    assert bucket.names("") == ["main/", "other/", "protected/"]
    assert there.repo in bucket.buckets()
    assert [bucket.exists(name) for name in (there.repo, "none-of-these")] == [True, False]


@pytest.mark.parametrize("key", ["a b&+%ü"])
def test_minio_presigns_reads_and_writes(bucket: Bucket, folder: str, key: str) -> None:
    url = bucket.url_to_put(folder + key)
    with urllib.request.urlopen(urllib.request.Request(url, b"signed", method="PUT")) as answer:
        assert answer.status == 200
    with urllib.request.urlopen(bucket.url_to_get(folder + key)) as answer:
        assert answer.read() == b"signed"


def test_minio_writes_over_https(there: Lake, away: Elsewhere, folder: str) -> None:
    """It signs no body then."""
    secured = Bucket(away, "secured", there, there.key, tls=True)
    for body in (b"", b"some", PARTS):
        secured.put(folder + "a +%", body)
        assert secured.get(folder + "a +%") == body


def test_minio_reads_commits(bucket: Bucket, there: Lake) -> None:
    for ref, body in (("v1", b"before"), (there.commit, b"before"), ("main", b"after")):
        assert bucket.get(f"{ref}/kept/a") == body
        assert bucket.names(f"{ref}/kept/") == [f"{ref}/kept/a"]


def test_minio_is_refused_what_is_not_served(bucket: Bucket) -> None:
    for refused, code in (
        (lambda: bucket.put("v1/kept/a", b"x"), "MethodNotAllowed"),
        (lambda: bucket.put("none/kept/a", b"x"), "NoSuchBucket"),
        (lambda: bucket.make("none-of-these"), "NotImplemented"),
        (lambda: bucket.drop(), "MethodNotAllowed"),
    ):
        with pytest.raises(ClientError, match=f"S3Error.*{code}"):
            refused()


def test_minio_is_told_what_is_denied(bucket: Bucket, there: Lake, away: Elsewhere) -> None:
    with pytest.raises(ClientError, match=r"S3Error.*ErrWriteToProtectedBranch"):
        bucket.put("protected/a", b"x")
    there.may_read("kept")
    few = Bucket(away, "few", there, there.somebodys_key)
    assert few.get("main/kept/a") == b"after"
    for denied in (
        lambda: few.put("main/kept/a", b"x"),
        lambda: few.get("main/many/0001"),
        lambda: few.remove("main/kept/a"),
        lambda: few.remove_many(["main/kept/a"]),
    ):
        with pytest.raises(ClientError, match=r"S3Error.*AccessDenied"):
            denied()
    assert bucket.get("main/kept/a") == b"after"
