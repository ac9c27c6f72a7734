"""What every S3 request that writes answers on a protected branch and in a read-only repository.

The requests come from the table of operations.  The table of docs/reference/branch-protection.md is
measured here.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.gateway.route import OPERATIONS
from tests.api.serving import Reply
from tests.gateway.serving import Gateway, S3Client, code_of
from tests.gateway.test_authorization import SAMPLES
from tests.gateway.test_uploads import begun, completion

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "branch-protection.md"
WRITING = {
    operation.name: operation
    for operation in OPERATIONS
    if operation.method not in ("GET", "HEAD") and operation.name != "CreateBucket"
}
ERRORS = (b"ErrWriteToProtectedBranch", b"ErrReadOnlyRepository")


class Place(NamedTuple):
    """A repository with the object `main/a`, and an upload of `main/new` with one part."""

    gateway: Gateway
    repo: str
    upload: str
    completion: bytes

    def send(self, name: str) -> Reply:
        sample, s3 = SAMPLES[name], self.gateway.s3
        query = {key: self.upload if key == "uploadId" else it for key, it in sample.query.items()}
        headers = {key: it.format(self.repo) for key, it in sample.headers.items()}
        body = self.completion if name == "CompleteMultipartUpload" else sample.body
        target = sample.target.format(self.repo)
        return s3.send(WRITING[name].method, target, query, body=body, headers=headers)

    @property
    def keys(self) -> list[str]:
        found = self.gateway.boto().list_objects_v2(Bucket=self.repo, Prefix="main/")
        return [line["Key"] for line in found.get("Contents", ())]


def _place(gateway: Gateway, boto: Any) -> Place:
    repo = gateway.live.fresh_repository()
    assert gateway.live.client.upload(repo, "a", b"x").status == 201
    upload = begun(boto, repo, "main/new")
    part = boto.upload_part(**upload, PartNumber=1, Body=b"part")
    return Place(gateway, repo, upload["UploadId"], completion(part["ETag"]))


def _read_only(gateway: Gateway) -> Place:
    send, repo = gateway.live.client.send, "closed-to-s3"
    body = {"name": repo, "storage_namespace": f"local://{repo}/x", "read_only": True}
    assert send("POST", "/repositories", body=body).status in (201, 409)
    query = {"path": "a", "force": "true"}
    objects = f"/repositories/{repo}/branches/main/objects"
    assert send("POST", objects, query, body=b"x").status == 201
    return Place(gateway, repo, "u", completion("x"))


def _said(reply: Reply) -> str:
    """The answer as the page has it; of a batch, the error of its one key."""
    for code in ERRORS:
        if reply.status == 200 and code in reply.body:
            return f"200, `{code.decode()}` for the key"
    return f"{reply.status} `{code_of(reply)}`" if reply.status >= 400 else "allowed"


@pytest.mark.parametrize("name", WRITING)
def test_every_request_is_open_without_rules(served_gateway: Gateway, boto: Any, name: str) -> None:
    place = _place(served_gateway, boto)
    assert _said(place.send(name)) == "allowed"


def test_the_page_says_what_every_request_answers(
    served_gateway: Gateway, s3: S3Client, boto: Any
) -> None:
    """Requests with the same answers stand in one line."""
    requests: dict[str, list[str]] = {}
    for name in WRITING:
        place, closed = _place(served_gateway, boto), _read_only(served_gateway)
        rules = f"/repositories/{place.repo}/settings/branch_protection"
        body = [{"pattern": "main"}]
        assert served_gateway.live.client.send("PUT", rules, body=body).status == 204
        answers = [_said(place.send(name)), _said(closed.send(name))]
        assert place.keys == closed.keys == ["main/a"], name
        requests.setdefault(" | ".join(answers), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {answers} |" for answers, names in requests.items()]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    start = page.index("| S3 request | protected branch | read-only repository |") + 2
    assert page[start : page.index("", start)] == lines, "\n".join(["", *lines])
