"""How the objects look in a notebook: one that a kernel has run."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.ui.scene import launched
from tests.waiting import PATIENCE_SECONDS

# A kernel and a store are started, in a process of their own.
pytestmark = pytest.mark.slow
CELLS = (
    "import graveler\nlake = graveler.open('store')\nlake",
    "shop = lake.create_repository('shop')\nmain = shop.branch('main')\n"
    "text = main.write_text('<b>1</b>.csv', 'id\\n1\\n')\nmain.status()",
    "main",
    "main.commit('load <script>alert(1)</script>')",
    "main.log()",
    "for n in range(30):\n    text = main.write_text(f'many/{n:02}', 'x')\nmain.list('many/')",
    "shop",
    "lake",
    "shop.branch('none').log()",
    "lake.close()\nmain.log()",
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each cell shows, by the type of its content."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in CELLS])
    client = NotebookClient(
        notebook, timeout=PATIENCE_SECONDS, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [dict(cell["outputs"][-1]["data"]) for cell in notebook["cells"]]


def rows(html: str) -> list[list[str]]:
    """The cells of a table."""
    lines = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in lines]


def test_objects_show_tables_and_lines(shown: list[dict[str, Any]]) -> None:
    assert "repositories of" in shown[0]["text/html"]
    status = shown[1]["text/html"]
    assert "uncommitted on shop/main" in status
    assert rows(status) == [["", "path", "size"], ["+", "&lt;b&gt;1&lt;/b&gt;.csv", "5 B"]]
    assert re.search(r"branch shop/main at [0-9a-f]{12} .*; 1 uncommitted", shown[2]["text/html"])
    log = rows(shown[4]["text/html"])
    assert log[0] == ["", "commit", "age", "committer", "message"]
    assert [line[0] for line in log[1:]] == ["*", "*"]
    assert [line[4] for line in log[1:]] == [
        "load &lt;script&gt;alert(1)&lt;/script&gt;",
        "Repository created",
    ]
    branches = rows(shown[6]["text/html"])
    assert branches == [["branch", "commit"], ["main", log[1][1]]]
    assert rows(shown[7]["text/html"]) == [["name"], ["shop"]]


def test_a_long_list_shows_its_beginning(shown: list[dict[str, Any]]) -> None:
    listed = rows(shown[5]["text/html"])
    assert [line[0] for line in listed] == ["path", *(f"many/{n:02}" for n in range(20)), "…"]
    assert shown[5]["text/plain"].endswith("…")


def test_nothing_that_others_wrote_becomes_markup(shown: list[dict[str, Any]]) -> None:
    for each in shown:
        assert not {"<script", "<b>"} & set(re.findall(r"<\w+>?", each.get("text/html", "")))


def test_what_cannot_be_asked_shows_why_and_does_not_fail(shown: list[dict[str, Any]]) -> None:
    assert "not found" in shown[8]["text/html"]
    assert "the store is closed" in shown[9]["text/html"]


def test_a_browser_draws_it(shown: list[dict[str, Any]], tmp_path: Path) -> None:
    """The picture is notebook.png in the temporary folder of the test."""
    html = [each["text/html"] for each in shown if "text/html" in each]
    with launched() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 600})
        page.set_content("<hr>".join(html))
        picture = page.screenshot(path=tmp_path / "notebook.png", full_page=True)
        tables = page.locator("table")
        assert tables.count() == sum("<table>" in each for each in html)
        assert all(each.is_visible() for each in tables.all())
        assert page.locator("caption").first.inner_text() == "uncommitted on shop/main"
        graph = page.locator("table", has_text="log of shop/main").locator("tbody td").first
        assert "monospace" in graph.evaluate("cell => getComputedStyle(cell).fontFamily")
        assert page.evaluate("document.documentElement.scrollWidth") <= 900  # no line is cut
    assert picture.startswith(b"\x89PNG")
