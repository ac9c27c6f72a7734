"""The tables in docs/reference/s3.md are those of the declarations."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import takewhile

from graveler.auth.permissions import EVERYTHING, Permission
from graveler.gateway.errors import CODES
from graveler.gateway.operation import BELOW_REF, COPY_SOURCE, Operation
from graveler.gateway.request import Level
from graveler.gateway.route import OPERATIONS
from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "reference" / "s3.md"
OF_OPERATIONS = "| operation | request | needs |"
OF_CODES = "| status | codes |"
_PATHS = {Level.SERVICE: "/", Level.BUCKET: "/bucket", Level.KEY: "/bucket/ref/path"}
_ARN = "arn:lakefs:fs:::"


def operations() -> Iterator[str]:
    """The lines of the table of operations."""
    for each in OPERATIONS:
        needs = "; ".join(map(_shown, each.permissions)) + (
            ", for each key" if each.by_item else ""
        )
        yield f"| `{each.name}` | {_request(each)} | {needs} |"


def _request(operation: Operation) -> str:
    query = sorted(operation.marks - {BELOW_REF, COPY_SOURCE})
    shown = "&".join("list-type=2" if name == "list-type" else name for name in query)
    text = f"{operation.method} `{_PATHS[operation.level]}{'?' if shown else ''}{shown}`"
    if BELOW_REF in operation.marks:
        text += " with a slash in `prefix`"
    return text + (f" with `{COPY_SOURCE}`" if COPY_SOURCE in operation.marks else "")


def _shown(permission: Permission) -> str:
    resource = permission.resource
    if resource == EVERYTHING:
        return f"`{permission.action}`"
    return f"`{permission.action}` on `{resource.removeprefix(_ARN)}`"


def codes() -> Iterator[str]:
    """The lines of the table of codes, by status."""
    statuses: dict[int, list[str]] = {}
    for code, kind in sorted(CODES.items(), key=lambda item: (item[1].status, item[0])):
        statuses.setdefault(kind.status, []).append(f"`{code}`")
    return (f"| {status} | {', '.join(names)} |" for status, names in statuses.items())


def page_of(lines: Sequence[str], head: str) -> tuple[list[str], list[str], list[str]]:
    """The lines before a table, of the table, and after it."""
    start = list(lines).index(head) + 2
    table = list(takewhile(str, lines[start:]))
    return list(lines[:start]), table, list(lines[start + len(table) :])


def written(lines: Sequence[str]) -> list[str]:
    """The page with both tables anew."""
    for head, rows in ((OF_OPERATIONS, operations()), (OF_CODES, codes())):
        before, _, after = page_of(lines, head)
        lines = [*before, *rows, *after]
    return list(lines)


def test_the_page_has_every_operation_and_every_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert lines == written(lines), "python -m tests.docs.test_s3 writes the tables"


if __name__ == "__main__":
    argparse.ArgumentParser(description="Writes the tables of docs/reference/s3.md.").parse_args()
    text = PAGE.read_text(encoding="utf-8").splitlines()
    PAGE.write_text("\n".join([*written(text), ""]), encoding="utf-8")
