"""Runs the Python blocks of a document, in order and in one namespace."""

import ast
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def blocks(document: str, language: str = "python") -> list[str]:
    """The blocks of a document in one language; it is named from the top of the project."""
    fence = re.compile(rf"```{language}\n(.*?)```", re.DOTALL)
    return fence.findall((ROOT / document).read_text(encoding="utf-8"))


def shown(document: str, command: str) -> str:
    """What a document shows below a command of the shell."""
    text = (ROOT / document).read_text(encoding="utf-8").partition(f"\n    {command}\n")[2]
    found = re.search(r"^((?:    .*\n)+)", text, re.MULTILINE)
    assert found, f"{document} shows nothing below {command!r}"
    return re.sub(r"^    ", "", found[1], flags=re.MULTILINE)


def run(document: str, replaced: dict[str, str], names: dict[str, Any] | None = None) -> None:
    """Run all blocks of a document.  `replaced`: texts of the document and what takes their place;
    each must be in some block.  `names`: what the reader has at the beginning."""
    code = _code(document, replaced)
    assert "import polars" not in code, f"run {document} apart: Polars leaves a thread behind"
    exec(compile(code, document, "exec"), names if names is not None else {})


_STEP = re.compile(
    r"```python\n(.*?)```\n(?:\nWhat appears[^\n]*:\n\n((?:    [^\n]*\n|\n)*))?", re.DOTALL
)
_VARYING = (
    (re.compile(r"\b(?:[0-9a-f]{12}|[0-9a-f]{64})\b"), "an-id"),
    (re.compile(r"\b\d+ (?:minute|hour)s? ago\b"), "now"),
)


def steps(document: str) -> Iterator[tuple[str, str]]:
    """Each block of a page, and what the page says that appears; empty if it says nothing."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for code, shown in _STEP.findall(text):
        yield code, re.sub(r"^    ", "", shown, flags=re.MULTILINE).strip("\n")


def typed(code: str, names: dict[str, Any]) -> str:
    """What an interactive Python prints when these lines are typed."""
    out = StringIO()
    with redirect_stdout(out):
        for statement in ast.parse(code).body:
            exec(compile(ast.Interactive([statement]), "typed", "single"), names)
    return out.getvalue().rstrip("\n")


def unvarying(text: str) -> str:
    """A text with the same ids and ages in each run, and without spaces at the ends of lines."""
    for pattern, other in _VARYING:
        text = pattern.sub(other, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def run_apart(document: str, replaced: dict[str, str], python: str = sys.executable) -> str:
    """Run them in a process of their own, where warnings are errors too: what they print.
    `python`: of another environment, which gets the packages of this one behind its own."""
    code = _code(document, replaced)
    if python != sys.executable:
        code = f"import sys; sys.path += {[sysconfig.get_path('purelib'), str(ROOT)]}\n{code}"
    command = [python, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, f"{document}:\n{done.stderr}"
    return done.stdout


def _code(document: str, replaced: dict[str, str]) -> str:
    code = "\n".join(blocks(document))
    for text, other in replaced.items():
        assert text in code, f"{document} has no {text!r}"
        code = code.replace(text, other)
    return code
