"""Objects staged by an address that the caller names, and files of the repository by their ids."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Client, Reply, Served

SAID: dict[str, Any] = {"checksum": "c", "size_bytes": 3}


def _stage(client: Client, repo: str, path: str, address: str, **more: Any) -> Reply:
    body = SAID | {"physical_address": address} | more
    where = f"/repositories/{repo}/branches/main/objects"
    return client.send("PUT", where, {"path": path}, body=body)


def _there(client: Client, repo: str) -> list[str]:
    listed = client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json
    return [line["path"] for line in listed["results"]]


def _handed(client: Client, repo: str, path: str) -> str:
    where = f"/repositories/{repo}/branches/main/staging/backing"
    address: str = client.send("GET", where, {"path": path}).json["physical_address"]
    return address


def test_an_object_outside_is_staged_where_it_lies(
    client: Client, repo: str, import_root: Path
) -> None:
    (import_root / "one").write_bytes(b"abc")
    address = f"local://{import_root}/one"
    staged = _stage(client, repo, "a", address, mtime=1_600_000_000, metadata={"k": "v"})
    assert staged.status == 201
    assert staged.json == {
        "path": "a",
        "path_type": "object",
        "physical_address": address,
        "checksum": "c",
        "size_bytes": 3,
        "mtime": 1_600_000_000,
        "content_type": "application/octet-stream",
    }
    objects = f"/repositories/{repo}/refs/main/objects"
    assert client.send("GET", objects, {"path": "a"}).body == b"abc"
    stat = client.send("GET", objects + "/stat", {"path": "a"}).json
    assert stat["metadata"] == {"k": "v"}


def test_names_of_the_namespace_that_are_nobodys_may_be_staged(client: Client, repo: str) -> None:
    inside = f"local://{repo}/x/data/zzz"
    staged = _stage(client, repo, "a", inside, content_type="text/x")
    assert (staged.status, staged.json["physical_address"]) == (201, inside)
    assert staged.json["content_type"] == "text/x"


def test_what_was_handed_out_for_a_path_is_staged_there_alone(live: Served, repo: str) -> None:
    address = _handed(live.client, repo, "a")
    client = live.client
    assert "no object" in _stage(client, repo, "a", address).message
    live.embedded.ports.blocks.put(address, [b"abcd"])
    assert "size_bytes" in _stage(client, repo, "a", address).message
    live.embedded.ports.blocks.put(address, [b"abc"])
    assert _stage(client, repo, "b", address).status == 400
    assert _stage(client, repo, "a", address).status == 201
    assert _there(client, repo) == ["a"]


def test_addresses_that_are_denied(live: Served, repo: str, import_root: Path) -> None:
    client, other = live.client, live.fresh_repository()
    client.upload(other, "secret", b"abc")
    client.upload(repo, "a", b"abc")
    stat = "/repositories/{}/refs/main/objects/stat"
    secret = client.send("GET", stat.format(other), {"path": "secret"}).json["physical_address"]
    own = client.send("GET", stat.format(repo), {"path": "a"}).json["physical_address"]
    for address in (
        secret,  # another repository's
        secret.replace("local://", "LOCAL://"),
        f"local://{other}",
        own,  # an object of ours that was not handed out: it may be about to be collected
        f"local://{repo}/x/_graveler/gc/x",
        f"local://{repo}/x/_lakefs/dummy",
        f"local://{repo}/x/_lakefs/{'0' * 64}",
        f"local://{repo}/x",
        f"local://{repo}/x/",
        f"local://{repo}/x/data/",
        f"local://{repo}//x/data/z",
        f"local://{repo}/x/../../{other}/x/data/z",
        f"local://{import_root}/none",
        "local:///etc/passwd",
        "local://elsewhere/none",
        "s3://other-bucket/key",
        "http://169.254.169.254/latest",
        "data/x",
        "",
    ):
        assert _stage(client, repo, "b", address).status == 400, address
    assert _there(client, repo) == ["a"]


def test_links_are_refused_in_the_words_that_clients_know(live: Served, repo: str) -> None:
    client = live.client
    where = f"/repositories/{repo}/branches/main/staging/backing"
    client.upload(repo, "a", b"abc")
    written = _handed(client, repo, "a")
    live.embedded.ports.blocks.put(written, [b"abc"])
    for address, headers, expected in (
        (f"local://{repo}/x/data/x/y", {}, "address is not signed: link address invalid"),
        (_handed(client, repo, "b"), {}, "invalid address signature: invalid address"),
        (written, {"If-None-Match": "*"}, "Precondition failed"),
    ):
        body = SAID | {"staging": {"physical_address": address}}
        reply = client.send("PUT", where, {"path": "a"}, body=body, headers=headers)
        assert (reply.status, reply.message) == (412 if headers else 400, expected)


@pytest.mark.parametrize("mtime", [0, 1_600_000_000])
def test_a_link_and_an_object_by_address_have_the_time_that_the_client_names(
    live: Served, repo: str, mtime: int
) -> None:
    """0 is the epoch."""
    client = live.client
    written = _handed(client, repo, "a")
    live.embedded.ports.blocks.put(written, [b"abc"])
    where = f"/repositories/{repo}/branches/main/staging/backing"
    body = SAID | {"staging": {"physical_address": written}, "mtime": mtime}
    linked = client.send("PUT", where, {"path": "a"}, body=body)
    staged = _stage(client, repo, "b", f"local://{repo}/x/data/zzz", mtime=mtime)
    assert (linked.json["mtime"], staged.json["mtime"]) == (mtime, mtime)
    listed = client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    assert [line["mtime"] for line in listed] == [mtime, mtime]


@pytest.mark.parametrize("mtime", [-1, 1 << 62])
def test_a_link_with_a_time_that_no_record_holds_is_refused(
    client: Client, repo: str, mtime: int
) -> None:
    where = f"/repositories/{repo}/branches/main/staging/backing"
    staging = {"physical_address": _handed(client, repo, "a")}
    reply = client.send(
        "PUT", where, {"path": "a"}, body=SAID | {"staging": staging, "mtime": mtime}
    )
    assert (reply.status, "mtime" in reply.message) == (400, True)


def test_no_condition_is_ignored(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/objects"
    body = SAID | {"physical_address": f"local://{repo}/x/data/zzz"}
    for headers in ({"If-None-Match": "*"}, {"If-None-Match": "x"}, {"If-Match": "x"}):
        reply = client.send("PUT", where, {"path": "a"}, body=body, headers=headers)
        assert reply.status == 501
    assert _there(client, repo) == []


def test_no_branch_and_no_room_for_nonsense(client: Client, repo: str) -> None:
    body = SAID | {"physical_address": f"local://{repo}/x/data/zzz"}
    none = f"/repositories/{repo}/branches/none/objects"
    assert client.send("PUT", none, {"path": "a"}, body=body).status == 404
    where = f"/repositories/{repo}/branches/main/objects"
    for wrong in ({"size_bytes": -1}, {"checksum": ""}, {"mtime": -1}, {"mtime": 1 << 62}):
        assert client.send("PUT", where, {"path": "a"}, body=body | wrong).status == 400
    assert client.send("PUT", where, body=body).status == 400
    assert _there(client, repo) == []


@pytest.fixture
def metarange(client: Client, repo: str) -> str:
    """The metarange of a commit of one object."""
    client.upload(repo, "a", b"abc")
    commits = f"/repositories/{repo}/branches/main/commits"
    found: str = client.send("POST", commits, body={"message": "m"}).json["meta_range_id"]
    return found


def test_files_of_the_repository_are_read_by_id(
    client: Client, repo: str, live: Served, metarange: str
) -> None:
    at = f"/repositories/{repo}/metadata/object"
    whole = client.send("GET", f"{at}/meta_range/{metarange}")
    stored = live.service.ports.blocks.get(f"local://{repo}/x/_lakefs/{metarange}")
    assert (whole.status, whole.body) == (200, b"".join(stored.chunks))
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["x-content-type-options"] == "nosniff"
    signed = client.send("GET", f"{at}/meta_range/{metarange}", {"presign": "true"})
    assert (signed.status, signed.body) == (302, b"")
    target = signed.headers["location"].partition(client.url)[2]
    assert Client(client.host, client.port, "").raw("GET", target).body == whole.body


def test_other_files_are_not(client: Client, repo: str, live: Served, metarange: str) -> None:
    at = f"/repositories/{repo}/metadata/object"
    gone = client.send("GET", f"{at}/range/{'0' * 64}")
    assert gone.status == 410
    assert client.send("GET", f"{at}/range/{'0' * 64}", {"presign": "true"}).status == 410
    assert client.send("GET", f"{at}/thing/{metarange}").status == 400
    for name in ("dummy", "..", "%2e%2e%2fdata", metarange.upper(), metarange[1:]):
        assert client.raw("GET", f"/api/v1{at}/range/{name}").status == 400, name
    elsewhere = f"/repositories/{live.fresh_repository()}/metadata/object"
    assert client.send("GET", f"{elsewhere}/meta_range/{metarange}").status == 410
