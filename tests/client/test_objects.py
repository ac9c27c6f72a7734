"""Contents that change while they are uploaded, and readers that are sent elsewhere."""

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import md5

import google_crc32c
import pytest

from graveler.core.errors import Corrupt, Invalid
from graveler.lake import checksums, objects
from graveler.lake.connections import Connections, Request, Response
from graveler.lake.objects import Upload
from graveler.lake.session import connect
from tests.client.scripted import Said, scripted
from tests.waiting import PATIENCE_SECONDS


@contextmanager
def listening() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """A server that reads one connection to its end and never answers: its URL, and what came."""
    received = bytearray()

    def read(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            while piece := connection.recv(65_536):
                received.extend(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        thread = threading.Thread(target=read, args=(listener,), daemon=True)
        thread.start()

        def came() -> bytes:
            thread.join(PATIENCE_SECONDS)
            return bytes(received).partition(b"\r\n\r\n")[2]

        yield f"http://127.0.0.1:{listener.getsockname()[1]}", came


CHANGED = ([b"ab", b"cd", b"e"], [b"abc"], [b"abcde"], [], [b"ab", b"", b"c"])


@pytest.mark.parametrize("pieces", CHANGED)
def test_a_direct_upload_of_another_length_is_never_whole(pieces: list[bytes]) -> None:
    with listening() as (url, came):
        with pytest.raises(Invalid, match="changed while it was uploaded"):
            objects.upload(connect(url, "KEY", "s"), "lake", "main", "a", pieces, length=4)
        assert len(came()) < 4


@pytest.mark.parametrize("pieces", CHANGED)
def test_an_upload_of_another_length_is_not_linked(pieces: list[bytes]) -> None:
    with listening() as (store, came):
        place = {"physical_address": "local://x", "presigned_url": f"{store}/x"}
        with scripted([Said(200, json.dumps(place).encode())]) as server:
            session = connect(server.url, "KEY", "s")
            with pytest.raises(Invalid, match="changed while it was uploaded"):
                objects.upload_presigned(session, "lake", "main", "a", pieces, Upload(), length=4)
            assert [asked.method for asked in server.asked] == ["GET"]
        assert len(came()) < 4


def test_content_of_the_right_length_arrives_in_order() -> None:
    stats = json.dumps({"path": "a", "checksum": "c"}).encode()
    with scripted([Said(201, stats), Said(201, stats)]) as server:
        session = connect(server.url, "KEY", "s")
        for pieces in ([b"ab", b"", b"cd"], [b"abcd"]):
            objects.upload(session, "lake", "main", "a", pieces, length=4)
        assert [asked.body for asked in server.asked] == [b"abcd", b"abcd"]


OTHER = "d41d8cd98f00b204e9800998ecf8427e"
ABCD = "e2fc714c4727ee9395f324cd2e7f331f"


@pytest.mark.parametrize("length", [4, -1])
def test_a_direct_upload_that_was_stored_otherwise_fails(length: int) -> None:
    stats = [json.dumps({"path": "a", "checksum": sum}).encode() for sum in (OTHER, ABCD)]
    with scripted([Said(201, each) for each in stats]) as server:
        session = connect(server.url, "KEY", "s")
        with pytest.raises(Corrupt, match=f"path=a sent='{ABCD}' stored={OTHER}; .* again"):
            objects.upload(session, "lake", "main", "a", [b"ab", b"cd"], length=length)
        stored = objects.upload(session, "lake", "main", "a", [b"ab", b"cd"], length=length)
        assert stored["checksum"] == ABCD
        # Nothing is deleted.
        assert [(asked.method, asked.body) for asked in server.asked] == [("POST", b"abcd")] * 2


LARGE = b"ab" * (checksums.CRC32C_BYTES_MIN // 2)


@pytest.mark.parametrize(
    ("body", "told", "stored", "is_right"),
    [
        (LARGE, "right", LARGE, True),
        (LARGE, "right", b"", True),
        (LARGE, "AAAAAA==", LARGE, False),
        (LARGE, "", LARGE, True),  # none is told, so the MD5 is computed once more
        (LARGE, "no base64", LARGE, True),
        (LARGE, "", b"other", False),
        (LARGE[1:], "AAAAAA==", LARGE[1:], True),  # too short: its MD5 is compared
    ],
)
def test_many_bytes_are_compared_by_their_crc32c(
    body: bytes, told: str, stored: bytes, is_right: bool
) -> None:
    if told == "right":
        told = b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()
    stats = json.dumps({"path": "a", "checksum": md5(stored).hexdigest()}).encode()
    with scripted([Said(201, stats, ((checksums.CRC32C_HEADER, told),))]) as server:
        session = connect(server.url, "KEY", "s")
        with ExitStack() as expected:
            if not is_right:
                expected.enter_context(pytest.raises(Corrupt, match=r"path=a sent='.*' stored="))
            where = (session, "lake", "main", "a", [body[:1000], body[1000:]])
            objects.upload(*where, length=len(body), again=lambda: md5(body).hexdigest())
        assert server.asked[0].body == body


@pytest.mark.parametrize(
    ("checksums", "is_told"), [("md5, crc32c", True), ("", False), ("x", False)]
)
def test_a_server_says_whether_it_tells_checksums(checksums: str, is_told: bool) -> None:
    with scripted([Said(200, b"{}", (("x-graveler-checksums", checksums),))]) as server:
        assert objects.storage(connect(server.url, "KEY", "s")).tells_crc32c == is_told


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_presigned_upload_that_was_stored_otherwise_is_not_linked(is_linked: bool) -> None:
    call = objects.upload_presigned if is_linked else objects.store_presigned
    with scripted([Said(200, b"", (("ETag", f'"{OTHER}"'),))]) as store:
        place = {"physical_address": "local://x", "presigned_url": f"{store.url}/x"}
        with scripted([Said(200, json.dumps(place).encode())]) as server:
            session = connect(server.url, "KEY", "s")
            with pytest.raises(Corrupt, match=f"path=a sent='{ABCD}' stored={OTHER}; .* again"):
                call(session, "lake", "main", "a", [b"ab", b"cd"], Upload(), length=4)
            assert [asked.method for asked in server.asked] == ["GET"]
        assert [asked.method for asked in store.asked] == ["PUT"]


@pytest.mark.parametrize("tag", [ABCD, f"{OTHER}-2", ""])
def test_a_presigned_upload_is_linked_with_its_checksum(tag: str) -> None:
    with scripted([Said(200, b"", (("ETag", f'"{tag}"'),))]) as store:
        place = {"physical_address": "local://x", "presigned_url": f"{store.url}/x"}
        stats = {"path": "a", "checksum": ABCD}
        answers = [Said(200, json.dumps(each).encode()) for each in (place, stats)]
        with scripted(answers) as server:
            session = connect(server.url, "KEY", "s")
            objects.upload_presigned(session, "lake", "main", "a", [b"abcd"], Upload(), length=4)
            assert json.loads(server.asked[1].body)["checksum"] == ABCD


class BehindTls(Connections):
    """TLS ends at the client: so a server that knows none is reached by https."""

    def send(self, request: Request) -> Response:
        return super().send(replace(request, url=request.url.replace("https://", "http://")))


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    with scripted([Said(200, b"forged")]) as other:
        with scripted([Said(302, b"", (("Location", other.url + "/x"),))]) as server:
            url = server.url.replace("http://", "https://")
            session = connect(url, "KEY", "s", connections=BehindTls())
            with pytest.raises(Invalid, match="redirects from https"):
                objects.open_object(session, "lake", "main", "a", presign=True)
        assert other.asked == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:port/", "http://a..b/", "/relative"])
def test_a_redirect_to_nowhere_is_an_error(location: str) -> None:
    with scripted([Said(302, b"", (("Location", location),))]) as server:
        session = connect(server.url, "KEY", "s")
        with pytest.raises(Invalid, match="URL invalid"):
            objects.open_object(session, "lake", "main", "a")
