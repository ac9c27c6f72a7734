"""The tour of `docs/tutorial/0-page.md` in a real browser; as a program, it makes the pictures.

    .venv/bin/python -m tests.ui.tour [FOLDER]

Each step is what the document tells a reader to do.  The pictures show a fresh store, so nothing is
older than "just now"; only the ids of commits differ from run to run.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, FilePayload, FloatRect, Page, expect

from graveler.cli.support.demo import REPOSITORY, tell
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, Served, served
from tests.ui.png import repacked
from tests.ui.scene import ROOT, Scene, launched, scene

DOCUMENT: Final = ROOT / "docs" / "tutorial" / "0-page.md"
PICTURES: Final = DOCUMENT.parent / "page"
SIZE: Final = (1200, 520)
MARGIN: Final = 40  # around a dialog
TOKEN: Final = "token-of-this-store-0123456789"
ORDERS: Final = "id,day,city,amount\n" + "".join(
    f"{number},2026-03-{number:02},{city},{number * 10}\n"
    for number, city in enumerate(("Oslo", "Rome", "Lima", "Cairo", "Quito", "Hanoi"), 1)
)
CORRECTED: Final = ORDERS.replace("Lima,30", "Lima,35").replace("Quito,50", "Quito,55")
CUSTOMERS: Final = "id,name\n1,Ada\n2,Grace\n"

Snap = Callable[[str], None]


@contextmanager
def fresh(browser: Browser, store: Path) -> Iterator[tuple[Scene, Served]]:
    """The page of a new store without an administrator, as its first reader sees it."""
    settings = ServiceSettings(failed_logins=ANY_NUMBER, setup_token=TOKEN)
    with (
        served(store, settings=settings, administrator=False) as running,
        scene(browser, running, size=SIZE, logged_in=False) as shown,
    ):
        yield shown, running


def tour(shown: Scene, snap: Snap) -> None:
    """Every step of the document, in its order; `snap` gets the name of each picture."""
    page = shown.open("/")
    _set_up(page)
    _create(page, shown, snap)
    _upload(page, shown, snap)
    _commit(page, shown, snap, "Load the orders of March")
    _change_on_a_branch(page, shown)
    _compare(page, shown, snap)
    _merge(page, shown, snap)
    _undo(page, shown, snap)


def _set_up(page: Page) -> None:
    page.get_by_label("Set-up token").fill(TOKEN)
    page.get_by_role("button", name="Create the administrator").click()
    page.get_by_label("I have kept the key").check()
    page.get_by_role("button", name="Log in with this key").click()


def _create(page: Page, shown: Scene, snap: Snap) -> None:
    dialog = page.get_by_role("dialog", name="New repository")
    dialog.get_by_label("Name", exact=True).fill("lake")
    expect(dialog.get_by_label("Storage namespace")).to_have_value("local://lake")
    shown.settle()
    snap("repository")
    dialog.get_by_role("button", name="Create the repository").click()


def _upload(page: Page, shown: Scene, snap: Snap) -> None:
    expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
    _put(page, {"orders.csv": ORDERS, "customers.csv": CUSTOMERS})
    expect(page.get_by_role("link", name="orders.csv", exact=True)).to_be_visible()
    shown.settle()
    snap("upload")


def _put(page: Page, files: dict[str, str]) -> None:
    chosen: list[FilePayload] = [
        {"name": name, "mimeType": "text/csv", "buffer": content.encode()}
        for name, content in files.items()
    ]
    page.get_by_label("Files to upload").set_input_files(chosen)
    last = list(files)[-1]
    expect(page.get_by_role("link", name=last, exact=True)).to_be_visible()
    expect(page.get_by_label("Uploads", exact=True)).to_have_count(0)  # it closes by itself


def _commit(page: Page, shown: Scene, snap: Snap, message: str) -> None:
    page.get_by_role("link", name="Review and commit").click()
    page.get_by_label("Message").fill(message)
    shown.settle()
    snap("commit")
    page.get_by_role("button", name="Commit to ").click()
    expect(page.get_by_text("Uncommitted changes", exact=True)).to_have_count(0)


def _change_on_a_branch(page: Page, shown: Scene) -> None:
    page.get_by_role("link", name="Branches", exact=True).click()
    page.get_by_role("button", name="New branch").click()
    dialog = page.get_by_role("dialog", name="New branch")
    dialog.get_by_label("Name").fill("corrections")
    dialog.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_text("Branch corrections is created.")).to_be_visible()
    _put(page, {"orders.csv": CORRECTED})
    _commit(page, shown, lambda _: None, "Correct two amounts")


def _compare(page: Page, shown: Scene, snap: Snap) -> None:
    page.get_by_role("main").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="orders.csv", exact=True).click()
    expect(page.get_by_text("0 rows added, 0 removed, 2 changed")).to_be_visible()
    shown.settle()
    snap("differences")
    page.get_by_role("link", name="All files").click()


def _merge(page: Page, shown: Scene, snap: Snap) -> None:
    expect(page.get_by_label("Message")).to_have_value("Merge corrections into main")
    shown.settle()
    snap("merge")
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_text("corrections is merged into main.")).to_be_visible()


def _undo(page: Page, shown: Scene, snap: Snap) -> None:
    page.get_by_role("link", name="Commits", exact=True).click()
    expect(page.get_by_role("link", name="Correct two amounts")).to_be_visible()
    shown.settle()
    snap("commits")
    page.get_by_role("link", name="Merge corrections into main").click()
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this commit")
    expect(dialog.get_by_label("What changes")).to_contain_text("orders.csv")
    shown.settle()
    snap("undo")
    dialog.get_by_role("button", name="Undo on main").click()
    expect(page.get_by_role("link", name="Revert Merge corrections into main")).to_be_visible()


def sample_lake(shown: Scene, snap: Snap) -> None:
    """The commits of the sample lake of `make run`."""
    page = shown.open(f"/repositories/{REPOSITORY}/commits", ref="main")
    expect(page.locator("svg.graph circle").first).to_be_visible()
    snap("sample-lake")


def main(folder: Path) -> None:
    """Write all pictures."""

    def camera(shown: Scene) -> Snap:
        def snap(name: str) -> None:
            target = folder / f"{name}.png"
            target.write_bytes(repacked(_picture(shown.page)))
            print(f"{target}: {target.stat().st_size / 1000:.0f} KB")

        return snap

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, launched() as browser:
        with fresh(browser, Path(place) / "fresh") as (shown, _):
            tour(shown, camera(shown))
        with served(Path(place) / "sample") as live, scene(browser, live, size=SIZE) as shown:
            tell(live.client.url, ADMINISTRATOR, lambda _: None)
            sample_lake(shown, camera(shown))


def _picture(page: Page) -> bytes:
    """A picture of the page without its messages; of a dialog with a margin if there is one."""
    dialog = page.get_by_role("dialog")
    box = dialog.bounding_box() if dialog.count() else None
    if box is not None:
        clip: FloatRect = {
            "x": box["x"] - MARGIN,
            "y": box["y"] - MARGIN,
            "width": box["width"] + 2 * MARGIN,
            "height": box["height"] + 2 * MARGIN,
        }
        return page.screenshot(animations="disabled", caret="hide", clip=clip)
    messages = page.get_by_label("Dismiss")
    while left := messages.count():
        messages.first.click()
        expect(messages).to_have_count(left - 1)
    return page.screenshot(animations="disabled", caret="hide")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/tutorial/0-page.md.")
    parser.add_argument("folder", type=Path, nargs="?", default=PICTURES)
    main(parser.parse_args().folder)
