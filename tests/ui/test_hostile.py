"""Content, names and messages of an enemy: nothing runs, nothing leaves, the policy holds.

Each scene fails by itself if a script runs (it opens a dialog or writes an error), another origin
is asked, or the policy is broken (`scene.py`).
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.api.serving import Served
from tests.ui.scene import Scene, commit, good

ATTACK = "<img src=x onerror=alert(1)><script>alert(1)</script><svg onload=alert(1)>"
FILES = {
    "page.html": f"<html>{ATTACK}<iframe src='https://evil.example/'></iframe></html>",
    "picture.svg": (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script>'
        '<image href="https://evil.example/x.png"/><foreignObject><body xmlns='
        '"http://www.w3.org/1999/xhtml"><img src="https://evil.example/y.png"/></body>'
        "</foreignObject></svg>"
    ),
    "text.md": (
        f"# {ATTACK}\n\n{ATTACK}\n\n[a](javascript:alert(1)) [b](data:text/html,<script>alert(1)"
        "</script>) ![c](https://evil.example/c.png) <a href='javascript:alert(1)'>d</a>\n\n"
        "[e](//evil.example/)\n\n```html\n<script>alert(1)</script>\n```\n"
    ),
    "rows.csv": f'a,"{ATTACK}"\n"=cmd|calc","{ATTACK}"\n',
    "tree.json": '{"<img src=x onerror=alert(1)>": "</script><script>alert(1)</script>"}',
    "book.ipynb": '{"cells": [{"outputs": [{"data": {"text/html": "<script>x</script>"}}]}]}',
    "log.txt": "\x1b[31mred\x1b[0m \u202egnp.exe \u0000 " + ATTACK,
}
NAME = "<img src=x onerror=alert(1)>"
BIDI = "invoice\u202egnp.exe"


@pytest.fixture(scope="module")
def lair(live: Served) -> Iterator[str]:
    """A repository of such files, names and messages."""
    repo, client = live.fresh_repository(), live.client
    for name, text in FILES.items():
        client.upload(repo, name, text.encode())
    client.upload(repo, f"{NAME}/{NAME}.txt", b"x")
    client.upload(repo, BIDI, b"x")
    commit(client, repo, "main", f"{ATTACK}\n\n{ATTACK}")
    body = {"name": "other", "source": "main"}
    good(client.send("POST", f"/repositories/{repo}/branches", body=body))
    client.upload(repo, "page.html", f"{ATTACK} changed".encode(), "other")
    client.upload(repo, f"{NAME}/{NAME}.txt", b"y", "other")
    commit(client, repo, "other", "Other")
    yield repo


@pytest.mark.parametrize("name", [*FILES, f"{NAME}/{NAME}.txt", BIDI])
def test_no_viewer_runs_what_a_file_says(shown: Scene, lair: str, name: str) -> None:
    page = shown.open(f"/repositories/{lair}/object", ref="main", path=name)
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.locator("main script, main iframe, main img[src^=http]").count() == 0
    assert page.locator("main a[href^='javascript:'], main a[href^='data:']").count() == 0
    for view in ("details", "use"):
        shown.open(f"/repositories/{lair}/object", ref="main", path=name, view=view)


def test_no_list_and_no_message_runs(shown: Scene, lair: str, live: Served) -> None:
    page = shown.open(f"/repositories/{lair}/objects", ref="main")
    expect(page.get_by_role("link", name=f"{NAME}/")).to_be_visible()
    head = good(live.client.send("GET", f"/repositories/{lair}/branches/main"))["commit_id"]
    for place in (f"commits/{head}", "commits?ref=main,other", "compare?ref=main&compare=other"):
        shown.open(f"/repositories/{lair}/{place}")
        assert page.locator("main script, main img").count() == 0
    shown.open(f"/repositories/{lair}/compare", ref="main", compare="other", file="page.html")
    expect(page.get_by_role("region", name="Lines that differ")).to_contain_text("changed")
    for query in ({"ref": ATTACK}, {"ref": "main", "path": ATTACK}):
        shown.open(f"/repositories/{lair}/objects", **query)
    shown.open("/repositories", search=ATTACK)


def test_characters_that_turn_the_text_around_are_visible(shown: Scene, lair: str) -> None:
    page = shown.open(f"/repositories/{lair}/objects", ref="main")
    expect(page.get_by_role("link", name="invoice\\u202egnp.exe", exact=True)).to_be_visible()
    shown.open(f"/repositories/{lair}/object", ref="main", path="log.txt")
    expect(page.get_by_role("region", name="Text")).to_contain_text("\\u001b[31mred")


def test_a_file_opened_alone_runs_nothing_on_this_origin(shown: Scene, lair: str) -> None:
    client = shown.client
    for name in ("page.html", "picture.svg"):
        query = {"path": name}
        reply = client.send("GET", f"/repositories/{lair}/refs/main/objects", query)
        assert reply.headers["x-content-type-options"] == "nosniff"
        policy = reply.headers.get("content-security-policy", "")
        is_saved = reply.headers.get("content-disposition", "").startswith("attachment")
        assert is_saved or "sandbox" in policy, reply.headers


def test_the_page_is_shown_in_no_frame(shown: Scene) -> None:
    reply = shown.client.raw("GET", "/repositories")
    assert reply.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]


def test_no_secret_and_no_signed_url_is_kept(shown: Scene, lair: str) -> None:
    page = shown.open(f"/repositories/{lair}/object", ref="main", path="log.txt")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert stored == "[{},{}]"
