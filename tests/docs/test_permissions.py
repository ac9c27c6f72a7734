"""The table of permissions in docs/reference/access-control.md is that of the declarations."""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile

from graveler.api.operation import OPEN, Operation
from graveler.api.operations import OPERATIONS
from graveler.auth.permissions import EVERYTHING, Permission
from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "reference" / "access-control.md"
HEAD = "| needs | operations |"


def rows() -> Iterator[str]:
    """The lines of the table: the operations that need the same, by what they need."""
    names: dict[str, list[str]] = defaultdict(list)
    for each in OPERATIONS:
        names[_needs(each)].append(f"`{each.name}`")
    for needs, same in sorted(names.items()):
        yield f"| {needs} | {', '.join(sorted(same))} |"


def _needs(operation: Operation) -> str:
    if operation.name in OPEN:
        return "no credentials"
    needed = [_shown(each) for each in operation.permissions] or ["credentials"]
    needed += [f"if {when}: {_shown(each)}" for when, each in operation.conditional]
    return "; ".join(needed)


def _shown(permission: Permission) -> str:
    action, resource = permission.action, permission.pattern
    if resource != EVERYTHING:
        service = "auth" if action.startswith("auth:") else "fs"
        prefix, begin = f"arn:lakefs:{service}:::", len(f"arn:lakefs:{service}:::")
        assert resource.startswith(prefix), f"the page describes such resources: {permission}"
        resource = resource[begin:]
    return f"`{action}` on `{resource}`"


def page_of(lines: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The lines before the table, of the table, and after it."""
    start = lines.index(HEAD) + 2
    table = list(takewhile(str, lines[start:]))
    return lines[:start], table, lines[start + len(table) :]


def test_the_page_has_what_every_operation_needs() -> None:
    _, table, _ = page_of(PAGE.read_text(encoding="utf-8").splitlines())
    expected = list(rows())
    missing = [row for row in expected if row not in table]
    wrong = [row for row in table if row not in expected]
    remedy = "python -m tests.docs.test_permissions writes the table"
    assert table == expected, "\n".join([remedy, "missing:", *missing, "wrong:", *wrong])


if __name__ == "__main__":
    about = "Writes the table of docs/reference/access-control.md."
    argparse.ArgumentParser(description=about).parse_args()
    before, _, after = page_of(PAGE.read_text(encoding="utf-8").splitlines())
    PAGE.write_text("\n".join([*before, *rows(), *after, ""]), encoding="utf-8")
