"""Pull requests, runs of actions, and jobs."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from graveler.core.clock import SystemClock
from graveler.core.fanout import Sequential
from graveler.core.settings import hook_settings
from graveler.hooks.gate import open_hooks
from tests.api.serving import Served, ended, served
from tests.hooks.web import Web, answering
from tests.hooks.web import served as web_served
from tests.ui.scene import Scene, commit, good, lake, person, scene


def test_a_pull_request_is_opened_read_and_merged(shown: Scene, live: Served) -> None:
    repo = lake(live)
    page = shown.open(f"/repositories/{repo}/compare", ref="main", compare="prices")
    page.get_by_role("link", name="Pull request", exact=True).click()
    page.get_by_label("Title").fill("New prices")
    page.get_by_label("Description").fill("**All** of them. See [the file](prices.csv).")
    page.get_by_role("button", name="Open it").click()
    expect(page.get_by_role("heading", name="New prices")).to_be_visible()
    expect(page.get_by_role("link", name="the file")).to_be_visible()
    expect(page.get_by_role("link", name="prices.csv")).to_be_visible()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text("merged by")).to_be_visible()
    query = {"path": "new/cities.csv"}
    assert live.client.send("GET", f"/repositories/{repo}/refs/main/objects", query).status == 200
    shown.open(f"/repositories/{repo}/pulls")
    expect(page.get_by_role("heading", name="No pull request is open")).to_be_visible()
    page.get_by_role("link", name="merged").click()
    expect(page.get_by_role("link", name="New prices")).to_be_visible()


def test_comments_on_a_request_a_file_and_a_row(shown: Scene, live: Served) -> None:
    repo = lake(live)
    body = {"title": "Prices", "source_branch": "prices", "destination_branch": "main"}
    made = good(live.client.send("POST", f"/repositories/{repo}/pulls", body=body))
    page = shown.open(f"/repositories/{repo}/pulls/{made['id']}")
    page.get_by_label("Comment (Markdown)").fill("Who **agreed**? <img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Comment", exact=True).click()
    first = page.get_by_role("article", name="Comment 1")
    expect(first.locator("strong", has_text="agreed")).to_be_visible()
    expect(first).to_contain_text("<img src=x")
    expect(page.get_by_label("Comment (Markdown)")).to_have_value("")
    page.get_by_role("link", name="prices.csv").click()
    page.get_by_label("Comment on row id 2").click()
    text = page.get_by_label("Comment on this file (Markdown)")
    expect(text).to_be_focused()
    text.fill("Why 10?")
    page.get_by_role("button", name="Comment", exact=True).click()
    second = page.get_by_role("article", name="Comment 2")
    expect(second).to_contain_text("row id 2")
    expect(page.get_by_role("article")).to_have_count(1)  # those on this file
    page.get_by_role("link", name="Pull request", exact=True).click()
    expect(page.get_by_role("listitem").filter(has_text="prices.csv")).to_contain_text("1 comment")
    second.get_by_role("button", name="Edit").click()
    page.get_by_label("Text").fill("Why not 11?")
    page.get_by_role("button", name="Save").click()
    expect(second).to_contain_text("Why not 11?")
    expect(second).to_contain_text("edited")
    second.get_by_role("button", name="Resolve").click()
    expect(second).to_contain_text("resolved by")
    expect(second).not_to_contain_text("Why not 11?")
    second.get_by_role("button", name="Show").click()
    expect(second).to_contain_text("Why not 11?")
    assert shown.axe() == []
    second.get_by_role("button", name="Open again").click()
    expect(second).not_to_contain_text("resolved")
    second.get_by_role("link", name="prices.csv").click()
    expect(page.get_by_role("heading", name="Differences of prices.csv")).to_be_visible()


def test_who_may_only_read_can_not_comment(browser: Browser, live: Served) -> None:
    repo = lake(live)
    body = {"title": "Prices", "source_branch": "prices", "destination_branch": "main"}
    made = good(live.client.send("POST", f"/repositories/{repo}/pulls", body=body))
    where = f"/repositories/{repo}/pulls/{made['id']}"
    good(live.client.send("POST", where + "/comments", body={"text": "Please look"}))
    reader = person(live.client, f"reader-{repo}", "Viewers")
    statement = {"effect": "allow", "action": ["pr:ReadPullRequest"], "resource": "*"}
    policy = {"id": f"requests-{repo}", "statement": [statement]}
    good(live.client.send("POST", "/auth/policies", body=policy))
    good(live.client.send("PUT", f"/auth/users/reader-{repo}/policies/{policy['id']}"))
    with scene(browser, live, key=reader) as shown:
        page = shown.open(where)
        expect(page.get_by_text("Please look")).to_be_visible()
        for name in ("Comment", "Resolve", "Close", "Merge"):
            button = page.get_by_role("button", name=re.compile(f"^{name} \\(it needs"))
            expect(button).to_have_attribute("aria-disabled", "true")


def test_a_pull_request_with_a_conflict_leads_to_its_resolution(shown: Scene, live: Served) -> None:
    repo, client = lake(live), live.client
    client.upload(repo, "prices.csv", b"other")
    commit(client, repo, "main", "Other prices")
    body = {"title": "Prices", "source_branch": "prices", "destination_branch": "main"}
    made = good(client.send("POST", f"/repositories/{repo}/pulls", body=body))
    page = shown.open(f"/repositories/{repo}/pulls/{made['id']}")
    expect(page.get_by_text("1 conflict must be resolved first")).to_be_visible()
    merge = page.get_by_role("button", name="Merge (there are conflicts)")
    expect(merge).to_have_attribute("aria-disabled", "true")
    page.get_by_role("link", name="Resolve and merge").click()
    expect(page.get_by_role("group", name="prices.csv")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Open again").click()
    expect(page.get_by_role("button", name="Close")).to_be_visible()


ATTACK = "<script>alert(1)</script>"


def _refuse(connection: socket.socket, request: bytes) -> None:
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    answering(403 if "refuse" in json.dumps(body) else 200, ATTACK.encode())(connection, request)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_served(_refuse) as running:
        yield running


def test_an_error_of_a_hook_leads_to_its_log(browser: Browser, web: Web, tmp_path: Path) -> None:
    settings = hook_settings(
        {"GRAVELER_HOOKS_SECRET": "s" * 32}, (f"127.0.0.1:{web.port}",), loopback=True
    )
    hooks = open_hooks(settings, SystemClock(), Sequential())
    with served(tmp_path / "store", hooks=hooks) as live, scene(browser, live) as shown:
        repo = live.fresh_repository()
        action = (
            "name: guard\non: {pre-commit: }\nhooks:\n  - id: first\n    type: webhook\n"
            f"    properties: {{url: {web.url}}}\n"
        )
        live.client.upload(repo, "_lakefs_actions/guard.yaml", action.encode())
        commit(live.client, repo, "main", "Guard")
        live.client.upload(repo, "a", b"1")
        page = shown.open(f"/repositories/{repo}/objects", ref="main", showChanges="true")
        page.get_by_label("Message").fill("refuse this")
        page.get_by_role("button", name="Commit to main").click()
        page.get_by_role("link", name="Read the log of the hook").click()
        log = page.get_by_role("region", name="Log of first")
        expect(log).to_contain_text(ATTACK)
        expect(log).to_contain_text("403")
        page.get_by_role("link", name="Actions", exact=True).click()
        expect(page.locator("tr[data-row]")).to_have_count(2)


def test_a_job_is_listed_with_its_end(shown: Scene, live: Served) -> None:
    repo = lake(live)
    live.client.upload(repo, "x", b"x")
    where = f"/repositories/{repo}/branches/main/commits/async"
    made = good(live.client.send("POST", where, body={"message": "Slowly"}))
    ended(live.client, f"{where}/{made['id']}/status", "completed")
    page = shown.open(f"/repositories/{repo}/jobs")
    page.locator("tr[data-row] a").first.click()
    expect(page.get_by_text("done", exact=True).first).to_be_visible()
    expect(page.get_by_text("Took", exact=True)).to_be_visible()
