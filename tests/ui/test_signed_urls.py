"""What is large is read from the storage itself, by signed URLs; and what a page costs."""

import io
import re
from collections.abc import Iterator
from statistics import mean

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from benchmarks.prices import MILLION, dollars
from graveler.block.signature import PRESIGNED_PATH
from graveler.http.service import ON_AWS, ServiceSettings
from tests.api.serving import Served, served
from tests.ui.scene import ROOT, Scene, scene

LARGE = b"one line\n" * 100_000
SIGNED = f"**{PRESIGNED_PATH}**"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that signs URLs and names its prices, as the one on AWS does."""
    store = tmp_path_factory.mktemp("signing") / "store"
    with served(store, settings=ServiceSettings(page_dollars=ON_AWS), public=True) as running:
        yield running


@pytest.fixture
def shown(browser: Browser, signing: Served) -> Iterator[Scene]:
    with scene(browser, signing) as made:
        yield made


def show(shown: Scene, service: Served, name: str, content: bytes, view: str = "") -> Page:
    """The page of a new file."""
    repo = service.fresh_repository()
    service.client.upload(repo, name, content)
    return shown.open(f"/repositories/{repo}/object", ref="main", path=name, view=view)


def numbers() -> bytes:
    """A Parquet file of two row groups; each column of a group has 400 kB."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    table = pa.table({"id": range(100_000), "twice": range(0, 200_000, 2)})
    plain = {"compression": "none", "use_dictionary": False}
    parquet.write_table(table, sink, row_group_size=50_000, **plain)
    return sink.getvalue()


def read(shown: Scene) -> list[str]:
    """How each part of an object was read."""
    kinds = {"/objects/stat?": "stat", "/objects?": "service", PRESIGNED_PATH: "storage"}
    return [
        kind
        for line in shown.requests
        for part, kind in kinds.items()
        if part in line and (kind != "stat" or "presign=true" in line)
    ]


def test_a_large_file_is_read_from_the_storage(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "large.txt", LARGE)
    expect(page.get_by_role("region", name="Text")).to_contain_text("one line")
    assert read(shown) == ["stat", "storage"]


def test_a_small_file_is_read_by_one_request(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "small.txt", b"one line")
    expect(page.get_by_role("region", name="Text")).to_contain_text("one line")
    assert read(shown) == ["service"]


@pytest.mark.parametrize("signs", [True, False])
def test_parts_of_two_versions_are_not_shown_as_one_file(
    browser: Browser, signing: Served, live: Served, signs: bool
) -> None:
    service = signing if signs else live
    with scene(browser, service) as shown:
        page = show(shown, service, "numbers.parquet", numbers(), view="schema")
        expect(page.get_by_role("region", name="Columns of the file")).to_be_visible()
        repo = page.url.split("/repositories/")[1].split("/")[0]
        service.client.upload(repo, "numbers.parquet", numbers()[::-1])
        page.get_by_role("button", name="Histograms of a sample").click()
        expect(page.get_by_role("alert")).to_contain_text("The file has changed")
        page = show(shown, service, "large.txt", LARGE, view="details")
        expect(page.get_by_text("Stored at")).to_be_visible()
        repo = page.url.split("/repositories/")[1].split("/")[0]
        service.client.upload(repo, "large.txt", LARGE[::-1])
        page.get_by_role("link", name="Content").click()
        expect(page.get_by_role("alert")).to_contain_text("The file has changed")


def test_a_url_that_expires_between_two_reads_is_replaced(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "numbers.parquet", numbers())
    rows = page.get_by_role("region", name="Rows of the file")
    expect(rows.get_by_role("row", name="1 0 0", exact=True)).to_be_visible()
    expired: list[str] = []

    def expire(route: Route) -> None:
        """The URL of the page is too old; another one is not."""
        url = route.request.url
        if not expired:
            expired.append(url)
        if url == expired[0]:
            route.fulfill(status=403, body="Request has expired")
        else:
            route.continue_()

    page.route(SIGNED, expire)
    before = len(read(shown))
    page.get_by_role("button", name="Next 100").click()
    expect(rows.get_by_role("row", name="101 100 200", exact=True)).to_be_visible()
    # A short read beside them may meet no URL, and goes to the service.
    direct = [kind for kind in read(shown)[before:] if kind != "service"]
    assert direct == ["storage", "stat", "storage"]


def test_a_bucket_without_a_rule_is_named_with_its_command_and_the_file_is_shown(
    shown: Scene, signing: Served
) -> None:
    shown.page.route(SIGNED, lambda route: route.abort())
    page = show(shown, signing, "large.txt", LARGE)
    expect(page.get_by_role("region", name="Text")).to_contain_text("one line")
    command = f"graveler storage cors _presigned --origin {signing.client.url}"
    expect(page.get_by_text(command)).to_be_visible()
    assert read(shown) == ["stat", "storage", "service"]
    assert shown.axe() == []


def test_no_signed_url_is_kept_or_shown(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "large.txt", LARGE)
    assert "storage" in read(shown)
    for place in ("document.documentElement.outerHTML", "location.href", _STORED):
        assert PRESIGNED_PATH not in page.evaluate(place), place
    page.get_by_role("link", name="Details").click()
    shown.settle()
    assert PRESIGNED_PATH not in page.content() and PRESIGNED_PATH not in page.url


_STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state])"


@pytest.mark.parametrize(
    ("url", "bucket"),
    [
        ("https://sales.data.s3.eu-west-1.amazonaws.com/x", "sales.data"),
        ("https://sales.s3.amazonaws.com/x", "sales"),
        ("https://s3.eu-west-1.amazonaws.com/sales/x", "sales"),
    ],
)
def test_the_bucket_is_read_from_the_url(
    shown: Scene, signing: Served, url: str, bucket: str
) -> None:
    """The policy of the page refuses the URL, as a bucket without a rule does."""
    page = shown.page
    page.route(
        "**/objects/stat?*presign=true*",
        lambda route: route.fulfill(json={**route.fetch().json(), "physical_address": url}),
    )
    show(shown, signing, "large.txt", LARGE)
    expect(page.get_by_text(f"graveler storage cors {bucket} --origin")).to_be_visible()
    shown.complaints.clear()
    page.evaluate("window.__violations = []")


def test_a_page_tells_what_its_requests_cost(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "small.txt", b"one line")
    footer = page.locator(".page-footer")
    asked = sum("/api/v1/" in line for line in shown.requests)
    expect(footer).to_contain_text(re.compile(rf"\D{asked} requests, about \$0\.0000\d+"))
    said = float(re.findall(r"\$([\d.]+)", footer.inner_text())[0])
    assert said == pytest.approx(asked * ON_AWS.read, rel=0.05)


def test_bytes_of_an_object_cost_more_than_the_request(shown: Scene, signing: Served) -> None:
    page = show(shown, signing, "large.txt", LARGE)
    said = float(re.findall(r"\$([\d.]+)", page.locator(".page-footer").inner_text())[0])
    assert said > len(LARGE) / 2 * ON_AWS.byte


def test_an_embedded_store_names_no_price(browser: Browser, live: Served, repo: str) -> None:
    with scene(browser, live) as shown:
        page = shown.open(f"/repositories/{repo}/objects", ref="main")
        expect(page.locator(".page-footer")).to_contain_text("requests")
        assert "$" not in page.locator(".page-footer").inner_text()


def test_the_prices_are_those_of_the_measured_costs() -> None:
    text = (ROOT / "docs" / "measured" / "cost.md").read_text(encoding="utf-8")
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    cells = {row[0]: row[3] for row in rows if len(row) > 3}
    reads = [float(each) for each in cells["stat, list page, diff of 1"].split(", ")]
    names = ("upload", "delete", "create branch", "commit of 1", "merge of 1")
    writes = [float(cells[name]) for name in names]
    assert ON_AWS.read * MILLION == pytest.approx(mean(reads), rel=0.03)
    assert ON_AWS.write * MILLION == pytest.approx(mean(writes), rel=0.03)
    assert ON_AWS.byte == pytest.approx(dollars("egress", 1e-9))
