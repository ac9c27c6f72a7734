"""What objects take, by folder, and what a branch adds."""

import pytest
from playwright.sync_api import expect

from tests.api.serving import Served
from tests.ui.scene import NARROW, Scene, commit, good

NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def heavy(live: Served) -> str:
    """Folders of known sizes, and a branch that adds to one."""
    repo, client = live.fresh_repository(), live.client
    for path, size in (
        ("a/1", 3000),
        ("a/2", 3000),
        ("b/c/1", 2000),
        (f"{NAME}/x", 1500),
        ("z", 500),
    ):
        client.upload(repo, path, b"x" * size)
    commit(client, repo, "main", "First")
    body = {"name": "more", "source": "main"}
    good(client.send("POST", f"/repositories/{repo}/branches", body=body))
    client.upload(repo, "new/1", b"x" * 2048, "more")
    client.upload(repo, "b/c/1", b"y" * 2000, "more")
    commit(client, repo, "more", "More")
    return repo


def test_the_area_of_a_folder_is_its_share(shown: Scene, heavy: str) -> None:
    page = shown.open(f"/repositories/{heavy}/storage", ref="main")
    expect(page.get_by_text("9.8 KiB in 5 objects")).to_be_visible()
    tiles = page.locator(".tile")
    expect(tiles).to_have_count(4)
    boxes = {tile.get_attribute("title"): tile.bounding_box() for tile in tiles.all()}
    areas = {name: box["width"] * box["height"] for name, box in boxes.items() if name and box}
    total = sum(areas.values())
    shares = {name.split(",")[0]: round(area / total, 2) for name, area in areas.items()}
    assert shares == {"a/": 0.6, "b/": 0.2, f"{NAME}/": 0.15, "objects in no folder": 0.05}
    places = [box for box in boxes.values() if box]
    for one in places:
        for other in places:
            is_beside = (
                one["x"] + one["width"] <= other["x"] + 0.5
                or other["x"] + other["width"] <= one["x"] + 0.5
                or one["y"] + one["height"] <= other["y"] + 0.5
                or other["y"] + other["height"] <= one["y"] + 0.5
            )
            assert one is other or is_beside, (one, other)


def test_a_tile_opens_its_folder_and_then_the_list_of_objects(shown: Scene, heavy: str) -> None:
    page = shown.open(f"/repositories/{heavy}/storage", ref="main")
    page.locator(".tile", has_text="a/").click()
    expect(page.locator(".tile")).to_have_count(1)
    assert "prefix=a%2F" in page.url
    page.locator(".tile", has_text="objects in no folder").click()
    expect(page.get_by_role("link", name="2", exact=True)).to_be_visible()
    page.go_back()
    page.get_by_label("Folder").get_by_role("link", name=heavy).click()
    expect(page.locator(".tile")).to_have_count(4)


def test_what_a_branch_adds_is_counted_and_marked(shown: Scene, heavy: str) -> None:
    page = shown.open(f"/repositories/{heavy}/storage", ref="more")
    page.get_by_role("button", name="Since choose").click()
    page.get_by_role("button", name="main").click()
    expect(page.get_by_text("more has 4.0 KiB that main had not")).to_be_visible()
    expect(page.locator(".tile.added")).to_contain_text("new/2.0 KiB")
    expect(page.locator(".tile.changed")).to_contain_text("b/")
    expect(page.get_by_role("row", name="new/")).to_contain_text("1 added")


def test_an_empty_repository_has_no_picture(shown: Scene, live: Served) -> None:
    page = shown.open(f"/repositories/{live.fresh_repository()}/storage")
    expect(page.get_by_role("heading", name="No object is here")).to_be_visible()


def test_the_picture_follows_the_width_of_the_window(shown: Scene, heavy: str) -> None:
    page = shown.open(f"/repositories/{heavy}/storage", ref="main")
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    frame = page.locator(".treemap").bounding_box()
    assert frame and frame["width"] <= NARROW[0]
    expect(page.locator(".tile")).to_have_count(4)
    for tile in page.locator(".tile").all():
        box = tile.bounding_box()
        assert box and box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
