"""Five scenarios of the page on any driver.  A class that inherits them has `place`."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.parquet
import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

import graveler
from graveler.auth.credentials import NewCredential
from tests.api.serving import Client
from tests.ui.scene import Scene, watched

REPO: Final = "page"
FILE: Final = "prices.parquet"
LARGE: Final = b"one line\n" * 600_000  # more than a function takes in one request


@dataclass(frozen=True)
class Place:
    """A service: its client without a key, a key, and what namespaces of its storage begin with."""

    client: Client
    key: NewCredential
    storage: str
    below: str = ""  # the path below which it is served
    large: bytes = b""  # of a file that is uploaded too


def table(price: int) -> bytes:
    """A Parquet file, in which one price is this."""
    target = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2, 3], "price": [10, price, 30]}), target)
    return target.getvalue()


class PageSuite:
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Place:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def where(cls, place: Place) -> str:
        """The path of a repository.  On `main` is a table; `rows` and `merged` change it; the last
        commit of `main` adds another file."""
        url = place.client.url + place.below
        with graveler.connect(url, place.key.access_key_id, place.key.secret_access_key) as lake:
            main = lake.create_repository(REPO, f"{place.storage}{REPO}").branch("main")
            main.write_bytes(FILE, table(20))
            main.commit("Prices")
            for name in ("rows", "merged"):
                branch = main.create_branch(name)
                branch.write_bytes(FILE, table(21))
                branch.commit(f"Raise a price on {name}")
            main.write_text("mistake.txt", "none")
            main.commit("A mistake")
        return f"/repositories/{REPO}"

    @pytest.fixture
    def seen(self, browser: Browser, place: Place) -> Iterator[Scene]:
        with watched(browser, place.client, place.below) as shown:
            yield shown

    def test_who_logs_in_creates_a_repository_and_commits_an_upload(
        self, seen: Scene, place: Place
    ) -> None:
        page = enter(seen, place, "/repositories", create="true")
        dialog = page.get_by_role("dialog", name="New repository")
        dialog.get_by_label("Name", exact=True).fill("first")
        dialog.get_by_label("Storage namespace").fill(f"{place.storage}first")
        dialog.get_by_role("button", name="Create the repository").click()
        expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
        put(page, FILE, table(20))
        if place.large:
            with page.expect_request(lambda request: request.method == "PUT") as sent:
                put(page, "large.txt", place.large)
            assert "X-Amz-Signature" in sent.value.url
        page.get_by_role("link", name="Review and commit").click()
        page.get_by_label("Message").fill("First files")
        page.get_by_role("button", name="Commit to ").click()
        expect(page.get_by_text("Uncommitted changes", exact=True)).to_have_count(0)
        if place.large:
            with page.expect_request(lambda request: "X-Amz-Signature" in request.url) as asked:
                seen.open("/repositories/first/object", ref="main", path="large.txt")
            assert asked.value.method == "GET"
            expect(page.get_by_role("region", name="Text")).to_contain_text("one line")
            expect(page.get_by_text("graveler storage cors")).to_have_count(0)
            expect(page.locator(".page-footer")).to_contain_text("about $0.0")

    def test_a_table_is_shown(self, seen: Scene, place: Place, where: str) -> None:
        page = enter(seen, place, where + "/object", ref="rows", path=FILE)
        expect(page.get_by_role("cell", name="21", exact=True)).to_be_visible()

    def test_rows_that_a_branch_changed_are_shown(
        self, seen: Scene, place: Place, where: str
    ) -> None:
        page = enter(seen, place, where + "/compare", ref="main", compare="rows")
        page.get_by_role("link", name=FILE, exact=True).click()
        row = page.get_by_role("region", name="Rows that differ").locator("tbody tr")
        expect(row.locator("ins")).to_have_text("21")

    def test_a_branch_is_merged_by_a_pull_request_with_a_comment(
        self, seen: Scene, place: Place, where: str
    ) -> None:
        page = enter(seen, place, where + "/pulls/create", compare="merged")
        page.get_by_label("Title").fill("Prices")
        page.get_by_role("button", name="Open it").click()
        page.get_by_label("Comment (Markdown)").fill("Agreed.")
        page.get_by_role("button", name="Comment", exact=True).click()
        expect(page.get_by_text("Agreed.")).to_be_visible()
        page.get_by_role("button", name="Merge", exact=True).click()
        expect(page.get_by_text("merged", exact=True).first).to_be_visible()

    def test_a_commit_is_undone(self, seen: Scene, place: Place, where: str) -> None:
        page = enter(seen, place, where + "/commits", ref="main")
        page.get_by_role("link", name="A mistake").click()
        page.get_by_role("button", name="Undo").click()
        dialog = page.get_by_role("dialog", name="Undo this commit")
        expect(dialog.get_by_label("What changes")).to_contain_text("mistake.txt")
        dialog.get_by_role("button", name="Undo on main").click()
        expect(page.get_by_role("link", name="Revert A mistake").first).to_be_visible()


def enter(seen: Scene, place: Place, page_path: str, /, **query: str) -> Page:
    """Open a page without a session, and log in: the page is shown then."""
    page = seen.open(page_path, **query)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Access key id").fill(place.key.access_key_id)
    page.get_by_label("Secret access key").fill(place.key.secret_access_key)
    page.get_by_role("button", name="Log in").click()
    return page


def put(page: Page, name: str, content: bytes) -> None:
    file: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    page.get_by_label("Files to upload").set_input_files(file)
    expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
