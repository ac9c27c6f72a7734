"""The documents keep up with the code: links, paths, commands, clauses, examples."""

import codeop
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.service.described import described
from tests.api.serving import running
from tests.cli import story
from tests.cli.commands import Client
from tests.cli.service import at_hand, connected, repository, serving
from tests.docs import examples

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = ("docs/measured/benchmarks.md",)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"`((?:graveler|docs|tests|scripts|benchmarks|requirements)/[\w./*-]+)`")


def names(documents: list[Path]) -> list[str]:
    return [document.relative_to(ROOT).as_posix() for document in documents]


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [link for link in _LINK.findall(text) if "://" not in link]
    missing = [link for link in links if not (document.parent / link).exists()]
    missing += [
        path
        for path in _PATH.findall(text)
        if path not in GENERATED and not any(ROOT.glob(path.rstrip("/")))
    ]
    assert not missing, f"{document.name}: {missing}"


@pytest.mark.parametrize("script", ["cli_reference.py", "python_reference.py"])
def test_a_generated_reference_is_that_of_the_code(script: str) -> None:
    check = subprocess.run(
        [sys.executable, f"scripts/{script}", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_targets_of_make_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")
HERE = "http://127.0.0.1:8000"


def test_the_example_of_the_readme_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path / "store", credentials=KEYS) as service:
        examples.run("README.md", {HERE: service.url})
        assert service.end()[0] == 0
    assert "id,amount\n1,10" in capsys.readouterr().out


TYPED = sorted([ROOT / "README.md", *(ROOT / "docs" / "tutorial").glob("*.md")])


@pytest.mark.parametrize("document", TYPED, ids=names(TYPED))
def test_blocks_can_be_pasted_into_an_interactive_python(document: Path) -> None:
    """There, an empty line ends a compound statement, and nothing else does."""
    for block in examples.blocks(document.relative_to(ROOT).as_posix()):
        typed: list[str] = []
        for line in [*block.splitlines(), ""]:
            typed.append(line)
            if codeop.compile_command("\n".join(typed), document.name, "single") is not None:
                typed = []
        assert not any(typed), typed


def test_the_tutorial_runs_and_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block is typed, and prints what the page has; commands show it on a terminal, and after
    the service has ended."""
    monkeypatch.chdir(tmp_path)
    page = "docs/tutorial/1-local.md"
    steps = list(examples.steps(page))
    names: dict[str, Any] = {}
    with at_hand(tmp_path / "lake", KEYS) as live:
        url = live.client.url
        for code, shown in steps[:-1]:
            printed = examples.typed(code.replace(HERE, url), names).replace(url, HERE)
            assert examples.unvarying(printed) == examples.unvarying(shown), code
        user = Client(tmp_path, monkeypatch, {"NO_COLOR": "1"})
        story.signed_in(user, url, *KEYS)
        for words in ("diff sales/2026-01 sales/main", "log sales/mian"):
            _, told = user.on_terminal(words)
            assert told == examples.shown(page, f".venv/bin/graveler {words}")
    verify = ("verify", "--store", "lake", "--objects")
    checked = subprocess.run(
        [sys.executable, "-m", "graveler", *verify], capture_output=True, text=True
    )
    assert checked.stdout == examples.shown(page, f".venv/bin/graveler {' '.join(verify)}")
    code, shown = steps[-1]
    assert examples.unvarying(examples.typed(code, names)) == examples.unvarying(shown)


def test_the_examples_of_python_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with at_hand(tmp_path / "store", KEYS) as live:
        objects = {"/srv/lake/objects": f"{tmp_path}/store/objects"}
        examples.run("docs/reference/python.md", {HERE: live.client.url, **objects})
    out = capsys.readouterr().out
    for words in (
        "uncommitted: ['2026/orders.csv']",
        "now: 1,12\nbefore: 1,10",
        "['Correct an amount', 'Load the orders']",
        "100 rows of ['id', 'day']",
        "2026/table.parquet 2",
        "read at once: 10",
        "s3://landing/sales/ -> main: raw/{rest}",
    ):
        assert words in out
    assert "bytes below 2026/: 0" not in out


def test_the_page_for_users_of_lakefs_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both columns: what it says of lakefs is run by lakefs."""
    with at_hand(tmp_path / "store", KEYS) as live:
        examples.run("docs/how-to/from-lakefs.md", {HERE: live.client.url})
    assert "the same: True" in capsys.readouterr().out


def test_the_page_of_readers_of_tables_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with at_hand(tmp_path / "store", KEYS) as live:
        examples.run("docs/how-to/read-tables.md", {HERE: live.client.url})
    assert capsys.readouterr().out.splitlines() == [
        "pandas: 200 ['id', 'seconds', 'day']",
        "by address: 100",
        "pyarrow: 200",
        "duckdb: [('mon', 100), ('tue', 100)]",
        "elsewhere: 100",
        "trained on: 101 then: 100 of 2 files",
    ]


def test_the_example_of_bulk_jobs_runs(tmp_path: Path) -> None:
    """The metarange that the reader has written is that of a commit on another branch."""
    with at_hand(tmp_path / "store", KEYS) as live, connected(live.client.url, KEYS) as client:
        repository(client)
        place = "/repositories/lake"
        source = client.post(f"{place}/branches", json={"name": "other", "source": "main"})
        source.raise_for_status()
        branch = f"{place}/branches/other"
        client.post(f"{branch}/objects?path=in/a", content=b"a").raise_for_status()
        made = client.post(f"{branch}/commits", json={"message": "other"})
        names = {"metarange": made.json()["meta_range_id"]}
        examples.run("docs/reference/bulk.md", {HERE: live.client.url}, names)
        found = client.get(f"{place}/refs/main/objects?path=in/a")
        assert (found.status_code, found.content) == (200, b"a")


def test_the_example_of_hooks_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    allowed = ("--hooks-allow", f"127.0.0.1:{port}", "--hooks-allow-loopback")
    secret = {"GRAVELER_HOOKS_SECRET": "a secret of at least 32 characters"}
    with serving(tmp_path / "store", *allowed, credentials=KEYS, variables=secret) as service:
        with service.client(KEYS) as client:
            repository(client)
        here = {HERE: service.url, "8001": str(port)}
        examples.run("docs/how-to/hooks.md", here)
        assert service.end()[0] == 0
    out = capsys.readouterr().out
    assert "412" in out and "hook 'message' of action 'message.yaml' failed" in out
    assert out.endswith("fine\n")


def test_the_example_of_an_application_runs(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    examples.run("docs/how-to/extend.md", {'"lake"': f'"{tmp_path}/lake"'}, names)
    with running(names["platform"]) as (at, _), httpx.Client(base_url=at.url, auth=KEYS) as client:
        body = {"name": "shop", "storage_namespace": "local://shop/x"}
        api = "/lake/api/v1/repositories"
        client.post(api, json=body).raise_for_status()
        client.post(f"{api}/shop/branches/main/objects?path=a", content=b"abc").raise_for_status()
        found = client.get("/lake/reports/shop/size?path=a")
        assert found.json() == {"path": "a", "bytes": "3", "for": "admin"}
        missing = client.get("/lake/reports/shop/size?path=b")
        assert (missing.status_code, list(missing.json())) == (404, ["message"])


def test_every_block_of_python_runs_in_some_test() -> None:
    run_elsewhere = {
        "docs/tutorial/2-aws.md",  # tests/aws/deployment/test_tutorial.py
        "docs/tutorial/3-spark.md",  # tests/spark/test_walk_through.py
        "docs/reference/spark.md",  # the same
        "docs/how-to/spark-platforms.md",  # tests/spark/test_glue.py
    }
    run_here = {
        "README.md",
        "docs/tutorial/1-local.md",
        "docs/reference/python.md",
        "docs/reference/bulk.md",
        "docs/how-to/airflow.md",  # tests/docs/test_recipes.py, and the next three
        "docs/how-to/dagster.md",
        "docs/how-to/dbt.md",
        "docs/how-to/prefect.md",
        "docs/how-to/read-tables.md",
        "docs/how-to/extend.md",
        "docs/how-to/from-lakefs.md",
        "docs/how-to/hooks.md",
        "docs/how-to/s3-clients.md",  # tests/docs/test_s3_clients.py
        "docs/how-to/delta-tables.md",  # the same
        "docs/how-to/team.md",  # tests/docs/test_team.py, tests/aws/deployment/test_team.py
    }
    assert {name for name in names(DOCUMENTS) if examples.blocks(name)} == run_here | run_elsewhere


def test_the_calls_of_graveler_exist() -> None:
    text = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    calls = set(re.findall(r"`(GET|PUT|POST|DELETE) ([\w{}/-]+)`", text))
    routes = {(route.method, route.path) for route in described()}
    assert len(calls) > 15
    below = "/repositories/{repository}/"
    whole = {(method, path if path[0] == "/" else below + path) for method, path in calls}
    assert whole <= routes


def test_the_how_to_has_every_alarm() -> None:
    template = (ROOT / "template.yaml").read_text(encoding="utf-8")
    alarms = re.findall(
        r"^  (\w+):\n(?:    .*\n)*?    Type: AWS::CloudWatch::Alarm", template, re.M
    )
    text = (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z].*?) \|", text, re.MULTILINE)
    assert len(alarms) > 10
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(alarms)


def test_the_reference_has_every_parameter_of_the_template() -> None:
    template = (ROOT / "template.yaml").read_text(encoding="utf-8")
    section = template.split("\nParameters:\n", 1)[1].split("\n\n\n", 1)[0]
    section = re.split(r"^[A-Z]\w+:$", section, flags=re.MULTILINE)[0]
    parameters = re.findall(r"^  (\w+):$", section, re.MULTILINE)
    text = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
    assert len(parameters) > 20
    assert [name for name in parameters if f"`{name}`" not in text] == []
