"""Repositories as buckets, through a real server."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.gateway.serving import DOMAIN, Gateway, S3Client, code_of, exchange


def test_boto_lists_and_probes_buckets(boto: Any, repo: str) -> None:
    names = [bucket["Name"] for bucket in boto.list_buckets()["Buckets"]]
    assert repo in names
    assert boto.head_bucket(Bucket=repo)["BucketRegion"] == "us-east-1"
    assert boto.get_bucket_location(Bucket=repo)["LocationConstraint"] is None
    assert "Status" not in boto.get_bucket_versioning(Bucket=repo)


def test_buckets_are_listed_in_pages(served_gateway: Gateway, boto: Any) -> None:
    made = sorted(served_gateway.live.fresh_repository() for _ in range(3))
    pages = boto.get_paginator("list_buckets").paginate(
        Prefix="repo-", PaginationConfig={"PageSize": 1}
    )
    listed = [bucket["Name"] for page in pages for bucket in page["Buckets"]]
    assert listed == sorted(listed)
    assert set(made) <= set(listed)
    assert all(len(page["Buckets"]) <= 1 for page in pages)


@pytest.mark.parametrize("count", ["0", "-1", "x", "1" * 30])
def test_a_count_that_is_none_is_refused(s3: S3Client, count: str) -> None:
    reply = s3.send("GET", "/", {"max-buckets": count})
    assert (reply.status, code_of(reply)) == (400, "InvalidArgument")


def test_a_token_of_a_page_of_buckets_that_is_none_is_refused(s3: S3Client, repo: str) -> None:
    for token in (repo, "eA", "ü", "A" * 500):
        reply = s3.send("GET", "/", {"continuation-token": token})
        assert (reply.status, code_of(reply)) == (400, "InvalidArgument")


def test_an_unknown_bucket_is_not_found_and_head_has_no_body(s3: S3Client, boto: Any) -> None:
    reply = s3.send("HEAD", "/no-such-repository")
    assert (reply.status, reply.body) == (404, b"")
    assert reply.headers["x-amz-request-id"] == reply.headers["x-request-id"]
    with pytest.raises(ClientError) as caught:
        boto.get_bucket_location(Bucket="no-such-repository")
    assert caught.value.response["Error"]["Code"] == "NoSuchBucket"
    for name in ("..", "UPPER", "a", "a" * 64):
        assert code_of(s3.raw("GET", f"/{name}", {"location": ""})) == "NoSuchBucket"


def test_a_bucket_can_not_be_created_or_deleted(s3: S3Client, repo: str) -> None:
    assert code_of(s3.send("PUT", f"/{repo}")) == "BucketAlreadyExists"
    assert s3.send("PUT", "/a-new-one").status == 501
    assert s3.send("DELETE", f"/{repo}").status == 405
    assert s3.send("HEAD", f"/{repo}").status == 200


def test_the_host_or_a_signature_chooses_the_gateway(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    plain = served_gateway.live.client

    def anonymous(method: str, target: str, host: str) -> tuple[int, str]:
        reply = exchange(s3.host, s3.port, method, f"http://x{target}", {"Host": host})
        return reply.status, reply.headers.get("content-type", "")

    assert anonymous("GET", "/", "other.test")[1].startswith("text/html")
    assert anonymous("GET", "/", DOMAIN) == (403, "application/xml")
    assert anonymous("GET", "/main/x", f"{repo}.{DOMAIN}:80") == (403, "application/xml")
    assert anonymous("GET", f"/api/v1/repositories/{repo}", DOMAIN)[0] == 403
    assert anonymous("GET", f"/{repo}?X-Amz-Credential=x", "other.test") == (400, "application/xml")
    assert anonymous("GET", f"/{repo}?AWSAccessKeyId=x", "other.test") == (400, "application/xml")
    assert plain.send("GET", f"/repositories/{repo}").status == 200
    assert s3.send("HEAD", "/", headers={"Host": f"{repo}.{DOMAIN}"}).status == 200


def test_a_parameter_that_occurs_twice_is_refused(s3: S3Client, repo: str) -> None:
    reply = s3.raw("GET", f"/{repo}?location&location=x")
    assert code_of(reply) == "InvalidArgument"
