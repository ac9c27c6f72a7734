"""A file: its viewers, details, the lines that use it, and its differences between refs."""

from playwright.sync_api import expect

from tests.api.serving import Served
from tests.ui.scene import Scene, commit, lake

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
    page.get_by_role("button", name="As text").click()
    expect(page.get_by_role("region", name="Text")).to_contain_text("2,Rome,10")


def test_json_is_a_tree_that_folds(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="logs/2026/01.json")
    expect(page.get_by_text('"text"')).to_be_visible()
    page.locator(".json-fold").first.click()
    expect(page.get_by_text('"text"')).to_have_count(0)


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


def test_details_and_lines_for_programs_are_pinned(
    shown: Scene, repo: str, live_commit: str
) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="prices.csv", view="details")
    expect(page.get_by_text("48 B (48 bytes)")).to_be_visible()
    page.get_by_role("link", name="Use this").click()
    expect(
        page.get_by_text(f"graveler cat lakefs://{repo}/{live_commit}/prices.csv")
    ).to_be_visible()
    expect(
        page.get_by_text(f'pd.read_csv("lakefs://{repo}/{live_commit}/prices.csv")')
    ).to_be_visible()


def test_a_file_is_downloaded_as_it_is(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/object", ref="main", path="logs/2026/02.txt")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == b"first line\nsecond line\n"


def test_the_lines_that_differ_are_shown(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="prices")
    page.get_by_role("link", name="prices.csv").click()
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
