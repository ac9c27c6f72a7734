"""JSON in gzip, for clients that take it."""

import gzip
import json

import pytest

from tests.api.serving import Client


@pytest.fixture
def listing(client: Client, repo: str) -> str:
    """The address of a page of a hundred names."""
    for number in range(100):
        client.upload(repo, f"a-long-name-of-an-object-{number}", b"x")
    return f"/api/v1/repositories/{repo}/refs/main/objects/ls"


@pytest.mark.parametrize(
    ("coding", "is_coded"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP ; q=0.5", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("x-gzipped", False),
        ("*, gzip;q=0", False),
        ("gzip;q=" + " " * 30_000 + "x", True),  # read in no time
    ],
)
def test_a_page_is_coded_for_who_takes_it(
    client: Client, listing: str, coding: str, *, is_coded: bool
) -> None:
    plain = client.raw("GET", listing)
    reply = client.raw("GET", listing, headers={"Accept-Encoding": coding})
    assert reply.status == 200 and json.loads(plain.body)["pagination"]["results"] == 100
    assert reply.headers.get("content-encoding", "") == ("gzip" if is_coded else "")
    assert (gzip.decompress(reply.body) if is_coded else reply.body) == plain.body
    assert int(reply.headers["content-length"]) == len(reply.body)
    if is_coded:
        assert len(reply.body) * 5 < len(plain.body) and reply.headers["vary"] == "Accept-Encoding"


def test_a_page_of_a_thousand_names_is_coded(client: Client, repo: str) -> None:
    """It is too long for the event loop."""
    where = f"/api/v1/repositories/{repo}/refs/main/objects"
    for number in range(400):
        client.upload(repo, f"{number:0200}", b"x")
    plain = client.raw("GET", where + "/ls?amount=1000")
    reply = client.raw("GET", where + "/ls?amount=1000", headers={"Accept-Encoding": "gzip"})
    assert len(plain.body) > 64 << 10 and gzip.decompress(reply.body) == plain.body


def test_content_with_a_tag_stays_as_it_is(client: Client, repo: str) -> None:
    """The tag of an object is one of its bytes, and a part of it is counted in them."""
    content = json.dumps({"text": "x" * 5_000}).encode()
    where = f"/api/v1/repositories/{repo}"
    given = {"Content-Type": "application/json"}
    target = f"{where}/branches/main/objects?path=a.json"
    assert client.raw("POST", target, headers=given, body=content).status < 300
    wanted = {"Accept-Encoding": "gzip"}
    whole = client.raw("GET", f"{where}/refs/main/objects?path=a.json", headers=wanted)
    assert whole.headers["content-type"] == "application/json" and whole.body == content
    rules = [{"pattern": f"{'x' * 200}{number}"} for number in range(20)]
    assert (
        client.send("PUT", f"/repositories/{repo}/settings/branch_protection", body=rules).status
        < 300
    )
    reply = client.raw("GET", f"{where}/settings/branch_protection", headers=wanted)
    assert json.loads(reply.body) == rules and reply.headers["etag"]


def test_a_short_answer_and_one_of_a_change_stay_as_they_are(client: Client, repo: str) -> None:
    wanted = {"Accept-Encoding": "gzip"}
    short = client.raw("GET", f"/api/v1/repositories/{repo}", headers=wanted)
    assert json.loads(short.body)["id"] == repo
    path = f"/api/v1/repositories/{repo}/branches/main/objects?path={'%22' * 900}"
    stats = client.raw("POST", path, headers=wanted, body=b"x")
    assert stats.status == 201 and len(stats.body) > 1_400
    assert "content-encoding" not in short.headers | stats.headers
