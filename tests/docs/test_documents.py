"""The documents keep up with the code: links, paths, commands, clauses, examples."""

import argparse
import re
from pathlib import Path

import pytest

from graveler.cli.main import parser
from graveler.committed.ranges import EMPTY_METARANGE
from tests.cli.service import repository, serving

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = ("docs/measured/benchmarks.md",)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"`((?:graveler|docs|tests|scripts|benchmarks|requirements)/[\w./*-]+)`")
_FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


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


def test_the_first_screen_links_the_three_files() -> None:
    first = "\n".join(README.splitlines()[:35])
    for path in (
        "graveler/records.py",
        "graveler/engine/commits/commit.py",
        "docs/reference/format.md",
    ):
        assert f"]({path})" in first


def _commands() -> dict[str, set[str]]:
    """Every command with its options, from the parser itself."""
    found: dict[str, set[str]] = {}

    def collect(words: str, at: argparse.ArgumentParser) -> None:
        below = [each for each in at._actions if isinstance(each, argparse._SubParsersAction)]
        for action in below:
            for name, sub in action.choices.items():
                collect(f"{words} {name}", sub)
        if not below:
            options = {option for each in at._actions for option in each.option_strings}
            found[words] = {option for option in options if option.startswith("--")} - {"--help"}

    collect("graveler", parser())
    return found


def test_the_readme_has_every_command_and_no_other() -> None:
    rows = re.findall(r"^\| `(graveler [^`]+)` \|", README, re.MULTILINE)
    documented = {
        " ".join(row.split(" --")[0].split()): set(re.findall(r"--[a-z-]+", row)) for row in rows
    }
    assert documented == _commands()


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_targets_of_make_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", text, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize(
    ("document", "module", "letter"),
    [
        ("kv", "kv/store.py", "K"),
        ("block", "block/adapter.py", "B"),
        ("ranges", "committed/ranges.py", "R"),
    ],
)
def test_a_contract_has_the_clauses_of_its_port(document: str, module: str, letter: str) -> None:
    text = (ROOT / "docs" / "reference" / "contracts" / f"{document}.md").read_text(
        encoding="utf-8"
    )
    port = (ROOT / "graveler" / module).read_text(encoding="utf-8")
    clauses = re.findall(rf"^    ({letter}\d+)  ", port, re.MULTILINE)
    assert len(clauses) >= 6
    assert re.findall(rf"^\| ({letter}\d+) \|", text, re.MULTILINE) == clauses


def test_the_index_of_decisions_is_complete() -> None:
    folder = ROOT / "docs" / "explanation" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for record in sorted(folder.glob("[0-9]*.md")):
        text = record.read_text(encoding="utf-8")
        number, title = re.match(r"# (\w{4}): (.+)", text).groups()  # type: ignore[union-attr]
        if record.name.startswith("0000"):
            continue
        status = re.search(r"^Status: (\w+)", text, re.MULTILINE)
        assert record.name.startswith(number) and status is not None
        line = next(each for each in index.splitlines() if f"]({record.name})" in each)
        assert line.endswith(f"| {status[1]} |")
        assert title.replace("`", "").lower() in line.replace("`", "").lower()


def test_the_format_names_every_message_and_the_empty_metarange() -> None:
    text = (ROOT / "docs" / "reference" / "format.md").read_text(encoding="utf-8")
    assert EMPTY_METARANGE in text
    rows = re.findall(r"\| `(\w+)`(?:[:, ]| of one| \|)", text)
    proto = (ROOT / "graveler" / "wire.proto").read_text(encoding="utf-8")
    messages = set(re.findall(r"^message (\w+)", proto, re.MULTILINE))
    kept = messages - {"Timestamp", "Breaks", "Entry", "RangeData", "Pairs", "Credential", "User"}
    assert kept <= set(rows)


def test_the_examples_of_the_readme_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = _FENCE.findall(README)
    assert len(examples) == 2
    with serving(
        tmp_path / "store", credentials=("MYKEY", "a-secret-of-at-least-32-characters")
    ) as service:
        for example in examples:
            exec(
                compile(example.replace("http://127.0.0.1:8000", service.url), "README", "exec"), {}
            )
        assert service.end()[0] == 0
    said = capsys.readouterr().out
    assert "id,amount\n1,10" in said
    assert "2026/orders.csv" in said


def test_the_example_of_event_rules_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "how-to" / "connect-a-bucket.md").read_text(encoding="utf-8")
    (example,) = _FENCE.findall(text)
    keys = ("MYKEY", "a-secret-of-at-least-32-characters")
    with serving(tmp_path / "store", credentials=keys) as service:
        with service.client(keys) as client:
            repository(client)
        exec(compile(example.replace("http://127.0.0.1:8000", service.url), "events", "exec"), {})
        assert service.end()[0] == 0
    assert "s3://landing/sales/ -> main: raw/{rest}" in capsys.readouterr().out
