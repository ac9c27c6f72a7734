"""Break parameters through a real server: read, set by compare-and-swap, refused."""

from typing import Any

import pytest

from tests.api.serving import Client


def _where(repo: str) -> str:
    return f"/repositories/{repo}/settings/breaks"


def test_they_are_set_once_seen(client: Client, repo: str) -> None:
    seen = client.send("GET", _where(repo)).json
    assert (seen["min_size"], seen["raggedness"]) == (0, 2_000)
    wanted = {**seen, "min_size": 1_000}
    set_ = client.send("PUT", _where(repo), body={"expected": seen, "breaks": wanted})
    assert (set_.status, set_.json) == (200, wanted)
    assert client.send("GET", _where(repo)).json == wanted
    other = {"expected": seen, "breaks": {**seen, "min_size": 5}}
    refused = client.send("PUT", _where(repo), body=other)
    assert refused.status == 412 and "min_size=1000" in refused.message
    assert client.send("GET", _where(repo)).json == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        {"salt": "no Base64!"},
        {"salt": "é"},
        {"salt": ""},
        {"min_size": -1},
        {"min_size": 2, "max_size": 1},
        {"raggedness": 0},
        {"max_size": 1 << 40},
    ],
)
def test_what_cannot_be_is_refused(client: Client, repo: str, wrong: dict[str, Any]) -> None:
    seen = client.send("GET", _where(repo)).json
    body = {"expected": seen, "breaks": {**seen, **wrong}}
    assert client.send("PUT", _where(repo), body=body).status == 400
    assert client.send("GET", _where(repo)).json == seen


def test_nobody_sets_them_without_credentials(client: Client, repo: str) -> None:
    seen = client.send("GET", _where(repo)).json
    nobody = Client(client.host, client.port, "")
    body = {"expected": seen, "breaks": {**seen, "min_size": 1}}
    assert nobody.send("PUT", _where(repo), body=body).status == 401
    assert nobody.send("GET", _where(repo)).status == 401
    assert client.send("GET", _where(repo)).json == seen
