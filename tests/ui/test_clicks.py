"""How many clicks the common tasks take, counted from the page of objects; typing is free."""

import io
import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from playwright.sync_api import Page, expect

from tests.api.serving import Served
from tests.ui.scene import Scene, clicks, commit, lake


@pytest.fixture
def own(live: Served) -> str:
    """A lake that a task may change."""
    return lake(live)


@pytest.fixture
def counted(shown: Scene) -> Scene:
    """A scene that counts presses of the mouse."""
    shown.count_clicks()
    return shown


def test_an_address_is_opened_and_pinned_without_a_click(
    counted: Scene, repo: str, live_commit: str
) -> None:
    page = counted.open(f"/repositories/{repo}/objects", ref="main")
    page.keyboard.press("Control+k")
    page.keyboard.insert_text(f"lakefs://{repo}/main/logs/2026/02.txt")
    page.keyboard.press("Enter")
    expect(page.get_by_text("second line")).to_be_visible()
    page.keyboard.press("y")
    expect(page).to_have_url(re.compile(f"ref={live_commit}"))
    assert clicks(page) == 0


def test_changes_are_reviewed_and_committed_by_two_clicks(
    counted: Scene, live: Served, own: str
) -> None:
    live.client.upload(own, "logs/2026/01.json", b"{}")
    live.client.upload(own, "logs/2027/01.json", b"{}")
    page = counted.open(f"/repositories/{own}/objects", ref="main")
    page.get_by_role("link", name="Review and commit").click()
    folder = page.get_by_role("listitem").filter(has_text="logs/")
    expect(folder).to_contain_text("+1")  # totals, without opening the folder
    expect(folder).to_contain_text("~1")
    page.get_by_label("Message").fill("Two logs")
    page.get_by_role("button", name="Commit to main").click()
    expect(page.get_by_text("Uncommitted changes", exact=True)).to_have_count(0)
    assert clicks(page) <= 2


def test_a_branch_is_merged_by_two_clicks(counted: Scene, own: str) -> None:
    page = counted.open(f"/repositories/{own}/objects", ref="prices")
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    preview = page.get_by_label("What a merge changes")
    expect(preview).to_contain_text("+1")
    expect(preview).to_contain_text("~1")
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_text("prices is merged into main.")).to_be_visible()
    assert clicks(page) <= 2


def test_a_conflict_is_resolved_by_one_click(counted: Scene, live: Served, own: str) -> None:
    files = ("one", "two", "three")
    for path in files:
        live.client.upload(own, path, b"main")
        live.client.upload(own, path, b"prices", "prices")
    commit(live.client, own, "main", "Ours")
    commit(live.client, own, "prices", "Theirs")
    page = counted.open(f"/repositories/{own}/objects", ref="prices")
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    for path in files:
        page.get_by_role("group", name=path).get_by_label("Keep that of prices").check()
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_text("prices is merged into main.")).to_be_visible()
    assert clicks(page) <= 2 + len(files)


def test_the_last_commit_is_undone_by_three_clicks(counted: Scene, own: str) -> None:
    page = counted.open(f"/repositories/{own}/objects", ref="main")
    page.get_by_role("main").get_by_role("link", name=re.compile("^[0-9a-f]{10}$")).click()
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this commit")
    expect(dialog.get_by_label("What changes")).to_contain_text("logs/")
    dialog.get_by_role("button", name="Undo on main").click()
    expect(page.get_by_role("link", name="Revert Log of March")).to_be_visible()
    assert clicks(page) <= 3


def test_all_versions_of_a_file_with_their_differences_are_one_click_away(
    counted: Scene, own: str
) -> None:
    page = counted.open(f"/repositories/{own}/objects", ref="prices")
    page.get_by_label("History of prices.csv").click()
    expect(page.get_by_role("link", name="Raise the price of Rome")).to_be_visible()
    expect(page.get_by_role("link", name="First files")).to_be_visible()
    expect(page.get_by_role("link", name="Differences")).to_have_count(2)
    assert clicks(page) <= 1


def test_a_parquet_file_is_looked_into_by_one_click(counted: Scene, live: Served, own: str) -> None:
    target = io.BytesIO()
    table = pyarrow.table({"id": [1, 2, 3], "city": ["Oslo", "Rome", "Lima"]})
    pyarrow.parquet.write_table(table, target)
    live.client.upload(own, "cities.parquet", target.getvalue())
    page = counted.open(f"/repositories/{own}/objects", ref="main")
    page.get_by_role("link", name="cities.parquet", exact=True).click()
    expect(page.get_by_role("cell", name="Oslo")).to_be_visible()
    assert clicks(page) <= 1


def test_what_changed_in_a_table_file_is_two_clicks_away(counted: Scene, repo: str) -> None:
    page = counted.open(f"/repositories/{repo}/objects", ref="prices")
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="prices.csv", exact=True).click()
    expect(page.get_by_text("9.75")).to_be_visible()
    assert clicks(page) <= 2


def test_the_rows_that_a_branch_changed_are_seen_by_two_clicks(counted: Scene, repo: str) -> None:
    page = counted.open(f"/repositories/{repo}/objects", ref="prices")
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="prices.csv").click()
    row = page.get_by_role("region", name="Rows that differ").locator("tbody tr")
    expect(row.locator("del")).to_have_text("9.75")
    expect(row.locator("ins")).to_have_text("10")
    assert clicks(page) == 2


def _table(path: Path, price: float) -> Path:
    table = {"id": [1, 2, 3], "city": ["Oslo", "Rome", "Lima"], "price": [12.5, price, 11.0]}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    return path


def test_from_an_empty_store_to_an_undone_merge(
    counted: Scene, live: Served, tmp_path: Path
) -> None:
    """What somebody does on the first day, who has only the address."""
    page = counted.open("/repositories")

    def spent(most: int) -> None:
        assert clicks(page) <= most
        page.evaluate("sessionStorage.clear()")

    # A repository, with a file.
    page.get_by_role("button", name="New repository").click()
    page.get_by_label("Name", exact=True).fill("first-day")
    page.get_by_role("button", name="Create the repository").click()
    expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
    spent(2)
    _upload(page, _table(tmp_path / "cities.parquet", 9.75))
    page.get_by_role("link", name="Review and commit").click()
    page.get_by_label("Message").fill("Prices of three cities")
    page.get_by_role("button", name="Commit to main").click()
    expect(page.get_by_role("link", name="cities.parquet", exact=True)).to_be_visible()
    spent(3)
    # A branch, on which the file is replaced.
    page.get_by_role("button", name="Ref main").click()
    page.get_by_label("Prefix of the name, or a commit").fill("dearer")
    page.get_by_role("button", name="Create the branch dearer").click()
    expect(page.get_by_role("button", name="Ref dearer")).to_be_visible()
    spent(2)
    _upload(page, _table(tmp_path / "cities.parquet", 10.0))
    page.get_by_role("link", name="Review and commit").click()
    page.get_by_label("Message").fill("Rome is dearer")
    page.get_by_role("button", name="Commit to dearer").click()
    spent(3)
    # Which rows changed.
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="cities.parquet").click()
    row = page.get_by_role("region", name="Rows that differ").locator("tbody tr")
    expect(row.locator("del")).to_have_text("9.75")
    expect(row.locator("ins")).to_have_text("10")
    spent(2)
    # A pull request with a comment, merged.
    page.get_by_role("link", name="All files").click()
    page.get_by_role("link", name="Pull request", exact=True).click()
    page.get_by_role("button", name="Open it").click()
    page.get_by_label("Comment (Markdown)").fill("Agreed with Rome.")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.get_by_text("Agreed with Rome.")).to_be_visible()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("merged by")).to_be_visible()
    spent(5)
    # The merge is undone.
    page.get_by_role("main").get_by_role("link", name=re.compile("^[0-9a-f]{10}$")).click()
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this commit")
    expect(dialog.get_by_label("What changes")).to_contain_text("cities.parquet")
    dialog.get_by_role("button", name="Undo on main").click()
    expect(page.get_by_role("link", name=re.compile("^Revert"))).to_be_visible()
    spent(3)
    query = {"path": "cities.parquet"}
    kept = live.client.send("GET", "/repositories/first-day/refs/main/objects", query).body
    assert kept == _table(tmp_path / "old.parquet", 9.75).read_bytes()


def _upload(page: Page, file: Path) -> None:
    with page.expect_file_chooser() as asked:
        page.get_by_role("button", name="Upload", exact=True).click()
    asked.value.set_files(file)
    expect(page.get_by_text("Uncommitted changes", exact=True)).to_be_visible()
