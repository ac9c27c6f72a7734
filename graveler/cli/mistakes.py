"""Names in a command that a server refuses: which one, and how to write it.

A server says of a wrong name only that it is invalid, in the words of its schema.  The rules for
names are the same everywhere (ids.py), so the client knows which name was meant.  It checks names
only after a refusal: a server with other rules decides.  For this folder.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from graveler.cli.address import Address, UsageMistake
from graveler.cli.hints import on
from graveler.cli.invocation import Invocation, session_of
from graveler.errors import GravelerError, Invalid
from graveler.ids import parse_branch_id, parse_repository_id


@contextmanager
def naming(parse: Callable[[str], Any], name: str) -> Iterator[None]:
    """For a creation: a refusal becomes a `UsageMistake` with the rule for names that `name`
    breaks, if it breaks one."""
    try:
        yield
    except Invalid as error:
        if not _is_refusal(error):
            raise
        reason = _broken_rule(parse, name)
        if not reason:
            raise
        raise UsageMistake(reason) from error


def recognized(error: GravelerError, invocation: Invocation) -> GravelerError:
    """The error, or one that names the repository or branch that no server can have.

    Cost: nothing, but one request if a path was written where the branch belongs."""
    if not _is_refusal(error):
        return error
    for place in invocation.addresses:
        reason = _broken_rule(parse_repository_id, place.repository)
        if reason:
            return UsageMistake(reason, remedy=on(invocation, place, "graveler repo list"))
    target = invocation.target
    if target is None or not target.ref or not _broken_rule(parse_branch_id, target.ref):
        return error
    if not (invocation.fills_target and "." in target.ref):
        remedy = on(invocation, target, f"graveler branch list {target.repository}")
        return UsageMistake(f"{target.ref!r} is no name of a branch", remedy=remedy)
    branch = _default_branch(invocation, target)
    path = "/".join(part for part in (target.ref, target.path) if part)
    return UsageMistake(
        f"{target.ref!r} is no name of a branch: write {target.repository}/{branch}/{path}"
    )


def _is_refusal(error: GravelerError) -> bool:
    is_bad_request = isinstance(error, Invalid) and error.fields.get("status") == "400"
    return is_bad_request and "remedy" not in error.fields


def _broken_rule(parse: Callable[[str], Any], name: str) -> str:
    """The rule for names that a name breaks; empty if it breaks none."""
    try:
        parse(name)
    except Invalid as error:
        return str(error)
    return ""


def _default_branch(invocation: Invocation, place: Address) -> str:
    from graveler.client import refs

    with suppress(GravelerError):  # it is only for a message
        return refs.get_repository(session_of(invocation, place), place.repository)[
            "default_branch"
        ]
    return "BRANCH"
