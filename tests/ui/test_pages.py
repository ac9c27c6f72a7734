"""All pages: accessibility, widths, and what the first one costs."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.api.serving import Served
from tests.ui.scene import NARROW, ROOT, ZOOMED, Scene, commit, good, lake, person, scene

PAGES = (
    "/repositories",
    "/repositories?create=true",
    "/repositories/{repo}/objects?ref=main",
    "/repositories/{repo}/objects?ref=main&path=none/",
    "/repositories/{repo}/objects?ref=missing",
    "/repositories/{repo}/objects?ref=main&showChanges=true",
    "/repositories/{repo}/object?ref=main&path=README.md",
    "/repositories/{repo}/object?ref=main&path=prices.csv",
    "/repositories/{repo}/object?ref=main&path=logs/2026/01.json",
    "/repositories/{repo}/object?ref=main&path=logs/2026/02.txt",
    "/repositories/{repo}/object?ref=main&path=prices.csv&view=raw",
    "/repositories/{repo}/object?ref=main&path=prices.csv&view=details",
    "/repositories/{repo}/object?ref=main&path=prices.csv&view=use",
    "/repositories/{repo}/commits?ref=main,prices",
    "/repositories/{repo}/commits?ref=main&view=activity",
    "/repositories/{repo}/commits?ref=main&view=first",
    "/repositories/{repo}/commits?ref=main&path=prices.csv",
    "/repositories/{repo}/commits/{commit}",
    "/repositories/{repo}/compare?ref=main&compare=prices",
    "/repositories/{repo}/compare?ref=main&compare=prices&file=prices.csv",
    "/repositories/{repo}/compare?ref=main&compare=prices&file=prices.csv&as=lines",
    "/repositories/{repo}/branches",
    "/repositories/{repo}/branches?create=true",
    "/repositories/{repo}/tags",
    "/repositories/{repo}/objects?ref=main&use=true",
    "/repositories/{repo}/objects?ref=prices&import=true",
    "/repositories/{repo}/jobs",
    "/repositories/{repo}/jobs/none",
    "/repositories/{repo}/actions",
    "/repositories/{repo}/actions/none",
    "/repositories/{repo}/storage?ref=main",
    "/repositories/{repo}/storage?ref=prices&compare=main",
    "/repositories/{repo}/settings",
    "/repositories/{repo}/settings/branches",
    "/repositories/{repo}/settings/retention",
    "/repositories/{repo}/settings/collection",
    "/repositories/{repo}/settings/collection?run=none",
    "/repositories/{repo}/settings/events",
    "/auth/users",
    "/auth/users?create=true",
    "/auth/users/administrator",
    "/auth/users/nobody",
    "/auth/users/administrator/policies/effective?action=fs:ReadObject&resource=*",
    "/auth/groups",
    "/auth/groups/Developers",
    "/auth/policies",
    "/auth/policies?create=true",
    "/auth/policies/FSReadAll",
    "/auth/policies/FSReadAll?edit=true",
    "/auth/credentials?action=fs:ReadObject&resource=*",
    "/auth/audit",
    "/repositories/{repo}/pulls",
    "/repositories/{repo}/pulls/create?compare=prices",
    "/repositories/{repo}/pulls/{pull}",
    "/repositories/x/nothing/is/here",
    "/auth/login",
    "/setup",
)
ROUTES = ROOT / "ui" / "src" / "app" / "routes.ts"
LONG = "long_name_" * 20
GZIP_MAX = 60_000
REQUESTS_MAX = 12


# What rows ask for as they come into sight.
OF_A_ROW = re.compile(r"/repositories/[^/]+/(refs/[^/?]+|refs/[^/]+/commits\?.*|jobs\?amount=10)$")
# The pages of several lists.  What Markdown needs is loaded if a comment is shown.
MORE = {"/auth/users/administrator": 14, "/repositories/{repo}/pulls/{pull}": 13}
OF_MARKDOWN = re.compile("/assets/(markdown|text|viewer)")
LISTS = ("/repositories", "/repositories/{repo}/branches")
# Controls that lie upon each other, as far as they are seen.
COVERED = """() => {
  const within = document.querySelector("dialog[open]") ?? document;
  const seen = (element) => {
    let { left, top, right, bottom } = element.getBoundingClientRect();
    for (let each = element.parentElement; each; each = each.parentElement) {
      if (getComputedStyle(each).overflow === "visible") continue;
      const clip = each.getBoundingClientRect();
      [left, top] = [Math.max(left, clip.left), Math.max(top, clip.top)];
      [right, bottom] = [Math.min(right, clip.right), Math.min(bottom, clip.bottom)];
    }
    return { element, left, top, right, bottom };
  };
  const all = [...within.querySelectorAll("a, button, input, select, textarea, summary, h1, h2")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .map(seen);
  const name = ({ element }) => `${element.tagName} ${(element.ariaLabel ?? element.textContent)}`;
  return all.flatMap((one, at) => all.slice(at + 1).flatMap((other) => {
    if (one.element.contains(other.element) || other.element.contains(one.element)) return [];
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    return wide > 2 && high > 2 ? [`${name(one)} lies upon ${name(other)}`] : [];
  }));
}"""
# Text that is cut and that nothing tells in whole, and what a dialog has outside of the window.
LOST = """() => {
  const seen = { visibilityProperty: true, opacityProperty: true };
  const cut = [...document.querySelectorAll("main *, dialog *")].filter((each) => {
    const { overflowX, overflowY } = getComputedStyle(each);
    const isCut = (overflowX === "hidden" && each.scrollWidth > each.clientWidth + 2) ||
      (overflowY === "hidden" && each.scrollHeight > each.clientHeight + 2);
    const told = each.closest("[title], a, button, summary") ?? each.querySelector("[title], a");
    return isCut && each.clientWidth > 1 && each.checkVisibility(seen) && !told &&
      !each.closest("svg, .skeleton");
  });
  const dialog = document.querySelector("dialog[open]");
  const box = dialog?.getBoundingClientRect();
  const outside = box && (box.top < 0 || box.bottom > innerHeight || box.right > innerWidth);
  return [
    ...cut.map((each) => `cut: ${each.outerHTML.slice(0, 150)}`),
    ...(outside ? ["the dialog is larger than the window"] : []),
  ];
}"""


@pytest.fixture(scope="module")
def full(live: Served) -> Iterator[dict[str, str]]:
    """A lake with uncommitted changes, a conflict and long names; a commit and a pull request."""
    repo = lake(live)
    live.client.upload(repo, "prices.csv", b"conflict")
    head = commit(live.client, repo, "main", "A long message " * 12)
    live.client.upload(repo, f"{'long' * 40}.txt", b"x")
    live.client.upload(repo, "logs/2027/x", b"x")
    where = f"/repositories/{repo}"
    good(live.client.send("POST", where + "/branches", body={"name": LONG, "source": "main"}))
    good(live.client.send("POST", where + "/tags", body={"id": LONG[1:], "ref": "main"}))
    person(live.client, LONG[:100], "Viewers")
    body = {"title": "Prices", "source_branch": "prices", "destination_branch": "main"}
    pull = good(live.client.send("POST", f"/repositories/{repo}/pulls", body=body))["id"]
    said = {"text": LONG * 2, "path": LONG, "row": LONG}
    comments = f"/repositories/{repo}/pulls/{pull}/comments"
    for number in (1, 2):
        good(live.client.send("POST", comments, body=said))
        body = {"resolved": number == 1}
        good(live.client.send("PATCH", f"{comments}/{number}", body=body))
    yield {"repo": repo, "commit": head, "pull": pull}


def test_every_view_is_among_the_pages() -> None:
    """So that each is looked at below."""
    text = ROUTES.read_text(encoding="utf-8").replace("${R}", "/repositories/{repo}")
    text = re.sub(r"\b(user|group) = .*m\.(\w+)", "", text)
    parts = re.findall(r'path: ["`](/[^"`]*)["`][^}]*?(?:m\.(\w+)|(?:view|load): (\w+))', text)
    views: dict[str, list[str]] = {}
    for path, lazy, named in parts:
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        views.setdefault(lazy or named, []).append(pattern)
    assert len(views) > 30
    shown = [place.partition("?")[0] for place in PAGES]
    for view, patterns in views.items():
        assert any(re.fullmatch(each, place) for each in patterns for place in shown), view


def test_no_page_breaks_a_rule_of_accessibility_or_its_width(
    browser: Browser, live: Served, full: dict[str, str]
) -> None:
    """In light and dark."""
    broken: list[str] = []
    with scene(browser, live) as shown:
        shown.open("/repositories")
        for place in PAGES:
            shown.go(place.format(**full))
            found = shown.axe() + shown.dark_axe() + _misplaced(shown)
            broken += [f"{place}: {line}" for line in found]
    assert not broken, "\n".join(broken)


def test_no_page_breaks_a_rule_or_loses_anything_in_a_narrow_window(
    browser: Browser, live: Served, full: dict[str, str]
) -> None:
    """On a phone; and at 200 %, where text is wrapped instead of cut."""
    broken: list[str] = []
    with scene(browser, live, size=NARROW) as shown:
        # "just now" is shorter than what readers see later
        shown.page.clock.set_fixed_time(datetime.now() + timedelta(minutes=59))
        shown.open("/repositories")
        for place in PAGES:
            shown.go(place.format(**full))
            broken += [f"{place}: {line}" for line in shown.axe() + _misplaced(shown)]
            with shown.resized(ZOOMED):
                found = _misplaced(shown) + shown.page.evaluate(LOST)
            broken += [f"{place}: at 200 %: {line}" for line in found]
    assert not broken, "\n".join(broken)


def _misplaced(shown: Scene) -> list[str]:
    """How far a page is wider than its window, and which controls lie upon each other."""
    wide = shown.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    found = [f"{wide} pixels too wide"] if wide > 0 else []
    return found + list(shown.page.evaluate(COVERED))


def test_the_first_page_is_small(browser: Browser, live: Served, repo: str) -> None:
    with scene(browser, live, cold=True) as shown:
        sizes: dict[str, int] = {}
        network = shown.page.context.new_cdp_session(shown.page)
        network.send("Network.enable")
        names: dict[str, str] = {}
        network.on("Network.responseReceived", lambda event: names.update(
            {event["requestId"]: event["response"]["url"]}))  # fmt: skip
        network.on("Network.loadingFinished", lambda event: sizes.update(
            {names.get(event["requestId"], "?"): event["encodedDataLength"]}))  # fmt: skip
        shown.open(f"/repositories/{repo}/objects", ref="main")
        expect(shown.page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
        assert sum(sizes.values()) <= GZIP_MAX, sizes
        assert len(shown.requests) <= REQUESTS_MAX, shown.requests


def test_no_page_needs_many_requests(browser: Browser, live: Served, full: dict[str, str]) -> None:
    """Each is loaded afresh: shell, script, style and answers of the API."""
    many: list[str] = []
    with scene(browser, live) as shown:
        for place in {place.partition("?")[0]: place for place in PAGES}.values():
            shown.requests.clear()
            shown.open(place.format(**full))
            is_list = place.partition("?")[0] in LISTS
            asked = [each for each in shown.requests if not (is_list and OF_A_ROW.search(each))]
            if place in MORE:
                asked = [each for each in asked if not OF_MARKDOWN.search(each)]
            if len(asked) > MORE.get(place, REQUESTS_MAX):
                many.append(f"{place}: {len(asked)}: {asked}")
    assert not many, "\n".join(many)


def test_each_page_tells_how_many_requests_it_needed(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/tags")

    def asked() -> int:
        return sum("/api/v1/repositories" in each for each in shown.requests)

    first = asked()
    footer = page.locator(".page-footer")
    expect(footer).to_contain_text(re.compile(r"\d+ requests?"))
    page.get_by_role("link", name="Jobs", exact=True).click()
    shown.settle()
    expect(footer).to_contain_text("1 request")
    assert asked() == first + 1


def test_the_list_is_asked_for_in_the_third_step(browser: Browser, live: Served, repo: str) -> None:
    """The shell, its script, the list: no answer of the API is waited for before."""
    with scene(browser, live) as shown:
        held: list[Route] = []
        shown.page.route("**/api/v1/**", lambda route: held.append(route))
        shown.page.goto(f"{live.client.url}/repositories/{repo}/objects?ref=main")
        shown.page.wait_for_selector("h1")
        asked = [route.request.url.removeprefix(live.client.url) for route in held]
        assert len([url for url in asked if "/objects/ls?" in url]) == 1, asked
        shell = live.client.raw("GET", "/").body.decode()
        for line in shown.requests:
            if "/_ui/" in line:
                assert line.rsplit("/", 1)[1] in shell, f"{line} is not named in the shell"
        for route in held:
            route.abort()


def test_whatever_a_page_cannot_load_it_says_so_and_tries_again(shown: Scene, repo: str) -> None:
    page = shown.open("/repositories")
    where = f"/repositories/{repo}"
    of_commit = re.compile("/refs/[0-9a-f]{64}/objects/stat")
    for place, asked in (
        (f"{where}/objects?ref=prices&showChanges=true", "**/diff/summary?*"),
        (f"{where}/compare?ref=main&compare=prices", "**/refs/main"),
        (f"{where}/compare?compare=prices", f"**{where}"),
        (f"{where}/pulls/create?compare=prices", f"**{where}"),
        (f"{where}/branches", f"**{where}"),
        (f"{where}/storage", f"**{where}"),
        (f"{where}/commits", f"**{where}"),
        (f"{where}/settings/retention", "**/gc_rules"),
        (f"{where}/object?ref=main&path=README.md&view=use", of_commit),
    ):
        page.route(asked, lambda route: route.fulfill(status=501, json={"message": "it is lost"}))
        shown.go(place)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("it is lost")
        page.unroute(asked)
        alert.get_by_role("button", name="Try again").click()
        expect(alert).to_have_count(0)


def test_a_commit_is_not_undone_on_a_branch_that_is_not_known(
    shown: Scene, live: Served, repo: str
) -> None:
    where = f"/repositories/{repo}"
    head = live.client.send("GET", f"{where}/branches/main").json["commit_id"]
    shown.page.route(f"**{where}", lambda route: route.fulfill(status=501, json={}))
    page = shown.open(f"{where}/commits/{head}")
    page.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_be_visible()
    undo = dialog.get_by_role("button", name="Undo on")
    expect(undo).to_be_disabled()
    page.unroute(f"**{where}")
    dialog.get_by_role("button", name="Try again").click()
    expect(undo).to_be_enabled()


def test_rules_that_are_not_known_are_not_replaced(shown: Scene, repo: str) -> None:
    rules = "**/gc_rules"
    shown.page.route(rules, lambda route: route.fulfill(status=501, json={"message": "lost"}))
    page = shown.open(f"/repositories/{repo}/settings/retention")
    button = page.get_by_role("button", name="Set a rule")
    expect(button).to_be_disabled()
    page.unroute(rules)
    page.get_by_role("button", name="Try again").click()
    expect(button).to_be_enabled()


def test_a_page_without_its_user_says_so(shown: Scene) -> None:
    shown.page.route("**/api/v1/user", lambda route: route.fulfill(status=501, json={}))
    page = shown.open("/auth/credentials")
    page.unroute("**/api/v1/user")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="New key")).to_be_visible()


def test_the_title_and_the_focus_follow_the_page(shown: Scene, repo: str) -> None:
    page = shown.open(f"/repositories/{repo}/objects", ref="main")
    page.get_by_role("link", name="Branches", exact=True).click()
    expect(page.get_by_role("heading", name="Branches")).to_be_focused()
    expect(page).to_have_title("Branches · Graveler")


def test_the_theme_is_kept(shown: Scene) -> None:
    page = shown.open("/repositories")
    page.get_by_label("Theme: system").click()
    page.get_by_label("Theme: light").click()
    expect(page.get_by_label("Theme: dark")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Theme: dark")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 27)"
