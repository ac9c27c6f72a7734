"""The client of the benchmark sends what the gateway accepts, and measures nothing else."""

from pathlib import Path

import pytest

from benchmarks import gateway, s3
from benchmarks.load import Target, run
from tests.gateway.serving import Gateway

CONTENT = bytes(range(256)) * 2_000


@pytest.fixture
def target(served_gateway: Gateway) -> Target:
    client = served_gateway.s3
    return Target(client.host, client.port, client.key.access_key_id, client.key.secret_access_key)


def test_a_file_is_sent_and_received(target: Target, repo: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    path, length = f"/{repo}/main/large", len(CONTENT)
    head = s3.signed(target, "PUT", path, length=length, payload=s3.UNSIGNED)
    assert s3.send(target, head, file) > 0
    seconds, got = s3.receive(target, s3.signed(target, "GET", path))
    assert seconds > 0 and got == length
    wrong = s3.signed(target, "PUT", path, length=length, payload="0" * 64)
    with pytest.raises(RuntimeError, match="XAmzContentSHA256Mismatch"):
        s3.send(target, wrong, file)
    with pytest.raises(RuntimeError, match="404"):
        s3.receive(target, s3.signed(target, "GET", f"/{repo}/main/other"))


def test_requests_follow_each_other_on_a_connection(target: Target, repo: str) -> None:
    path = f"/{repo}/main/small"
    requests = [
        s3.signed(target, "PUT", path, body=b"x" * 64),
        s3.signed(target, "HEAD", path),  # its length is that of bytes that do not follow
        s3.signed(target, "GET", path),
        s3.signed(target, "GET", f"/{repo}", "list-type=2&max-keys=100&prefix=main%2F"),
    ]
    load = run(target, 1, [iter(requests)])
    assert load.statuses == {200: len(requests)}


def test_a_file_is_sent_to_the_api(target: Target, repo: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    where = f"/repositories/{repo}/branches/main/objects"
    assert s3.send(target, gateway.api_head(target, "POST", where, len(CONTENT)), file) > 0
    read = gateway.api_head(target, "GET", f"/repositories/{repo}/refs/main/objects")
    assert s3.receive(target, read)[1] == len(CONTENT)
