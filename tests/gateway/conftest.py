"""One server with the gateway for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.serving import Gateway, S3Client, gateway


@pytest.fixture(scope="module")
def served_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server on a fresh store."""
    store: Path = tmp_path_factory.mktemp("gateway") / "store"
    with gateway(store) as running:
        yield running


@pytest.fixture
def s3(served_gateway: Gateway) -> S3Client:
    """The administrator's client, which signs what it is told to send."""
    return served_gateway.s3


@pytest.fixture
def repo(served_gateway: Gateway) -> str:
    """A fresh repository."""
    return served_gateway.live.fresh_repository()


@pytest.fixture(scope="module")
def boto(served_gateway: Gateway) -> Any:
    """The administrator's client of boto3."""
    return served_gateway.boto()
