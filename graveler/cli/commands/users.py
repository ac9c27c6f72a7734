"""`graveler user`: users, and their access keys."""

from typing import Final

import click

from graveler.cli.support.command import client, group
from graveler.cli.support.failures import of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import paging, yes
from graveler.cli.support.output import Column, field, plural

COLUMNS: Final = (
    field("id", title="USER"),
    field("creation_date", "time", "CREATED"),
    field("friendly_name", title="NAME"),
    field("email"),
    field("disabled"),
)
_KEYS: Final = (
    field("access_key_id"),
    field("creation_date", "time", "CREATED"),
    field("name"),
)
_LISTED_BY: Final = "graveler user list"


@group("user")
def user() -> None:
    """Users: who may sign in."""


@client(
    "list",
    group=user,
    examples=("graveler user list", "graveler user list --prefix etl- --json"),
)
@paging
def list_users(invocation: Invocation, prefix: str, after: str, amount: int | None) -> int:
    """List the users."""
    rows = invocation.lake.admin.users(prefix, after=after, limit=amount)
    invocation.output.items(COLUMNS, rows, none="no users")
    return 0


@client("show", group=user, examples=("graveler user show ann",))
@click.argument("user")
def show(invocation: Invocation, user: str) -> int:
    """Show one user, with its groups, policies and access keys.

    The policies include those of its groups.
    """
    admin = invocation.lake.admin
    invocation.about(user, _LISTED_BY)
    record = admin.user(user)
    groups = admin.groups_of(user).all()
    policies = [policy.id for policy in admin.policies_of(user, effective=True)]
    keys = [key.id for key in admin.keys(user)]
    more = {"groups": groups, "policies": policies, "keys": keys}
    columns = (
        *COLUMNS,
        Column("GROUPS", lambda _: ", ".join(groups)),
        Column("POLICIES", lambda _: ", ".join(policies)),
        Column("KEYS", lambda _: ", ".join(keys)),
    )
    invocation.output.pairs({**record.answer, "graveler": more}, columns)
    return 0


@client(
    "create",
    group=user,
    examples=(
        "graveler user create ann",
        "graveler user create etl --name 'Nightly load' --email data@example.com",
    ),
)
@click.argument("user")
@click.option("--name", default="", metavar="TEXT", help="the name of a person")
@click.option("--email", default="", metavar="ADDRESS", help="for people; nothing is sent")
def create(invocation: Invocation, user: str, name: str, email: str) -> int:
    """Create a user, without keys and rights.

    `graveler user key create` gives it a key, `graveler group add` rights.
    """
    created = invocation.lake.admin.create_user(user, name=name, email=email)
    invocation.output.record(created, [f"created user {created.id}"])
    return 0


@client(
    "delete", group=user, examples=("graveler user delete ann", "graveler user delete ann --yes")
)
@click.argument("user")
@yes
def delete(invocation: Invocation, user: str, yes: bool) -> int:
    """Delete a user; its access keys and sessions end."""
    admin = invocation.lake.admin
    invocation.about(user, _LISTED_BY)
    if not yes:
        admin.user(user)
        keys = plural(len(admin.keys(user).all()), "access key")
        invocation.confirm(f"Delete the user {user} with {keys}?", yes=yes)
    admin.delete_user(user)
    invocation.output.done(f"deleted user {user}")
    return 0


@client("disable", group=user, examples=("graveler user disable ann",))
@click.argument("user")
def disable(invocation: Invocation, user: str) -> int:
    """Lock a user out: its access keys, sessions and external principals are refused.

    It keeps them, and its groups: `graveler user enable` lets it in again.
    """
    invocation.about(user, _LISTED_BY)
    invocation.lake.admin.disable_user(user)
    invocation.output.done(f"disabled user {user}")
    return 0


@client("enable", group=user, examples=("graveler user enable ann",))
@click.argument("user")
def enable(invocation: Invocation, user: str) -> int:
    """Let a user in again that was disabled."""
    invocation.about(user, _LISTED_BY)
    invocation.lake.admin.enable_user(user)
    invocation.output.done(f"enabled user {user}")
    return 0


@client("attach", group=user, examples=("graveler user attach ann FSReadAll",))
@click.argument("user")
@click.argument("policy")
def attach(invocation: Invocation, user: str, policy: str) -> int:
    """Give a user the rights of a policy."""
    invocation.about(f"{user} {policy}", "graveler user list, graveler policy list")
    invocation.lake.admin.attach(policy, user=user)
    invocation.output.done(f"attached {policy} to user {user}")
    return 0


@client("detach", group=user, examples=("graveler user detach ann FSReadAll",))
@click.argument("user")
@click.argument("policy")
def detach(invocation: Invocation, user: str, policy: str) -> int:
    """Take a policy from a user; what its groups give it stays."""
    invocation.about(f"{user} {policy}", f"graveler user show {user}")
    invocation.lake.admin.detach(policy, user=user)
    invocation.output.done(f"detached {policy} from user {user}")
    return 0


# ---- keys ----------------------------------------------------------------------------------------


@group("key", parent=user)
def key() -> None:
    """Access keys of a user."""


@client("list", group=key, examples=("graveler user key list ann",))
@click.argument("user")
def list_keys(invocation: Invocation, user: str) -> int:
    """List the access keys of a user, without their secrets."""
    invocation.about(user, _LISTED_BY)
    if not invocation.output.items(_KEYS, invocation.lake.admin.keys(user)):
        text = f"no access keys: graveler user key create {user}"
        invocation.output.note(of_server(invocation, text))
    return 0


@client(
    "create",
    group=key,
    examples=(
        "graveler user key create ann",
        "graveler user key create etl --name laptop --json",
    ),
)
@click.argument("user")
@click.option("--name", default="", metavar="TEXT", help="what its owner calls it")
def create_key(invocation: Invocation, user: str, name: str) -> int:
    """Give a user a further access key.

    Its secret is printed now and never again.
    """
    invocation.about(user, _LISTED_BY)
    created = invocation.lake.admin.create_key(user, name)
    lines = [
        f"access_key_id: {created.id}",
        f"secret_access_key: {created.secret}",
    ]
    invocation.output.record(created, lines)
    invocation.output.note("the secret is not shown again: keep it now")
    return 0


@client("delete", group=key, examples=("graveler user key delete ann AKIAIOSFODNN7EXAMPLE -y",))
@click.argument("user")
@click.argument("key", metavar="ACCESS_KEY_ID")
@yes
def delete_key(invocation: Invocation, user: str, key: str, yes: bool) -> int:
    """End an access key, and the sessions that began with it."""
    invocation.about(f"{user} {key}", f"graveler user key list {user}")
    invocation.confirm(f"End the access key {key} of {user}?", yes=yes)
    invocation.lake.admin.delete_key(user, key)
    invocation.output.done(f"deleted access key {key} of {user}")
    return 0


_GROUP_COLUMNS: Final = (
    field("id", title="GROUP"),
    field("creation_date", "time", "CREATED"),
    field("description"),
)
_GROUPS_LISTED_BY: Final = "graveler group list"


@group("group")
def groups_command() -> None:
    """Groups: users with the same rights."""


@client("list", group=groups_command, examples=("graveler group list",))
@paging
def list_groups(invocation: Invocation, prefix: str, after: str, amount: int | None) -> int:
    """List the groups."""
    rows = invocation.lake.admin.groups(prefix, after=after, limit=amount)
    invocation.output.items(_GROUP_COLUMNS, rows, none="no groups")
    return 0


@client("show", group=groups_command, examples=("graveler group show Developers",))
@click.argument("group")
def show_group(invocation: Invocation, group: str) -> int:
    """Show one group, with its members and policies."""
    admin = invocation.lake.admin
    invocation.about(group, _GROUPS_LISTED_BY)
    record = admin.group(group)
    members = admin.members(group).all()
    policies = [policy.id for policy in admin.policies_of(group=group)]
    columns = (
        *_GROUP_COLUMNS,
        Column("MEMBERS", lambda _: ", ".join(members)),
        Column("POLICIES", lambda _: ", ".join(policies)),
    )
    more = {"members": members, "policies": policies}
    invocation.output.pairs({**record.answer, "graveler": more}, columns)
    return 0


@client(
    "create",
    group=groups_command,
    examples=("graveler group create analysts --description 'Read everything'",),
)
@click.argument("group")
@click.option("--description", default="", metavar="TEXT", help="what it is for")
def create_group(invocation: Invocation, group: str, description: str) -> int:
    """Create a group, without members and policies."""
    created = invocation.lake.admin.create_group(group, description)
    invocation.output.record(created, [f"created group {created.id}"])
    return 0


@client("delete", group=groups_command, examples=("graveler group delete analysts --yes",))
@click.argument("group")
@yes
def delete_group(invocation: Invocation, group: str, yes: bool) -> int:
    """Delete a group; its members lose what it gave them."""
    admin = invocation.lake.admin
    invocation.about(group, _GROUPS_LISTED_BY)
    if not yes:
        admin.group(group)
        members = plural(len(admin.members(group).all()), "member")
        invocation.confirm(f"Delete the group {group} with {members}?", yes=yes)
    admin.delete_group(group)
    invocation.output.done(f"deleted group {group}")
    return 0


@client("add", group=groups_command, examples=("graveler group add Developers ann",))
@click.argument("group")
@click.argument("user")
def add(invocation: Invocation, group: str, user: str) -> int:
    """Make a user a member of a group."""
    invocation.about(f"{group} {user}", "graveler group list, graveler user list")
    invocation.lake.admin.add_member(group, user)
    invocation.output.done(f"added {user} to group {group}")
    return 0


@client("remove", group=groups_command, examples=("graveler group remove Developers ann",))
@click.argument("group")
@click.argument("user")
def remove(invocation: Invocation, group: str, user: str) -> int:
    """End the membership of a user in a group."""
    invocation.about(f"{group} {user}", f"graveler group show {group}")
    invocation.lake.admin.remove_member(group, user)
    invocation.output.done(f"removed {user} from group {group}")
    return 0


@client("attach", group=groups_command, examples=("graveler group attach analysts FSReadAll",))
@click.argument("group")
@click.argument("policy")
def attach_to_group(invocation: Invocation, group: str, policy: str) -> int:
    """Give the members of a group the rights of a policy."""
    invocation.about(f"{group} {policy}", "graveler group list, graveler policy list")
    invocation.lake.admin.attach(policy, group=group)
    invocation.output.done(f"attached {policy} to group {group}")
    return 0


@client(
    "detach",
    group=groups_command,
    examples=("graveler group detach analysts FSReadAll",),
)
@click.argument("group")
@click.argument("policy")
def detach_from_group(invocation: Invocation, group: str, policy: str) -> int:
    """Take a policy from a group."""
    invocation.about(f"{group} {policy}", f"graveler group show {group}")
    invocation.lake.admin.detach(policy, group=group)
    invocation.output.done(f"detached {policy} from group {group}")
    return 0
