"""The blocks of the pages on the S3 gateway run against a server."""

from pathlib import Path

import pytest

from tests.cli.service import at_hand
from tests.docs import examples
from tests.gateway.clients.elsewhere import program

KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")
HERE = "http://127.0.0.1:8000"


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    """In another process, as Polars must (tests/gateway/clients/test_polars.py)."""
    with at_hand(tmp_path / "store", KEYS) as live:
        printed = examples.run_apart("docs/how-to/s3-clients.md", {HERE: live.client.url})
    assert printed.splitlines() == [
        r"b'id\n2\n'",
        r"b'id\n1\n'",
        r"b'id\n2\n'",
        "3",
        "3",
        "[(2,)]",
        "3",
    ]


@pytest.mark.slow
def test_delta_tables_on_branches(tmp_path: Path) -> None:
    """With the packages of the clients, where delta-rs is."""
    with at_hand(tmp_path / "store", KEYS) as live:
        page = "docs/how-to/delta-tables.md"
        printed = examples.run_apart(page, {HERE: live.client.url}, program("python"))
    assert printed.splitlines() == [
        "versions: 3",
        "main: 4",
        "trial: 3",
        "merged: 3",
        "conflict: ['00000000000000000004.json']",
        "ids: [1, 3, 4, 5, 6]",
    ]
