"""A full device: refused with 507, nothing acknowledged is lost, and it goes on once there is room.

The device is played by a limit on the size of the files that the process may write, which can be
lowered and lifted while it runs.
"""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.cli.service import Service, repository, run, serving

FULL = 507
# In the process that serves: a thread that sets the limit that it is told, and says so.
OBEDIENT = """
import resource, threading
def obey():
    with open({orders!r}) as orders, open({done!r}, "w") as done:
        for size in orders:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
            done.write("done\\n")
            done.flush()
threading.Thread(target=obey, daemon=True).start()
"""


@contextmanager
def limited(store: Path) -> Iterator[tuple[Service, Callable[[int], None]]]:
    """A service, and what sets how large its files may become."""
    pipes = [str(store.with_name(name)) for name in ("orders", "done")]
    for pipe in pipes:
        os.mkfifo(pipe)
    prelude = OBEDIENT.format(orders=pipes[0], done=pipes[1])
    with (
        serving(store, prelude=prelude) as service,
        open(pipes[0], "w") as orders,
        open(pipes[1]) as done,
    ):

        def limit(size: int) -> None:
            orders.write(f"{size}\n")
            orders.flush()
            assert done.readline() == "done\n"

        yield service, limit


def test_a_full_device_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with limited(store) as (service, limit), service.client() as client:
        branch = repository(client)
        kept = {}
        for number in range(20):
            _put(client, branch, f"before/{number}", b"x" * 100).raise_for_status()
            kept[f"before/{number}"] = b"x" * 100
        client.post(f"{branch}/commits", json={"message": "before"}).raise_for_status()

        limit(1)
        for number in range(5):
            assert _put(client, branch, f"full/{number}", b"y" * 100).status_code == FULL
        assert client.delete(f"{branch}/objects", params={"path": "before/0"}).status_code == FULL
        assert client.post(f"{branch}/commits", json={"message": "full"}).status_code in (FULL, 400)
        body = {"name": "other", "source": "main"}
        assert client.post("/repositories/lake/branches", json=body).status_code == FULL
        assert _all(client) == kept  # what is there can be read all the while

        limit(resource.RLIM_INFINITY)
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
