"""A file: its viewers, details, the lines that use it, and its differences between refs."""

import base64
import io
import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.api.serving import Served
from tests.ui.scene import Scene, commit, lake

ATTACK = "<img src=x onerror=alert(1)>"

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def test_markdown_is_shown_with_its_links(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    text = "# Title\n\n- *one* [data](../b.txt)\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n    code\n"
    live.client.upload(repo, "docs/a.md", text.encode())
    live.client.upload(repo, "b.txt", b"the data")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="docs/a.md")
    expect(page.get_by_role("heading", name="Title")).to_be_visible()
    expect(page.get_by_role("cell", name="2")).to_be_visible()
    page.get_by_role("link", name="data", exact=True).click()
    expect(page.get_by_role("region", name="Text")).to_contain_text("the data")


def test_csv_is_a_table(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="prices", path="prices.csv")
    expect(page.get_by_role("columnheader", name="city")).to_be_visible()
    expect(page.get_by_role("row", name="2 2 Rome 10")).to_be_visible()
    page.get_by_role("link", name="As text").click()
    expect(page.get_by_role("region", name="Text")).to_contain_text("2,Rome,10")
    assert page.url.endswith("&view=raw")


def test_rows_are_exported_and_no_spreadsheet_takes_them_for_formulas(
    shown: Scene, live: Served
) -> None:
    repo = live.fresh_repository()
    lines = ["a,b", "=1+1,-2.5", "@x,+cmd", '"\t=1","say ""no"", please"', "-1e3,-x"]
    live.client.upload(repo, "rows.csv", "\n".join(lines).encode())
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="rows.csv")
    with page.expect_download() as download:
        page.get_by_role("button", name="These rows as CSV").click()
    assert download.value.suggested_filename == "rows-rows.csv"
    field = "'\t=1," + '"say ""no"", please"'
    expected = ["a,b", "'=1+1,-2.5", "'@x,'+cmd", field, "-1e3,'-x", ""]
    assert download.value.path().read_bytes().decode().split("\r\n") == expected


def test_the_columns_that_are_shown_are_in_the_address(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="prices", path="prices.csv")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("city", exact=True).uncheck()
    expect(page.get_by_role("row", name="2 2 10", exact=True)).to_be_visible()
    assert page.url.endswith("&cols=id%2Cprice")
    page.reload()
    expect(page.get_by_role("row", name="2 2 10", exact=True)).to_be_visible()
    page.get_by_text("2 of 3 columns").click()
    page.get_by_role("button", name="All columns").click()
    expect(page.get_by_role("row", name="2 2 Rome 10")).to_be_visible()


def test_json_is_a_tree_that_folds(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="logs/2026/01.json")
    expect(page.get_by_text('"text"')).to_be_visible()
    page.locator(".json-fold").first.click()
    expect(page.get_by_text('"text"')).to_have_count(0)


def test_lines_of_json_are_text(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.jsonl", b'{"id": 1}\n{"id": 2}\n')
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="rows.jsonl")
    expect(page.get_by_role("region", name="Text")).to_contain_text('{"id": 2}')


def test_an_image_is_a_picture(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "dot.png", PNG)
    live.client.upload(repo, "broken.png", b"no image")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="dot.png")
    image = page.get_by_role("img", name="dot.png")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.naturalWidth") == 1
    shown.open(f"/repositories/{repo}/object", ref="main", path="broken.png")
    expect(page.get_by_role("heading", name="This is no image")).to_be_visible()


def test_a_notebook_is_shown_with_its_outputs(shown: Scene, live: Served) -> None:
    pixel = base64.b64encode(PNG).decode()
    frame = {"text/html": ["<table onclick=alert(1)>"], "text/plain": ["   id\n", "0   1"]}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
        {"output_type": "execute_result", "data": frame, "execution_count": 2},
        {"output_type": "display_data", "data": {"image/png": pixel}},
        {"output_type": "display_data", "data": {"text/html": "<script>alert(1)</script>"}},
        {"output_type": "error", "ename": "E", "traceback": ["\x1b[31mE: no\x1b[0m"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Prices\n", "of *all* cities"]},
        {"cell_type": "code", "source": "print(1)", "execution_count": 2, "outputs": outputs},
        *({"cell_type": "raw", "source": f"raw {number}"} for number in range(60)),
    ]
    repo = live.fresh_repository()
    content = json.dumps({"nbformat": 4, "cells": cells})
    live.client.upload(repo, "a.ipynb", content.encode())
    live.client.upload(repo, "old.ipynb", b'{"worksheets": []}')
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="a.ipynb")
    expect(page.get_by_role("heading", name="Prices")).to_be_visible()
    main = page.get_by_role("main")
    for text in ("[2]", "print(1)", "one\ntwo", "   id\n0   1", "E: no"):
        expect(main).to_contain_text(text)
    expect(main).to_contain_text("An output that is not shown: text/html")
    expect(main).not_to_contain_text("31m")
    image = page.get_by_role("img", name="output.png")
    expect(image).to_be_visible()
    expect(main).not_to_contain_text("raw 59")
    page.get_by_role("button", name="12 more cells").click()
    expect(main).to_contain_text("raw 59")
    assert shown.axe() == []
    shown.open(f"/repositories/{repo}/object", ref="main", path="old.ipynb")
    expect(main).to_contain_text("This is no notebook of format 4")


def test_details_and_lines_for_programs_are_pinned(
    shown: Scene, repo: str, live_commit: str
) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="prices.csv", view="details")
    expect(page.get_by_text("48 B (48 bytes)")).to_be_visible()
    page.get_by_role("link", name="Use this").click()
    expect(
        page.get_by_text(f"graveler cp lakefs://{repo}/{live_commit}/prices.csv .")
    ).to_be_visible()
    expect(
        page.get_by_text(f'pandas.read_csv("graveler://{repo}/{live_commit}/prices.csv")')
    ).to_be_visible()


def test_lines_for_an_uncommitted_version_name_the_branch(shown: Scene, live: Served) -> None:
    repo = lake(live)
    live.client.upload(repo, "prices.csv", b"id\n1\n")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="prices.csv", view="use")
    expect(page.get_by_text("This version is not committed")).to_be_visible()
    expect(
        page.get_by_text(f'pandas.read_csv("graveler://{repo}/main/prices.csv")')
    ).to_be_visible()
    line = f'commit = graveler.connect().repository("{repo}").ref("main")'
    expect(page.get_by_role("region", name="Lines for Python")).to_contain_text(line)


def test_a_file_is_downloaded_as_it_is(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="logs/2026/02.txt")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == b"first line\nsecond line\n"


def test_the_lines_that_differ_are_shown(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="prices")
    page.get_by_role("link", name="prices.csv").click()
    page.get_by_role("link", name="Lines", exact=True).click()
    lines = page.get_by_role("region", name="Lines that differ")
    expect(lines).to_contain_text("− 2,Rome,9.75")
    expect(lines).to_contain_text("+ 2,Rome,10")


def test_an_uncommitted_change_is_compared_with_the_commit(shown: Scene, live: Served) -> None:
    repo = lake(live)
    live.client.upload(repo, "README.md", b"# Other\n")
    page = shown.open(f"/repositories/{repo}/objects", ref="main", showChanges="true")
    page.get_by_role("link", name="README.md").click()
    lines = page.get_by_role("region", name="Lines that differ")
    expect(lines).to_contain_text("− # Sales")
    expect(lines).to_contain_text("+ # Other")


def test_the_history_of_a_file_has_its_commits_alone(shown: Scene, live: Served) -> None:
    repo = lake(live)
    live.client.upload(repo, "README.md", b"# Other\n")
    commit(live.client, repo, "main", "Rename the title")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="README.md")
    page.get_by_role("link", name="History").click()
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.get_by_role("link", name="Differences").first.click()
    expect(page.get_by_role("region", name="Lines that differ")).to_contain_text("+ # Other")


def _parquet(**options: object) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(
        {
            "id": range(250),
            "name": [f"row {number}" for number in range(249)] + [ATTACK],
            "at": pa.array([0] * 250, pa.timestamp("ms")),
            "list": [[1, 2]] * 250,
            "none": pa.nulls(250, pa.int32()),
        }
    )
    sink = io.BytesIO()
    parquet.write_table(table, sink, row_group_size=100, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy"},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "write_page_index": True},
        {"compression": "lz4"},
        {"compression": "brotli", "use_dictionary": False},
    ],
    ids=lambda options: str(options["compression"]),
)
def test_parquet_is_read_in_a_worker(shown: Scene, live: Served, options: Any) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", _parquet(**options))
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="rows.parquet")
    expect(page.get_by_text("250 rows, 5 columns, 3 row groups")).to_be_visible()
    rows = page.get_by_role("region", name="Rows of the file")
    expect(
        rows.get_by_role("row", name="1 0 row 0 1970-01-01T00:00:00.000Z [1,2] null")
    ).to_be_visible()
    columns = page.get_by_role("region", name="Columns of the file")
    expect(columns.get_by_role("row", name="id int64 0 0 249")).to_be_visible()
    for line in ("name string 0", "at timestamp (millis) 0", "list.list.element int64 0"):
        expect(columns.get_by_role("row", name=line)).to_be_visible()
    page.get_by_role("button", name="Next 100").click()
    page.get_by_role("button", name="Next 100").click()
    expect(rows.get_by_text(ATTACK)).to_be_visible()
    assert page.workers


def test_the_schema_of_parquet_is_shown_without_its_rows(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", _parquet())
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="rows.parquet")
    page.get_by_role("button", name="Next 100").click()
    page.get_by_role("button", name="Next 100").click()
    assert page.url.endswith("&row=201")
    page.get_by_role("link", name="Schema").click()
    expect(page.get_by_role("region", name="Rows of the file")).to_have_count(0)
    page.get_by_role("button", name="Histograms of a sample").click()
    expect(page.get_by_text("Histograms of 250 rows of 3 row groups: a sample.")).to_be_visible()
    expect(page.get_by_role("row", name="name string")).to_contain_text("none")
    bars = page.get_by_role("group", name="250 values from 0 to 249").get_by_role("link")
    expect(bars).to_have_count(10)
    assert shown.axe() == []
    bars.last.click()
    expect(page.get_by_text("Only rows with id from 224.1")).to_be_visible()
    rows = page.get_by_role("region", name="Rows of the file").locator("tbody tr")
    expect(rows).to_have_count(25)
    expect(rows.first).to_contain_text("row 225")
    page.get_by_role("link", name="All rows").click()
    expect(rows).to_have_count(100)


def test_rows_of_a_range_of_times_are_found_beyond_the_first_hundred(
    shown: Scene, live: Served
) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", _parquet())
    where = {"ref": "main", "path": "rows.parquet", "where": "at:0..1", "row": "201"}
    page = shown.open(f"/repositories/{repo}/object", **where)
    expect(page.get_by_text("Only rows with at from 1970-01-01T00:00:00.000Z")).to_be_visible()
    rows = page.get_by_role("region", name="Rows of the file").locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Previous 100").click()
    expect(rows).to_have_count(100)
    expect(page.get_by_role("button", name="Next 100")).to_be_visible()
    shown.open(f"/repositories/{repo}/object", **{**where, "where": "at:1..", "row": ""})
    expect(page.get_by_role("heading", name="No row is in this range")).to_be_visible()


def test_chosen_columns_of_parquet_are_read_alone(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", _parquet())
    where = {"ref": "main", "path": "rows.parquet", "cols": "at,id", "row": "201"}
    page = shown.open(f"/repositories/{repo}/object", **where)
    rows = page.get_by_role("region", name="Rows of the file")
    expect(rows.get_by_role("row", name="201 200 1970-01-01T00:00:00.000Z")).to_be_visible()
    expect(rows.get_by_role("columnheader")).to_have_text(["Row", "id", "at"])
    expect(page.get_by_text("2 of 5 columns")).to_be_visible()


def test_columns_that_are_large_together_are_read_when_the_reader_agrees(
    shown: Scene, live: Served
) -> None:
    """Each column has 3.2 MB, so that each read is small."""
    import pyarrow as pa
    from pyarrow import parquet

    numbers = pa.Array.from_buffers(pa.int64(), 400_000, [None, pa.py_buffer(bytes(3_200_000))])
    sink = io.BytesIO()
    table = pa.table({f"c{number}": numbers for number in range(6)})
    parquet.write_table(
        table, sink, compression="none", use_dictionary=False, row_group_size=400_000
    )
    repo = live.fresh_repository()
    live.client.upload(repo, "rows.parquet", sink.getvalue())
    where = {"ref": "main", "path": "rows.parquet", "cols": "c0,c2,c4"}
    page = shown.open(f"/repositories/{repo}/object", **where)
    expect(page.get_by_text("or more of the file, which has no smaller parts")).to_be_visible()
    assert page.get_by_role("region", name="Rows of the file").count() == 0
    page.get_by_role("button", name="Read it").click()
    expect(page.get_by_role("region", name="Rows of the file")).to_be_visible()


def test_a_parquet_file_that_is_none_is_explained(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "a.parquet", b"PAR1" + b"\xff" * 200 + b"PAR1")
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="a.parquet")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("link", name="Details").click()
    expect(page.get_by_text("Stored at")).to_be_visible()
