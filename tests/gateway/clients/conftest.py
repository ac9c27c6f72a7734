"""One lake for all tests of a run, and a process of the clients for those of a module."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.auth.credentials import NewCredential
from tests.gateway.clients.elsewhere import Elsewhere, elsewhere
from tests.gateway.lake import REGION, Lake, lake

CONFIGURATION = """[{title}]
endpoint_url = {url}
region = {region}
s3 =
    addressing_style = path
    multipart_threshold = 5MB
    multipart_chunksize = 5MB
"""
CREDENTIALS = """[{name}]
aws_access_key_id = {key.access_key_id}
aws_secret_access_key = {key.secret_access_key}
"""


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("clients")) as running:
        yield running


@pytest.fixture(scope="session")
def aws_files(there: Lake, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of tools of AWS: files with the administrator as default, and `somebody`."""
    folder: Path = tmp_path_factory.mktemp("aws")
    configuration, credentials = folder / "config", folder / "credentials"
    given = {"url": there.url, "region": REGION}
    callers: dict[str, NewCredential] = {"default": there.key, "somebody": there.somebodys_key}
    configuration.write_text(
        CONFIGURATION.format(title="default", **given)
        + CONFIGURATION.format(title="profile somebody", **given)
    )
    credentials.write_text(
        "".join(CREDENTIALS.format(name=name, key=key) for name, key in callers.items())
    )
    return {
        "AWS_CONFIG_FILE": str(configuration),
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_PAGER": "",
    }


@pytest.fixture(scope="module")  # the aws cli puts its own botocore in the place of another
def away(aws_files: dict[str, str]) -> Iterator[Elsewhere]:
    with elsewhere(aws_files) as process:
        yield process


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A folder of its own for a test, as the start of a key."""
    return "main/" + re.sub(r"\W", "-", request.node.name) + "/"


@pytest.fixture
def place(there: Lake, folder: str) -> str:
    """The same as file systems name it."""
    return f"{there.repo}/{folder.rstrip('/')}"
