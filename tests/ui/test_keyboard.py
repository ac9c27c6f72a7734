"""Keys: the palette, rows, folders, the list of keys, and that they can be switched off."""

from playwright.sync_api import Locator, Route, expect

from tests.api.serving import Served
from tests.ui.scene import Scene, good
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


def test_folders_of_a_difference_are_opened_by_keys(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="prices")
    page.keyboard.press("j")
    expect(page.get_by_role("button", name="new/")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="cities.csv")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="cities.csv")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.get_by_role("button", name="new/")).to_be_focused()


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


TABS_MAX = 60  # no page has so many controls before the one that is looked for


def _tab_to(control: Locator) -> None:
    """Press Tab until the control has the focus."""
    for _ in range(TABS_MAX):
        control.page.keyboard.press("Tab")
        if control.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not lead to {control}")


def test_a_change_is_committed_and_undone_without_a_mouse(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    live.client.upload(repo, "a.txt", b"a")
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    _tab_to(page.get_by_role("link", name="Review and commit"))
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_be_focused()  # the link is gone, and the path is the same
    _tab_to(page.get_by_label("Message"))
    page.keyboard.type("Without a mouse")
    _tab_to(page.get_by_role("button", name="Commit to main"))
    page.keyboard.press("Enter")
    expect(page.get_by_text(" is on main.")).to_be_visible()
    log = good(live.client.send("GET", f"/repositories/{repo}/refs/main/commits"))["results"]
    assert log[0]["message"] == "Without a mouse"
    shown.open(f"/repositories/{repo}/commits/{log[0]['id']}")
    _tab_to(page.get_by_role("button", name="Undo"))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Undo this commit")
    expect(dialog.get_by_label("What changes")).to_contain_text("a.txt")
    _tab_to(dialog.get_by_role("button", name="Undo on main"))
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    listed = good(live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls"))
    assert listed["results"] == []


def test_a_folder_that_is_opened_gets_the_focus(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.get_by_role("link", name="logs/").press("Enter")
    expect(page.get_by_role("link", name="2026/")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
