"""Runs the Python blocks of a document, in order and in one namespace."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(document: str) -> list[str]:
    """The Python blocks of a document, named from the top of the project."""
    return _FENCE.findall((ROOT / document).read_text(encoding="utf-8"))


def run(document: str, replaced: dict[str, str], names: dict[str, Any] | None = None) -> None:
    """Run all blocks of a document.  `replaced`: texts of the document and what takes their place;
    each must be in some block.  `names`: what the reader has at the beginning."""
    code = "\n".join(blocks(document))
    for text, other in replaced.items():
        assert text in code, f"{document} has no {text!r}"
        code = code.replace(text, other)
    exec(compile(code, document, "exec"), names if names is not None else {})
