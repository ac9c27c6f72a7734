"""A full device: refused with 507, nothing acknowledged is lost, and it goes on once there is room.

The device is played by a limit on the size of the files that the process may write, which can be
lowered and lifted while it runs.
"""

import resource
from pathlib import Path

import httpx
import pytest

from tests.cli.service import Service, repository, run, serving

FULL = 507
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

prlimit = getattr(resource, "prlimit", None)
needs_prlimit = pytest.mark.skipif(prlimit is None, reason="the system has no prlimit")


def _limit(service: Service, size: int) -> None:
    assert prlimit is not None
    prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@needs_prlimit
def test_a_full_device_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store) as service, service.client() as client:
        branch = repository(client)
        kept = {}
        for number in range(20):
            _put(client, branch, f"before/{number}", b"x" * 100).raise_for_status()
            kept[f"before/{number}"] = b"x" * 100
        client.post(f"{branch}/commits", json={"message": "before"}).raise_for_status()

        _limit(service, 1)
        for number in range(5):
            assert _put(client, branch, f"full/{number}", b"y" * 100).status_code == FULL
        assert client.delete(f"{branch}/objects", params={"path": "before/0"}).status_code == FULL
        assert client.post(f"{branch}/commits", json={"message": "full"}).status_code in (FULL, 400)
        body = {"name": "other", "source": "main"}
        assert client.post("/repositories/lake/branches", json=body).status_code == FULL
        assert _all(client) == kept  # what is there can be read all the while

        _limit(service, resource.RLIM_INFINITY)
        _put_again(client, branch, "after", b"z")
        kept["after"] = b"z"
        assert _all(client) == kept
        client.post(f"{branch}/commits", json={"message": "after"}).raise_for_status()
        service.end()
    with serving(store) as service, service.client() as client:
        assert _all(client) == kept
        assert service.end()[0] == 0
    assert run("verify", "--store", str(store), "--objects").returncode == 0


def _put(client: httpx.Client, branch: str, path: str, body: bytes) -> httpx.Response:
    return client.post(f"{branch}/objects", params={"path": path}, content=body)


def _put_again(client: httpx.Client, branch: str, path: str, body: bytes) -> None:
    """The store tries once a second whether there is room again."""
    for _ in range(10_000):
        answer = _put(client, branch, path, body)
        if answer.status_code == 201:
            return
        assert answer.status_code == FULL
    raise AssertionError("the store did not notice that there is room again")


def _all(client: httpx.Client) -> dict[str, bytes]:
    listed = client.get("/repositories/lake/refs/main/objects/ls").json()["results"]
    where = "/repositories/lake/refs/main/objects"
    return {
        line["path"]: client.get(where, params={"path": line["path"]}).content for line in listed
    }
