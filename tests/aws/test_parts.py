"""Uploads in parts through the API over S3: parts go to the storage, by the URLs that it signs."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.api.app import Graveler
from graveler.api.local import open_service
from graveler.assembly.aws import StorageSigns
from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.requests import RetryPolicy
from graveler.engine.ports import Sequential
from graveler.http.service import Service, ServiceSettings
from graveler.kv.memory import MemoryStore
from simulator.service.process import basic
from tests.api.serving import listening
from tests.asgi import Ask, Door, Heard
from tests.aws.buckets import create_bucket
from tests.aws.conftest import PATIENT_S3
from tests.aws.test_s3_urls import send
from tests.cli.commands import Client

SECRET = bytes(range(32))
KEY = {
    "access_key_id": "AKIAIOSFDNN7EXAMPLEQ",
    "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
SETTINGS = ServiceSettings(blockstore_type="s3", presigns=True, presigns_parts=True)
MAIN = "/repositories/lake/branches/main"
BEGIN = MAIN + "/staging/pmpu?path=n"


class OnS3(NamedTuple):
    """A service whose objects are in S3."""

    service: Service
    door: Door
    blocks: S3Blocks
    namespace: str

    def begun(self, parts: int) -> dict[str, Any]:
        heard = self.door.send(Ask("POST", f"{BEGIN}&parts={parts}"))
        assert heard.status == 201, heard
        found: dict[str, Any] = heard.json
        return found

    def asked(self, method: str, begun: dict[str, Any], rest: str = "", **more: Any) -> Heard:
        target = f"{MAIN}/staging/pmpu/{begun['upload_id']}{rest}?path=n"
        body = {"physical_address": begun["physical_address"]} | more
        return self.door.send(Ask.json(method, target, body))

    def objects(self) -> list[str]:
        """Addresses of everything but the repository's own files."""
        lines = self.blocks.list(f"{self.namespace}/data/", "", 100).lines
        return [line.address for line in lines]


@pytest.fixture
def served(session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path) -> Iterator[OnS3]:
    name = fresh_name()
    create_bucket(session, name)
    clock, ids = SystemClock(), SystemIds()
    blocks = retrying_blocks(S3Blocks(session, clock, [name], PATIENT_S3), clock, RetryPolicy())
    ranges = SstRangeStore(StoredFiles(blocks))
    ports = ports_of(Drivers(MemoryStore(), blocks, ranges, clock, ids, Sequential()), SECRET)
    service = open_service(ports, StorageSigns(), SECRET, SETTINGS)
    loop = asyncio.new_event_loop()
    headers = {"Authorization": basic(KEY["access_key_id"], KEY["secret_access_key"])}
    headers |= {"Host": "localhost", "X-Graveler-Setup-Token": service.auth.setup_token}
    door = Door(Graveler().use(service), loop, headers)
    namespace = f"s3://{name}/x"
    repository = {"name": "lake", "storage_namespace": namespace}
    try:
        for target, body in (
            ("/setup_lakefs", {"username": "admin", "key": KEY}),
            ("/repositories", repository),
        ):
            assert door.send(Ask.json("POST", target, body)).status < 300
        yield OnS3(service, door, blocks, namespace)
    finally:
        service.pools.close()
        loop.close()


def test_parts_that_were_put_by_urls_become_an_object(served: OnS3) -> None:
    begun = served.begun(1)
    one = send("PUT", begun["presigned_urls"][0], b"a" * (5 << 20))
    more = served.asked("PUT", begun, "/parts/2")
    two = send("PUT", more.json["presigned_url"], b"end")
    assert (one[0], two[0]) == (200, 200)
    parts = [
        {"part_number": number, "etag": f'"{part[2]}"'} for number, part in enumerate((one, two), 1)
    ]
    done = served.asked("PUT", begun, parts=parts, user_metadata={"k": "v"})
    assert done.status == 200, done
    assert done.json["size_bytes"] == (5 << 20) + 3
    assert done.json["metadata"] == {"k": "v"}
    stat = served.door.get("/repositories/lake/refs/main/objects/stat?path=n")
    assert stat["physical_address"] == begun["physical_address"]
    assert stat["checksum"] == done.json["checksum"]
    ask = Ask("GET", "/repositories/lake/refs/main/objects?path=n", (), {"Range": "bytes=-4"})
    assert served.door.send(ask).body == b"aend"
    again = served.asked("PUT", begun, parts=parts)
    assert (again.status, again.json["size_bytes"]) == (200, (5 << 20) + 3)


def test_what_is_given_up_leaves_nothing(served: OnS3) -> None:
    begun = served.begun(1)
    url = begun["presigned_urls"][0]
    etag = send("PUT", url, b"part")[2]
    assert served.asked("DELETE", begun).status == 204
    assert served.asked("DELETE", begun).status == 204
    parts = [{"part_number": 1, "etag": etag}]
    assert served.asked("PUT", begun, parts=parts).status == 404
    assert send("PUT", url, b"part")[0] == 404
    assert served.objects() == []
    assert served.door.send(Ask("GET", "/repositories/lake/refs/main/objects?path=n")).status == 404


def test_an_upload_is_good_for_its_address_alone(served: OnS3) -> None:
    mine, other = served.begun(1), served.begun(0)
    etag = send("PUT", mine["presigned_urls"][0], b"part")[2]
    parts = [{"part_number": 1, "etag": etag}]
    crossed = mine | {"physical_address": other["physical_address"]}
    assert served.asked("PUT", crossed, parts=parts).status == 404
    foreign = mine | {"physical_address": f"{served.namespace}/data/x"}
    assert served.asked("PUT", foreign, parts=parts).status == 400
    assert served.asked("PUT", mine, parts=[{"part_number": 1, "etag": "x"}]).status == 400
    assert served.objects() == []
    assert served.asked("PUT", mine, parts=parts).status == 200


@pytest.mark.parametrize("length", [1, 9 << 20], ids=["put", "parts"])
def test_an_upload_is_kept_as_asked(served: OnS3, length: int) -> None:
    target = MAIN + "/objects?path=k&storageClass=STANDARD_IA"
    assert served.door.send(Ask("POST", target, (b"k" * length,))).status == 201
    underlying = "/repositories/lake/refs/main/objects/underlyingProperties?path={}"
    assert served.door.get(underlying.format("k")) == {"storage_class": "STANDARD_IA"}
    assert served.door.send(Ask("POST", MAIN + "/objects?path=p", (b"p",))).status == 201
    assert served.door.get(underlying.format("p")) == {"storage_class": None}
    for wrong in ("standard", "A%20B", "X" * 65, "A%0D%0Ax-amz-acl:public-read"):
        target = f"{MAIN}/objects?path=w&storageClass={wrong}"
        assert served.door.send(Ask("POST", target, (b"w",))).status == 400
    assert len(served.objects()) == 2


def test_a_bucket_that_is_not_ours_is_no_namespace(served: OnS3) -> None:
    body = {"name": "other", "storage_namespace": "s3://no-such-bucket/y"}
    heard = served.door.send(Ask.json("POST", "/repositories", body))
    expected = "failed to create repository: failed to access storage"
    assert (heard.status, heard.json["message"]) == (400, expected)


def test_the_configuration_says_so(served: OnS3) -> None:
    storage = served.door.get("/config")["storage_config"]
    assert storage["pre_sign_multipart_upload"] is True
    assert storage["default_namespace_prefix"] == ""


def test_the_client_uploads_a_large_file_in_parts(
    served: OnS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    file, copy = tmp_path / "big", tmp_path / "copy"
    with file.open("wb") as handle:
        for number in range(5):
            handle.seek(number * (16 << 20))
            handle.write(b"part%d" % number)
    user = Client(tmp_path / "home", monkeypatch)
    with listening(served.service) as (client, _):
        user.know(client.url)
        order = ("upload", str(file), "lake/main/big", "--meta", "k=v", "--checksum", "--json")
        done = user.run(*order)
        assert done.code == 0, done
        stats = json.loads(user.run("stat", "lake/main/big", "--json").out)
        assert stats["size_bytes"] == file.stat().st_size and stats["metadata"] == {"k": "v"}
        assert stats["checksum"].endswith("-5")
        assert json.loads(user.run(*order).out)["graveler"]["same"] == 1
        assert user.run("download", "lake/main/big", str(copy)).code == 0
    assert copy.read_bytes() == file.read_bytes()
