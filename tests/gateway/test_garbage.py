"""Requests of S3 clients leave no cycles, as those of the API (tests/api/test_garbage.py)."""

from collections.abc import Callable, Mapping

import pytest

from tests.api.garbage import left_by
from tests.gateway.serving import Gateway, S3Client

SENT: Mapping[str, Callable[[S3Client, str], int]] = {
    "PUT": lambda s3, repo: s3.send("PUT", f"/{repo}/main/a", body=b"a").status,
    "PUT, not a branch": lambda s3, repo: s3.send("PUT", f"/{repo}/none/a", body=b"a").status,
    "GET, absent": lambda s3, repo: s3.send("GET", f"/{repo}/main/none").status,
    "list": lambda s3, repo: s3.send("GET", f"/{repo}", {"prefix": "main/"}).status,
    "no operation": lambda s3, repo: s3.send("PUT", f"/{repo}/main/a", {"torrent": ""}).status,
    "deletion": lambda s3, repo: s3.send("DELETE", f"/{repo}/main/a").status,
}
STATUSES = {
    "PUT": 200,
    "PUT, not a branch": 404,
    "GET, absent": 404,
    "list": 200,
    "no operation": 405,
    "deletion": 204,
}


@pytest.mark.parametrize("name", SENT)
def test_a_request_leaves_no_cycle(served_gateway: Gateway, repo: str, name: str) -> None:
    statuses = set()

    def request(_: object) -> None:
        statuses.add(SENT[name](served_gateway.s3, repo))

    assert not left_by(served_gateway.live, request)
    assert statuses == {STATUSES[name]}
