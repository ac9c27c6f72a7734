"""Five scenarios on one visit, for a service on any driver: log in, create a repository and upload,
compare rows of a branch, merge by a pull request, undo."""

import io
from collections.abc import Callable
from typing import Final

import pyarrow
import pyarrow.parquet
from playwright.sync_api import FilePayload, Page, expect

from graveler.auth.credentials import NewCredential
from tests.ui.scene import Scene

REPO: Final = "page"


def visit(
    shown: Scene,
    key: NewCredential,
    namespace: str,
    further: Callable[[Page], None] = lambda page: None,
) -> None:
    """From an address without a session to an undone merge.  `further`: what else is uploaded."""
    page = shown.open("/repositories", create="true")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    _log_in(page, key)
    _create_and_upload(page, namespace)
    further(page)
    _commit(page, "First files")
    _change_and_see_rows(page)
    _merge_by_a_pull_request(page)
    _undo(page)


def _log_in(page: Page, key: NewCredential) -> None:
    page.get_by_label("Access key id").fill(key.access_key_id)
    page.get_by_label("Secret access key").fill(key.secret_access_key)
    page.get_by_role("button", name="Log in").click()


def _parquet(price: int) -> FilePayload:
    target = io.BytesIO()
    table = pyarrow.table({"id": [1, 2, 3], "price": [10, price, 30]})
    pyarrow.parquet.write_table(table, target)
    kind = "application/vnd.apache.parquet"
    return {"name": "prices.parquet", "mimeType": kind, "buffer": target.getvalue()}


def _create_and_upload(page: Page, namespace: str) -> None:
    dialog = page.get_by_role("dialog", name="New repository")
    dialog.get_by_label("Name", exact=True).fill(REPO)
    dialog.get_by_label("Storage namespace").fill(namespace)
    dialog.get_by_role("button", name="Create the repository").click()
    expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
    page.get_by_label("Files to upload").set_input_files(_parquet(20))
    expect(page.get_by_role("link", name="prices.parquet", exact=True)).to_be_visible()


def _commit(page: Page, message: str) -> None:
    page.get_by_role("link", name="Review and commit").click()
    page.get_by_label("Message").fill(message)
    page.get_by_role("button", name="Commit to ").click()
    expect(page.get_by_text("Uncommitted changes", exact=True)).to_have_count(0)


def _change_and_see_rows(page: Page) -> None:
    page.get_by_role("link", name="Branches", exact=True).click()
    page.get_by_role("button", name="New branch").click()
    dialog = page.get_by_role("dialog", name="New branch")
    dialog.get_by_label("Name").fill("prices")
    dialog.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_text("Branch prices is created.")).to_be_visible()
    page.get_by_label("Files to upload").set_input_files(_parquet(21))
    expect(page.get_by_role("link", name="Review and commit")).to_be_visible()
    _commit(page, "Raise a price")
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="prices.parquet", exact=True).click()
    row = page.get_by_role("region", name="Rows that differ").locator("tbody tr")
    expect(row.locator("ins")).to_have_text("21")
    page.get_by_role("link", name="All files").click()


def _merge_by_a_pull_request(page: Page) -> None:
    page.get_by_role("link", name="Pull request", exact=True).click()
    page.get_by_label("Title").fill("Prices")
    page.get_by_role("button", name="Open it").click()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("merged", exact=True).first).to_be_visible()


def _undo(page: Page) -> None:
    page.get_by_role("link", name="Commits", exact=True).click()
    page.get_by_role("listitem").first.get_by_role("link").first.click()
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this commit")
    dialog.get_by_role("button", name="Undo on main").click()
    expect(page.get_by_role("link", name="Revert").first).to_be_visible()
