"""What is served beside the API, given anything: pages, and signed URLs that were tampered with."""

import http.client
from collections import Counter
from collections.abc import Iterator
from random import Random
from urllib.parse import quote, urlsplit

import pytest

from graveler.api.pages import OPEN_PATHS
from simulator.service.requests import ANSWER_SECONDS
from tests import draws
from tests.api.serving import Served, served

COUNT = 2_000
BODY = bytes(range(256)) * 4
_METHODS = ("GET", "GET", "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")
_VALUES = ("", "x", "%", "%ff", "%00", "%F0%9F%98%80", "9" * 5_000, "-1", "a=b", "GET", "PUT", "+")
_RANGES = (
    "bytes=abc-", "bytes=", "bytes", "bytes=-", "bytes=0-0", "bytes=5-2", "bytes=99999-", "x=0-1",
    "bytes=0-1,3-4", "bytes=" + "9" * 5_000 + "-", "bytes=\xb2-", "BYTES=0-1", "bytes = 0-1", "",
    "bytes=-" + "9" * 40, "bytes=0-" + "9" * 40, "bytes=0-1,", "bytes=1-2-3", "bytes=-0",
)  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("pages") / "store") as running:
        yield running


def _signed(live: Served) -> list[tuple[str, str]]:
    """URLs that hold: one to read, one to write; with the method of each."""
    repo = live.fresh_repository()
    live.client.upload(repo, "a", BODY)
    where, query = f"/repositories/{repo}", {"path": "a", "presign": "true"}
    read = live.client.send("GET", where + "/refs/main/objects", query).headers["location"]
    write = live.client.send("GET", where + "/branches/main/staging/backing", query).json
    found = [("GET", read), ("PUT", write["presigned_url"])]
    return [(method, url.removeprefix(live.client.url)) for method, url in found]


def _target(random: Random, signed: str) -> str:
    drawn = random.random()
    path, _, query = signed.partition("?")
    if drawn < 0.2:
        path = random.choice(OPEN_PATHS) + random.choice(("", "x", "%2e%2e", "//", "\xff", "%"))
    elif drawn < 0.3:
        path = path[: random.randrange(len(path))] + quote(random.choice(_VALUES))
    fields = query.split("&")
    while random.random() < 0.5:
        at = random.randrange(len(fields) + 1)
        name = random.choice(("expires", "method", "signature", "content_type", "x", ""))
        fields[at:at] = [f"{name}={random.choice(_VALUES)}"] * random.choice((1, 1, 2, 20))
    if random.random() < 0.2:
        fields.pop(random.randrange(len(fields)))
    return path + "?" + "&".join(fields)


def _headers(random: Random) -> dict[str, str]:
    found = {}
    if random.random() < 0.6:
        found["Range"] = random.choice(_RANGES)
    if random.random() < 0.2:
        found["Content-Type"] = random.choice(("text/plain", "x" * 600, "\xe4", ""))
    if random.random() < 0.2:
        name = random.choice(("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Cookie"))
        found[name] = random.choice((*_VALUES[:4], "https", "1.1.1.1, ,", "\xff;=;", "a" * 9_000))
    return found


def test_every_answer_is_one_and_none_is_an_error_of_ours(live: Served) -> None:
    seed = draws.seed()
    draw, statuses = Random(seed), Counter[int]()
    signed = _signed(live)
    where = urlsplit(live.client.url)
    connection = http.client.HTTPConnection(where.netloc, timeout=ANSWER_SECONDS)
    try:
        for _ in range(COUNT):
            usual, url = draw.choice(signed)
            method = usual if draw.random() < 0.6 else draw.choice(_METHODS)
            target = _target(draw, url).encode("latin-1", "replace").decode("latin-1")
            headers, body = _headers(draw), draw.randbytes(draw.choice((0, 0, 10, 3_000)))
            connection.putrequest(method, quote(target, safe="/?&=%+\xff"))
            for name, value in headers.items():
                connection.putheader(name, value.encode("latin-1"))
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
            assert answer.status < 500 or answer.status == 501, (method, target, headers)
    finally:
        connection.close()
    # Requests that are all refused would prove nothing.
    assert {200, 206, 400, 401, 404, 416} <= statuses.keys(), statuses


def test_a_range_that_is_none_is_ignored(live: Served) -> None:
    (_, url), _ = _signed(live)
    for header in ("bytes=abc-", "bytes=", "lines=1-2", "bytes=" + "9" * 5_000 + "-"):
        reply = live.client.raw("GET", url, headers={"Range": header})
        assert (reply.status, reply.body) == (200, BODY), header
    reply = live.client.raw("GET", url, headers={"Range": "bytes=9999-"})
    assert reply.status == 416 and reply.headers["content-range"] == f"bytes */{len(BODY)}"


def test_a_signed_url_with_many_more_fields_is_refused(live: Served) -> None:
    fields = "&".join(f"f{number}=1" for number in range(20))
    for url in (f"/_presigned/x?{fields}", _signed(live)[0][1] + "&" + fields):
        reply = live.client.raw("GET", url)
        assert reply.status == 400
        assert "at most 16 fields" in reply.message
