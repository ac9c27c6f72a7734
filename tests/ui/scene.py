"""What the scenarios have in common: a browser, a lake, and a page that must stay clean.

A page fails its test if it runs a foreign script, asks another origin, breaks the policy of the
page, or writes an error on the console.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from graveler.auth.credentials import NewCredential
from graveler.committed import writer
from graveler.core.identity import commit_id
from graveler.core.ids import CommitId
from graveler.core.records import Commit, CommitEntry, Entry
from graveler.core.wire import encode_entry
from graveler.engine.objects import write
from graveler.engine.ports import keyspace, open_repository
from graveler.engine.repositories import repository
from graveler.refs import commits as commit_records
from graveler.refs.graph import positioned
from tests.api.serving import ADMINISTRATOR, Client, Reply, Served
from tests.ui.chromium import chromium
from tests.waiting import PATIENCE_SECONDS, until

ROOT: Final = Path(__file__).parents[2]
AXE: Final = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final = (1440, 900)
NARROW: Final = (360, 740)
ZOOMED: Final = (640, 400)  # a window of 1280 × 800 at 200 %
_QUIET_MILLISECONDS: Final = 30
# What the browser itself writes about an answer that a scenario asked for.
_OF_THE_BROWSER: Final = "Failed to load resource"
_GO: Final = """async (place) => {
  history.pushState({}, "", place);
  dispatchEvent(new PopStateEvent("popstate"));
  for (let turn = 0; turn < 2; turn += 1) await new Promise(requestAnimationFrame);
}"""
_COUNTER: Final = """
addEventListener("pointerdown", () =>
  sessionStorage.setItem("clicks", Number(sessionStorage.getItem("clicks")) + 1), true);
"""
_VIOLATIONS: Final = """
window.__violations = [];
addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser, until the block ends."""
    program = str(chromium())
    # A page that is opened beside another one of its site shares that one's process.
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--process-per-site"]
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            _idle.pop(browser, None)
            browser.close()


@dataclass
class Scene:
    """A page in a context without a past, logged in unless a test wants otherwise."""

    page: Page
    client: Client
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    pending: set[Request] = field(default_factory=set)
    refused: list[Response] = field(default_factory=list)  # answers of 400 and more
    below: str = ""  # the path below which the service is served

    def open(self, place: str, /, **query: Any) -> Page:
        """Go to a path of the page, and wait until it has loaded what it shows."""
        fields = {name: str(value) for name, value in query.items() if value not in ("", None)}
        target = self.client.url + self.below + place + ("?" + urlencode(fields) if fields else "")
        self.page.goto(target)
        self.settle()
        return self.page

    def go(self, place: str) -> None:
        """Go to a path as a link of the page does: faster, since nothing is loaded again."""
        self.page.evaluate(_GO, place)
        self.settle()

    def settle(self) -> None:
        """Wait until the page has its heading, and nothing loads any more."""
        self.page.wait_for_selector("h1")
        until(self._is_quiet, "the page has loaded")

    def _is_quiet(self) -> bool:
        before = len(self.requests)
        self.page.wait_for_timeout(_QUIET_MILLISECONDS)
        loads = self.pending or len(self.requests) != before
        return not loads and self.page.locator(".skeleton").count() == 0

    @contextmanager
    def resized(self, size: tuple[int, int]) -> Iterator[None]:
        """The page in a window of another size, until the block ends."""
        kept = self.page.viewport_size
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        try:
            self.settle()
            yield
        finally:
            if kept is not None:
                self.page.set_viewport_size(kept)

    def count_clicks(self) -> None:
        """Count presses of the mouse from the next page on: `clicks` says how many."""
        self.page.add_init_script(_COUNTER)

    def violations(self) -> list[str]:
        """What broke the policy of the page, or asked another origin."""
        found: list[str] = self.page.evaluate("window.__violations ?? []")
        return [*found, *self.complaints]

    def axe(self, *rules: str) -> list[str]:
        """Violations of accessibility rules, one line each: of some rules, else of all of WCAG 2.2
        A and AA."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate(
            """async (rules) => {
              const all = ["2a", "2aa", "21a", "21aa", "22aa"].map((level) => `wcag${level}`);
              const chosen = rules.length ? rules : [...all, "best-practice"];
              const result = await axe.run(document, { runOnly: chosen });
              return result.violations.flatMap((rule) => rule.nodes.map((node) =>
                `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
            }""",
            list(rules),
        )
        return list(found)

    def dark_axe(self) -> list[str]:
        """Violations in dark; beside the colours, all is as in light."""
        self.page.emulate_media(color_scheme="dark")
        try:
            return [f"dark: {line}" for line in self.axe("color-contrast")]
        finally:
            self.page.emulate_media(color_scheme="light")


def clicks(page: Page) -> int:
    """How often the mouse was pressed since `Scene.count_clicks`."""
    return int(page.evaluate("Number(sessionStorage.getItem('clicks'))"))


@contextmanager
def scene(
    browser: Browser,
    live: Served,
    *,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    logged_in: bool = True,
    key: NewCredential = ADMINISTRATOR,
    cold: bool = False,
) -> Iterator[Scene]:
    """A scene, until the block ends; then its page must be clean.  `key`: who looks at it.
    `cold`: in a context of its own, for who measures."""
    who = key if logged_in else None
    with watched(browser, live.client, size=size, scheme=scheme, key=who, cold=cold) as shown:
        yield shown


@contextmanager
def watched(
    browser: Browser,
    client: Client,
    below: str = "",
    *,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    key: NewCredential | None = None,
    cold: bool = False,
) -> Iterator[Scene]:
    """As `scene`, of any service; logged in if there is a key."""
    idle = _idle.setdefault(browser, {}).setdefault((size, scheme), [])
    kept = idle.pop() if idle and not cold else _kept(browser, client, size, scheme)
    if key is not None:
        _log_in(kept.context, client, key)
    shown = Scene(kept.context.new_page(), client, below=below)
    _watch(shown)
    reusable = False
    try:
        yield shown
        assert shown.violations() == []
        reusable = not cold
    finally:
        for each in (one for one in shown.refused if one.request not in shown.pending):
            print(_described(each))  # pytest shows it if the test has failed
        if reusable and _forget(kept, shown):
            idle.append(kept)
        else:
            kept.context.close()


# ---- contexts ------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """A context, and the page in it that stays open: it keeps the process for the pages of the
    scenes, which would else start three processes each and compile all scripts again."""

    context: BrowserContext
    keeper: Page


_Kind = tuple[tuple[int, int], str]
_idle: Final[dict[Browser, dict[_Kind, list[_Kept]]]] = {}  # which the next scene may use


def _kept(browser: Browser, client: Client, size: tuple[int, int], scheme: str) -> _Kept:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    context.add_init_script(_VIOLATIONS)
    keeper = context.new_page()
    keeper.goto(client.url + "/_health")
    return _Kept(context, keeper)


def _forget(kept: _Kept, shown: Scene) -> bool:
    """Remove all that a scene left in its context; false if that is impossible, because its page
    got another clock."""
    if "native code" not in shown.page.evaluate("`${Date}`"):
        return False
    for page in kept.context.pages:
        if page is not kept.keeper:
            page.close()
    kept.context.clear_cookies()
    kept.context.clear_permissions()
    tools = kept.context.new_cdp_session(kept.keeper)
    origin = {"origin": shown.client.url, "storageTypes": "all"}
    tools.send("Storage.clearDataForOrigin", origin)
    tools.send("Network.clearBrowserCache")
    tools.detach()
    return True


def _watch(shown: Scene) -> None:
    own = shown.client.url

    def on_request(request: Request) -> None:
        shown.pending.add(request)
        shown.requests.append(f"{request.method} {request.url.removeprefix(own)}")
        if not request.url.startswith((own + "/", "blob:" + own, "data:")):
            shown.complaints.append(f"foreign request: {request.url}")

    def on_console(message: ConsoleMessage) -> None:
        is_wrong = message.type == "error" or "preload" in message.text
        if is_wrong and not message.text.startswith(_OF_THE_BROWSER):
            shown.complaints.append(f"console: {message.text}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            shown.refused.append(response)

    shown.page.on("request", on_request)
    shown.page.on("response", on_response)
    shown.page.on("requestfinished", lambda request: shown.pending.discard(request))
    shown.page.on("requestfailed", lambda request: shown.pending.discard(request))
    shown.page.on("console", on_console)
    shown.page.on("pageerror", lambda error: shown.complaints.append(f"error: {error}"))
    shown.page.on("dialog", lambda dialog: shown.complaints.append(f"dialog: {dialog.message}"))


def _described(response: Response) -> str:
    text = ""
    with suppress(Error):  # the browser has forgotten it, or never read it
        text = response.text()
    return f"{response.status} to {response.request.method} {response.url}: {text[:2000]}"


def _log_in(context: BrowserContext, client: Client, key: NewCredential) -> None:
    body = {"access_key_id": key.access_key_id, "secret_access_key": key.secret_access_key}
    reply = Client(client.host, client.port, "").send("POST", "/auth/login", body=body)
    name, _, value = reply.headers["set-cookie"].partition(";")[0].partition("=")
    context.add_cookies([{"name": name, "value": value, "url": client.url}])


# ---- a lake --------------------------------------------------------------------------------------

CSV: Final = "id,city,price\n1,Oslo,12.5\n2,Rome,9.75\n3,Lima,11\n"


def good(reply: Reply) -> Any:
    """The content of an answer that must be good."""
    assert reply.status < 300, reply.body
    is_json = reply.headers.get("content-type", "").startswith("application/json")
    return reply.json if is_json else reply.body


def lake(live: Served) -> str:
    """A repository with a little of everything; the name."""
    repo = live.fresh_repository()
    client, where = live.client, f"/repositories/{repo}"
    client.upload(repo, "README.md", b"# Sales\n\nPrices of *all* cities. See `prices.csv`.\n")
    client.upload(repo, "prices.csv", CSV.encode())
    client.upload(repo, "logs/2026/01.json", b'{"a": [1, 2, {"b": null}], "c": "text"}')
    client.upload(repo, "logs/2026/02.txt", b"first line\nsecond line\n")
    commit(client, repo, "main", "First files")
    good(client.send("POST", where + "/branches", body={"name": "prices", "source": "main"}))
    client.upload(repo, "prices.csv", CSV.replace("9.75", "10").encode(), "prices")
    client.upload(repo, "new/cities.csv", b"city\nOslo\n", "prices")
    commit(client, repo, "prices", "Raise the price of Rome\n\nAs agreed.")
    client.upload(repo, "logs/2026/03.txt", b"third\n")
    commit(client, repo, "main", "Log of March")
    good(client.send("POST", where + "/tags", body={"id": "v1", "ref": "main"}))
    return repo


def stage(live: Served, repo: str, paths: Iterable[str]) -> None:
    """Stage empty objects on `main`, without a request for each."""
    ports = live.embedded.ports
    opened = open_repository(ports, repository.get(ports, repo))
    for path in paths:
        write.stage(opened, "main", path, Entry("data/none", 0, "e", 1))


def fill(live: Served, repo: str, objects: int = 0, commits: int = 0) -> None:
    """Commit empty objects `000000`, `000001`, … of one folder, then empty commits `Number 0`, …:
    all records at once, then the head."""
    ports = live.embedded.ports
    opened = open_repository(ports, repository.get(ports, repo))
    where = f"/repositories/{repo}/branches/main"
    head = CommitId(live.client.send("GET", where).json["commit_id"])
    known = {head: commit_records.get(ports.kv, opened.record, head)}
    entry = encode_entry(Entry("data/none", 0, "e", 1))
    messages = [f"{objects} objects"] * bool(objects) + [f"Number {at}" for at in range(commits)]
    metarange = known[head].metarange
    if objects:
        paths = (f"{number:06}".encode() for number in range(objects))
        metarange = writer.write(keyspace(opened), ((path, entry) for path in paths))
    for message in messages:
        made = Commit("ben", message, ports.clock.now_ns(), metarange, {}, (head,))
        made = positioned(known.__getitem__, made)
        head = commit_id(made)
        known[head] = made
    entries = [CommitEntry(id, made) for id, made in known.items()]
    commit_records.put_many(ports.kv, opened.record, entries, ports.ids.stamp())
    good(live.client.send("PUT", f"{where}/hard_reset", {"ref": head}))


def commit(client: Client, repo: str, branch: str, message: str) -> str:
    """Commit a branch; the id."""
    where = f"/repositories/{repo}/branches/{branch}/commits"
    made = good(client.send("POST", where, body={"message": message}))
    return str(made["id"])


def person(client: Client, id: str, *groups: str) -> NewCredential:
    """A new user in groups; its key."""
    good(client.send("POST", "/auth/users", body={"id": id}))
    for group in groups:
        good(client.send("PUT", f"/auth/groups/{group}/members/{id}"))
    key = good(client.send("POST", f"/auth/users/{id}/credentials"))
    return NewCredential(key["access_key_id"], key["secret_access_key"])
