"""What happens before a body is received, and what an answer has beside its body."""

import socket

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from graveler.auth.credentials import NewCredential
from tests.api.serving import ADMINISTRATOR
from tests.gateway.serving import Gateway, S3Client
from tests.waiting import PATIENCE_SECONDS, until

MIB = 1024 * 1024


def _head(s3: S3Client, path: str, key: NewCredential, **headers: str) -> bytes:
    """The head of a signed upload that waits for `100 Continue`."""
    url = f"http://{s3.host}:{s3.port}{path}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = AWSRequest("PUT", url, headers=named, data=b"body")
    S3SigV4Auth(Credentials(key.access_key_id, key.secret_access_key), "s3", "us-east-1").add_auth(
        request
    )
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    first = [f"PUT {path} HTTP/1.1", f"Host: {s3.host}:{s3.port}", "Content-Length: 4"]
    return "\r\n".join([*first, "Expect: 100-continue", *lines, "", ""]).encode()


def _told(s3: S3Client, head: bytes) -> bytes:
    """The first line that the server sends."""
    with socket.create_connection((s3.host, s3.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head)
        with connection.makefile("rb") as answer:
            first = answer.readline().strip()
            if b" 100 " in first:
                connection.sendall(b"body")
            return first


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("none/a", b"404"),
        ("main%40/a", b"405"),
        ("main/a?acl", b"501"),
        ("main/" + "a" * 1025, b"400"),
    ],
)
def test_a_body_that_would_be_refused_is_never_asked_for(
    s3: S3Client, repo: str, place: str, status: bytes
) -> None:
    told = _told(s3, _head(s3, f"/{repo}/{place}", ADMINISTRATOR))
    assert told.startswith(b"HTTP/1.1 " + status)


def test_a_body_of_an_unknown_caller_is_never_asked_for(s3: S3Client, repo: str) -> None:
    wrong = NewCredential(ADMINISTRATOR.access_key_id, "w" * 40)
    for path in (f"/{repo}/main/a", "/no-such-repository/main/a"):
        assert _told(s3, _head(s3, path, wrong)).startswith(b"HTTP/1.1 403")


def test_a_body_that_is_welcome_is_asked_for(s3: S3Client, repo: str) -> None:
    told = _told(s3, _head(s3, f"/{repo}/main/a", ADMINISTRATOR))
    assert told.startswith(b"HTTP/1.1 100")


def test_a_request_is_known_by_one_id_everywhere(served_gateway: Gateway, s3: S3Client) -> None:
    reply = s3.send("GET", "/no-such-repository", {"location": ""})
    request_id = reply.headers["x-amz-request-id"]
    assert f"<RequestId>{request_id}</RequestId>".encode() in reply.body
    assert reply.headers["x-request-id"] == request_id
    counted = 'operation="s3:GetBucketLocation",status="404"'
    metrics = served_gateway.live.service.metrics  # counts behind the answer
    until(lambda: any(counted in line for line in metrics.lines()), "the request is counted")


def test_a_client_that_sends_all_before_it_reads_is_told_why_it_was_denied(
    s3: S3Client, repo: str
) -> None:
    """The answer is there before the body; the server drops the body and does not reset the
    connection, which would lose the answer."""
    body = bytes(16 * MIB)
    wrong = S3Client(s3.host, s3.port, NewCredential(ADMINISTRATOR.access_key_id, "w" * 40))
    target = f"/{repo}/main/a"
    signed = wrong.signed("PUT", target, payload="UNSIGNED-PAYLOAD")
    lines = [f"PUT {target} HTTP/1.1", f"Host: {s3.host}:{s3.port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in signed.items()]
    with socket.create_connection((s3.host, s3.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        connection.sendall(body)
        with connection.makefile("rb") as answer:
            told = answer.read()
    assert told.startswith(b"HTTP/1.1 403") and told.endswith(b"</Error>")
    assert b"<Code>SignatureDoesNotMatch</Code>" in told


def test_a_client_whose_endpoint_is_that_of_the_api_is_told_the_right_one(
    served_gateway: Gateway, repo: str
) -> None:
    url = served_gateway.live.client.url
    boto = served_gateway.boto(endpoint=f"{url}/api/v1")
    for call, given in (
        (boto.list_buckets, {}),
        (boto.list_objects_v2, {"Bucket": repo}),
        (boto.get_object, {"Bucket": repo, "Key": "main/a"}),
        (boto.put_object, {"Bucket": repo, "Key": "main/a", "Body": b"x"}),
        (boto.delete_objects, {"Bucket": repo, "Delete": {"Objects": [{"Key": "main/a"}]}}),
        (boto.create_multipart_upload, {"Bucket": repo, "Key": "main/a"}),
    ):
        with pytest.raises(ClientError, match=f"The endpoint for S3 clients is {url}$") as told:
            call(**given)
        assert told.value.response["Error"]["Code"] == "InvalidRequest"


def test_a_repository_that_is_named_like_the_address_of_the_api_is_served(
    served_gateway: Gateway, s3: S3Client
) -> None:
    send = served_gateway.live.client.send
    body = {"name": "api", "storage_namespace": "local://api", "default_branch": "v1"}
    assert send("POST", "/repositories", body=body).status == 201
    try:
        assert s3.send("PUT", "/api/v1/a", body=b"x").status == 200
        assert s3.send("GET", "/api/v1/a").body == b"x"
    finally:
        assert send("DELETE", "/repositories/api").status == 204
