"""The rows that differ between two versions of a table: counts, cells, keys, bounds."""

import io
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.api.serving import Served
from tests.ui.scene import NARROW, WIDE, Scene, commit, good, scene
from tests.waiting import until

ATTACK = "<img src=x onerror=alert(1)>"


def _versions(live: Served, path: str, before: bytes, after: bytes) -> str:
    """A repository with one version of a file on `main` and the next one on `next`; its name."""
    repo, client = live.fresh_repository(), live.client
    client.upload(repo, path, before)
    commit(client, repo, "main", "Before")
    branch = {"name": "next", "source": "main"}
    good(client.send("POST", f"/repositories/{repo}/branches", body=branch))
    client.upload(repo, path, after, "next")
    commit(client, repo, "next", "After")
    return repo


def _open(shown: Scene, repo: str, path: str, **query: str) -> Page:
    where = f"/repositories/{repo}/compare"
    return shown.open(where, ref="main", compare="next", file=path, **query)


def _parquet(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink, row_group_size=100, compression="zstd")
    return sink.getvalue()


def _rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Rows that differ").locator("tbody tr")


def _texts(rows: Locator) -> list[str]:
    return [re.sub(r"\s+", " ", text).strip() for text in rows.all_inner_texts()]


BEFORE = "id,city,price\n1,Oslo,12.5\n2,Rome,9.75\n3,Lima,11\n4,Bonn,1\n"
AFTER = "id,city,price\n4,Bonn,1\n2,Rome,10\n3,Lyon,12\n1,Oslo,12.5\n5,Nice,\n"


def test_rows_of_a_csv_file_are_matched_by_the_guessed_key(shown: Scene, live: Served) -> None:
    """One click from the list of files to the rows; the order of the rows does not matter."""
    after = AFTER.replace("1,Oslo,12.5\n", "")
    repo = _versions(live, "prices.csv", BEFORE.encode(), after.encode())
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="next")
    page.get_by_role("link", name="prices.csv").click()
    expect(page.get_by_text("1 row added, 1 removed, 2 changed")).to_be_visible()
    expect(page.get_by_text("4 rows before, 4 after")).to_be_visible()
    expect(page.get_by_text("Key: id (guessed)")).to_be_visible()
    assert _texts(_rows(page)) == [
        "1 − removed 1 Oslo 12.5",
        "2 ~ changed 2 Rome 9.75 10",
        "3 ~ changed 3 Lima Lyon 11 12",
        '4 + added 5 Nice ""',
    ]
    changed = _rows(page).nth(1)
    expect(changed.locator("del")).to_have_text("9.75")
    expect(changed.locator("ins")).to_have_text("10")
    totals = page.get_by_role("table", name="Changed cells per column")
    assert _texts(totals.locator("tbody tr")) == [
        "city 1",
        "price 2 8.5625 → 7.66667 (−10.5 %)",
    ]
    page.get_by_role("link", name="Changed").click()
    expect(_rows(page)).to_have_count(2)
    page.get_by_role("link", name="All files").click()
    expect(page.get_by_role("link", name="prices.csv")).to_be_visible()


def test_the_key_is_chosen_and_stays_in_the_link(shown: Scene, live: Served) -> None:
    repo = _versions(live, "prices.csv", BEFORE.encode(), AFTER.encode())
    page = _open(shown, repo, "prices.csv")
    expect(page.get_by_text("1 row added, 0 removed, 2 changed")).to_be_visible()
    page.get_by_text("Key: id (guessed)").click()
    page.get_by_role("checkbox", name="id").uncheck()
    expect(page.get_by_text("3 rows added, 2 removed")).to_be_visible()
    page.get_by_role("checkbox", name="city").check()
    expect(page.get_by_text("2 rows added, 1 removed, 1 changed")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Key: city", exact=True)).to_be_visible()
    expect(page.get_by_text("2 rows added, 1 removed, 1 changed")).to_be_visible()


def test_rows_of_a_parquet_file_and_its_schema_are_compared(shown: Scene, live: Served) -> None:
    import pyarrow as pa

    numbers = list(range(250))
    names: list[str | None] = [f"name {number}" for number in numbers]
    before = {
        "name": names,
        "row_id": numbers,
        "size": pa.array(numbers, pa.int32()),
        "old": numbers,
    }
    changed = [*names]
    changed[7], changed[240] = None, ATTACK
    after = {
        "name": changed[1:],
        "row_id": numbers[1:],
        "size": pa.array(numbers[1:], pa.int64()),
        ATTACK: numbers[1:],
    }
    repo = _versions(live, "t.parquet", _parquet(before), _parquet(after))
    page = _open(shown, repo, "t.parquet")
    expect(page.get_by_text("0 rows added, 1 removed, 2 changed")).to_be_visible()
    expect(page.get_by_text("Key: row_id (guessed)")).to_be_visible()
    assert _texts(_rows(page)) == [
        "1 − removed 0 name 0 0 0",
        "7 ~ changed 7 name 7 null 7 7 7",
        f"240 ~ changed 240 name 240 {ATTACK} 240 240 240",
    ]
    schema = page.get_by_role("region", name="Columns that differ").get_by_role("listitem")
    assert _texts(schema) == [
        "~ changed Column size INT32 INT64",
        f"+ added Column {ATTACK} INT64",
        "− removed Column old INT64",
    ]
    assert page.workers


def test_without_a_key_rows_are_a_multiset(shown: Scene, live: Served) -> None:
    before = b"city,kind\nOslo,a\nOslo,a\nOslo,a\nRome,b\nRome,b\n"
    after = b"city,kind\nRome,b\nOslo,a\nLima,c\nRome,b\n"
    repo = _versions(live, "list.csv", before, after)
    page = _open(shown, repo, "list.csv")
    expect(page.get_by_text("1 row added, 2 removed (5 rows before, 4 after)")).to_be_visible()
    expect(page.get_by_text("Key: none, whole rows (guessed)")).to_be_visible()
    assert sorted(_texts(_rows(page))) == [
        "2 − removed Oslo a",
        "3 + added Lima c",
        "3 − removed Oslo a",
    ]


@pytest.mark.parametrize(
    ("before", "counts"),
    [(b"", "2 rows added, 0 removed"), (b"town\nOslo\n", "2 rows added, 1 removed")],
    ids=["empty", "renamed"],
)
def test_versions_without_a_common_column_share_no_row(
    shown: Scene, live: Served, before: bytes, counts: str
) -> None:
    repo = _versions(live, "list.csv", before, b"city\nOslo\nRome\n")
    page = _open(shown, repo, "list.csv")
    expect(page.get_by_text(counts)).to_be_visible()
    expect(_rows(page).filter(has_text="added")).to_have_count(2)


def test_rows_with_a_repeated_key_are_paired_after_the_equal_ones(
    shown: Scene, live: Served
) -> None:
    before, after = b"id,n\n1,a\n1,b\n1,c\n", b"id,n\n1,c\n1,x\n1,a\n1,y\n"
    repo = _versions(live, "list.csv", before, after)
    page = _open(shown, repo, "list.csv", key="id")
    expect(page.get_by_text("1 row added, 0 removed, 1 changed")).to_be_visible()
    expect(page.get_by_text("The key is not unique: 1 key on several rows")).to_be_visible()
    assert _texts(_rows(page)) == ["2 ~ changed 1 b x", "4 + added 1 y"]


def test_columns_with_the_same_name_and_hostile_cells_are_text(shown: Scene, live: Served) -> None:
    before = f'id,a,a,"{ATTACK}"\n1,x,y,"{ATTACK}"\n'
    after = f'id,a,a,"{ATTACK}"\n1,x,z,"{ATTACK}\u202e"\n'
    repo = _versions(live, "list.csv", before.encode(), after.encode())
    page = _open(shown, repo, "list.csv", key=ATTACK)  # a key of a link: no column
    expect(page.get_by_role("columnheader", name="a (2)")).to_be_visible()
    page.goto(page.url.split("&key=")[0])
    shown.settle()
    expect(_rows(page).locator("ins").last).to_have_text(f"{ATTACK}\\u202e")
    assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"1\n" * 500_002, "a version has more than 500,000 rows"),
        (b"x" * (32 * 1024 * 1024 + 1), "a version is larger than 32.0 MiB"),
    ],
    ids=["rows", "bytes"],
)
def test_more_than_the_bound_leads_to_a_command(
    shown: Scene, live: Served, content: bytes, reason: str
) -> None:
    repo = _versions(live, "large.csv", b"id\n1\n", content)
    page = _open(shown, repo, "large.csv")
    expect(page.get_by_role("heading", name=f"The rows are not compared: {reason}")).to_be_visible()
    now, then = (
        f"FROM read_csv('\\''s3://{repo}/{ref}/large.csv'\\'')" for ref in ("next", "main")
    )
    expect(page.get_by_text(f"duckdb -c '{now} EXCEPT ALL {then}'")).to_be_visible()
    expect(page.get_by_text(f"graveler diff --rows {repo}/main..next -- large.csv")).to_be_visible()


def test_a_version_that_is_no_parquet_is_explained(shown: Scene, live: Served) -> None:
    broken = b"PAR1" + b"\xff" * 200 + b"PAR1"
    repo = _versions(live, "t.parquet", _parquet({"id": [1]}), broken)
    page = _open(shown, repo, "t.parquet")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("link", name="Open")).to_have_count(2)


def test_a_comparison_without_an_end_is_killed(shown: Scene, live: Served) -> None:
    repo = _versions(live, "prices.csv", BEFORE.encode(), AFTER.encode())
    page = shown.page
    endless = {"content_type": "text/javascript", "body": "onmessage = () => { for (;;); };"}
    page.route("**/rowsdiff-worker.js", lambda route: route.fulfill(**endless))
    page.clock.install()
    with page.expect_worker() as worker:
        page.goto(
            f"{live.client.url}/repositories/{repo}/compare?ref=main&compare=next&file=prices.csv"
        )
    with worker.value.expect_event("close"):
        until(lambda: _is_killed(page), "the time limit passes")
    expect(page.get_by_role("alert")).to_contain_text("not compared within 20 seconds")


def _is_killed(page: Page) -> bool:
    page.clock.fast_forward(21_000)  # has no effect before the worker got the versions
    return page.get_by_role("alert").count() > 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=str)
def test_the_rows_break_no_rule_of_accessibility_or_width(
    browser: Browser, live: Served, size: tuple[int, int]
) -> None:
    wide = "".join(f",column number {number}" for number in range(12))
    before = f"id,city{wide}\n" + "".join(f"{n},Oslo{',x' * 12}\n" for n in range(25))
    after = before.replace(",x,", ",y,").replace("3,Oslo", "103,Oslo")
    repo = _versions(live, "prices.csv", before.encode(), (after + "9999,Bonn\n").encode())
    with scene(browser, live, size=size) as shown:
        page = _open(shown, repo, "prices.csv")
        expect(page.get_by_text("4 rows added, 3 removed, 22 changed")).to_be_visible()
        page.locator(".key-picker summary").click()
        expect(page.get_by_role("checkbox", name="id")).to_be_visible()
        assert shown.axe() + shown.dark_axe() == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        end = "document.querySelector('.page-footer').getBoundingClientRect().bottom + scrollY"
        assert page.evaluate(f"document.documentElement.scrollHeight - ({end})") <= 100


def test_a_key_is_kept_for_the_files_of_all_days(shown: Scene, live: Served) -> None:
    repo = _versions(live, "sales/2026-01.csv", BEFORE.encode(), AFTER.encode())
    page = _open(shown, repo, "sales/2026-01.csv")
    page.get_by_text("Key: id (guessed)").click()
    page.get_by_role("checkbox", name="id").uncheck()
    page.get_by_role("checkbox", name="city").check()
    page.get_by_role("button", name="Keep it for sales/*-*.csv").click()
    expect(page.get_by_text("Key: city (kept)")).to_be_visible()
    metadata = live.client.send("GET", f"/repositories/{repo}/metadata").json
    assert metadata["graveler.rows.key sales/*-*.csv"] == "city"
    for branch, text in (("main", BEFORE), ("next", AFTER)):
        live.client.upload(repo, "sales/2026-02.csv", text.encode(), branch)
    page = _open(shown, repo, "sales/2026-02.csv")
    expect(page.get_by_text("2 rows added, 1 removed, 1 changed")).to_be_visible()
    page.get_by_text("Key: city (kept)").click()
    page.get_by_role("button", name="Forget the kept key").click()
    expect(page.get_by_text("Key: id (guessed)")).to_be_visible()
    expect(page.get_by_text("1 row added, 0 removed, 2 changed")).to_be_visible()
