"""`graveler config`: profiles, that is servers and current repositories.  Sends nothing."""

from dataclasses import replace
from typing import Final

import click

from graveler.cli.commands.account import confirm_loss
from graveler.cli.support.command import COMPLETE, client, group
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import yes
from graveler.cli.support.output import field
from graveler.core.errors import NotFound
from graveler.core.settings import environment
from graveler.lake import keyring_store, profiles
from graveler.lake.profiles import DEFAULT, Profile, Profiles

_SETTINGS: Final = ("server", "repository")


@group("config")
def config() -> None:
    """Profiles: servers and current repositories."""


@client("list", group=config, examples=("graveler config list",))
def list_profiles(invocation: Invocation) -> int:
    """List the profiles."""
    known = profiles.read(environment())
    rows = [
        {
            "name": name,
            "server": profile.server,
            "repository": profile.repository,
            "access_key_id": profile.access_key_id,
            "default": name == known.default,
        }
        for name, profile in sorted(known.by_name.items())
    ]
    columns = [field(name) for name in ("name", "server", "repository", "access_key_id", "default")]
    invocation.output.items(columns, rows, none="no profiles: `graveler login` makes one")
    return 0


@client("show", group=config, examples=("graveler config show", "graveler config show --json"))
def show_profile(invocation: Invocation) -> int:
    """Show which server and key a command would use, and why.

    Sends nothing.  The secret is not shown.
    """
    profile = invocation.profile
    record = {
        "server": profile.server,
        "access_key_id": profile.access_key_id,
        "has_secret": bool(profile.secret_access_key or profile.session_token),
        "repository": profile.repository,
        "source": profile.source,
        "folder": str(profiles.folder(environment())),
    }
    invocation.output.pairs(record, [field(name) for name in record])
    return 0


@client(
    "get",
    group=config,
    examples=("graveler config get repository", "graveler config get server --profile prod"),
)
@click.argument("setting", type=click.Choice(_SETTINGS))
def get_setting(invocation: Invocation, setting: str) -> int:
    """Print a setting of the profile that applies; an empty line if it has none.

    Sends nothing.
    """
    value = str(getattr(invocation.profile, setting))
    invocation.output.record({"graveler": {setting: value}}, [value])
    return 0


@client("use", group=config, examples=("graveler config use local",))
@click.argument("name")
def use_profile(invocation: Invocation, name: str) -> int:
    """Make a profile the default."""
    known = profiles.read(environment())
    if name not in known.by_name:
        raise NotFound(f"profile not found: {name}: `graveler config list` shows all")
    profiles.write(replace(known, default=name), environment())
    invocation.output.done(f"the default profile is {name}")
    return 0


@client(
    "set",
    group=config,
    examples=(
        "graveler config set repository lake         # now :main means lake/main",
        "graveler config set server https://lake.example.com --profile prod",
    ),
)
@click.argument("setting", type=click.Choice(_SETTINGS))
@click.argument("value")
@yes
def set_setting(invocation: Invocation, setting: str, value: str, yes: bool) -> int:
    """Change a setting of a profile; an empty value removes it.

    A profile whose server moves to another address loses its credentials, after a question.
    """
    known = profiles.read(environment())
    default = known.default or DEFAULT
    name = profiles.check_name(profiles.chosen_name(invocation.flags, environment(), default))
    before = known.by_name.get(name, Profile(name))
    if setting == "server":
        if value:
            profiles.check_url(value)
        same = profiles.same_origin(value, before.server)
        if not same:
            change = f"Move the profile {name} to {value or 'no server'}"
            confirm_loss(invocation, before, change, yes=yes)
        after = replace(before if same else before.without_secrets(), server=value)
        if before.in_keyring and not same:
            keyring_store.forget(name)
    else:
        after = replace(before, repository=value)
    changed = Profiles(known.default or name, {**known.by_name, name: after})
    profiles.write(changed, environment())
    invocation.output.done(f"{'set' if value else 'removed'} the {setting} of profile {name}")
    return 0


@client(
    "completion",
    examples=(
        'eval "$(graveler completion bash)"            # in ~/.bashrc',
        'eval "$(graveler completion zsh)"             # in ~/.zshrc',
        "graveler completion fish >~/.config/fish/completions/graveler.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(invocation: Invocation, shell: str) -> int:
    """Print a script with which a shell completes commands, options and addresses.

    Repositories, refs and paths come from the server of the profile.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(
        click.get_current_context().find_root().command, {}, "graveler", COMPLETE
    ).source()
    invocation.output.record({"graveler": {"script": script}}, [script])
    return 0
