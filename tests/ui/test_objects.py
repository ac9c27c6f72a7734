"""Repositories and objects: lists, folders, filters, uploads, deletions."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.api.serving import Served
from tests.ui.scene import NARROW, Scene, commit, fill, good, scene
from tests.waiting import until

NAMES = (
    "a'b\"c.txt",
    "50%.txt",
    "what?.txt",
    "hash#1.txt",
    "a&b=c.txt",
    "s p+a ce.txt",
    "ünï😀.txt",
)


def test_a_repository_is_created_with_sample_data(shown: Scene) -> None:
    page = shown.open("/repositories")
    page.get_by_role("button", name="New repository").click()
    dialog = page.get_by_role("dialog", name="New repository")
    dialog.get_by_label("Name", exact=True).fill("with-sample")
    dialog.get_by_label("Add sample data").check()
    dialog.get_by_role("button", name="Create the repository").click()
    expect(page.get_by_role("link", name="README.md", exact=True)).to_be_visible()
    page.get_by_label("Graveler: repositories").click()
    page.get_by_label("Find a repository").fill("with-s")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert page.url.endswith("?search=with-s")


def test_a_repository_says_its_last_commit_and_the_jobs_that_run(shown: Scene, repo: str) -> None:
    """Jobs of the scenario would end before they are seen, so the answer about them is made up."""
    jobs = {"results": [{"state": "running"}, {"state": "done"}, {"state": "queued"}]}
    shown.page.route(f"**/{repo}/jobs?*", lambda route: route.fulfill(json=jobs))
    page = shown.open("/repositories", search=repo)
    row = page.locator("tr[data-row]").filter(has=page.get_by_role("link", name=repo, exact=True))
    expect(row.get_by_role("link", name="2 jobs")).to_be_visible()
    row.get_by_role("link", name="Log of March").click()
    expect(page.get_by_role("heading", name="Log of March")).to_be_visible()


def test_a_name_that_is_taken_is_explained_in_the_form(shown: Scene, repo: str) -> None:
    page = shown.open("/repositories", create="true")
    page.get_by_label("Name", exact=True).fill(repo)
    page.get_by_role("button", name="Create the repository").click()
    expect(page.get_by_role("alert")).to_contain_text("This name is taken")


def test_folders_open_and_the_history_goes_back(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.get_by_role("link", name="logs/").click()
    page.get_by_role("link", name="2026/").click()
    expect(page.get_by_role("link", name="01.json", exact=True)).to_be_visible()
    assert "path=logs%2F2026%2F" in page.url
    page.go_back()
    expect(page.get_by_role("link", name="2026/")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
    page.get_by_label("Filter by prefix").fill("pri")
    expect(page.locator("tr[data-row]")).to_have_count(1)


def test_the_address_of_a_repository_shows_its_default_branch(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}")
    expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
    assert page.url.endswith(f"/repositories/{repo}/objects?ref=main")


def test_names_of_any_kind_are_listed_opened_and_deleted(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    for name in NAMES:
        live.client.upload(repo, f"f/{name}", b"hello")
    page = shown.open(f"/repositories/{repo}/objects", ref="main", path="f/")
    for name in NAMES:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("region", name="Text")).to_contain_text("hello")
        page.go_back()
    page.get_by_label("Choose all", exact=True).check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="This folder is empty")).to_be_visible()


def test_a_folder_is_deleted_with_all_in_it(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    for number in range(5):
        live.client.upload(repo, f"old/{number}/x", b"x")
    live.client.upload(repo, "kept", b"x")
    commit(live.client, repo, "main", "all")
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.get_by_label("Choose old/").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("5 objects are deleted on main, not yet committed.")).to_be_visible()
    expect(page.get_by_role("link", name="old/")).to_have_count(0)
    listed = good(live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls"))
    assert [each["path"] for each in listed["results"]] == ["kept"]


def test_files_are_dropped_into_the_folder_that_is_shown(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    page = shown.open(f"/repositories/{repo}/objects", ref="main", path="in/")
    data = page.evaluate_handle(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["one"], "one.txt", { type: "text/plain" }));
          data.items.add(new File(["two"], "two.txt", { type: "text/plain" }));
          return data;
        }"""
    )
    page.dispatch_event("main", "drop", {"dataTransfer": data})
    expect(page.get_by_role("link", name="one.txt", exact=True)).to_be_visible()
    query = {"path": "in/two.txt"}
    assert live.client.send("GET", f"/repositories/{repo}/refs/main/objects", query).body == b"two"


def test_an_upload_can_be_cancelled(shown: Scene, live: Served, tmp_path: Path) -> None:
    repo = live.fresh_repository()
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(30 * 1024 * 1024)
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    network = page.context.new_cdp_session(page)
    network.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 300_000},
    )
    page.get_by_label("Files to upload").set_input_files(large)
    expect(page.get_by_text("Uploading 1 of 1")).to_be_visible()
    page.get_by_role("button", name="Cancel large.bin").click()
    expect(page.get_by_role("region", name="Uploads")).to_contain_text("cancelled")
    listed = good(live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls"))
    assert listed["results"] == []


def test_a_bucket_without_a_rule_for_the_page_is_explained(
    shown: Scene, live: Served, tmp_path: Path
) -> None:
    """The storage of the scenario is a folder, so what the service says of a bucket is made up."""
    repo, page = live.fresh_repository(), shown.page
    (tmp_path / "large.bin").write_bytes(bytes(5 * 1024 * 1024))
    where = {"physical_address": "s3://sales-data/x", "presigned_url": live.client.url + "/signed"}
    page.route("**/config/storage", lambda route: route.fulfill(json={"pre_sign_support": True}))
    page.route("**/staging/backing?*", lambda route: route.fulfill(json=where))
    page.route("**/signed", lambda route: route.abort())
    shown.open(f"/repositories/{repo}/objects", ref="main")
    page.get_by_label("Files to upload").set_input_files(tmp_path / "large.bin")
    panel = page.get_by_role("region", name="Uploads")
    command = f"graveler storage cors sales-data --origin {live.client.url}"
    expect(panel).to_contain_text(command)


def test_a_folder_of_100_000_names_is_scrolled_through(shown: Scene, live: Served) -> None:
    """What is long out of sight is not held, and asked for again."""
    repo = live.fresh_repository()
    fill(live, repo, 100_000)
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    for known in range(1_060, 31_000, 1_000):
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.get_by_text(re.compile(f"^{known:,} names"))).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") <= 1_500

    def asked() -> int:
        return sum("/objects/ls" in each for each in shown.requests)

    before = asked()
    page.evaluate("scrollTo(0, 15_000 * 37)")
    expect(page.get_by_role("link", name="015000", exact=True)).to_be_visible()
    assert asked() == before
    page.evaluate("scrollTo(0, 5_000 * 37)")
    expect(page.get_by_role("link", name="005000", exact=True)).to_be_visible()
    assert before < asked() <= before + 2


def test_a_folder_of_many_names_is_scrolled_through(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    names = 2_500
    fill(live, repo, names)
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    rows = page.locator("tr[data-row]")
    listings = [each for each in shown.requests if "/objects/ls" in each]
    assert len(listings) == 1 and "amount=60&" in listings[0]

    def down() -> None:
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")

    for known in (1_060, 2_060, 2_500):
        down()
        expect(page.get_by_text(re.compile(f"^{known:,} names"))).to_be_visible()
    down()
    last = page.get_by_role("link", name="002499", exact=True)
    expect(last).to_be_in_viewport()
    assert page.evaluate("document.querySelectorAll('*').length") <= 1_500
    expect(rows.last).to_have_attribute("aria-rowindex", "2501")
    page.evaluate("scrollTo(0, 1200 * 37)")
    middle = page.get_by_role("link", name="001200", exact=True)
    expect(middle).to_be_in_viewport()
    middle.click()
    page.wait_for_url("**/object?**")
    shown.settle()
    page.go_back()
    expect(middle).to_be_in_viewport()
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.evaluate("scrollTo(0, 1200 * 37)")
    assert middle.bounding_box()["width"] > 60  # type: ignore[index]
    page.get_by_label("Filter by prefix").fill("0024")
    expect(page.get_by_role("link", name="002400", exact=True)).to_be_visible()
    expect(page.get_by_text("60 names so far")).to_be_visible()
    down()
    expect(page.get_by_role("link", name="002499", exact=True)).to_be_visible()
    expect(rows).to_have_count(100)


def test_a_deletion_far_down_keeps_the_place(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    fill(live, repo, 1_500)
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.get_by_text("1,060 names so far")).to_be_visible()
    page.evaluate("scrollTo(0, 900 * 37)")
    page.get_by_label("Choose 000905").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="000905", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="000904", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("ref", ["v1", "main~1", "missing"])
def test_only_a_branch_can_be_changed(shown: Scene, repo: str, ref: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref=ref)
    for name in ("Upload", "Import"):
        button = page.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-disabled", "true")


def test_an_error_names_cause_remedy_and_request(browser: Browser, live: Served, repo: str) -> None:
    with scene(browser, live) as shown:
        page = shown.open(f"/repositories/{repo}/objects", ref="none")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("none")
        expect(alert).to_contain_text("It may have been deleted or renamed")
        expect(alert).to_contain_text("request id")
        live.client.send(
            "POST", f"/repositories/{repo}/branches", body={"name": "none", "source": "main"}
        )
        alert.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Upload")).to_be_enabled()


def test_an_outage_is_explained_and_a_retry_goes_on(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/branches")
    held: list[Route] = []
    page.route("**/objects/ls?*", lambda route: held.append(route))

    def answered() -> Route:
        until(lambda: page.wait_for_timeout(10) or held, "the list is asked for")
        return held.pop()

    page.get_by_role("link", name="main", exact=True).click()
    expect(page.locator(".skeleton.shown")).to_be_visible()
    alert = page.get_by_role("alert")
    # The page itself asks again, and its last answer counts.  0: none comes.
    for statuses in ((0, 0), (429, 500, 503), (502, 504, 0), (501,)):
        for status in statuses:
            if status:
                answered().fulfill(status=status, json={"message": f"the store says {status}"})
            else:
                answered().abort()
        cause = f"the store says {status}" if status else "Check the connection"
        expect(alert).to_contain_text(cause)
        alert.get_by_role("button", name="Try again").click()
    answered().fulfill(status=503, headers={"Retry-After": "60"}, json={"message": "much later"})
    expect(alert).to_contain_text("much later")
    page.clock.install()
    alert.get_by_role("button", name="Try again").click()
    slow = answered()
    page.clock.fast_forward(16_000)  # a function that ran out of time would do so again
    slow.fulfill(status=504, json={"message": "too slow"})
    expect(alert).to_contain_text("too slow")
    alert.get_by_role("button", name="Try again").click()
    answered().continue_()
    expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()


def test_a_branch_that_could_not_be_read_is_asked_for_again(shown: Scene, live: Served) -> None:
    repo = live.fresh_repository()
    of_branch = "**/refs/main"
    shown.page.route(of_branch, lambda route: route.fulfill(status=500, json={"message": "lost"}))
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("lost")
    expect(page.get_by_role("heading", name="This branch is empty")).to_have_count(0)
    page.unroute(of_branch)
    alert.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
    expect(page.get_by_role("button", name="Upload")).to_be_enabled()
