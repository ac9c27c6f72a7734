"""The main function of commands that generate a document: print it, or write it."""

import argparse
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def show_or_write(what: str, file: Path, document: Callable[[], str]) -> None:
    """Parse the arguments, then print the document or write it to `file`, a path in the
    repository."""
    parser = argparse.ArgumentParser(description=what)
    shown = file.relative_to(ROOT)
    parser.add_argument("--write-docs", action="store_true", help=f"write {shown}")
    if parser.parse_args().write_docs:
        file.write_text(document(), encoding="utf-8")
        print(f"wrote {shown}")
    else:
        print(document())
