"""Where benchmarks write their pages, and the main function of commands that only write one.

`docs/measured/` quotes the figures that a user decides by, by hand.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
MEASURED: Final = ROOT / "build" / "measured"


def write(file: Path, text: str) -> None:
    """Write a page, in a folder that may be missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def show_or_write(what: str, file: Path, document: Callable[[], str]) -> None:
    """Parse the arguments, then print the document or write it to `file`, a path in the
    repository."""
    parser = argparse.ArgumentParser(description=what)
    shown = file.relative_to(ROOT)
    parser.add_argument("--write", action="store_true", help=f"write {shown}")
    if parser.parse_args().write:
        write(file, document())
        print(f"wrote {shown}")
    else:
        print(document())
