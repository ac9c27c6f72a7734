"""The closed table: which request runs which operation, and what is refused instead."""

import pytest

from graveler.gateway.errors import S3Error
from graveler.gateway.operation import READ_OBJECT, OperationIndex, S3Call, marks_of, operation
from graveler.gateway.request import Address, Level, request_of
from graveler.gateway.route import OPERATIONS
from graveler.http.answers import Answer
from graveler.http.dispatch import is_signed


def _request(method: str, query: str = "", headers: dict[str, str] | None = None):  # type: ignore[no-untyped-def]
    lines = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return request_of(
        {"method": method, "raw_path": b"/", "query_string": query.encode(), "headers": lines}
    )


BUCKET = Address("lake")
KEY = Address("lake", "main/a", "main", "a", True)
NOT_IMPLEMENTED = [("acl", KEY), ("acl", BUCKET), ("cors", BUCKET), ("lifecycle", BUCKET)]


@pytest.mark.parametrize(
    "name",
    [
        *("acl", "policy", "cors", "lifecycle", "versions", "select", "restore", "website"),
        *("append", "renameObject", "torrent", "a-resource-of-tomorrow"),
    ],
)
@pytest.mark.parametrize("address", [BUCKET, KEY])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_a_sub_resource_that_is_not_served_never_runs_the_plain_verb(
    name: str, address: Address, method: str
) -> None:
    for query in (name, f"{name}=", f"prefix=a&{name}"):
        with pytest.raises(S3Error) as caught:
            OperationIndex(OPERATIONS).find(_request(method, query), address)
        not_implemented = (name, address) in NOT_IMPLEMENTED
        expected = "NotImplemented" if not_implemented else "MethodNotAllowed"
        assert caught.value.s3_code == expected


@pytest.mark.parametrize("query", ["acl=x", "tagging=x", "uploadId=x&acl", "delete&acl"])
def test_a_sub_resource_with_a_value_counts_too(query: str) -> None:
    for method in ("PUT", "DELETE", "POST"):
        with pytest.raises(S3Error):
            OperationIndex(OPERATIONS).find(_request(method, query), KEY)


def test_a_request_names_one_host() -> None:
    scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": [(b"host", b"a")]}
    assert request_of(scope).header(b"host") == "a"
    for other in (b"a", b"b"):
        with pytest.raises(S3Error) as caught:
            request_of({**scope, "headers": [(b"host", b"a"), (b"host", other)]})
        assert caught.value.s3_code == "InvalidRequest"


def test_parameters_that_say_how_are_no_sub_resources() -> None:
    request = _request("GET", "x-id=GetObject&response-content-type=a&versionId=null&other=1")
    assert marks_of(request, Level.KEY) == frozenset()
    assert marks_of(_request("GET", "partNumber=1"), Level.KEY) == frozenset()
    assert marks_of(_request("PUT", "partNumber=1"), Level.KEY) == {"partNumber"}
    assert marks_of(_request("GET", "list-type=2&prefix="), Level.BUCKET) == {"list-type"}
    assert marks_of(_request("GET", "prefix=main%2F"), Level.BUCKET) == {"prefix/"}
    assert marks_of(_request("GET", "uploads&prefix=main%2F"), Level.BUCKET) == {"uploads"}
    copy = {"x-amz-copy-source": "/a/b/c"}
    assert marks_of(_request("PUT", "", copy), Level.KEY) == {"x-amz-copy-source"}
    assert marks_of(_request("GET", "", copy), Level.KEY) == frozenset()


def test_a_declaration_that_contradicts_itself_is_refused() -> None:
    def endpoint(call: S3Call) -> Answer:
        """An endpoint."""
        return Answer(200)

    def silent(call: S3Call) -> Answer:
        return Answer(200)

    with pytest.raises(TypeError, match="docstring"):
        operation("A", "GET", Level.KEY, permissions=(READ_OBJECT,))(silent)
    with pytest.raises(TypeError, match="permissions"):
        operation("A", "GET", Level.KEY, permissions=())(endpoint)
    with pytest.raises(TypeError, match="codes"):
        operation("A", "GET", Level.KEY, permissions=(READ_OBJECT,), errors=("X",))(endpoint)
    with pytest.raises(TypeError, match="marks"):
        operation("A", "GET", Level.KEY, "x", permissions=(READ_OBJECT,))(endpoint)


def test_names_and_requests_of_operations_are_their_own() -> None:
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)
    OperationIndex(OPERATIONS)


@pytest.mark.parametrize(
    ("header", "query", "signed"),
    [
        ("AWS4-HMAC-SHA256 x", "", True),
        ("aws4-ecdsa-p256-sha256 x", "", True),
        ("AWS key:signature", "", True),
        ("Basic x", "", False),
        ("AWSOME x", "", False),
        ("", "X-Amz-Algorithm=x", True),
        ("", "a=b&X-Amz-Credential=", True),
        ("", "AWSAccessKeyId=x", True),
        ("", "a=X-Amz-Algorithm", False),
        ("", "X-Amz-Date=1", False),
    ],
)
def test_a_signature_is_recognised(header: str, query: str, signed: bool) -> None:
    lines = [(b"authorization", header.encode())] if header else []
    assert is_signed(lines, query.encode()) is signed
