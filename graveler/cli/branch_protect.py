"""`graveler branch-protect`: which branches change by merges alone."""

import click

from graveler.cli.arguments import address_argument
from graveler.cli.command import client, group
from graveler.cli.invocation import Invocation
from graveler.cli.output import field
from graveler.client import refs

_LISTED_BY = "graveler branch-protect list"


@group("branch-protect")
def branch_protect() -> None:
    """Protect branches from direct changes."""


@client(
    "list",
    group=branch_protect,
    examples=("graveler branch-protect list lake", "graveler branch-protect list lake --json"),
)
@address_argument("repository")
def list_rules(invocation: Invocation, repository: str) -> int:
    """List the globs of protected branches."""
    name = invocation.repository(repository).repository
    rules = [{"pattern": each} for each in refs.protected_patterns(invocation.session, name)]
    if not invocation.output.items((field("pattern"),), rules):
        invocation.output.note("no branch is protected")
    return 0


@client(
    "add",
    group=branch_protect,
    examples=(
        "graveler branch-protect add lake main",
        "graveler branch-protect add lake 'release-*'",
    ),
)
@address_argument("repository")
@click.argument("glob")
def add(invocation: Invocation, repository: str, glob: str) -> int:
    """Protect the branches whose names match GLOB.

    They change by merges alone: uploads, deletions and commits on them are refused.
    """
    name = invocation.repository(repository).repository
    refs.protect(invocation.session, name, glob)
    invocation.output.done(f"protected {glob} in {name}")
    return 0


@client(
    "delete", group=branch_protect, examples=("graveler branch-protect delete lake 'release-*'",)
)
@address_argument("repository")
@click.argument("glob")
def delete(invocation: Invocation, repository: str, glob: str) -> int:
    """Delete the rule GLOB; the branches that it matched can be changed again."""
    name = invocation.repository(repository).repository
    invocation.about(glob, f"{_LISTED_BY} {name}")
    refs.unprotect(invocation.session, name, glob)
    invocation.output.done(f"deleted the rule {glob} of {name}")
    return 0
