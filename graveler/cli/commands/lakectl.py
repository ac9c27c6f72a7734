"""Commands of lakectl that have another name or other flags here: hidden.  What they print is ours.

`fs`, `gc get-config`, `gc set-config`, `gc delete-config`, `plugin list` and `auth`.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.commands import policy, users
from graveler.cli.commands.objects import cat, ls, presign, rm, stat
from graveler.cli.commands.transfer import cp, download, upload
from graveler.cli.support import times
from graveler.cli.support.command import ClientCommand, Group, client, group, run_command
from graveler.cli.support.invocation import Invocation, metadata_pairs
from graveler.cli.support.options import (
    SharedOption,
    address_argument,
    complete_side,
    ignored,
    metadata_option,
)
from graveler.cli.support.output import field, plain
from graveler.cli.support.transfers import transfer_options
from graveler.core.errors import Invalid, UsageMistake
from graveler.core.settings import environment

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PLUGIN: Final = "graveler-"
_RULES_LENGTH_MAX: Final = 1 << 20
_NAMED: Final = (field("id"),)


# ---- fs ------------------------------------------------------------------------------------------


@group("fs", commands=[ls, stat, cat, presign, cp, rm])
def fs() -> None:
    """Objects, by the names of lakectl."""


def _complete_upload(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """The file, or the address if the file is known."""
    from graveler.cli.support.completion import addresses

    if ctx.params.get("source") or ctx.params.get("words"):
        return addresses(ctx.ensure_object(Invocation), incomplete)
    return complete_side(ctx, param, incomplete)


@client("upload", group=fs, examples=("graveler fs upload -s a.csv lakefs://lake/main/a.csv",))
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[SRC] BRANCH[/PATH]",
    shell_complete=_complete_upload,
)
@click.option(
    *("-s", "--source"),
    default="",
    metavar="SRC",
    type=click.Path(),
    help="the file, the folder, or -",
)
@transfer_options
@click.option("--content-type", default="", metavar="TYPE", help="instead of a guess by name")
@metadata_option
def fs_upload(invocation: Invocation, words: tuple[str, ...], source: str, **more: Any) -> int:
    """`graveler upload`, by the name of lakectl; a folder needs no -r."""
    sides = (source, *words) if source else words
    if len(sides) != 2:
        raise UsageMistake("one SRC and one address expected")
    more["recursive"] = more["recursive"] or Path(sides[0]).is_dir()
    return run_command(upload, source=sides[0], address=sides[1], **more)


@client("download", group=fs, examples=("graveler fs download lakefs://lake/main/sales/ sales",))
@address_argument("address", metavar="REF/PATH")
@click.argument("target", metavar="[DEST]", type=click.Path(), required=False)
@transfer_options
@ignored(takes=("--part-size",))
def fs_download(invocation: Invocation, address: str, target: str | None, **more: Any) -> int:
    """`graveler download`, by the name of lakectl; a prefix needs no -r."""
    place = invocation.path(address, optional=True)
    if not more["recursive"]:
        more["recursive"] = not place.path or place.path.endswith("/")
    if not more["recursive"]:
        ref = invocation.at(place)
        more["recursive"] = not ref.exists(place.path) and ref.exists(place.folder)
    return run_command(download, address=address, target=target, **more)


@client(
    "stage",
    group=fs,
    examples=(
        "graveler fs stage lakefs://lake/main/a.csv --location s3://b/a --size 9 --checksum MD5",
    ),
)
@address_argument("address", metavar="BRANCH/PATH")
@click.option("--location", required=True, metavar="URL", help="where the object is")
@click.option("--size", type=click.IntRange(min=0), required=True, metavar="N", help="in bytes")
@click.option("--checksum", required=True, metavar="MD5", help="of its bytes")
@click.option("--mtime", type=int, metavar="SECONDS", help="when it was changed (default: now)")
@click.option("--content-type", default="", metavar="TYPE", help="its media type")
@metadata_option
def fs_stage(
    invocation: Invocation, address: str, location: str, pairs: tuple[str, ...], **more: Any
) -> int:
    """Make an object outside the repository an object of a branch, where it is."""
    place = invocation.path(address)
    modified = times.of_seconds(more.pop("mtime"))
    staged = invocation.branch(place).stage(
        place.path, location, modified=modified, metadata=metadata_pairs(pairs), **more
    )
    invocation.output.record(staged, [f"staged {plain(str(place))}"])
    return 0


@client(
    "update-metadata",
    group=fs,
    examples=("graveler fs update-metadata lakefs://lake/main/a.csv --metadata a=1,b=2",),
)
@address_argument("address", metavar="BRANCH/PATH")
@click.option("--metadata", required=True, multiple=True, metavar="KEY=VALUE,…", help="all of it")
def fs_update_metadata(invocation: Invocation, address: str, metadata: tuple[str, ...]) -> int:
    """Replace the metadata of an object."""
    place = invocation.path(address)
    pairs = metadata_pairs(tuple(pair for several in metadata for pair in several.split(",")))
    invocation.branch(place).set_metadata(place.path, pairs)
    invocation.output.done(f"metadata of {plain(str(place))} replaced")
    return 0


# ---- gc ------------------------------------------------------------------------------------------


@client("get-config", examples=("graveler gc get-config lakefs://lake",))
@address_argument("repository")
@click.option("-p", "as_json", is_flag=True, hidden=True)
def gc_get_config(invocation: Invocation, repository: str, as_json: bool) -> int:
    """`graveler retention --repository`, by the name of lakectl."""
    from graveler.cli.commands.gc import lines

    rules = invocation.repo(invocation.repository(repository)).retention()
    shown = [json.dumps(rules, indent=2)] if as_json else lines(rules)
    invocation.output.record(rules, shown)
    return 0


@client("set-config", examples=("graveler gc set-config lakefs://lake -f rules.json",))
@address_argument("repository")
@click.option("-f", "--filename", default="-", metavar="FILE", help="default: standard input")
def gc_set_config(invocation: Invocation, repository: str, filename: str) -> int:
    """Replace the retention rules by those in a file of JSON."""
    with click.open_file(filename, encoding="utf-8") as opened:
        text = opened.read(_RULES_LENGTH_MAX + 1)
    try:
        rules: Any = json.loads(text) if len(text) <= _RULES_LENGTH_MAX else None
        days = rules["default_retention_days"]
        pairs = [(each["branch_id"], each["retention_days"]) for each in rules.get("branches", ())]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"rules invalid: {filename}: get-config -p shows their form") from error
    branches = dict(pairs)
    if len(branches) != len(pairs):
        raise Invalid(f"rules invalid: {filename}: a branch may have only one rule")
    name = invocation.repository(repository)
    invocation.repo(name).set_retention(days, branches)
    invocation.output.done(f"set the retention rules of {name}")
    return 0


@client("delete-config", examples=("graveler gc delete-config lakefs://lake",))
@address_argument("repository")
def gc_delete_config(invocation: Invocation, repository: str) -> int:
    """Delete the retention rules: all commits are kept forever then."""
    name = invocation.repository(repository)
    invocation.repo(name).delete_retention()
    invocation.output.done(f"deleted the retention rules of {name}")
    return 0


# ---- plug-ins ------------------------------------------------------------------------------------


@client("plugin list", examples=("graveler plugin list",))
def plugin_list(invocation: Invocation) -> int:
    """List the plug-ins on PATH."""
    columns = (field("name"), field("program"))
    invocation.output.items(columns, _plugins(), none="no program graveler-NAME on PATH")
    return 0


def _plugins() -> Iterator[Mapping[str, str]]:
    """The programs whose names begin as those of plug-ins; the first on PATH counts."""
    seen: set[str] = set()
    for folder in environment().get("PATH", "").split(os.pathsep):
        for file in sorted(Path(folder or ".").glob(f"{_PLUGIN}*")):
            name = file.name.removeprefix(_PLUGIN)
            if name not in seen and file.is_file() and os.access(file, os.X_OK):
                seen.add(name)
                yield {"name": name, "program": str(file)}


# ---- auth: options instead of arguments ----------------------------------------------------------


def _for_caller(command: ClientCommand) -> Callable[..., int]:
    """The function of a command whose user may be left out: it is the caller then."""

    def run(invocation: Invocation, user: str, **values: Any) -> int:
        user = user or invocation.lake.whoami()
        return run_command(command, user=user, **values)

    return click.pass_obj(run)


def _alias(
    command: ClientCommand,
    example: str,
    names: Mapping[str, str] = {},
    *,
    mine: bool = False,
    whole: bool = False,
) -> ClientCommand:
    """The command with options instead of its arguments: `{"user": "--id"}`.  `mine`: the user may
    be left out.  `whole`: a list that is short; lakectl pages it."""
    params: list[click.Parameter] = []
    for param in command.params:
        words = [names.get(param.name or "", ""), str(param.name)]
        if mine and param.name == "user":
            params.append(click.Option(words, metavar="ID", default=""))
        elif words[0]:
            params.append(click.Option(words, metavar="ID", required=True))
        elif not isinstance(param, SharedOption):
            params.append(param)
    if whole:
        paged = ("--amount", "--after", "--prefix")
        params += [click.Option([each], expose_value=False, hidden=True) for each in paged]
    function = _for_caller(command) if mine else command.callback
    return ClientCommand(
        command.name,
        params=params,
        callback=function,
        help=command.help,
        examples=(f"graveler auth {example}",),
    )


_ID: Final = click.option("--id", required=True, metavar="ID")
_WHOLE: Final = ignored(takes=("--amount", "--after", "--prefix"))


@client("list", examples=("graveler auth users groups list --id ann",))
@_ID
@_WHOLE
def list_groups_of_user(invocation: Invocation, id: str) -> int:
    """List the groups of a user."""
    invocation.about(id, "graveler user list")
    rows = ({"id": name} for name in invocation.lake.admin.groups_of(id))
    invocation.output.items(_NAMED, rows)
    return 0


@client("list", examples=("graveler auth users policies list --id ann",))
@_ID
@click.option("--effective", is_flag=True, help="those of its groups too")
@_WHOLE
def list_policies_of_user(invocation: Invocation, id: str, effective: bool) -> int:
    """List the policies of a user."""
    invocation.about(id, "graveler user list")
    invocation.output.items(_NAMED, invocation.lake.admin.policies_of(id, effective=effective))
    return 0


@client("list", examples=("graveler auth groups members list --id analysts",))
@_ID
@_WHOLE
def list_members(invocation: Invocation, id: str) -> int:
    """List the members of a group."""
    invocation.about(id, "graveler group list")
    rows = ({"id": name} for name in invocation.lake.admin.members(id))
    invocation.output.items(_NAMED, rows)
    return 0


@client("list", examples=("graveler auth groups policies list --id a",))
@_ID
@_WHOLE
def list_policies_of_group(invocation: Invocation, id: str) -> int:
    """List the policies of a group."""
    invocation.about(id, "graveler group list")
    found = invocation.lake.admin.policies_of(group=id)
    rows = ({"id": each.id} for each in found)
    invocation.output.items(_NAMED, rows)
    return 0


_OF_USER: Final = {"user": "--id"}
_OF_GROUP: Final = {"group": "--id"}
_OF_POLICY: Final = {"policy": "--id"}
_MEMBER: Final = {"group": "--id", "user": "--user"}
_USER_POLICY: Final = {"user": "--id", "policy": "--policy"}
_GROUP_POLICY: Final = {"group": "--id", "policy": "--policy"}
_USERS: Final = Group(
    "users",
    [
        _alias(users.list_users, "users list"),
        _alias(users.create, "users create --id ann", _OF_USER),
        _alias(users.delete, "users delete --id ann --yes", _OF_USER),
        Group("groups", [list_groups_of_user], help="Groups of a user."),
        Group(
            "policies",
            [
                list_policies_of_user,
                _alias(users.attach, "users policies attach --id ann --policy P", _USER_POLICY),
                _alias(users.detach, "users policies detach --id ann --policy P", _USER_POLICY),
            ],
            help="Policies of a user.",
        ),
        Group(
            "credentials",
            [
                _alias(
                    *(users.list_keys, "users credentials list --id ann", _OF_USER),
                    mine=True,
                    whole=True,
                ),
                _alias(users.create_key, "users credentials create --id ann", _OF_USER, mine=True),
                _alias(
                    users.delete_key,
                    "users credentials delete --id ann --access-key-id AKIA… --yes",
                    {"user": "--id", "key": "--access-key-id"},
                    mine=True,
                ),
            ],
            help="Access keys of a user.",
        ),
    ],
    help="Users.",
)
_GROUPS: Final = Group(
    "groups",
    [
        _alias(users.list_groups, "groups list"),
        _alias(users.create_group, "groups create --id analysts", _OF_GROUP),
        _alias(users.delete_group, "groups delete --id analysts -y", _OF_GROUP),
        Group(
            "members",
            [
                list_members,
                _alias(users.add, "groups members add --id a --user ann", _MEMBER, mine=True),
                _alias(users.remove, "groups members remove --id a --user ann", _MEMBER, mine=True),
            ],
            help="Members of a group.",
        ),
        Group(
            "policies",
            [
                list_policies_of_group,
                _alias(
                    users.attach_to_group, "groups policies attach --id a --policy P", _GROUP_POLICY
                ),
                _alias(
                    users.detach_from_group,
                    "groups policies detach --id a --policy P",
                    _GROUP_POLICY,
                ),
            ],
            help="Policies of a group.",
        ),
    ],
    help="Groups.",
)
_POLICIES: Final = Group(
    "policies",
    [
        _alias(policy.list_policies, "policies list"),
        _alias(policy.show, "policies show --id FSReadAll", _OF_POLICY),
        _alias(policy.delete, "policies delete --id a -y", _OF_POLICY),
        _alias(
            policy.create,
            "policies create --id a --statement-document a.json",
            {"policy": "--id", "file": "--statement-document"},
        ),
    ],
    help="Policies.",
)


@group("auth", commands=[_USERS, _GROUPS, _POLICIES])
def auth() -> None:
    """Users, groups and policies, by the names of lakectl."""
