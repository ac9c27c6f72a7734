"""A full device: refused with 507, nothing acknowledged is lost, and it goes on once there is room.

The device is played by a limit on the size of the files that the process may write, which can be
lowered and lifted while it runs; where it is allowed, by a small file system as well.
"""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.service import KEY, SECRET, Service, repository, run, serving

FULL = 507
Full = Callable[[Path], AbstractContextManager[tuple[str, Callable[[], None]]]]
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


@contextmanager
def _limited(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """What lets a process write next to nothing from its start on, and what ends that.  A full file
    system has room for the 40 bytes that rocksdict writes over."""
    yield "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, -1));", lambda: None


@contextmanager
def _filled(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """As `_limited`, with a small file system that is full."""
    with (folder / "ballast").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    yield "", (folder / "ballast").unlink


@pytest.fixture(params=[(signal.SIGKILL, _limited), (signal.SIGTERM, _filled)], ids=["limit", "fs"])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Full]]:
    """How a process ends, and what makes its device, the folder of the test, full then."""
    if request.param[1] is _limited:
        yield request.param
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield request.param
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_service_starts_on_a_full_device_and_serves_reads(
    tmp_path: Path, device: tuple[int, Full]
) -> None:
    end, full = device
    store, kept = tmp_path / "store", {}
    with serving(store) as service, service.client() as client:
        branch = repository(client)
        for number, size in enumerate((0, 100, 100_000, 2_000_000)):
            _put(client, branch, f"{number}", b"x" * size).raise_for_status()
            kept[f"{number}"] = b"x" * size
        client.post(f"{branch}/commits", json={"message": "before"}).raise_for_status()
        _put(client, branch, "staged", b"y").raise_for_status()
        kept["staged"] = b"y"
        service.end(end)
    with (
        full(tmp_path) as (prelude, make_room),
        serving(store, prelude=prelude) as service,
        service.client() as client,
    ):
        assert _all(client) == kept
        _check_writes_are_refused(client, branch)
        assert _all(client) == kept
        make_room()
        if not prelude:
            _put_again(client, branch, "after", b"z")
            kept["after"] = b"z"
        assert service.end()[0] == 0
    with serving(store) as service, service.client() as client:
        assert _all(client) == kept
        client.post(f"{branch}/commits", json={"message": "after"}).raise_for_status()


def _check_writes_are_refused(client: httpx.Client, branch: str) -> None:
    repo = branch.rpartition("/branches/")[0]
    for size in (10, 100_000, 2_000_000):
        assert _put(client, branch, "new", b"z" * size).status_code == FULL
    writes: list[tuple[str, str, object]] = [
        ("POST", f"{branch}/commits", {"message": "full"}),
        ("POST", f"{repo}/branches", {"name": "other", "source": "main"}),
        ("POST", f"{repo}/tags", {"id": "tag", "ref": "main"}),
        ("PUT", branch, {"type": "reset"}),
        ("DELETE", f"{branch}/objects?path=1", None),
        ("POST", f"{branch}/objects/delete", {"paths": ["1", "2"]}),
        ("POST", f"{branch}/objects/copy?dest_path=copy", {"src_path": "2"}),
        ("POST", "/repositories", {"name": "other", "storage_namespace": "local://other/"}),
        ("POST", f"{repo}/dump", None),
        ("POST", "/auth/users", {"id": "ada"}),
        ("POST", "/auth/groups", {"id": "group"}),
    ]
    for method, path, body in writes:
        assert client.request(method, path, json=body).status_code == FULL, path
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    s3 = boto3.client(
        "s3",
        endpoint_url=str(client.base_url.copy_with(path="/")),
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
    )
    calls: list[Callable[[], object]] = [
        lambda: s3.put_object(Bucket="lake", Key="main/new", Body=b"z"),
        lambda: s3.put_object(Bucket="lake", Key="main/new", Body=b"z" * 2_000_000),
        lambda: s3.create_multipart_upload(Bucket="lake", Key="main/new"),
        lambda: s3.delete_object(Bucket="lake", Key="main/1"),
    ]
    for call in calls:
        with pytest.raises(ClientError) as failed:
            call()
        answer = failed.value.response
        code, status = answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]
        assert (code, status) == ("StorageFull", FULL)
    batch = s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "main/1"}]})
    assert [error["Code"] for error in batch["Errors"]] == ["StorageFull"]


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
