"""Imports: objects of this machine below an import root become paths, as one commit."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Client, Served, ended


def _start(client: Client, repo: str, *paths: dict[str, str], **commit: Any) -> Any:
    where = f"/repositories/{repo}/branches/main/import"
    body = {"paths": list(paths), "commit": {"message": "imported", **commit}}
    return client.send("POST", where, body=body)


def _ended(client: Client, repo: str, job: str) -> Any:
    return ended(client, f"/repositories/{repo}/branches/main/import", "completed", id=job)


@pytest.fixture
def source(import_root: Path, repo: str) -> Path:
    folder = import_root / repo
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"a")
    (folder / "sub" / "b c").write_bytes(b"bc")
    return folder


def test_a_folder_is_imported(client: Client, repo: str, source: Path) -> None:
    path = {"type": "common_prefix", "path": f"local://{source}/", "destination": "in"}
    started = _start(client, repo, path, metadata={"k": "v"})
    assert started.status == 202
    found = _ended(client, repo, started.json["id"])
    assert found["completed"]
    assert found["ingested_objects"] == 2
    assert found["commit"]["message"] == "imported"
    assert found["commit"]["metadata"]["k"] == "v"
    assert found["metarange_id"] == found["commit"]["meta_range_id"]
    assert found["update_time"].endswith("Z")
    listed = client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    assert [line["path"] for line in listed] == ["in/a", "in/sub/b c"]
    assert listed[0]["physical_address"] == f"local://{source}/a"
    where = f"/repositories/{repo}/refs/main/objects"
    assert client.send("GET", where, {"path": "in/sub/b c"}).body == b"bc"
    cancel = f"/repositories/{repo}/branches/main/import"
    assert client.send("DELETE", cancel, {"id": started.json["id"]}).status == 409


def test_one_object_is_imported(client: Client, repo: str, source: Path) -> None:
    (source / "ab").write_bytes(b"not this one")
    path = {"type": "object", "path": f"local://{source}/a", "destination": "one"}
    started = _start(client, repo, path)
    assert _ended(client, repo, started.json["id"])["ingested_objects"] == 1
    listed = client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    assert [line["path"] for line in listed] == ["one"]


def test_what_lies_outside_is_not_imported(live: Served, repo: str, source: Path) -> None:
    (source / "link").symlink_to("/etc")
    (source / "file").symlink_to("/etc/passwd")
    outside = [
        "local:///etc/",
        f"local://{source}/../../../etc/",
        f"local://{source}/link/",
        f"local://{live.store}/",
        f"local://{repo}/x/data/",
        "s3://bucket/x/",
        "local://",
        "nonsense",
        "",
    ]
    for path in outside:
        wanted = {"type": "common_prefix", "path": path, "destination": "i/"}
        reply = _start(live.client, repo, wanted)
        assert reply.status == 400, path
        assert "invalid import source" in reply.message
    for path in (f"local://{source}/file", f"local://{source}/none", "local:///etc/passwd"):
        wanted = {"type": "object", "path": path, "destination": "i"}
        assert _start(live.client, repo, wanted).status == 400, path


def test_an_imported_object_is_checked_again_when_it_is_read(
    client: Client, repo: str, source: Path
) -> None:
    path = {"type": "common_prefix", "path": f"local://{source}/", "destination": ""}
    _ended(client, repo, _start(client, repo, path).json["id"])
    (source / "a").unlink()
    (source / "a").symlink_to("/etc/passwd")
    where = f"/repositories/{repo}/refs/main/objects"
    assert client.send("GET", where, {"path": "a"}).status in (400, 404, 410)


def test_an_import_can_be_cancelled(client: Client, repo: str, source: Path) -> None:
    for number in range(300):
        (source / f"f{number}").write_bytes(b"")
    path = {"type": "common_prefix", "path": f"local://{source}/", "destination": ""}
    job = _start(client, repo, path).json["id"]
    where = f"/repositories/{repo}/branches/main/import"
    statuses = [client.send("DELETE", where, {"id": job}).status for _ in range(2)]
    assert statuses in ([204, 204], [409, 409], [204, 409])
    found = _ended(client, repo, job)
    assert found["completed"] == (statuses[0] == 409)
    if not found["completed"]:
        assert "Canceled" in found["error"]["message"]


def test_an_import_is_found_on_its_own_branch_only(client: Client, repo: str, source: Path) -> None:
    new = {"name": "mine", "source": "main"}
    assert client.send("POST", f"/repositories/{repo}/branches", body=new).status == 201
    path = {"type": "common_prefix", "path": f"local://{source}/", "destination": ""}
    job = _start(client, repo, path).json["id"]
    where = f"/repositories/{repo}/branches/mine/import"
    for method in ("GET", "DELETE"):
        reply = client.send(method, where, {"id": job})
        assert (reply.status, reply.json) == (404, {"message": "not found"})
    assert _ended(client, repo, job)["completed"]


def test_unknown_jobs(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/import"
    for method in ("GET", "DELETE"):
        reply = client.send(method, where, {"id": "none"})
        assert (reply.status, reply.json) == (404, {"message": "not found"})
