"""Clients that upload slowly, or stop: nobody else waits for them."""

import http.client
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from graveler.http.service import ServiceSettings
from tests.api.serving import ANY_NUMBER, API, Served
from tests.gateway.serving import Gateway, gateway
from tests.waiting import PATIENCE_SECONDS, until

SLOW = 40  # more than the service has threads for bodies
ANNOUNCED = 1024 * 1024 * 1024
BEGUN = 600 * 1024  # bytes that a slow client sends before it stops
MEBIBYTE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def served_slowly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A service with the S3 gateway whose URLs of uploads can be signed."""
    store: Path = tmp_path_factory.mktemp("slow") / "store"
    settings = ServiceSettings(failed_logins=ANY_NUMBER, presigns=True)
    with gateway(store, settings) as running:
        yield running


def _head(live: Served, method: str, target: str, headers: dict[str, str]) -> bytes:
    sent = {"Host": f"{live.client.host}:{live.client.port}", **headers}
    sent["Content-Length"] = str(ANNOUNCED)
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _api(served: Gateway, repo: str, _number: int) -> bytes:
    where = f"{API}/repositories/{repo}/branches/main/objects?path=slow"
    return _head(served.live, "POST", where, {"Authorization": served.live.client.authorization})


def _form(served: Gateway, repo: str, _number: int) -> bytes:
    kind = {"Content-Type": "multipart/form-data; boundary=xx"}
    where = f"{API}/repositories/{repo}/branches/main/objects?path=slow"
    told = {"Authorization": served.live.client.authorization, **kind}
    part = b'--xx\r\nContent-Disposition: form-data; name="content"\r\n\r\n'
    return _head(served.live, "POST", where, told) + part


def _presigned(served: Gateway, repo: str, _number: int) -> bytes:
    """Always the same URL."""
    client = served.live.client
    where = f"/repositories/{repo}/branches/main/staging/backing"
    url = client.send("GET", where, {"path": "same", "presign": "true"}).json["presigned_url"]
    parts = urlsplit(url)
    return _head(served.live, "PUT", f"{parts.path}?{parts.query}", {})


def _s3(served: Gateway, repo: str, number: int) -> bytes:
    target = f"/{repo}/main/slow-{number}"
    told = served.s3.signed("PUT", target, payload="UNSIGNED-PAYLOAD")
    return _head(served.live, "PUT", target, told)


def _s3_part(served: Gateway, repo: str, number: int) -> bytes:
    begun = served.s3.send("POST", f"/{repo}/main/parts", {"uploads": ""})
    id = re.findall("<UploadId>(.*)</UploadId>", begun.body.decode())[0]
    target = f"/{repo}/main/parts?partNumber={number + 1}&uploadId={quote(id, safe='')}"
    told = served.s3.signed("PUT", target, payload="UNSIGNED-PAYLOAD")
    return _head(served.live, "PUT", target, told)


@pytest.mark.parametrize("kind", [_api, _form, _presigned, _s3, _s3_part])
def test_slow_uploads_hold_up_nobody(served_slowly: Gateway, kind: object) -> None:
    """An upload and downloads of 1 MiB end while all slow ones are open."""
    assert callable(kind)
    live = served_slowly.live
    repo = live.fresh_repository()
    before = live.client.upload(repo, "before", MEBIBYTE)
    assert before.status == 201
    with ExitStack() as opened:
        slow = []
        for number in range(SLOW):
            raw = socket.create_connection((live.client.host, live.client.port), PATIENCE_SECONDS)
            slow.append(opened.enter_context(raw))
            head = kind(served_slowly, repo, number)
            raw.sendall(head + MEBIBYTE[:BEGUN])
        assert live.client.upload(repo, "during", MEBIBYTE).status == 201
        assert served_slowly.s3.send("PUT", f"/{repo}/main/s3", body=MEBIBYTE).status == 200
        where = f"/repositories/{repo}/refs/main/objects"
        for path in ("before", "during", "s3"):
            assert live.client.send("GET", where, {"path": path}).body == MEBIBYTE
            assert served_slowly.s3.send("GET", f"/{repo}/main/{path}").body == MEBIBYTE
        for raw in slow:
            raw.setblocking(False)
            with pytest.raises(BlockingIOError):
                raw.recv(1)  # not one was answered or closed
    until(lambda: not live.server.server_state.connections, "every connection is closed")
    listed = live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json
    assert [each["path"] for each in listed["results"]] == ["before", "during", "s3"]
    temporary = live.store / "objects" / "%tmp"
    until(
        lambda: not [path for path in temporary.rglob("*") if path.is_file()],
        "what arrived is removed",
    )


def test_a_slow_upload_ends_well(served_slowly: Gateway) -> None:
    """However many others are slow too."""
    live = served_slowly.live
    repo = live.fresh_repository()
    where = f"{API}/repositories/{repo}/branches/main/objects?path=p"
    connections = []
    for number in range(SLOW):
        connection = http.client.HTTPConnection(live.client.host, live.client.port)
        connection.putrequest("POST", f"{where}{number}")
        connection.putheader("Authorization", live.client.authorization)
        connection.putheader("Content-Length", str(2 * len(MEBIBYTE)))
        connection.endheaders(MEBIBYTE)
        connections.append(connection)
    for connection in connections:
        connection.send(MEBIBYTE)
    for connection in connections:
        assert connection.getresponse().status == 201
        connection.close()
    read = f"/repositories/{repo}/refs/main/objects"
    assert live.client.send("GET", read, {"path": "p7"}).body == 2 * MEBIBYTE
