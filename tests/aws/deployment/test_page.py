"""The page of a deployed stack in a real Chromium.

The API function serves the page below the path of its stage; what is large goes to the bucket.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from graveler.auth.credentials import NewCredential
from tests.api.serving import Client
from tests.aws.deployment.conftest import Stack
from tests.support.page_suite import LARGE, PageSuite, Place
from tests.ui.scene import launched

pytestmark = pytest.mark.xdist_group("stack")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as running:
        yield running


class TestStack(PageSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls, stack: Stack) -> Place:
        url = urlsplit(stack.url)
        client = Client(str(url.hostname), int(url.port or 80), "")
        key = NewCredential(stack.access_key_id, stack.secret_access_key)
        below = url.path.removesuffix("/api/v1")
        return Place(client, key, f"{stack.namespace}/", below, LARGE)
