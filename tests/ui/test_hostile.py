"""Content, names and messages of an enemy: nothing runs, nothing leaves, the policy holds.

Here are objects, names, fields, commands, frames, bombs and what is stored.  Elsewhere: the policy
and all headers of the shell (`test_shell.py`), logs of hooks (`test_runs.py`), targets after a
login and ended sessions (`test_entry.py`), roles (`test_access.py`, `test_pulls.py`,
`test_settings.py`), cookies and writes from other sites (`tests/http/test_front.py`,
`tests/api/test_authentication.py`), TLS (`tests/http/test_tls.py`), the bucket's origin
(`tests/aws/deployment/test_page.py`).

Each scene fails by itself if a script runs (it opens a dialog or writes an error), another origin
is asked, or the policy is broken (`scene.py`).
"""

import ast
import io
import json
import struct
import subprocess
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow
import pyarrow.parquet
import pytest
from playwright.sync_api import Worker, expect

from tests.api.serving import Served
from tests.ui.scene import Scene, commit, good
from tests.waiting import until

ATTACK = "<img src=x onerror=alert(1)><script>alert(1)</script><svg onload=alert(1)>"
DRAWN = (
    '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script>'
    '<image href="https://evil.example/x.png"/><foreignObject><body xmlns='
    '"http://www.w3.org/1999/xhtml"><img src="https://evil.example/y.png"/></body>'
    "</foreignObject></svg>"
)
FILES = {
    "page.html": f"<html>{ATTACK}<iframe src='https://evil.example/'></iframe></html>",
    "picture.svg": DRAWN,
    "text.md": (
        f"# {ATTACK}\n\n{ATTACK}\n\n[a](javascript:alert(1)) [b](data:text/html,<script>alert(1)"
        "</script>) ![c](https://evil.example/c.png) <a href='javascript:alert(1)'>d</a>\n\n"
        "[e](//evil.example/)\n\n```html\n<script>alert(1)</script>\n```\n"
    ),
    "rows.csv": f'a,"{ATTACK}"\n"=cmd|calc","{ATTACK}"\n',
    "tree.json": '{"<img src=x onerror=alert(1)>": "</script><script>alert(1)</script>"}',
    "book.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "source": f"# {ATTACK} [a](javascript:alert(1))"},
                {
                    "cell_type": ATTACK,
                    "source": [ATTACK, "\u202e"],
                    "execution_count": ATTACK,
                    "outputs": [
                        {"data": {"text/html": ATTACK, "application/javascript": "alert(1)"}},
                        {"data": {"image/svg+xml": DRAWN}},
                        {"data": {"image/png": ATTACK}},
                        {"data": {ATTACK: ATTACK}},
                        {"output_type": "stream", "text": ATTACK},
                        {"output_type": "error", "traceback": [ATTACK, {}], "evalue": 7},
                        None,
                    ],
                },
                "none",
            ]
        }
    ),
    "log.txt": "\x1b[31mred\x1b[0m \u202egnp.exe \u0000 " + ATTACK,
}
NAME = "<img src=x onerror=alert(1)>"
BIDI = "invoice\u202egnp.exe"
EVERY = "arn:lakefs:fs:::repository/"
FIELD = f"{NAME}\u202e\u2066\u00ad\U000e0041"


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


def test_no_viewer_runs_what_a_file_says(shown: Scene, lair: str) -> None:
    for name in (*FILES, f"{NAME}/{NAME}.txt", BIDI):
        page = shown.open(f"/repositories/{lair}/object", ref="main", path=name)
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.locator("main script, main iframe, main img[src^=http]").count() == 0
        assert page.evaluate(_SHOWN_RAW) == [], name


def test_no_page_runs_or_hides_what_a_field_says(shown: Scene, live: Served) -> None:
    """Every field that somebody else can fill, on every page that shows it."""
    found: list[str] = []
    shown.open("/repositories")
    for place in _places(live):
        shown.go(place)
        found += [f"{place}: {line}" for line in shown.page.evaluate(_SHOWN_RAW)]
        assert shown.violations() == [], place
    assert found == []


# Raw characters that nobody sees or that turn the text around, foreign elements, and links that
# are no links.  What the reader has typed stays as it is, and so does what is only sent.
_SHOWN_RAW = r"""() => {
  const raw = /[\p{Cf}\p{Zl}\p{Zp}\u0000-\u0008\u000b-\u001f\u007f-\u009f]/u;
  const found = raw.test(document.title) ? ["title"] : [];
  const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode()); )
    if (raw.test(node.data)) found.push(`text of ${node.parentElement.outerHTML.slice(0, 120)}`);
  for (const each of document.querySelectorAll("*"))
    for (const { name, value } of each.attributes)
      if (!["value", "name", "href"].includes(name) && raw.test(value))
        found.push(`${each.tagName} ${name}`);
  for (const each of document.querySelectorAll("main script, main img:not([src^=blob]), iframe"))
    found.push(each.outerHTML.slice(0, 120));
  for (const { href } of document.querySelectorAll("a[href]"))
    if (!/^(https?|mailto):/.test(href)) found.push(href);
  return found;
}"""


def _places(live: Served) -> list[str]:
    """A lake of such fields, and the pages that show them."""
    repo, client = live.fresh_repository(), live.client
    own = f"/repositories/{repo}"

    def put(method: str, where: str, body: Any = None, **query: str) -> Any:
        return good(client.send(method, where, query, body=body))

    path, table = f"{FIELD}/{FIELD}.txt", pyarrow.table({FIELD: [FIELD, "2"], "n": [1, 2]})
    for branch, cell in (("main", 1), ("other", 2)):
        if branch == "other":
            put("POST", own + "/branches", {"name": branch, "source": "main"})
        target = io.BytesIO()
        pyarrow.parquet.write_table(table.set_column(1, "n", [[cell, 2]]), target)
        client.upload(repo, "x.parquet", target.getvalue(), branch)
        client.upload(repo, "x.csv", f'"{FIELD}",n\n"{FIELD}",{cell}\n'.encode(), branch)
        client.upload(repo, "x.md", f"# {FIELD} ![{FIELD}](a.png) {cell}".encode(), branch)
        client.upload(repo, "x.json", json.dumps({FIELD: [FIELD, cell]}).encode(), branch)
        client.upload(repo, path, f"{FIELD} {cell}".encode(), branch)
        meta = f"{own}/branches/{branch}/objects/stat/user_metadata"
        put("PUT", meta, {"set": {FIELD: FIELD}}, path="x.csv")
        body = {"message": f"{FIELD}\n\n{FIELD}", "metadata": {FIELD: FIELD}}
        head = put("POST", f"{own}/branches/{branch}/commits", body)["id"]
    client.upload(repo, path, b"not committed")
    client.upload(repo, "x.md", b"a conflict")
    put("POST", own + "/metadata", {"metadata": {FIELD: FIELD}})
    put("POST", own + "/tags", {"id": "<b>&'\"`;", "ref": "main"})
    body = {"title": FIELD, "description": FIELD}
    branches = {"source_branch": "other", "destination_branch": "main"}
    pull = put("POST", own + "/pulls", {**body, **branches})["id"]
    for where in ({}, {"path": path, "row": FIELD}, {"path": "x.csv", "row": FIELD}):
        put("POST", f"{own}/pulls/{pull}/comments", {"text": FIELD, **where})
    user = "eve<b>&'\""
    put("POST", "/auth/users", {"id": user, "friendly_name": NAME})
    statement = {"effect": "allow", "action": ["fs:ReadObject"], "resource": f"{EVERY}{FIELD}"}
    for kind, fields in (("groups", {"description": FIELD}), ("policies", {})):
        made = client.send("POST", f"/auth/{kind}", body={"id": FIELD, **fields})
        assert made.status in (201, 400), made.body
    policy = f"hostile-{repo}"
    put("POST", "/auth/policies", {"id": policy, "statement": [statement]})
    field, file, who = quote(FIELD, safe=""), quote(path, safe=""), quote(user, safe="")
    files = [f"?ref=main&path={name}" for name in ("x.csv", "x.parquet", "x.md", "x.json", file)]
    both = "compare?ref=main&compare=other"
    inside = [
        *(f"object{of}" for of in files),
        *(f"object{files[at]}&view={view}" for at in (0, -1) for view in ("details", "use")),
        *(f"{both}&file={name}" for name in ("x.csv", "x.parquet", "x.json", file)),
        f"{both}&file=x.csv&pull={pull}&row={field}",
        *("objects?ref=main", f"objects?ref=main&path={field}/", "objects?ref=main&use=true"),
        *("objects?ref=main&showChanges=true", "commits?ref=main,other", f"commits/{head}"),
        *(f"commits?ref=main&path={file}", both, "branches", "tags", "storage?ref=main"),
        *(f"storage?ref=main&prefix={field}/", "settings", "pulls", f"pulls/{pull}"),
        *(f"{page}/{field}" for page in ("jobs", "actions", "pulls", "commits")),
        *(f"objects?ref={field}&path={field}", f"compare?ref={field}&compare={field}&file=x"),
    ]
    access = [
        *("users", f"users/{who}", f"users/{field}", "groups", f"groups/{field}", "policies"),
        *(f"policies/{policy}", f"policies/{policy}?edit=true", f"policies/{field}", "audit"),
        *(f"audit?user={field}&operation={field}&resource={field}", f"login?next={field}"),
    ]
    return [
        *("/repositories", f"/repositories?search={field}", f"/repositories/{field}/objects"),
        *(f"{own}/{place}" for place in inside),
        *(f"/auth/{place}" for place in access),
    ]


def test_a_command_that_is_copied_runs_nothing_of_a_name(shown: Scene, live: Served) -> None:
    """Names that a shell, a terminal or Python would obey: the copied lines name them, no more."""
    repo = live.fresh_repository()
    path = "$(touch ran)`touch ran`'; touch ran; '\x1b[201~\u202e\ntouch ran\n\U0001f600.csv"
    live.client.upload(repo, path, b"a\n1\n")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path=path)
    command = page.locator(".page-footer code").inner_text()
    address = f"lakefs://{repo}/main/{path}"
    said = subprocess.run(
        ["bash", "-c", command.replace("graveler cat", "printf %s", 1)],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert said.stdout.decode() == address
    page = shown.open(f"/repositories/{repo}/object", ref="main", path=path, view="use")
    lines = page.get_by_role("region", name="Lines for Python").inner_text()
    assert ast.literal_eval(lines.partition("read_bytes(")[2].rpartition(")")[0]) == path


USES = "".join(f'<g id="g{at}">' + f'<use href="#g{at - 1}"/>' * 10 + "</g>" for at in range(1, 10))
DRAWING = f'<svg xmlns="http://www.w3.org/2000/svg"><g id="g0"/>{USES}<use href="#g9"/></svg>'
BOMBS = {
    "nested.md": (">" * 20_000 + "x", "too intricate"),
    "wide.csv": ("," * 500_000, "The first 200 of 500,001 columns"),
    "deep.json": ("[" * 100_000 + "]" * 100_000, "As text"),
    "use.svg": (DRAWING, "This drawing could stop the browser"),
    "utf16.svg": (
        DRAWING.encode("utf-16").decode("latin-1"),
        "This drawing could stop the browser",
    ),
    "pixels.png": ("", ""),
}


def test_no_file_stops_the_window(shown: Scene, live: Served) -> None:
    repo, client = live.fresh_repository(), live.client
    for name, (text, said) in BOMBS.items():
        body = _picture(10_000) if name.endswith(".png") else text.encode("latin-1")
        client.upload(repo, name, body)
        page = shown.open(f"/repositories/{repo}/object", ref="main", path=name)
        expect(page.get_by_role("main")).to_contain_text(said)
        assert page.evaluate("document.querySelectorAll('*').length") < 3_000, name


def _picture(side: int) -> bytes:
    """A black PNG of a few kilobytes and as many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side * (1 + side // 8)))
    content = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def test_a_parquet_footer_that_promises_too_much_is_an_error(shown: Scene, live: Served) -> None:
    """Its schema is a list of two thousand million elements, as Thrift writes it."""
    footer = b"\x15\x02\x19\xfc\xff\xff\xff\xff\x07" + bytes(40)
    repo = live.fresh_repository()
    file = b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
    live.client.upload(repo, "rows.parquet", file)
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="rows.parquet")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("link", name="Details").click()
    expect(page.get_by_text("Stored at")).to_be_visible()


def test_a_reader_of_parquet_that_does_not_answer_is_killed(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", b"PAR1" + bytes(100) + b"PAR1")
    page, closed = shown.page, list[Worker]()
    page.route(
        "**/parquet-worker.js",
        lambda route: route.fulfill(
            body="onmessage = () => { for (;;); }", content_type="text/javascript"
        ),
    )
    page.clock.install()
    with page.expect_worker() as began:
        page.goto(f"{live.client.url}/repositories/{repo}/object?ref=main&path=rows.parquet")
    began.value.on("close", lambda worker: closed.append(worker))
    page.clock.fast_forward(11_000)
    expect(page.get_by_role("alert")).to_contain_text("not decoded within 10 seconds")
    until(lambda: page.wait_for_timeout(10) or closed, "the worker is killed")
    page.get_by_role("link", name="Details").click()
    expect(page.get_by_text("Stored at")).to_be_visible()


def test_a_page_of_a_column_that_expands_ten_thousand_times_leaves_the_window_alive(
    shown: Scene, live: Served
) -> None:
    """Some kilobytes of zstd become 128 MiB, by a worker: of one cell, or of many rows."""
    repo = live.fresh_repository()
    for name, text in (("cell", ["a" * (128 << 20)]), ("rows", ["a" * 1024] * (128 << 10))):
        sink = io.BytesIO()
        plain = {"use_dictionary": False, "write_statistics": False, "data_page_size": 1 << 30}
        pyarrow.parquet.write_table(
            pyarrow.table({"text": text}), sink, compression="zstd", **plain
        )
        assert len(sink.getvalue()) < 128 << 10
        live.client.upload(repo, f"{name}.parquet", sink.getvalue())
        page = shown.open(f"/repositories/{repo}/object", ref="main", path=f"{name}.parquet")
        shown_or_refused = page.locator("tbody tr, [role=alert]").first
        expect(shown_or_refused).to_be_visible(timeout=30_000)
        page.get_by_role("link", name="Details").click()
        expect(page.get_by_text("Stored at")).to_be_visible()


def test_markdown_that_takes_for_ever_is_shown_as_text(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "README.md", b"a**b" * 128_000)
    shown.page.clock.install()
    closed: list[Worker] = []
    with shown.page.expect_worker() as began:
        shown.page.goto(f"{live.client.url}/repositories/{repo}/object?ref=main&path=README.md")
    began.value.on("close", lambda worker: closed.append(worker))
    shown.page.clock.fast_forward(6_000)
    expect(shown.page.get_by_text("too intricate")).to_be_visible()
    until(lambda: shown.page.wait_for_timeout(10) or closed, "the worker is killed")


def test_versions_without_a_common_line_are_compared_at_once(shown: Scene, live: Served) -> None:
    repo, client = live.fresh_repository(), live.client
    good(
        client.send("POST", f"/repositories/{repo}/branches", body={"name": "b", "source": "main"})
    )
    for branch in ("main", "b"):
        lines = "".join(f"{branch} {number}\n" for number in range(9_000))
        client.upload(repo, "a.txt", lines.encode(), branch)
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="b", file="a.txt")
    expect(page.get_by_role("region", name="Lines that differ")).to_contain_text("main 1")


def test_a_broken_address_is_an_answer_and_no_empty_window(shown: Scene) -> None:
    page = shown.open("/repositories/%E0%A4%A/objects")
    expect(page.get_by_role("alert")).to_be_visible()


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


def test_a_link_in_a_document_ends_no_session(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    text = f"[the data]({live.client.url}/logout)"
    live.client.upload(repo, "README.md", text.encode())
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="README.md")
    page.get_by_role("link", name="the data").click()
    expect(page.get_by_role("heading", name="Repositories")).to_be_visible()


def test_no_secret_and_no_signed_url_is_kept(shown: Scene, lair: str) -> None:
    page = shown.open(f"/repositories/{lair}/object", ref="main", path="log.txt")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert stored == "[{},{}]"
