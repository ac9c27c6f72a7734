"""Jobs, imports, and runs of hooks: a real hook on the other side, real files to import."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

import pytest
from playwright.sync_api import Browser, expect

from graveler.core.clock import SystemClock
from graveler.core.fanout import Sequential
from graveler.core.settings import hook_settings
from graveler.hooks.gate import open_hooks
from tests.api.serving import Served, served
from tests.hooks.web import answering
from tests.hooks.web import served as web_served
from tests.ui.scene import NARROW, WIDE, Scene, clicks, good, scene
from tests.waiting import until

ATTACK = "<img src=x onerror=alert(1)><script>alert(1)</script>\x1b[31m\u202e"
ACTION = """
name: guard
on:
  pre-commit:
  pre-merge:
hooks:
  - id: prices
    type: webhook
    properties:
      url: URL
      timeout: 60s
"""


@dataclass
class Guard:
    """A hook: it refuses a message that begins with `bad`, and keeps one that begins with `slow`
    waiting until it is released."""

    free: threading.Event = field(default_factory=threading.Event)

    def react(self, connection: socket, request: bytes) -> None:
        # Not anywhere in the request: ids of commits are random letters from a to f.
        if b'"commit_message":"slow' in request:
            self.free.wait(50)
        status = 403 if b'"commit_message":"bad' in request else 200
        answering(status, ATTACK.encode())(connection, request)


@dataclass(frozen=True)
class World:
    """A service with hooks and files to import; a repository whose branches are guarded."""

    live: Served
    repo: str
    files: Path
    guard: Guard


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    guard, folder = Guard(), tmp_path_factory.mktemp("hooked")
    files = folder / "files"
    (files / "sales").mkdir(parents=True)
    (files / "sales" / "a.csv").write_text("id\n1\n", encoding="utf-8")
    Path(os.fsdecode(bytes(files) + b"/sales/no-text-\xff.csv")).write_bytes(b"x")
    with web_served(guard.react) as web:
        settings = hook_settings(
            {"GRAVELER_HOOKS_SECRET": "s" * 32}, (f"127.0.0.1:{web.port}",), loopback=True
        )
        hooks = open_hooks(settings, SystemClock(), Sequential())
        with served(folder / "store", hooks=hooks, import_roots=[files]) as live:
            repo = live.fresh_repository()
            text = ACTION.replace("URL", web.url).encode()
            live.client.upload(repo, "_lakefs_actions/guard.yaml", text)
            commits = f"/repositories/{repo}/branches/main/commits"
            good(live.client.send("POST", commits, body={"message": "guard"}))
            yield World(live, repo, files, guard)
            guard.free.set()


@pytest.fixture
def seen(browser: Browser, world: World) -> Iterator[Scene]:
    with scene(browser, world.live) as made:
        yield made


def _refuse(world: World) -> None:
    world.live.client.upload(world.repo, "x", b"x")
    commits = f"/repositories/{world.repo}/branches/main/commits"
    assert world.live.client.send("POST", commits, body={"message": "bad"}).status == 412


def _branch(world: World) -> str:
    """A branch without uncommitted changes."""
    where = f"/repositories/{world.repo}/branches"
    name = f"in-{len(good(world.live.client.send('GET', where))['results'])}"
    good(world.live.client.send("POST", where, body={"name": name, "source": "main"}))
    return name


def _begin(world: World, message: str) -> str:
    """Begin an import; the id of its job."""
    source = f"local://{world.files}/sales/"
    body = {
        "paths": [{"type": "common_prefix", "path": source, "destination": "in/"}],
        "commit": {"message": message},
    }
    where = f"/repositories/{world.repo}/branches/{_branch(world)}/import"
    return str(good(world.live.client.send("POST", where, body=body))["id"])


def test_a_refusal_leads_to_the_log_by_one_click(seen: Scene, world: World) -> None:
    world.live.client.upload(world.repo, "x", b"x")
    seen.count_clicks()
    page = seen.open(f"/repositories/{world.repo}/objects", ref="main", showChanges="true")
    page.get_by_label("Message").fill("bad prices")
    page.get_by_role("button", name="Commit to main").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("A hook refused it")
    assert clicks(page) == 1
    alert.get_by_role("link", name="Read the log of the hook").click()
    expect(page.get_by_role("heading", name="Hooks of pre-commit")).to_be_visible()
    assert clicks(page) == 2
    log = page.get_by_role("region", name="Log of prices")
    expect(log).to_contain_text("<script>alert(1)</script>\\u001b[31m\\u202e")
    expect(page.get_by_text("failed").first).to_be_visible()
    assert page.locator("main script, main img").count() == 0


def test_runs_are_found_by_branch_and_commit(seen: Scene, world: World) -> None:
    _refuse(world)
    page = seen.open(f"/repositories/{world.repo}/actions")
    expect(page.locator("tr[data-row]").first).to_contain_text("failed")
    page.get_by_label("Branch").fill("other")
    page.get_by_label("Branch").press("Enter")
    expect(page.get_by_text("No hook ran here")).to_be_visible()
    page.get_by_role("link", name="Show all runs").click()
    main = f"/repositories/{world.repo}/branches/main"
    head = good(world.live.client.send("GET", main))["commit_id"]
    seen.open(f"/repositories/{world.repo}/commits/{head}")
    page.get_by_role("link", name="Runs of hooks for this commit").click()
    expect(page.get_by_label("Commit", exact=True)).to_have_value(head)
    seen.open(f"/repositories/{world.repo}/actions", commit=head[:10])
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_service_without_hooks_says_so(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/actions")
    expect(page.get_by_role("note")).to_contain_text("This service runs no hooks")
    expect(page.get_by_role("heading", name="No hook ran yet")).to_be_visible()


def test_an_import_is_begun_followed_and_shows_what_it_skipped(seen: Scene, world: World) -> None:
    branch = _branch(world)
    seen.count_clicks()
    page = seen.open(f"/repositories/{world.repo}/objects", ref=branch, path="in/")
    page.get_by_role("button", name="Import", exact=True).click()
    dialog = page.get_by_role("dialog", name=f"Import into {branch}")
    dialog.get_by_label("Source").fill(f"local://{world.files}/sales/")
    dialog.get_by_label("Message").fill("Sales of the shop")
    dialog.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", name=f"Import on {branch}")).to_be_visible()
    assert clicks(page) == 2
    expect(page.get_by_text("Ordered by", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="1 name was skipped")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="no-text-")).to_be_visible()
    expect(page.get_by_text("done", exact=True).first).to_be_visible()
    cancel = page.get_by_role("button", name="Cancel the job")
    expect(cancel).to_have_attribute("aria-disabled", "true")
    page.get_by_role("link", name="All jobs").click()
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("No job is of this kind and in this state")).to_be_visible()
    page.get_by_role("link", name="Show all jobs").click()
    page.get_by_label("Kind").select_option("import")
    expect(page.get_by_role("link", name=f"import on {branch}").first).to_be_visible()


def test_an_import_that_fails_says_why(seen: Scene, world: World) -> None:
    branch = _branch(world)
    page = seen.open(f"/repositories/{world.repo}/objects", ref=branch, path="in/")
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_label("Source").fill(f"local://{world.files}/sales/")
    page.get_by_label("Message").fill("bad import")
    page.get_by_role("button", name="Metadata").click()
    expect(page.get_by_label("Metadata key")).to_be_visible()
    expect(page.get_by_label("Message")).to_have_value("bad import")  # and not its beginning
    page.get_by_role("dialog").get_by_role("button", name="Import").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("hook aborted")
    alert.get_by_role("link", name="Read the log of the hook").click()
    expect(page.get_by_role("region", name="Log of prices")).to_be_visible()


def test_an_import_goes_on_when_the_page_is_closed_and_is_cancelled(
    seen: Scene, world: World
) -> None:
    for _ in range(2):  # both workers are busy
        _begin(world, "slow")
    branch = _branch(world)
    page = seen.open(f"/repositories/{world.repo}/objects", ref=branch, path="in/")
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_label("Source").fill(f"local://{world.files}/sales/")
    page.get_by_label("Message").fill("cancelled later")
    page.get_by_role("dialog").get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", name=f"Import on {branch}")).to_be_visible()
    page.goto("about:blank")
    seen.open(f"/repositories/{world.repo}/jobs", state="queued")
    page.get_by_role("link", name=f"import on {branch}").click()
    expect(page.get_by_text("Last heartbeat")).to_be_visible()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
    world.guard.free.set()


def test_a_job_is_not_asked_for_while_nobody_looks(seen: Scene, world: World) -> None:
    world.guard.free.clear()
    job = _begin(world, "slow again")
    page = seen.page
    page.clock.install()
    seen.open(f"/repositories/{world.repo}/jobs/{job}")
    first = _asked(seen, job)
    until(lambda: _asked(seen, job) > first, "the page asks again")
    _hide(seen, "hidden")
    before = _asked(seen, job)
    assert _asked(seen, job) <= before + 1  # one may have been on its way
    _hide(seen, "visible")
    until(lambda: _asked(seen, job) > before + 1, "the page asks again")
    world.guard.free.set()
    until(lambda: _asked(seen, job) and page.get_by_text("done", exact=True).count(), "it is done")


def _asked(seen: Scene, job: str) -> int:
    """How often the page has asked, after some time of its clock."""
    seen.page.clock.run_for(6_000)
    seen.page.wait_for_timeout(20)
    return sum(line.endswith(f"/jobs/{job}") for line in seen.requests)


def _hide(seen: Scene, state: str) -> None:
    seen.page.evaluate(
        """(state) => {
          Object.defineProperty(document, "hidden", {
            configurable: true, get: () => state === "hidden"});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "dark"), (NARROW, "light")], ids=str)
def test_pages_with_content_break_no_rule(
    browser: Browser, world: World, size: tuple[int, int], scheme: str
) -> None:
    _refuse(world)
    client, where = world.live.client, f"/repositories/{world.repo}"
    run = good(client.send("GET", where + "/actions/runs"))["results"][0]["run_id"]
    jobs = good(client.send("GET", where + "/jobs"))["results"]
    places = [where + "/actions", f"{where}/actions/{run}", where + "/jobs"]
    places += [f"{where}/jobs/{job['id']}" for job in jobs[:3]]
    with scene(browser, world.live, size=size, scheme=scheme) as shown:
        shown.open("/repositories")
        for place in places:
            shown.go(place)
            assert shown.axe() == [], place
            assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
