"""`graveler policy`: lists of rights, and `graveler may-i`."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support.command import client, group
from graveler.cli.support.failures import DONE, FAILED
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import paging, yes
from graveler.cli.support.output import Column, Output, Styled, field, plain, plural
from graveler.core.errors import Invalid, UsageMistake

if TYPE_CHECKING:
    from graveler.lake.admin import Policy

_LENGTH_MAX: Final = 1 << 20  # of a file with a policy, in characters
_LISTED_BY: Final = "graveler policy list"


def _words(names: Any) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else str(names)


def _statements(policy: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{each.get('effect')} {_words(each.get('action'))}" for each in policy["statement"]
    )


COLUMNS: Final = (
    field("id", title="POLICY"),
    field("creation_date", "time", "CREATED"),
    Column("STATEMENTS", _statements),
)


@group("policy")
def policy() -> None:
    """Policies: lists of rights, for users and groups."""


@client("list", group=policy, examples=("graveler policy list", "graveler policy list --json"))
@paging
def list_policies(invocation: Invocation, prefix: str, after: str, amount: int | None) -> int:
    """List the policies."""
    rows = invocation.lake.admin.policies(prefix, after=after, limit=amount)
    invocation.output.items(COLUMNS, rows, none="no policies")
    return 0


@client(
    "show",
    group=policy,
    examples=(
        "graveler policy show FSReadAll",
        "graveler policy show analysts --json >analysts.json   # to change it",
    ),
)
@click.argument("policy")
def show(invocation: Invocation, policy: str) -> int:
    """Show the statements of a policy."""
    invocation.about(policy, _LISTED_BY)
    record = invocation.lake.admin.policy(policy)
    invocation.output.record(record, _lines(invocation.output, record))
    return 0


def _lines(output: Output, policy: "Policy") -> list[str]:
    lines = [output.cell(policy.id)]
    for statement in policy.statements:
        effect = str(statement.get("effect", ""))
        style = {"fg": "red"} if effect == "deny" else {"fg": "green"}
        lines.append(Styled(f"  {output.style(output.cell(effect), **style)}"))
        lines.append(f"    action:    {output.cell(_words(statement.get('action')))}")
        lines.append(f"    resource:  {output.cell(_words(statement.get('resource')))}")
        if statement.get("condition"):
            lines.append(f"    condition: {output.cell(json.dumps(statement['condition']))}")
    return lines


@client(
    "create",
    group=policy,
    examples=(
        "graveler policy create analysts analysts.json",
        "graveler policy create analysts - <analysts.json",
    ),
)
@click.argument("policy")
@click.argument("file", type=click.Path(dir_okay=False))
def create(invocation: Invocation, policy: str, file: str) -> int:
    """Create a policy from the statements in FILE; `-` is the standard input.

    FILE is JSON: an object with `statement`, or the list of statements alone.  A policy has no
    effect until it is attached.
    """
    statements = _read(file)
    created = invocation.lake.admin.create_policy(policy, statements)
    invocation.output.record(created, [f"created policy {created.id}"])
    return 0


@client("update", group=policy, examples=("graveler policy update analysts analysts.json --yes",))
@click.argument("policy")
@click.argument("file", type=click.Path(dir_okay=False))
@yes
def update(invocation: Invocation, policy: str, file: str, yes: bool) -> int:
    """Replace the statements of a policy, for everybody who has it.

    The present statements are kept nowhere: `graveler policy show POLICY --json` prints them.
    """
    admin, statements = invocation.lake.admin, _read(file)
    invocation.about(policy, _LISTED_BY)
    if not yes:
        present = plural(len(admin.policy(policy).statements), "statement")
        invocation.confirm(
            f"Replace the {present} of the policy {policy}, for everybody who has it?", yes=yes
        )
    updated = admin.replace_policy(policy, statements)
    count = plural(len(updated.statements), "statement")
    invocation.output.record(updated, [f"policy {policy} has {count}"])
    return 0


def _read(file: str) -> list[Any]:
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read(_LENGTH_MAX + 1)
        if len(text) > _LENGTH_MAX:
            raise Invalid(f"policy too long: at most {_LENGTH_MAX} characters")
        document = json.loads(text)
    except OSError as error:
        raise UsageMistake(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"policy is not JSON: {error}") from error
    statements = document.get("statement") if isinstance(document, dict) else document
    if not isinstance(statements, list) or not statements:
        raise Invalid('policy without statements: it must be {"statement": [...]}, or the list')
    return statements


@client("delete", group=policy, examples=("graveler policy delete analysts --yes",))
@click.argument("policy")
@yes
def delete(invocation: Invocation, policy: str, yes: bool) -> int:
    """Delete a policy; everybody who has it loses what it allows, and what it denies is no longer
    denied."""
    admin = invocation.lake.admin
    invocation.about(policy, _LISTED_BY)
    if not yes:
        admin.policy(policy)
        invocation.confirm(f"Delete the policy {policy}, wherever it is attached?", yes=yes)
    admin.delete_policy(policy)
    invocation.output.done(f"deleted policy {policy}")
    return 0


_TO: Final = (
    click.option("--user", default="", metavar="USER", help="to or from this user"),
    click.option("--group", default="", metavar="GROUP", help="to or from this group"),
)


@client(
    "attach",
    group=policy,
    examples=(
        "graveler policy attach analysts --group Viewers",
        "graveler policy attach analysts --user ann",
    ),
)
@click.argument("policy")
@_TO[1]
@_TO[0]
def attach(invocation: Invocation, policy: str, user: str, group: str) -> int:
    """Give a user, or the members of a group, the rights of a policy."""
    _check_one(invocation, policy, user, group)
    invocation.lake.admin.attach(policy, user=user, group=group)
    invocation.output.done(f"attached {policy} to {user or group}")
    return 0


@client("detach", group=policy, examples=("graveler policy detach analysts --group Viewers",))
@click.argument("policy")
@_TO[1]
@_TO[0]
def detach(invocation: Invocation, policy: str, user: str, group: str) -> int:
    """Take a policy from a user or a group."""
    _check_one(invocation, policy, user, group)
    invocation.lake.admin.detach(policy, user=user, group=group)
    invocation.output.done(f"detached {policy} from {user or group}")
    return 0


def _check_one(invocation: Invocation, policy: str, user: str, group: str) -> None:
    if bool(user) == bool(group):
        raise UsageMistake("give one of --user and --group")
    invocation.about(f"{policy} {user or group}", _LISTED_BY)


@client(
    "may-i",
    examples=(
        "graveler may-i fs:ListRepositories",
        "graveler may-i fs:WriteObject 'arn:lakefs:fs:::repository/lake/object/sales/*'",
        "graveler may-i fs:CreateBranch lake/dev",
        "graveler may-i fs:DeleteRepository lake",
    ),
)
@click.argument("action")
@click.argument("resource", default="*")
def may_i(invocation: Invocation, action: str, resource: str) -> int:
    """Ask whether you may do ACTION on RESOURCE.

    RESOURCE is an ARN or *, or an address: a repository, a branch or an object.  Ends with 0 for
    yes and with 1 for no.
    """
    arn = resource if resource == "*" or resource.startswith("arn:") else _arn(invocation, resource)
    allowed = invocation.lake.admin.may_i(action, arn)
    answer = {"action": action, "resource": arn, "allowed": allowed}
    color = {"fg": "green" if allowed else "red"}
    words = invocation.output.style("yes" if allowed else "no", **color)
    line = Styled(f"{words}\t{plain(action)}\t{plain(arn)}")
    invocation.output.record(answer, [line])
    return DONE if allowed else FAILED


def _arn(invocation: Invocation, text: str) -> str:
    """The ARN of an address."""
    address = invocation.address(text)
    repository = f"arn:lakefs:fs:::repository/{address.repository}"
    if address.path:
        return f"{repository}/object/{address.path}"
    return f"{repository}/branch/{address.ref}" if address.ref else repository
