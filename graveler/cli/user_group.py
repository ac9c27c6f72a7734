"""`graveler group`: groups of users."""

from typing import Final

import click

from graveler.cli.arguments import paging, yes
from graveler.cli.command import client, group
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, field, plural
from graveler.client import admin

COLUMNS: Final = (
    field("id", title="GROUP"),
    field("creation_date", "time", "CREATED"),
    field("description"),
)
_LISTED_BY: Final = "graveler group list"


@group("group")
def groups_command() -> None:
    """Groups: users with the same rights."""


@client("list", group=groups_command, examples=("graveler group list",))
@paging
def list_groups(invocation: Invocation, prefix: str, after: str, amount: int | None) -> int:
    """List the groups."""
    rows = admin.list_groups(invocation.session, prefix=prefix, after=after, amount=amount)
    if not invocation.output.items(COLUMNS, rows):
        invocation.output.note("no groups")
    return 0


@client("show", group=groups_command, examples=("graveler group show Developers",))
@click.argument("group")
def show(invocation: Invocation, group: str) -> int:
    """Show one group, with its members and policies."""
    session = invocation.session
    invocation.about(group, _LISTED_BY)
    record = admin.get_group(session, group)
    members = list(admin.list_members(session, group))
    policies = list(admin.group_policies(session, group))
    columns = (
        *COLUMNS,
        Column("MEMBERS", lambda _: ", ".join(members)),
        Column("POLICIES", lambda _: ", ".join(policies)),
    )
    more = {"members": members, "policies": policies}
    invocation.output.pairs({**record, "graveler": more}, columns)
    return 0


@client(
    "create",
    group=groups_command,
    examples=("graveler group create analysts --description 'Read everything'",),
)
@click.argument("group")
@click.option("--description", default="", metavar="TEXT", help="what it is for")
def create(invocation: Invocation, group: str, description: str) -> int:
    """Create a group, without members and policies."""
    created = admin.create_group(invocation.session, group, description=description)
    invocation.output.record(created, [f"created group {created['id']}"])
    return 0


@client("delete", group=groups_command, examples=("graveler group delete analysts --yes",))
@click.argument("group")
@yes
def delete(invocation: Invocation, group: str, yes: bool) -> int:
    """Delete a group; its members lose what it gave them."""
    session = invocation.session
    invocation.about(group, _LISTED_BY)
    if not yes:
        admin.get_group(session, group)
        members = plural(sum(1 for _ in admin.list_members(session, group)), "member")
        invocation.confirm(f"Delete the group {group} with {members}?", yes=yes)
    admin.delete_group(session, group)
    invocation.output.done(f"deleted group {group}")
    return 0


@client("add", group=groups_command, examples=("graveler group add Developers ann",))
@click.argument("group")
@click.argument("user")
def add(invocation: Invocation, group: str, user: str) -> int:
    """Make a user a member of a group."""
    invocation.about(f"{group} {user}", "graveler group list, graveler user list")
    admin.add_member(invocation.session, group, user)
    invocation.output.done(f"added {user} to group {group}")
    return 0


@client("remove", group=groups_command, examples=("graveler group remove Developers ann",))
@click.argument("group")
@click.argument("user")
def remove(invocation: Invocation, group: str, user: str) -> int:
    """End the membership of a user in a group."""
    invocation.about(f"{group} {user}", f"graveler group show {group}")
    admin.remove_member(invocation.session, group, user)
    invocation.output.done(f"removed {user} from group {group}")
    return 0


@client("attach", group=groups_command, examples=("graveler group attach analysts FSReadAll",))
@click.argument("group")
@click.argument("policy")
def attach(invocation: Invocation, group: str, policy: str) -> int:
    """Give the members of a group the rights of a policy."""
    invocation.about(f"{group} {policy}", "graveler group list, graveler policy list")
    admin.attach_to_group(invocation.session, group, policy)
    invocation.output.done(f"attached {policy} to group {group}")
    return 0


@client("detach", group=groups_command, examples=("graveler group detach analysts FSReadAll",))
@click.argument("group")
@click.argument("policy")
def detach(invocation: Invocation, group: str, policy: str) -> int:
    """Take a policy from a group."""
    invocation.about(f"{group} {policy}", f"graveler group show {group}")
    admin.detach_from_group(invocation.session, group, policy)
    invocation.output.done(f"detached {policy} from group {group}")
    return 0
