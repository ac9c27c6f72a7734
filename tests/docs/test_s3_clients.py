"""The table of S3 clients has the tests that ran, with the versions that are installed; the blocks
of the page about them run."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.service import serving
from tests.docs import examples

TESTS = "gateway/test_clients.py"
KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")
HERE = "http://127.0.0.1:8000"
ERRORS = {"`ClientError`", "`OSError`", "`PermissionError`"}
RESULTS = {"works", "refused", "the client fails"} | ERRORS
OTHERS = {"pandas": "pyarrow"}  # a client that stands on another


class Row(NamedTuple):
    """One line of the table."""

    client: str
    operation: str
    result: str
    test: str


def section() -> str:
    text = (examples.ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8")
    return text.partition("\n## S3 clients\n")[2].partition("\n## ")[0]


def rows() -> list[Row]:
    found = re.findall(rf"^\| (\w+) \| (.+?) \| (.+?) \| `{TESTS}::(\w+)` \|$", section(), re.M)
    return [Row(*each) for each in found]


def versions() -> dict[str, str]:
    return dict(re.findall(r"^\| (\w+) \| (\d[\d.]+) \|$", section(), re.M))


def test_the_versions_are_those_of_the_tests() -> None:
    assert versions() == {name: version(name) for name in ("boto3", "pyarrow", "polars")}


def test_each_test_of_a_client_has_a_line_and_each_line_a_test() -> None:
    source = (examples.ROOT / "tests" / TESTS).read_text(encoding="utf-8")
    tests = re.findall(r"^def (test_\w+)\(", source, re.M)
    assert [row.test for row in rows()] == tests
    assert len(section().split(f"{TESTS}::")) == len(tests) + 1
    for row in rows():
        named = row.test.split("_")[1]
        assert row.client == OTHERS.get(named, named)
        assert row.client in versions()


def test_a_line_says_what_its_test_expects() -> None:
    """A test of a denial or a refusal expects an error of the client; one of work does not name
    such an error in its title."""
    for row in rows():
        denied = row.test.endswith("what_is_denied")
        fails = "_refuses_" in row.test
        refused = "_is_refused_" in row.test or "_makes_no_" in row.test
        assert row.result in RESULTS
        assert (row.result in ERRORS, row.result == "the client fails") == (denied, fails)
        assert (row.result == "refused") is refused


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path / "store", credentials=KEYS) as service:
        examples.run("docs/how-to/s3-clients.md", {HERE: service.url})
        assert service.end()[0] == 0
    assert capsys.readouterr().out.splitlines() == [
        r"b'id\n2\n'",
        r"b'id\n1\n'",
        r"b'id\n2\n'",
        "3",
        "3",
        "[(2,)]",
        "3",
    ]
