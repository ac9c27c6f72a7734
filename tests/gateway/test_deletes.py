"""Deleting objects through a real server: one key, and batches."""

from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from tests.gateway.serving import Gateway, S3Client, code_of

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@pytest.fixture
def filled(served_gateway: Gateway, repo: str) -> str:
    """A repository with objects on its branch."""
    for path in ("a", "b&c", "d/", "e\rf"):
        assert served_gateway.live.client.upload(repo, path, b"x").status == 201
    return repo


def _paths(boto: Any, repo: str, ref: str = "main") -> list[str]:
    page = boto.list_objects_v2(Bucket=repo, Prefix=f"{ref}/")
    return [each["Key"].removeprefix(f"{ref}/") for each in page.get("Contents", [])]


def _batch(*objects: str) -> bytes:
    return f"<Delete>{''.join(f'<Object>{each}</Object>' for each in objects)}</Delete>".encode()


def test_a_key_is_deleted_whether_it_exists_or_not(s3: S3Client, boto: Any, filled: str) -> None:
    for name in ("a", "a", "none", "", "b&c"):
        assert s3.send("DELETE", f"/{filled}/main/{name}").status == 204
    assert s3.send("DELETE", f"/{filled}/main").status == 204
    assert _paths(boto, filled) == ["d/", "e\rf"]


@pytest.mark.parametrize(
    ("ref", "status", "code"),
    [
        ("none", 404, "NoSuchBucket"),
        ("no such", 404, "NoSuchBucket"),
        ("main@", 405, "MethodNotAllowed"),
        ("main~1", 405, "MethodNotAllowed"),
        ("v1", 405, "MethodNotAllowed"),
    ],
)
def test_only_a_branch_can_be_changed(
    served_gateway: Gateway, s3: S3Client, filled: str, ref: str, status: int, code: str
) -> None:
    send = served_gateway.live.client.send
    send("POST", f"/repositories/{filled}/tags", body={"id": "v1", "ref": "main"})
    reply = s3.send("DELETE", f"/{filled}/{ref}/a")
    assert (reply.status, code_of(reply)) == (status, code)
    batch = s3.send("POST", f"/{filled}", {"delete": ""}, body=_batch(f"<Key>{ref}/a</Key>"))
    assert _errors(batch.body) == {f"{ref}/a": code}


def _errors(body: bytes) -> dict[str, str]:
    root = ElementTree.fromstring(body)
    return {
        each.findtext(f"{_NAMESPACE}Key", ""): each.findtext(f"{_NAMESPACE}Code", "")
        for each in root.iter(f"{_NAMESPACE}Error")
    }


def test_a_protected_branch_and_a_read_only_repository_refuse(
    served_gateway: Gateway, s3: S3Client, filled: str
) -> None:
    send = served_gateway.live.client.send
    rules = [{"pattern": "main"}]
    where = f"/repositories/{filled}/settings/branch_protection"
    assert send("PUT", where, body=rules).status == 204
    reply = s3.send("DELETE", f"/{filled}/main/a")
    assert (reply.status, code_of(reply)) == (403, "ErrWriteToProtectedBranch")
    batch = s3.send("POST", f"/{filled}", {"delete": ""}, body=_batch("<Key>main/a</Key>"))
    assert _errors(batch.body) == {"main/a": "ErrWriteToProtectedBranch"}
    body = {"name": "read-only", "storage_namespace": "local://read-only/x", "read_only": True}
    assert send("POST", "/repositories", body=body).status == 201
    reply = s3.send("DELETE", "/read-only/main/a")
    assert (reply.status, code_of(reply)) == (403, "ErrReadOnlyRepository")


def test_a_batch_deletes_keys_of_many_branches(
    served_gateway: Gateway, boto: Any, filled: str
) -> None:
    send = served_gateway.live.client.send
    send("POST", f"/repositories/{filled}/branches", body={"name": "other", "source": "main"})
    served_gateway.live.client.upload(filled, "a", b"x", branch="other")
    keys = ["main/a", "other/a", "main/none", "main/", "none/x", "main/e\rf", "main/b&c"]
    answer = boto.delete_objects(Bucket=filled, Delete={"Objects": [{"Key": key} for key in keys]})
    assert [each["Key"] for each in answer["Deleted"]] == [key for key in keys if key != "none/x"]
    assert [(each["Key"], each["Code"]) for each in answer["Errors"]] == [
        ("none/x", "NoSuchBucket")
    ]
    assert _paths(boto, filled) == ["d/"]
    assert _paths(boto, filled, "other") == []


def test_a_quiet_batch_reports_only_failures(s3: S3Client, filled: str) -> None:
    body = _batch("<Key>main/a</Key>", "<Key>none/x</Key>")
    body = body.replace(b"<Delete>", b"<Delete><Quiet>true</Quiet>")
    reply = s3.send("POST", f"/{filled}", {"delete": ""}, body=body)
    assert b"<Deleted>" not in reply.body
    assert _errors(reply.body) == {"none/x": "NoSuchBucket"}


def test_items_that_say_more_than_a_key_are_refused_alone(
    s3: S3Client, boto: Any, filled: str
) -> None:
    long = "x" * 1025
    reply = s3.send(
        "POST",
        f"/{filled}",
        {"delete": ""},
        body=_batch(
            "<Key>main/d/</Key><VersionId>null</VersionId>",
            "<Key>main/a</Key><VersionId>v</VersionId>",
            f"<Key>{escape('main/b&c')}</Key><ETag>x</ETag>",
            "<Key>main/e&#13;f</Key><ETag></ETag>",
            f"<Key>main/{long}</Key>",
            "<Key></Key>",
        ),
    )
    assert _errors(reply.body) == {
        "main/a": "NoSuchVersion",
        "main/b&c": "PreconditionFailed",
        "main/e\rf": "InvalidArgument",
        f"main/{long}": "KeyTooLongError",
        "": "MalformedXML",
    }
    assert _paths(boto, filled) == ["a", "b&c", "e\rf"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no xml",
        b"<Delete></Delete>",
        b"<Other><Object><Key>main/a</Key></Object></Other>",
        b"<!DOCTYPE x><Delete><Object><Key>main/a</Key></Object></Delete>",
        _batch("<Key>main/a</Key><Key>main/d/</Key>"),
        _batch(*["<Key>main/a</Key>"] * 1001),
    ],
)
def test_a_batch_that_is_none_deletes_nothing(
    s3: S3Client, boto: Any, filled: str, body: bytes
) -> None:
    reply = s3.send("POST", f"/{filled}", {"delete": ""}, body=body)
    assert (reply.status, code_of(reply)) == (400, "MalformedXML")
    assert len(_paths(boto, filled)) == 4


def test_a_batch_has_at_most_4_mib(s3: S3Client, boto: Any, filled: str) -> None:
    body = _batch("<Key>main/a</Key>")
    for size in (4 * 1024 * 1024 + 1, 5 * 1024 * 1024):
        reply = s3.send("POST", f"/{filled}", {"delete": ""}, body=body.ljust(size))
        assert (reply.status, code_of(reply)) == (400, "MaxMessageLengthExceeded")
    assert "a" in _paths(boto, filled)
    reply = s3.send("POST", f"/{filled}", {"delete": ""}, body=body.ljust(4 * 1024 * 1024))
    assert b"<Deleted><Key>main/a</Key></Deleted>" in reply.body
    assert "a" not in _paths(boto, filled)


def test_a_batch_of_the_most_and_longest_keys_fits_although_some_are_escaped(
    s3: S3Client, repo: str
) -> None:
    """A thousand keys of the longest paths, a third of whose bytes take ten in the document."""
    keys = [f"main/{number:04}".ljust(700, "x") + "\r" * 300 for number in range(1000)]
    body = _batch(*[f"<Key>{key.replace(chr(13), '&#x0000d;')}</Key>" for key in keys])
    assert 3 * 1024 * 1024 < len(body) <= 4 * 1024 * 1024
    reply = s3.send("POST", f"/{repo}", {"delete": ""}, body=body)
    assert reply.status == 200 and reply.body.count(b"<Deleted>") == len(keys)


def test_a_condition_that_nothing_evaluates_is_refused(s3: S3Client, filled: str) -> None:
    for name in ("x-amz-if-match-size", "x-amz-if-match-last-modified-time"):
        reply = s3.send("DELETE", f"/{filled}/main/a", headers={name: "1"})
        assert (reply.status, code_of(reply)) == (501, "NotImplemented")
    assert s3.send("HEAD", f"/{filled}/main/a").status == 200
