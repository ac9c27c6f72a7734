"""The blocks of docs/how-to/s3-clients.md run against a server."""

from pathlib import Path

import pytest

from tests.cli.service import at_hand
from tests.docs import examples

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
