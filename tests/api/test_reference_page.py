"""The page `/docs`: it shows every operation and schema, and needs nothing but itself."""

import re

from graveler.api.app import Graveler
from graveler.api.openapi import page
from simulator.service.described import described, schemas
from tests.api.serving import Client


def test_the_page_shows_every_operation_and_every_schema(client: Client) -> None:
    page = Client(client.host, client.port, "").raw("GET", "/docs")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    html = page.body.decode()
    for operation in described():
        assert f'id="{operation.operation}"' in html
        assert f"{operation.method} {operation.path}" in html
    assert all(f'id="schema-{name}"' in html for name in schemas())
    assert "fs:CreateBranch" in html


def test_the_page_needs_no_script_no_file_and_no_network(client: Client) -> None:
    page = client.raw("GET", "/docs")
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    html = page.body.decode()
    assert not re.search(r"<(script|link|img|iframe|object)\b|\ssrc=|https?://", html)
    links = set(re.findall(r'href="([^"]*)"', html))
    anchors = set(re.findall(r'id="([^"]*)"', html))
    assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors


def test_texts_of_the_document_are_escaped() -> None:
    hostile = Graveler().openapi()
    hostile["info"]["title"] = "<script>"
    path = next(iter(hostile["paths"].values()))
    operation = next(iter(path.values()))
    operation["summary"] = "<img src=x>"
    html = page(hostile)
    assert "<script>" not in html
    assert "<img" not in html


def test_a_page_is_made_once_and_only_for_reading(client: Client) -> None:
    first, second = (client.raw("GET", "/docs").body for _ in range(2))
    assert first == second
    assert client.raw("HEAD", "/docs").body == b""
    assert client.raw("POST", "/docs").status == 404
