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
    assert code_of(s3.send("PUT", f"/{repo}")) == "BucketAlreadyOwnedByYou"
    for method, name, status, remedy in (
        ("PUT", "a-new-one", 501, b"graveler repo create"),
        ("DELETE", repo, 405, b"graveler repo delete"),
    ):
        reply = s3.send(method, f"/{name}")
        assert reply.status == status and remedy in reply.body
    assert s3.send("HEAD", f"/{repo}").status == 200


@pytest.mark.parametrize("query", ["policy", "versions", "tagging", "website", "encryption"])
def test_a_refusal_names_what_was_asked_for_and_not_lakefs(
    s3: S3Client, repo: str, query: str
) -> None:
    reply = s3.send("GET", f"/{repo}", {query: ""})
    assert (reply.status, code_of(reply)) == (405, "MethodNotAllowed")
    assert f"GET of a bucket with {query}".encode() in reply.body
    assert b"lakefs" not in reply.body.lower()


def test_the_region_is_told_without_a_signature(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    """The SDK for Go sends `HEAD` so, and takes the region from any answer.  Nothing tells whether
    the bucket exists."""

    def probe(target: str, host: str) -> tuple[int, str, bytes]:
        reply = exchange(s3.host, s3.port, "HEAD", f"http://x{target}", {"Host": host})
        return reply.status, reply.headers["x-amz-bucket-region"], reply.body

    for host in ("localhost", DOMAIN):
        for name in (repo, "no-such-repository", f"{repo}/"):
            assert probe(f"/{name}", host) == (403, "us-east-1", b"")
    for name in (repo, "no-such-repository"):
        assert probe("/", f"{name}.{DOMAIN}") == (403, "us-east-1", b"")
    for page in ("/", "/docs", "/metrics", "/healthcheck", "/_health", "/favicon.ico"):
        reply = exchange(s3.host, s3.port, "HEAD", f"http://x{page}", {"Host": "localhost"})
        assert "x-amz-bucket-region" not in reply.headers


def test_the_owner_of_the_buckets_is_the_caller(boto: Any, repo: str) -> None:
    assert boto.list_buckets()["Owner"]["ID"] == "administrator"


def test_owners_of_objects_are_named_on_request(boto: Any, repo: str) -> None:
    boto.put_object(Bucket=repo, Key="main/a", Body=b"x")
    for fetch in (True, False, True):
        page = boto.list_objects_v2(Bucket=repo, Prefix="main/", FetchOwner=fetch)
        owner = page["Contents"][0].get("Owner", {})
        assert owner.get("ID") == ("graveler" if fetch else None)


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
