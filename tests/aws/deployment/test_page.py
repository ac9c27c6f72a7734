"""The page of a deployed stack in a real Chromium.

The API function serves the page below the path of its stage; what is large goes to the bucket.
"""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from graveler.auth.credentials import NewCredential
from tests.api.serving import Client
from tests.aws.deployment.conftest import Stack
from tests.ui.scene import launched, watched
from tests.ui.visit import REPO, visit

pytestmark = pytest.mark.xdist_group("stack")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as running:
        yield running


def test_the_page_of_a_stack(stack: Stack, browser: Browser) -> None:
    url = urlsplit(stack.url)
    client = Client(str(url.hostname), int(url.port or 80), "")
    key = NewCredential(stack.access_key_id, stack.secret_access_key)
    with watched(browser, client, url.path.removesuffix("/api/v1")) as shown:
        visit(shown, key, f"{stack.namespace}/{REPO}", _upload_to_the_bucket)


def _upload_to_the_bucket(page: Page) -> None:
    """More than the function takes: the browser sends it to the bucket by a signed URL."""
    large: FilePayload = {
        "name": "large.bin",
        "mimeType": "application/octet-stream",
        "buffer": os.urandom(5_000_000),
    }
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        page.get_by_label("Files to upload").set_input_files(large)
    assert "X-Amz-Signature" in sent.value.url
    expect(page.get_by_role("link", name="large.bin", exact=True)).to_be_visible()
