"""`graveler auth`: users, groups and policies by the names and flags of lakectl.

Each command calls that of `graveler user`, `group` or `policy`, whose output it has.  Hidden.
"""

from collections.abc import Callable
from typing import Any, Final

import click

from graveler.cli import policy, user, user_group
from graveler.cli.arguments import ignored, paging, yes
from graveler.cli.command import client, group, run_command
from graveler.cli.invocation import Invocation
from graveler.cli.output import field

_NAMED: Final = (field("id"),)
_WHOLE_LIST: Final = ignored(takes=("--amount", "--after", "--prefix"))  # it is short, and whole


def _option(name: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(f"--{name}", required=True, metavar="ID", help=help)


@group("auth")
def auth() -> None:
    """Users, groups and policies, by the names of lakectl."""


# ---- users ---------------------------------------------------------------------------------------


@group("users", parent=auth)
def users_group() -> None:
    """Users."""


@client("list", group=users_group, examples=("graveler auth users list",))
@paging
def list_users(invocation: Invocation, **values: Any) -> int:
    """`graveler user list`."""
    return run_command(user.list_users, **values)


@client("create", group=users_group, examples=("graveler auth users create --id ann",))
@_option("id", "the user")
def create_user(invocation: Invocation, id: str) -> int:
    """`graveler user create`."""
    return run_command(user.create, user=id)


@client("delete", group=users_group, examples=("graveler auth users delete --id ann --yes",))
@_option("id", "the user")
@yes
def delete_user(invocation: Invocation, id: str, yes: bool) -> int:
    """`graveler user delete`."""
    return run_command(user.delete, user=id, yes=yes)


@group("groups", parent=users_group)
def groups_of_user() -> None:
    """Groups of a user."""


@client("list", group=groups_of_user, examples=("graveler auth users groups list --id ann",))
@_option("id", "the user")
@_WHOLE_LIST
def list_groups_of_user(invocation: Invocation, id: str) -> int:
    """List the groups of a user."""
    from graveler.client import admin

    invocation.about(id, "graveler user list")
    rows = ({"id": name} for name in admin.user_groups(invocation.session, id))
    invocation.output.items(_NAMED, rows)
    return 0


@group("policies", parent=users_group)
def policies_of_user() -> None:
    """Policies of a user."""


@client("list", group=policies_of_user, examples=("graveler auth users policies list --id ann",))
@_option("id", "the user")
@click.option("--effective", is_flag=True, help="those of its groups too")
@_WHOLE_LIST
def list_policies_of_user(invocation: Invocation, id: str, effective: bool) -> int:
    """List the policies of a user."""
    from graveler.client import admin

    invocation.about(id, "graveler user list")
    rows = admin.user_policies(invocation.session, id, effective=effective)
    invocation.output.items(_NAMED, rows)
    return 0


@client(
    "attach",
    group=policies_of_user,
    examples=("graveler auth users policies attach --id ann --policy FSReadAll",),
)
@_option("id", "the user")
@_option("policy", "the policy")
def attach_to_user(invocation: Invocation, id: str, policy: str) -> int:
    """`graveler user attach`."""
    return run_command(user.attach, user=id, policy=policy)


@client(
    "detach",
    group=policies_of_user,
    examples=("graveler auth users policies detach --id ann --policy FSReadAll",),
)
@_option("id", "the user")
@_option("policy", "the policy")
def detach_from_user(invocation: Invocation, id: str, policy: str) -> int:
    """`graveler user detach`."""
    return run_command(user.detach, user=id, policy=policy)


@group("credentials", parent=users_group)
def credentials() -> None:
    """Access keys of a user."""


@client("list", group=credentials, examples=("graveler auth users credentials list --id ann",))
@click.option("--id", default="", metavar="ID", help="the user (default: you)")
@_WHOLE_LIST
def list_keys(invocation: Invocation, id: str) -> int:
    """`graveler user key list`."""
    return run_command(user.list_keys, user=id or _caller(invocation))


@client("create", group=credentials, examples=("graveler auth users credentials create --id ann",))
@click.option("--id", default="", metavar="ID", help="the user (default: you)")
def create_key(invocation: Invocation, id: str) -> int:
    """`graveler user key create`."""
    return run_command(user.create_key, user=id or _caller(invocation))


@client(
    "delete",
    group=credentials,
    examples=("graveler auth users credentials delete --id ann --access-key-id AKIA… --yes",),
)
@click.option("--id", default="", metavar="ID", help="the user (default: you)")
@click.option("--access-key-id", "key", required=True, metavar="ID", help="the key to end")
@yes
def delete_key(invocation: Invocation, id: str, key: str, yes: bool) -> int:
    """`graveler user key delete`.

    Here --access-key-id is the key to end; before the command, as an option of `graveler`, it is
    the key to sign in with.
    """
    return run_command(user.delete_key, user=id or _caller(invocation), key=key, yes=yes)


def _caller(invocation: Invocation) -> str:
    from graveler.client import admin

    return str(admin.current_user(invocation.session)["id"])


# ---- groups --------------------------------------------------------------------------------------


@group("groups", parent=auth)
def groups_group() -> None:
    """Groups."""


@client("list", group=groups_group, examples=("graveler auth groups list",))
@paging
def list_groups(invocation: Invocation, **values: Any) -> int:
    """`graveler group list`."""
    return run_command(user_group.list_groups, **values)


@client("create", group=groups_group, examples=("graveler auth groups create --id analysts",))
@_option("id", "the group")
@click.option("--description", default="", metavar="TEXT", help="what it is for")
def create_group(invocation: Invocation, id: str, description: str) -> int:
    """`graveler group create`."""
    return run_command(user_group.create, group=id, description=description)


@client("delete", group=groups_group, examples=("graveler auth groups delete --id analysts -y",))
@_option("id", "the group")
@yes
def delete_group(invocation: Invocation, id: str, yes: bool) -> int:
    """`graveler group delete`."""
    return run_command(user_group.delete, group=id, yes=yes)


@group("members", parent=groups_group)
def members() -> None:
    """Members of a group."""


@client("list", group=members, examples=("graveler auth groups members list --id analysts",))
@_option("id", "the group")
@_WHOLE_LIST
def list_members(invocation: Invocation, id: str) -> int:
    """List the members of a group."""
    from graveler.client import admin

    invocation.about(id, "graveler group list")
    rows = ({"id": name} for name in admin.list_members(invocation.session, id))
    invocation.output.items(_NAMED, rows)
    return 0


@client(
    "add", group=members, examples=("graveler auth groups members add --id analysts --user ann",)
)
@_option("id", "the group")
@click.option("--user", default="", metavar="ID", help="the user (default: you)")
def add_member(invocation: Invocation, id: str, user: str) -> int:
    """`graveler group add`."""
    return run_command(user_group.add, group=id, user=user or _caller(invocation))


@client(
    "remove",
    group=members,
    examples=("graveler auth groups members remove --id analysts --user ann",),
)
@_option("id", "the group")
@click.option("--user", default="", metavar="ID", help="the user (default: you)")
def remove_member(invocation: Invocation, id: str, user: str) -> int:
    """`graveler group remove`."""
    return run_command(user_group.remove, group=id, user=user or _caller(invocation))


@group("policies", parent=groups_group)
def policies_of_group() -> None:
    """Policies of a group."""


@client("list", group=policies_of_group, examples=("graveler auth groups policies list --id a",))
@_option("id", "the group")
@_WHOLE_LIST
def list_policies_of_group(invocation: Invocation, id: str) -> int:
    """List the policies of a group."""
    from graveler.client import admin

    invocation.about(id, "graveler group list")
    rows = ({"id": name} for name in admin.group_policies(invocation.session, id))
    invocation.output.items(_NAMED, rows)
    return 0


@client(
    "attach",
    group=policies_of_group,
    examples=("graveler auth groups policies attach --id analysts --policy FSReadAll",),
)
@_option("id", "the group")
@_option("policy", "the policy")
def attach_to_group(invocation: Invocation, id: str, policy: str) -> int:
    """`graveler group attach`."""
    return run_command(user_group.attach, group=id, policy=policy)


@client(
    "detach",
    group=policies_of_group,
    examples=("graveler auth groups policies detach --id analysts --policy FSReadAll",),
)
@_option("id", "the group")
@_option("policy", "the policy")
def detach_from_group(invocation: Invocation, id: str, policy: str) -> int:
    """`graveler group detach`."""
    return run_command(user_group.detach, group=id, policy=policy)


# ---- policies ------------------------------------------------------------------------------------


@group("policies", parent=auth)
def policies_group() -> None:
    """Policies."""


@client("list", group=policies_group, examples=("graveler auth policies list",))
@paging
def list_policies(invocation: Invocation, **values: Any) -> int:
    """`graveler policy list`."""
    return run_command(policy.list_policies, **values)


@client("show", group=policies_group, examples=("graveler auth policies show --id FSReadAll",))
@_option("id", "the policy")
def show_policy(invocation: Invocation, id: str) -> int:
    """`graveler policy show`."""
    return run_command(policy.show, policy=id)


@client(
    "create",
    group=policies_group,
    examples=("graveler auth policies create --id a --statement-document a.json",),
)
@_option("id", "the policy")
@click.option("--statement-document", "file", required=True, metavar="FILE", help="- is stdin")
def create_policy(invocation: Invocation, id: str, file: str) -> int:
    """`graveler policy create`."""
    return run_command(policy.create, policy=id, file=file)


@client("delete", group=policies_group, examples=("graveler auth policies delete --id a -y",))
@_option("id", "the policy")
@yes
def delete_policy(invocation: Invocation, id: str, yes: bool) -> int:
    """`graveler policy delete`."""
    return run_command(policy.delete, policy=id, yes=yes)
