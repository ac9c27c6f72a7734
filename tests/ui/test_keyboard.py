"""Keys: the palette, rows, folders, the list of keys, and that they can be switched off."""

from playwright.sync_api import Route, expect

from tests.ui.scene import Scene
from tests.waiting import until


def test_a_pasted_address_opens_its_file(shown: Scene, repo: str) -> None:
    page = shown.open("/repositories")
    page.keyboard.press("Control+k")
    page.keyboard.insert_text(f"lakefs://{repo}/main/logs/2026/02.txt")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Text")).to_contain_text("second line")


def test_the_palette_goes_to_pages_and_repositories(shown: Scene, repo: str) -> None:
    page = shown.open("/repositories")
    page.keyboard.press("Control+k")
    page.keyboard.insert_text(repo)
    expect(page.get_by_role("option", name=f"{repo} repository", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.insert_text("comm")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Commits")).to_be_focused()


def test_enter_that_is_faster_than_the_answer_opens_what_was_typed(shown: Scene, repo: str) -> None:
    held: list[Route] = []
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.route("**/branches?prefix=pri&*", lambda route: held.append(route))
    page.get_by_role("button", name="Ref main").click()
    page.keyboard.type("pri")
    page.keyboard.press("Enter")
    until(lambda: page.evaluate("1") and held, "the page asks")
    expect(page.get_by_role("dialog")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_role("link", name="new/", exact=True)).to_be_visible()
    held.clear()
    page.route("**/repositories?search=*", lambda route: held.append(route))
    page.keyboard.press("Control+k")
    page.keyboard.insert_text(repo)
    page.keyboard.press("Enter")
    until(lambda: page.evaluate("1") and held, "the page asks")
    expect(page.get_by_role("dialog")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_role("link", name="new/", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()


def test_rows_folders_and_tabs_are_reached_by_keys(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="logs/")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="2026/")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("link", name="logs/")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter by prefix")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("heading", level=1).focus()
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", name="Branches")).to_be_visible()


def test_y_pins_the_commit(shown: Scene, live_commit: str, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="README.md")
    page.keyboard.press("y")
    expect(page).to_have_url(
        f"{shown.client.url}/repositories/{repo}/object?ref={live_commit}&path=README.md"
    )


def test_single_keys_can_be_switched_off(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.keyboard.press("?")
    page.get_by_label("Single keys work").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
