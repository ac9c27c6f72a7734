"""Uncommitted changes, commits, undo, branches and tags, merges with conflicts."""

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.api.serving import Served
from tests.ui.scene import NARROW, WIDE, Scene, commit, fill, good, lake, scene, stage
from tests.waiting import until


@pytest.fixture
def own(live: Served) -> str:
    """A lake that a scenario may change."""
    return lake(live)


def test_changes_are_reviewed_reset_and_committed(shown: Scene, live: Served, own: str) -> None:
    live.client.upload(own, "logs/2026/01.json", b"{}")
    live.client.upload(own, "logs/2027/01.json", b"{}")
    live.client.upload(own, "wrong.txt", b"x")
    page = shown.open(f"/repositories/{own}/objects", ref="main")
    page.get_by_role("link", name="Review and commit").click()
    page.get_by_role("button", name="logs/", exact=True).click()
    page.get_by_role("button", name="2026/", exact=True).click()
    page.get_by_role("link", name="01.json").click()
    expect(page.get_by_text("main, last commit")).to_be_visible()
    expect(page.get_by_text("main, uncommitted")).to_be_visible()
    page.get_by_role("link", name="All files").click()
    expect(page.get_by_role("heading", name="Uncommitted changes")).to_be_visible()
    page.get_by_role("button", name="Reset wrong.txt").click()
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("wrong.txt is as in the last commit.")).to_be_visible()
    page.get_by_label("Message").fill("Two logs")
    page.get_by_role("button", name="Metadata").click()
    page.get_by_label("Metadata key").fill("ticket")
    page.get_by_label("Value").fill("17")
    page.get_by_role("button", name="Commit to main").click()
    page.get_by_role("link", name="Look at it").click()
    expect(page.get_by_role("heading", name="Two logs")).to_be_visible()
    head = good(live.client.send("GET", f"/repositories/{own}/refs/main/commits"))["results"][0]
    assert (head["message"], head["metadata"]) == ("Two logs", {"ticket": "17"})
    assert live.client.send(
        "GET", f"/repositories/{own}/refs/main/objects/stat", {"path": "wrong.txt"}
    ).status == 404  # fmt: skip


def test_a_protected_branch_says_why_it_takes_no_commit(
    shown: Scene, live: Served, own: str
) -> None:
    live.client.upload(own, "x", b"x")
    where = f"/repositories/{own}/settings/branch_protection"
    good(live.client.send("PUT", where, body=[{"pattern": "main"}]))
    page = shown.open(f"/repositories/{own}/objects", ref="main", showChanges="true")
    page.get_by_label("Message").fill("x")
    page.get_by_role("button", name="Commit to main").click()
    expect(page.get_by_role("alert")).to_contain_text("protected")


def test_a_commit_is_undone(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/commits", ref="main")
    page.get_by_role("link", name="Log of March").click()
    expect(page.get_by_text("03.txt")).to_have_count(0)
    page.get_by_role("button", name="logs/").click()
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this commit")
    expect(dialog.get_by_label("What changes")).to_contain_text("logs/")
    dialog.get_by_role("button", name="Undo on main").click()
    expect(page.get_by_role("link", name="Revert Log of March")).to_be_visible()
    stat = live.client.send(
        "GET", f"/repositories/{own}/refs/main/objects/stat", {"path": "logs/2026/03.txt"}
    )
    assert stat.status == 404


def test_a_commit_is_picked_branched_and_tagged(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/commits", ref="prices")
    page.get_by_role("link", name="Raise the price of Rome").click()
    page.get_by_role("button", name="Cherry-pick").click()
    page.get_by_role("button", name="Repeat on main").click()
    expect(page.get_by_text("The commit is repeated on main.")).to_be_visible()
    page.get_by_role("link", name="Branch", exact=True).click()
    page.get_by_label("Name").fill("from-here")
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_text("Branch from-here is created.")).to_be_visible()
    head = good(live.client.send("GET", f"/repositories/{own}/branches/main"))["commit_id"]
    shown.open(f"/repositories/{own}/commits/{head}")
    page.get_by_role("link", name="Tag", exact=True).click()
    page.get_by_label("Name").fill("v2")
    page.get_by_role("button", name="Create the tag").click()
    expect(page.get_by_role("link", name="v2", exact=True)).to_be_visible()
    assert good(live.client.send("GET", f"/repositories/{own}/tags/v2"))["commit_id"] == head


def test_a_branch_is_merged_from_its_row(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/branches")
    page.get_by_role("link", name="Merge into main").click()
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_text("prices is merged into main.")).to_be_visible()
    query = {"path": "new/cities.csv"}
    assert live.client.send("GET", f"/repositories/{own}/refs/main/objects", query).status == 200


def test_each_conflict_is_resolved_by_a_version(shown: Scene, live: Served, own: str) -> None:
    client = live.client
    for path in ("one", "two"):
        client.upload(own, path, b"main")
        client.upload(own, path, b"prices", "prices")
    commit(client, own, "main", "Ours")
    commit(client, own, "prices", "Theirs")
    page = shown.open(f"/repositories/{own}/compare", ref="main", compare="prices")
    merge = page.get_by_role("button", name="Merge into main")
    expect(merge).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("2 conflicts")).to_be_visible()
    page.get_by_role("group", name="one").get_by_label("Keep that of main").check()
    page.get_by_role("group", name="two").get_by_label("Keep that of prices").check()
    merge.click()
    expect(page.get_by_text("prices is merged into main.")).to_be_visible()
    for path, kept in (("one", b"main"), ("two", b"prices")):
        where = f"/repositories/{own}/refs/main/objects"
        assert client.send("GET", where, {"path": path}).body == kept


def test_the_default_branch_cannot_be_deleted_another_can_and_comes_back(
    shown: Scene, live: Served, own: str
) -> None:
    page = shown.open(f"/repositories/{own}/branches")
    expect(page.get_by_label("Delete main")).to_have_attribute("aria-disabled", "true")
    where = f"/repositories/{own}/branches/prices"
    before = live.client.send("GET", where).json
    page.get_by_label("Delete prices").click()
    page.get_by_role("button", name="Delete the branch").click()
    expect(page.get_by_text("Branch prices is deleted.")).to_be_visible()
    assert live.client.send("GET", where).status == 404
    page.get_by_role("link", name="Bring it back").click()
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_role("button", name="Ref prices")).to_be_visible()
    assert live.client.send("GET", where).json == before


def test_folders_far_down_a_difference_have_their_totals(shown: Scene, live: Served) -> None:
    own = live.fresh_repository()
    stage(live, own, (f"{number:04}/x" for number in range(150)))
    page = shown.open(f"/repositories/{own}/objects", ref="main", showChanges="true")
    page.get_by_role("button", name="More", exact=True).click()
    lines = page.locator(".tree-line")
    expect(lines).to_have_count(150)
    expect(lines.last).to_contain_text("+1")
    # Each page of lines asks for its own totals: one answer has those of so many folders.
    summaries = [each for each in shown.requests if "/summary?" in each]
    assert any("after=0099%2F" in each for each in summaries), summaries


def test_a_difference_of_many_lines_is_walked_through(shown: Scene, live: Served) -> None:
    own = live.fresh_repository()
    stage(live, own, (f"{number:04}" for number in range(2_300)))
    page = shown.open(f"/repositories/{own}/objects", ref="main", showChanges="true")
    page.get_by_role("button", name="More", exact=True).click()
    last = page.get_by_role("link", name="2299", exact=True)

    def down() -> bool:
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_timeout(20)
        return last.count() == 1

    until(down, "the end of the difference is in sight")
    assert page.evaluate("document.querySelectorAll('*').length") <= 12_000
    page.evaluate("scrollTo(0, 0)")
    expect(page.get_by_role("link", name="0000", exact=True)).to_be_in_viewport()
    expect(last).to_have_count(0)
    page.get_by_label("Only paths that begin with").fill("222")
    expect(page.locator(".tree-line")).to_have_count(10)
    assert page.url.endswith("&prefix=222")
    page.get_by_label("Only paths that begin with").fill("none")
    expect(page.get_by_role("heading", name="No change begins with")).to_be_visible()


def test_only_branches_in_sight_are_asked_what_is_not_committed(shown: Scene, live: Served) -> None:
    own = live.fresh_repository()
    for number in range(48):
        body = {"name": f"b{number:02}", "source": "main"}
        good(live.client.send("POST", f"/repositories/{own}/branches", body=body))
    page = shown.open(f"/repositories/{own}/branches")

    def asked() -> int:
        return len({each for each in shown.requests if re.search("/refs/[^/?]+$", each)})

    def are_asked(number: int) -> bool:
        page.wait_for_timeout(10)
        return asked() > number

    until(lambda: are_asked(5), "those in sight are asked")
    shown.settle()
    assert asked() < 30
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    until(lambda: are_asked(30), "the others are asked")


def test_branches_say_how_far_they_are_and_what_is_not_committed(
    shown: Scene, live: Served
) -> None:
    own = lake(live)
    live.client.upload(own, "new/draft.txt", b"x", "prices")
    good(
        live.client.send(
            "POST", f"/repositories/{own}/branches", body={"name": "same", "source": "main"}
        )
    )
    page = shown.open(f"/repositories/{own}/branches")
    row = page.locator("tr[data-row]").filter(has_text="prices")
    expect(row).to_contain_text("1 ahead, 1 behind")
    expect(row.get_by_role("link", name="uncommitted")).to_be_visible()
    expect(page.locator("tr[data-row]").filter(has_text="same")).to_contain_text("the same")
    expect(page.get_by_role("link", name="uncommitted")).to_have_count(1)


def test_the_graph_joins_branches_at_their_common_commit(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/commits", ref="main,prices")
    dots = page.locator("svg.graph circle")
    expect(dots).to_have_count(4)
    lanes = [dots.nth(at).get_attribute("cx") for at in range(4)]
    assert lanes[0] != lanes[1] and lanes[2] == lanes[3] == lanes[0]
    joined = page.locator("svg.graph path").nth(2).get_attribute("d") or ""
    assert "C" in joined  # from the lane of `prices` to that of `main`


def test_the_graph_has_two_lanes_on_a_phone(browser: Browser, live: Served, own: str) -> None:
    body = {"name": "third", "source": "main~1"}
    good(live.client.send("POST", f"/repositories/{own}/branches", body=body))
    live.client.upload(own, "third", b"", "third")
    commit(live.client, own, "third", "Third")
    for size, lanes in ((WIDE, 3), (NARROW, 2)):
        with scene(browser, live, size=size) as shown:
            page = shown.open(f"/repositories/{own}/commits", ref="main,prices,third")
            dots = page.locator("svg.graph circle")
            expect(dots).to_have_count(5)
            assert len({dot.get_attribute("cx") for dot in dots.all()}) == lanes


def test_a_phone_has_the_actions_in_a_sheet_at_the_bottom(shown: Scene, own: str) -> None:
    page = shown.open(f"/repositories/{own}/objects", ref="prices")
    compare, sheet = page.get_by_role("link", name="Compare and merge"), page.locator(".sheet")
    more = page.get_by_role("button", name="More")
    expect(compare).to_be_visible()
    expect(more).to_be_hidden()
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    expect(compare).to_be_hidden()
    more.click()
    expect(compare).to_be_visible()
    box = sheet.bounding_box()
    assert box is not None and box["y"] + box["height"] == NARROW[1]
    page.keyboard.press("Escape")
    expect(compare).to_be_hidden()
    more.click()
    page.get_by_role("button", name="Use this").click()
    expect(page.get_by_role("dialog", name=f"Use {own} at prices")).to_be_visible()
    expect(sheet).to_be_hidden()


def test_what_was_merged_can_be_left_out_of_the_history(shown: Scene, live: Served) -> None:
    own = live.fresh_repository()
    where = f"/repositories/{own}"
    for branch in ("side", "other"):
        body = {"name": branch, "source": "main"}
        good(live.client.send("POST", where + "/branches", body=body))
        for number in range(70):  # more than the first answer has
            live.client.upload(own, branch, f"{number}".encode(), branch)
            commit(live.client, own, branch, f"{branch} {number}")
        good(live.client.send("POST", where + f"/refs/{branch}/merge/main"))
    page = shown.open(f"{where}/commits", ref="main")
    expect(page.get_by_role("link", name="other 69")).to_be_visible()
    page.get_by_role("link", name="First parents").click()
    lines = page.locator("li[data-row] .subject")
    expect(lines).to_have_text(
        ["Merge 'other' into 'main'", "Merge 'side' into 'main'", "Repository created"]
    )
    expect(page.locator(".graph .dot")).to_have_count(3)


def test_a_long_history_is_scrolled_through(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    fill(live, repo, commits=10_000)
    page = shown.open(f"/repositories/{repo}/commits", ref="main")
    assert sum("/graph?" in each for each in shown.requests) == 1
    for known in (*range(1_060, 10_000, 1_000), 10_001):
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.get_by_text(re.compile(f"^{known:,} commits"))).to_be_visible()
    page.evaluate("scrollTo(0, 5000 * 40)")
    middle = page.get_by_role("link", name="Number 4999", exact=True)
    expect(middle).to_be_in_viewport()
    assert page.evaluate("document.querySelectorAll('*').length") <= 1_500
    dots = page.locator(".graph .dot")
    expect(dots).to_have_count(page.locator("li[data-row]").count())
    middle.click()
    expect(page.get_by_role("heading", name="Number 4999")).to_be_visible()
    page.go_back()
    expect(middle).to_be_in_viewport()


def test_the_activity_of_a_year_is_drawn(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/commits", ref="main,prices")
    page.get_by_role("link", name="Activity").click()
    picture = page.get_by_role("img", name="Commits per day: 3 commits in a year, on 1 day")
    expect(picture).to_be_visible()
    assert page.locator(".activity .level-4").count() == 1
    authors = page.get_by_role("table", name="Commits per author")
    expect(authors.locator("tbody tr")).to_have_text("administrator3")
    assert shown.axe() == []


LOOK = "document.dispatchEvent(new Event('visibilitychange'))"  # as when a window is shown again


def test_a_new_commit_is_announced_and_shown_when_asked_for(
    shown: Scene, live: Served, own: str
) -> None:
    client, page = live.client, shown.page
    body = {"title": "Prices", "source_branch": "prices", "destination_branch": "main"}
    pull = good(client.send("POST", f"/repositories/{own}/pulls", body=body))["id"]
    tree, lines = page.get_by_role("listitem"), page.locator("tr[data-row]")
    commits, file = page.locator("li[data-row]"), page.get_by_role("main")
    for number, (place, query, found) in enumerate(
        (
            ("objects", {"ref": "prices"}, lines),
            ("commits", {"ref": "prices"}, commits),
            ("object", {"ref": "prices", "path": "note.txt"}, file),
            ("compare", {"ref": "main", "compare": "prices"}, tree),
            (f"pulls/{pull}", {}, tree),
        )
    ):
        text = f"note{number}"
        client.upload(own, "note.txt", f"old{number}".encode(), "prices")
        commit(client, own, "prices", f"old{number}")
        shown.open(f"/repositories/{own}/{place}", **query)
        client.upload(own, text, b"", "prices")
        client.upload(own, "note.txt", text.encode(), "prices")
        commit(client, own, "prices", text)
        page.evaluate(LOOK)
        banner = page.get_by_text("prices has a new commit, which is not shown yet.")
        expect(banner).to_be_visible()
        expect(found.filter(has_text=text)).to_have_count(0)
        page.get_by_role("button", name="Show it").click()
        expect(found.filter(has_text=text)).to_have_count(1)
        expect(banner).to_have_count(0)


def test_what_a_merge_changes_moves_nothing_when_it_is_counted(shown: Scene, repo: str) -> None:
    held: list[Route] = []
    shown.page.route("**/merge/main/preview?*", lambda route: held.append(route))
    place = f"{shown.client.url}/repositories/{repo}/compare?ref=main&compare=prices"
    page = shown.page
    page.goto(place)
    link = page.get_by_role("link", name="prices.csv", exact=True)
    expect(link).to_be_visible()
    until(lambda: page.evaluate("1") and held, "the page asks")
    before = link.bounding_box()
    for route in held:
        route.continue_()
    expect(page.get_by_role("button", name="Merge")).to_be_visible()
    after = link.bounding_box()
    assert before is not None and after is not None
    assert (before["x"], before["y"]) == (after["x"], after["y"])


def test_nothing_is_merged_into_a_tag(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/compare", ref="v1", compare="prices")
    expect(page.get_by_text("v1 is no branch")).to_be_visible()
    expect(page.get_by_role("link", name="Pull request", exact=True)).to_have_count(0)
