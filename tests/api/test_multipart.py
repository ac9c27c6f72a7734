"""Uploads in parts whose bytes go to the storage: over the memory driver, which makes URLs too."""

import hashlib
from typing import Any

import pytest

from graveler.block.adapter import Part
from graveler.core.errors import NotFound
from tests.api.fault_lake import LAKE, MAIN
from tests.api.fault_world import Running, World, sound
from tests.api.serving import Client
from tests.asgi import Ask, Heard

BEGIN = MAIN + "/staging/pmpu?path={}&parts={}"


@pytest.fixture
def world(template: World) -> World:
    return template.copy()


@pytest.fixture
def running(world: World) -> Running:
    return world.serve(sound())


def _begun(running: Running, path: str = "n", parts: int = 2) -> dict[str, Any]:
    heard = running.send(Ask("POST", BEGIN.format(path, parts)))
    assert heard.status == 201, heard
    found: dict[str, Any] = heard.json
    return found


def _of(begun: dict[str, Any], rest: str = "", path: str = "n") -> str:
    return f"{MAIN}/staging/pmpu/{begun['upload_id']}{rest}?path={path}"


def _finished(
    running: Running, begun: dict[str, Any], *parts: Part, path: str = "n", **more: Any
) -> Heard:
    body = {
        "physical_address": begun["physical_address"],
        "parts": [{"part_number": each.number, "etag": f'"{each.etag}"'} for each in parts],
    }
    return running.send(Ask.json("PUT", _of(begun, path=path), body | more))


def _sent(world: World, begun: dict[str, Any], number: int, content: bytes) -> Part:
    at, upload = begun["physical_address"], begun["upload_id"]
    return world.blocks.put_part(at, upload, number, [content])


def test_parts_are_joined_and_linked(world: World, running: Running) -> None:
    begun = _begun(running)
    assert len(begun["presigned_urls"]) == 2
    assert begun["physical_address"].startswith("mem://lake/x/data/")
    one, two = _sent(world, begun, 1, b"one"), _sent(world, begun, 2, b"two")
    assert running.send(Ask("GET", f"{LAKE}/refs/main/objects?path=n")).status == 404
    done = _finished(running, begun, one, two, content_type="text/x", user_metadata={"k": "v"})
    assert done.status == 200, done
    assert done.json["size_bytes"] == 6
    assert done.json["content_type"] == "text/x"
    assert done.json["metadata"] == {"k": "v"}
    assert "mem://lake/x/" + done.json["physical_address"] == begun["physical_address"]
    assert running.send(Ask("GET", f"{LAKE}/refs/main/objects?path=n")).body == b"onetwo"
    at = {"physical_address": begun["physical_address"]}
    assert running.send(Ask.json("DELETE", _of(begun), at)).status == 404
    again = _finished(running, begun, one, two)  # its answer was lost
    assert (again.status, again.json["checksum"]) == (200, done.json["checksum"])


def test_without_a_number_there_are_no_urls(running: Running) -> None:
    heard = running.send(Ask("POST", MAIN + "/staging/pmpu?path=n"))
    assert heard.status == 201
    assert set(heard.json) == {"upload_id", "physical_address"}


def test_more_urls_one_by_one(running: Running) -> None:
    begun = _begun(running, parts=0)
    at = {"physical_address": begun["physical_address"]}
    heard = running.send(Ask.json("PUT", _of(begun, "/parts/3"), at))
    assert (heard.status, list(heard.json)) == (200, ["presigned_url"])
    assert "partNumber=3" in heard.json["presigned_url"]
    for number in ("0", "10001", "-1", "x", "1e3", "9" * 40, "%D9%A3"):
        assert running.send(Ask.json("PUT", _of(begun, f"/parts/{number}"), at)).status == 400


def _copied(running: Running, begun: dict[str, Any], number: object, **source: str) -> Heard:
    copied = {"repository": "lake", "ref": "main", "path": "a"} | source
    body = {"physical_address": begun["physical_address"], "copy_source": copied}
    return running.send(Ask.json("PUT", _of(begun, f"/parts/{number}/copy"), body))


def test_parts_are_copied_from_other_objects(world: World, running: Running) -> None:
    begun = _begun(running, parts=0)
    whole = _copied(running, begun, 1)
    some = _copied(running, begun, 2, ref="dev", path="d", range="bytes=2-5")
    for heard, content in ((whole, b"a on main"), (some, b"on d")):
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        assert (heard.status, heard.headers["etag"]) == (204, f'"{etag}"'), heard
    parts = [Part(n, heard.headers["etag"].strip('"')) for n, heard in ((1, whole), (2, some))]
    assert _finished(running, begun, *parts).status == 200
    assert running.send(Ask("GET", f"{LAKE}/refs/main/objects?path=n")).body == b"a on mainon d"


def test_a_copy_of_nothing_and_of_too_much(world: World, running: Running) -> None:
    begun = _begun(running, parts=0)
    assert _copied(running, begun, 1, path="none").status == 404
    assert _copied(running, begun, 1, ref="none").status == 404
    assert _copied(running, begun, 1, repository="none").status == 404
    assert _copied(running, begun | {"upload_id": "none"}, 1).status == 404
    assert _copied(running, begun, 1, range="bytes=90-").status == 416
    assert _copied(running, begun, 1, range="bytes=0-1,3-4").status == 416
    assert _copied(running, begun, 1, range="a-b").status == 400
    assert _copied(running, begun, "x").status == 400
    assert _copied(running, begun, "10001").status == 400
    assert _copied(running, begun | {"physical_address": "mem://spare/x/data/a"}, 1).status == 400
    small = world.serve(sound(), part_copy_bytes_max=4)
    refused = _copied(small, begun, 1)
    assert (refused.status, "too long" in refused.json["message"]) == (400, True)
    assert _copied(small, begun, 1, range="bytes=0-3").status == 204


def test_what_is_given_up_is_gone(world: World, running: Running) -> None:
    begun = _begun(running)
    one = _sent(world, begun, 1, b"one")
    at = {"physical_address": begun["physical_address"]}
    for _ in range(2):  # the second is a retry
        assert running.send(Ask.json("DELETE", _of(begun), at)).status == 204
    assert _finished(running, begun, one).status == 404
    assert running.send(Ask("GET", f"{LAKE}/refs/main/objects?path=n")).status == 404


def test_an_upload_is_good_for_its_path_and_address_alone(world: World, running: Running) -> None:
    begun, other = _begun(running), _begun(running, "o")
    one = _sent(world, begun, 1, b"one")
    crossed = begun | {"physical_address": other["physical_address"]}
    plain = begun | {"physical_address": begun["physical_address"].partition(",")[0]}
    foreign = begun | {"physical_address": "mem://spare/x/data/a"}
    assert _finished(running, begun, one, path="o").status == 400
    assert _finished(running, crossed, one, path="o").status == 404
    for wrong in (crossed, plain, foreign):
        at = {"physical_address": wrong["physical_address"]}
        assert _finished(running, wrong, one).status == 400
        assert running.send(Ask.json("PUT", _of(begun, "/parts/1"), at)).status == 400
        assert running.send(Ask.json("DELETE", _of(begun), at)).status == 400
    assert _finished(running, begun, one).status == 200


def test_parts_that_are_not_there_can_be_named_again(world: World, running: Running) -> None:
    begun = _begun(running)
    one = _sent(world, begun, 1, b"one")
    assert _finished(running, begun, Part(1, "x")).status == 400
    assert _finished(running, begun, one, one).status == 400
    assert _finished(running, begun).status == 400
    assert _finished(running, begun, one).status == 200


def test_a_path_that_is_taken(world: World, running: Running) -> None:
    begun = _begun(running, "a")
    one = _sent(world, begun, 1, b"one")
    body = {
        "physical_address": begun["physical_address"],
        "parts": [{"part_number": 1, "etag": one.etag}],
    }
    ask = Ask.json("PUT", _of(begun, path="a"), body)
    assert running.send(ask._replace(headers={"If-Match": "x"})).status == 412
    assert running.send(ask._replace(headers={"If-None-Match": ""})).status == 400
    assert running.send(ask._replace(headers={"If-None-Match": "*"})).status == 412
    assert running.send(Ask("GET", f"{LAKE}/refs/main/objects?path=a")).body == b"a on main"


def test_what_is_refused_leaves_no_upload(world: World, running: Running) -> None:
    before = dict(world.blocks._uploads)
    for number in (-1, 10_001):
        heard = running.send(Ask("POST", BEGIN.format("n", number)))
        assert (heard.status, heard.json["message"]) == (400, "parts can be between 0 and 10000")
    nowhere = BEGIN.format("n", 1).replace("/main/", "/none/")
    assert running.send(Ask("POST", nowhere)).status == 404
    assert dict(world.blocks._uploads) == before


def test_an_upload_whose_urls_fail_is_forgotten(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(world.blocks._uploads)

    def fails(*_given: object, **_named: object) -> None:
        raise NotFound("no credentials")

    monkeypatch.setattr(world.blocks, "presign", fails)
    assert running.send(Ask("POST", BEGIN.format("n", 1))).status == 404
    assert dict(world.blocks._uploads) == before


def test_the_local_store_has_none(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/staging/pmpu"
    begun = client.send("POST", where, {"path": "a", "parts": "1"})
    assert (begun.status, begun.message) == (501, "presign multipart upload API is not supported")
    at = {"physical_address": f"local://{repo}/x/data/z"}
    assert client.send("PUT", where + "/u/parts/1", {"path": "a"}, body=at).status == 501
    copied = at | {"copy_source": {"repository": repo, "ref": "main", "path": "a"}}
    assert client.send("PUT", where + "/u/parts/1/copy", {"path": "a"}, body=copied).status == 501
    assert client.send("DELETE", where + "/u", {"path": "a"}, body=at).status == 501
    whole: dict[str, Any] = at | {"parts": []}
    assert client.send("PUT", where + "/u", {"path": "a"}, body=whole).status == 501
