"""Settings of a repository: protection, retention, collection, events, metadata, deletion."""

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.api.serving import Served, ended
from tests.ui.scene import Scene, good, lake, person, scene


@pytest.fixture
def own(live: Served) -> str:
    """A lake that a scenario may change."""
    return lake(live)


def test_branches_are_protected_and_opened_again(shown: Scene, live: Served, own: str) -> None:
    rules = f"/repositories/{own}/settings/branch_protection"
    page = shown.open(f"/repositories/{own}/settings/branches")
    expect(page.get_by_role("heading", name="No branch is protected")).to_be_visible()
    page.get_by_role("button", name="Protect branches").click()
    page.get_by_label("Name of a branch, or a pattern").fill("pri*")
    expect(page.get_by_text("Protects: prices")).to_be_visible()
    page.get_by_role("button", name="Protect them").click()
    expect(page.get_by_role("row", name="pri*")).to_contain_text("prices")
    assert good(live.client.send("GET", rules)) == [{"pattern": "pri*"}]
    page.get_by_role("button", name="Remove the rule pri*").click()
    expect(page.get_by_role("heading", name="No branch is protected")).to_be_visible()
    assert good(live.client.send("GET", rules)) == []


def test_a_rule_that_somebody_else_added_is_not_lost(shown: Scene, live: Served, own: str) -> None:
    rules = f"/repositories/{own}/settings/branch_protection"
    page = shown.open(f"/repositories/{own}/settings/branches")
    page.get_by_role("button", name="Protect branches").click()
    good(live.client.send("PUT", rules, body=[{"pattern": "main"}]))
    page.get_by_label("Name of a branch, or a pattern").fill("prices")
    page.get_by_role("button", name="Protect them").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert good(live.client.send("GET", rules)) == [{"pattern": "main"}]


def test_retention_is_set_for_all_and_for_a_branch(shown: Scene, live: Served, own: str) -> None:
    rules = f"/repositories/{own}/settings/gc_rules"
    page = shown.open(f"/repositories/{own}/settings/retention")
    page.get_by_role("button", name="Set a rule").click()
    page.get_by_label("Days for all branches").fill("14")
    expect(page.get_by_text("Older commits lose their content")).to_be_visible()
    page.get_by_role("button", name="Set the rule").click()
    expect(page.get_by_role("row", name="All other branches")).to_contain_text("14 days")
    page.get_by_role("button", name="Rule for a branch").click()
    page.get_by_role("button", name="Branch choose").click()
    page.get_by_role("button", name="prices").click()
    page.get_by_label("Days", exact=True).fill("0")
    page.get_by_role("button", name="Set the rule").click()
    expect(page.get_by_role("row", name="prices")).to_contain_text("for ever")
    assert good(live.client.send("GET", rules)) == {
        "branches": [{"branch_id": "prices", "retention_days": 0}],
        "default_retention_days": 14,
    }
    page.get_by_role("button", name="Keep all for ever").click()
    page.get_by_role("button", name="End the rules").click()
    expect(page.get_by_role("heading", name="Every commit keeps its content")).to_be_visible()
    assert live.client.send("GET", rules).status == 404


def test_a_dry_run_counts_and_a_run_is_undone(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/settings/collection")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("heading", name="A dry run: nothing was changed")).to_be_visible()
    expect(page.get_by_text("Would be condemned")).to_be_visible()
    page.get_by_role("button", name="Collect", exact=True).click()
    page.get_by_role("button", name="Condemn and delete").click()
    expect(page.get_by_role("heading", name="The run is done")).to_be_visible()
    expect(page.get_by_text("of 4", exact=False).first).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)
    run = page.url.split("run=")[1]
    status = ended(live.client, f"/repositories/{own}/gc/runs/{run}")
    assert status["dry_run"] is False and "error" not in status


def test_a_run_that_condemned_files_can_be_undone(shown: Scene, own: str) -> None:
    """Young files are never condemned, so the answers of the service are written here."""
    sent: list[str] = []
    status = {
        "id": "gc-1",
        "done": True,
        "update_time": "2026-01-31T12:00:00Z",
        "dry_run": False,
        "run": "r1",
        "commits": 5,
        "commits_kept": 3,
        "condemned": {"count": 7, "size_bytes": 2048},
        "deleted": {"count": 0, "size_bytes": 0},
    }

    def answer(route: Route) -> None:
        sent.append(route.request.method)
        if route.request.method == "GET":
            route.fulfill(json=status)
        else:
            route.fulfill(status=204)

    shown.page.route("**/gc/runs/gc-1", answer)
    page = shown.open(f"/repositories/{own}/settings/collection", run="gc-1")
    expect(page.get_by_text("7 files, 2.0 KiB")).to_be_visible()
    expect(page.get_by_text("3 of 5")).to_be_visible()
    page.get_by_role("button", name="Undo this run").click()
    page.get_by_role("button", name="Release the files").click()
    expect(page.get_by_text("The run is undone: 7 files, 2.0 KiB are released.")).to_be_visible()
    assert sent == ["GET", "DELETE"]


def test_an_event_rule_is_made_and_ended(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/settings/events")
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Bucket").fill("landing")
    page.get_by_label("Keys begin with").fill("in/")
    page.get_by_role("button", name="Branch choose").click()
    page.get_by_role("dialog", name="Choose").get_by_role("button", name="prices").click()
    page.get_by_label("Path on the branch").fill("raw/{rest}")
    page.get_by_label("or when this name arrives").fill("_SUCCESS")
    page.get_by_role("button", name="Create the rule").click()
    row = page.get_by_role("row", name="s3://landing/in/")
    expect(row).to_contain_text("raw/{rest} on prices")
    expect(row).to_contain_text("after 300 seconds, or when _SUCCESS arrives")
    page.get_by_role("button", name="End the rule of landing/in/").click()
    page.get_by_role("dialog").get_by_role("button", name="End the rule").click()
    expect(page.get_by_role("heading", name="No rule watches a bucket")).to_be_visible()
    assert good(live.client.send("GET", f"/repositories/{own}/events/rules"))["results"] == []


def test_metadata_is_set_and_removed(shown: Scene, live: Served, own: str) -> None:
    page = shown.open(f"/repositories/{own}/settings")
    page.get_by_role("button", name="Set a value").click()
    page.get_by_label("Key").fill("owner <b>")
    page.get_by_label("Value", exact=True).fill("sales\u202e")
    page.get_by_role("dialog").get_by_role("button", name="Set the value").click()
    expect(page.get_by_role("row", name="owner <b>")).to_contain_text("sales\\u202e")
    page.get_by_role("button", name="Remove owner <b>").click()
    expect(page.get_by_text("No metadata")).to_be_visible()
    assert good(live.client.send("GET", f"/repositories/{own}/metadata")) == {}


def test_a_repository_is_deleted_once_its_name_is_typed(
    shown: Scene, live: Served, own: str
) -> None:
    page = shown.open(f"/repositories/{own}/settings")
    page.get_by_role("button", name="Delete the repository").click()
    delete = page.get_by_role("button", name="Delete it for good")
    expect(delete).to_have_attribute("aria-disabled", "true")
    page.get_by_label(f"Type {own} to confirm").fill(own)
    delete.click()
    expect(page.get_by_text(f"Repository {own} is deleted.")).to_be_visible()
    assert live.client.send("GET", f"/repositories/{own}").status == 404


def test_a_viewer_finds_no_button_that_is_refused(browser: Browser, live: Served, own: str) -> None:
    """Each button that changes something is off, with the right that it needs."""
    good(live.client.send("POST", f"/repositories/{own}/metadata", body={"metadata": {"a": "b"}}))
    buttons = {
        "settings": ["Set a value", "Remove a", "Delete the repository"],
        "settings/collection": ["Collect", "Dry run"],
        "settings/events": ["New rule"],
    }
    key = person(live.client, "viewer-of-settings", "Viewers")
    with scene(browser, live, key=key) as shown:
        for place, names in buttons.items():
            page = shown.open(f"/repositories/{own}/{place}")
            for name in names:
                button = page.get_by_role("button", name=re.compile(f"^{name}"))
                expect(button).to_have_attribute("aria-disabled", "true")
                assert "it needs" in (button.get_attribute("title") or "")
