"""Runs the Python blocks of a document, in order and in one namespace."""

import re
import subprocess
import sys
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


def run_apart(document: str, replaced: dict[str, str]) -> str:
    """Run them in a process of their own, where warnings are errors too: what they print."""
    command = [sys.executable, "-W", "error", "-c", _code(document, replaced)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, f"{document}:\n{done.stderr}"
    return done.stdout


def _code(document: str, replaced: dict[str, str]) -> str:
    code = "\n".join(blocks(document))
    for text, other in replaced.items():
        assert text in code, f"{document} has no {text!r}"
        code = code.replace(text, other)
    return code
