"""`graveler retention`: how long the content of commits is kept, in a store or on a server.

`--help` imports this module, so slow modules are imported where they are used.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.address import UsageMistake
from graveler.cli.arguments import yes
from graveler.cli.command import TendingCommand, client
from graveler.cli.invocation import Invocation
from graveler.cli.subject import store_of, store_option
from graveler.errors import Invalid
from graveler.ids import parse_branch_id

if TYPE_CHECKING:
    from graveler.client.collections import RetentionRules

_FOREVER: Final = 0
_DAYS: Final = click.IntRange(min=0)


@client(
    "retention",
    kind=TendingCommand,
    examples=(
        "graveler retention --repository lake",
        "graveler retention --repository lake --days 30 --branch main=90",
        "graveler retention --repository lake --branch main= --store DIR",
    ),
)
@store_option
@click.option("--repository", required=True, metavar="NAME", help="whose rule")
@click.option("--days", type=_DAYS, metavar="N", help="for branches without their own days")
@click.option(
    "--branch",
    "branches",
    multiple=True,
    metavar="NAME=DAYS",
    help="for this branch (repeatable; NAME= removes the days of this branch)",
)
@click.option(
    "--unreachable-days",
    type=_DAYS,
    metavar="N",
    help="for commits that no branch or tag reaches; only with --store",
)
@yes
def retention_command(
    invocation: Invocation, store: Path | None, repository: str, yes: bool, **changes: Any
) -> int:
    """Show the retention rule of `graveler gc`; options change it.

    A rule that keeps something for less time than the present one asks.
    0 days means forever.  Heads of branches and tags are always kept.  On a server, of two who
    change the rule at the same moment the last one wins.
    """
    folder = store_of(invocation, store)

    def confirm(shorter: list[str]) -> None:
        if shorter:
            days = ", ".join(shorter)
            invocation.confirm(
                f"Keep {repository} for less time than now?  {days}\n"
                "`graveler gc --delete` deletes the content of older commits for good.",
                yes=yes,
            )

    if folder is not None:
        rules, unreachable = _of_store(folder, repository, confirm, **changes)
        record = {**rules, "graveler": {"unreachable_days": unreachable}}
        unreached = f"commits that no branch or tag reaches: kept for {_count(unreachable)}"
        invocation.output.record(record, [*lines(rules), unreached])
        return 0
    if changes["unreachable_days"] is not None:
        raise UsageMistake("the API has no days of unreachable commits: use --store DIR")
    name = invocation.repository(repository).repository
    rules = _of_server(invocation, name, changes["days"], changes["branches"], confirm)
    invocation.output.record(rules, lines(rules))
    return 0


_Confirm = Callable[[list[str]], None]  # given what is kept for less time


def _of_store(
    folder: Path,
    name: str,
    confirm: _Confirm,
    *,
    days: int | None,
    branches: Sequence[str],
    unreachable_days: int | None,
) -> "tuple[RetentionRules, int]":
    from graveler.cli.stores import opened
    from graveler.engine.gc import retention
    from graveler.engine.ports import open_repository
    from graveler.engine.repositories import repository
    from graveler.refs.gc.retention import Retention

    remedy = f"graveler retention --server URL --repository {name}"
    with opened(folder, remedy=remedy) as store:
        repo = open_repository(store.ports, repository.get(store.ports, name))
        rule = retention.get_rule(repo)
        of_branches = _changed(rule.branches, branches)
        new = Retention(
            rule.default_days if days is None else days,
            rule.unreachable_days if unreachable_days is None else unreachable_days,
            {parse_branch_id(branch): days for branch, days in of_branches.items()},
        )
        if new != rule:
            shorter = _shorter((rule.default_days, rule.branches), (new.default_days, new.branches))
            if _is_shorter(rule.unreachable_days, new.unreachable_days):
                shorter.append(f"unreachable commits: {_count(new.unreachable_days)}")
            confirm(shorter)
            retention.set_rule(repo, new)
    return _rules(of_branches, new.default_days), new.unreachable_days


def _of_server(
    invocation: Invocation,
    name: str,
    days: int | None,
    branches: Sequence[str],
    confirm: _Confirm,
) -> "RetentionRules":
    from graveler.client import collections

    known = collections.get_rules(invocation.session, name)
    of_branches = {rule["branch_id"]: rule["retention_days"] for rule in known["branches"]}
    default = known["default_retention_days"] if days is None else days
    changed = _changed(of_branches, branches)
    new = _rules(changed, default)
    confirm(_shorter((known["default_retention_days"], of_branches), (default, changed)))
    if days is not None or branches:
        collections.replace_rules(invocation.session, name, new)
    return new


def _rules(branches: "dict[str, int]", default: int) -> "RetentionRules":
    return {
        "branches": [
            {"branch_id": name, "retention_days": branches[name]} for name in sorted(branches)
        ],
        "default_retention_days": default,
    }


def _changed(branches: Mapping[Any, int], pairs: Sequence[str]) -> dict[str, int]:
    """The days of branches after the changes of the command line.  Raises `Invalid`."""
    changed = {str(name): int(days) for name, days in branches.items()}
    for pair in pairs:
        name, equals, days = pair.partition("=")
        branch = parse_branch_id(name)
        if not equals or (days and not (days.isascii() and days.isdigit())):
            raise Invalid(f"branch rule invalid: it must be NAME=DAYS or NAME=: {pair!r}")
        changed.pop(branch, None)
        if days:
            changed[branch] = int(days)
    return changed


_Days = tuple[int, Mapping[Any, int]]  # by default, and of branches


def _shorter(old: _Days, new: _Days) -> list[str]:
    """What the new rule keeps for less time, in words."""
    names = sorted({str(name) for _, branches in (old, new) for name in branches})
    default, of_branches = new
    shorter = [f"default: {_count(default)}"] if _is_shorter(old[0], default) else []
    for name in names:
        days = of_branches.get(name, default)
        if _is_shorter(old[1].get(name, old[0]), days):
            shorter.append(f"branch {name}: {_count(days)}")
    return shorter


def _is_shorter(old: int, new: int) -> bool:
    return new != _FOREVER and (old == _FOREVER or new < old)


def lines(rules: "RetentionRules") -> list[str]:
    lines = [f"default: {_days(rules['default_retention_days'])}"]
    lines += [
        f"branch {rule['branch_id']}: {_days(rule['retention_days'])}" for rule in rules["branches"]
    ]
    return lines


def _days(days: int) -> str:
    return "kept forever" if days == _FOREVER else f"kept for {_count(days)} after the next commit"


def _count(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"
