"""Lines for programs: what the page offers runs, and reads what it promises."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.api.serving import ADMINISTRATOR, Served
from tests.gateway.serving import gateway
from tests.ui.scene import Scene, commit, good
from tests.waiting import until

NAME = 'it\'s a "b" 100%.csv'
ROWS = "id,city\n1,Oslo\n2,Rome\n"
COLUMN = {
    "pandas": "print(list(frame['city']))",
    "Polars": "print(list(frame['city']))",
    # Of a query of more than two seconds it prints a bar of progress.
    "DuckDB": "database.execute('SET enable_progress_bar = false')\n"
    "print([row[1] for row in rows.order('id').fetchall()])",
    "Python": "print(data.decode().split()[1:] if 'data' in dir() else '')",
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with S3, as `graveler serve` has it."""
    with gateway(tmp_path_factory.mktemp("used") / "store") as running:
        yield running.live


@pytest.fixture(scope="module")
def tables(live: Served) -> Iterator[str]:
    """A repository with a table under a difficult name, and a folder of tables."""
    import io

    import pyarrow as pa
    from pyarrow import parquet

    repo = live.fresh_repository()
    sink = io.BytesIO()
    parquet.write_table(pa.table({"id": [1, 2], "city": ["Oslo", "Rome"]}), sink)
    live.client.upload(repo, NAME, ROWS.encode())
    live.client.upload(repo, "t.parquet", sink.getvalue())
    live.client.upload(
        repo, "lines.jsonl", b'{"id": 1, "city": "Oslo"}\n{"id": 2, "city": "Rome"}\n'
    )
    live.client.upload(repo, "days/1/a.parquet", sink.getvalue())
    commit(live.client, repo, "main", "Tables")
    # The lines name the commit: what comes later does not change what they read.
    tag = {"id": "v1", "ref": "main"}
    good(live.client.send("POST", f"/repositories/{repo}/tags", body=tag))
    live.client.upload(repo, NAME, b"id,city\n9,Lima\n")
    commit(live.client, repo, "main", "Other rows")
    yield repo


def _lines(shown: Scene, name: str) -> str:
    """What the button copies, by the clipboard."""
    page = shown.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('')")
    page.get_by_role("button", name=f"Copy the lines for {name}").click()
    until(lambda: bool(page.evaluate("navigator.clipboard.readText()")), "the lines are copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def _environment(live: Served, home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": str(home),
        "LAKECTL_SERVER_ENDPOINT_URL": live.client.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ADMINISTRATOR.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": ADMINISTRATOR.secret_access_key,
        "GRAVELER_ACCESS_KEY_ID": ADMINISTRATOR.access_key_id,
        "GRAVELER_SECRET_ACCESS_KEY": ADMINISTRATOR.secret_access_key,
        "AWS_ACCESS_KEY_ID": ADMINISTRATOR.access_key_id,
        "AWS_SECRET_ACCESS_KEY": ADMINISTRATOR.secret_access_key,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _python(live: Served, home: Path, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=_environment(live, home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def _shell(live: Served, home: Path, text: str) -> str:
    done = subprocess.run(
        ["sh", "-c", text],
        env=_environment(live, home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def test_the_lines_of_files_and_folders_read_them_at_the_commit(
    shown: Scene, live: Served, tables: str, tmp_path: Path
) -> None:
    text: list[str] = []

    def take() -> None:
        text.append(f"data = None\n{_lines(shown, 'Python')}\nprint(len(data or []))")
        for name in ("pandas", "Polars", "DuckDB"):
            text.append(f"{_lines(shown, name)}\n{COLUMN[name]}")

    for path in (NAME, "t.parquet", "lines.jsonl"):
        shown.open(f"/repositories/{tables}/object", ref="v1", path=path, view="use")
        take()
    page = shown.open(f"/repositories/{tables}/objects", ref="main", path="days/1/")
    page.get_by_role("button", name="Use this").click()
    page.get_by_role("dialog").wait_for()
    take()
    # One process for all, since it takes long to import what the lines import.
    answer = _python(live, tmp_path, "\n".join(text)).splitlines()
    *files, listed, _, pandas, polars, duckdb = answer
    assert [line for line in files if not line.isdigit()] == ["['Oslo', 'Rome']"] * 9
    assert all(int(line) > 0 for line in files if line.isdigit())
    assert listed.startswith("days/1/a.parquet ")
    assert pandas == polars == duckdb == "['Oslo', 'Rome']"


def test_the_lines_of_a_shell_bring_the_file(
    shown: Scene, live: Served, tables: str, tmp_path: Path
) -> None:
    shown.open(f"/repositories/{tables}/object", ref="v1", path=NAME, view="use")
    _shell(live, tmp_path, _lines(shown, "curl"))
    assert (tmp_path / NAME).read_text(encoding="utf-8") == ROWS
    (tmp_path / NAME).unlink()
    program = f'graveler() {{ {sys.executable} -m graveler "$@"; }}; '
    _shell(live, tmp_path, program + _lines(shown, "Command line"))
    assert (tmp_path / NAME).read_text(encoding="utf-8") == ROWS


def test_the_line_of_curl_for_a_ref_lists_it(
    shown: Scene, live: Served, tables: str, tmp_path: Path
) -> None:
    page = shown.open(f"/repositories/{tables}/branches")
    page.get_by_role("link", name="Use main").click()
    page.get_by_role("dialog", name=f"Use {tables} at main").wait_for()
    found = json.loads(_shell(live, tmp_path, _lines(shown, "curl")))["results"]
    assert {each["path"] for each in found} == {
        NAME,
        "t.parquet",
        "lines.jsonl",
        "days/1/a.parquet",
    }


def test_the_line_of_s3_brings_the_file(shown: Scene, tables: str) -> None:
    shown.open(f"/repositories/{tables}/object", ref="main", path="t.parquet", view="use")
    line = _lines(shown, "S3")
    program, *arguments = shlex.split(line)
    assert program == "aws"
    url = arguments[arguments.index("--endpoint-url") + 1]
    bucket, _, key = arguments[-2].removeprefix("s3://").partition("/")
    s3 = boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=ADMINISTRATOR.access_key_id,
        aws_secret_access_key=ADMINISTRATOR.secret_access_key,
        region_name="us-east-1",
    )
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read()[:4] == b"PAR1"


def test_the_lines_for_spark_name_the_commit(shown: Scene, tables: str, live: Served) -> None:
    head = live.client.send("GET", f"/repositories/{tables}/branches/main").json["commit_id"]
    shown.open(f"/repositories/{tables}/object", ref="main", path="t.parquet", view="use")
    expected = f'frame = spark.read.parquet("s3a://{tables}/{head}/t.parquet")'
    assert _lines(shown, "Spark") == expected
