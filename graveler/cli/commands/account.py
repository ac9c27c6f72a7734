"""`graveler login`, `logout` and `whoami`: signs in and out, and says who the caller is."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support.command import client
from graveler.cli.support.failures import NOT_REACHED
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import yes
from graveler.cli.support.output import Column, field
from graveler.cli.support.serve_options import FOLDER
from graveler.core.errors import (
    Code,
    Conflict,
    NotFound,
    Refused,
    Unauthenticated,
    Unavailable,
    UsageMistake,
)
from graveler.core.settings import environment
from graveler.lake import keyring_store, profiles
from graveler.lake.profiles import DEFAULT, Profile, Profiles

if TYPE_CHECKING:
    from graveler.lake.admin import User

_ADMINISTRATOR: Final = "admin"


@client(
    "login",
    examples=(
        "graveler login https://lake.example.com",
        "graveler login http://127.0.0.1:8000 --setup        # a new server: `graveler serve`",
        "graveler login http://127.0.0.1:8000 --profile local",
        "graveler login --store .graveler              # the store of `graveler demo`",
        "graveler login https://lake.example.com --access-key-id AKIA… --secret-stdin <secret.txt",
        "graveler login https://lake.example.com --token-stdin <token.txt",
    ),
)
@click.argument("url", required=False)
@click.option(
    "--store",
    type=FOLDER,
    metavar="DIR",
    help="take URL and credentials from the file `credentials` in the folder of a store",
)
@click.option(
    "--setup",
    is_flag=True,
    help="create the administrator of a new server; asks for the token that `graveler serve` "
    "printed, or reads it from the standard input",
)
@click.option(
    "--token-stdin",
    "by_token",
    is_flag=True,
    help="sign in by the token of a session, or of an identity provider, from the standard input",
)
@yes
def login(
    invocation: Invocation,
    url: str | None,
    store: Path | None,
    setup: bool,
    by_token: bool,
    yes: bool,
) -> int:
    """Try credentials on a server, and keep them in a profile.

    Asks for what is missing; the secret is not shown.  Nothing is kept unless the server accepts
    the credentials.  The profile is --profile, else GRAVELER_PROFILE, else `default`; the last
    login makes the default.  Asks before it replaces the profile of another server, or the secret
    of another key.
    If --setup fails once the server has made the key, the key and its secret are printed.
    """
    chosen = profiles.chosen_name(invocation.flags, environment(), DEFAULT)
    name = profiles.check_name(chosen)
    server = url or str(invocation.flags.get("server", ""))
    if server:
        profiles.check_url(server)
    if setup:
        if not server:
            raise UsageMistake("--setup needs the URL of the server")
        # A file that cannot be read, or a no, must not cost the only key.
        _confirm_replaced(invocation, name, server, yes=yes)
        profile = _set_up(invocation, server)
    else:
        if by_token:
            profile = _by_token(server)
        else:
            profile = _from_store(store) if store is not None else _asked(invocation, server)
        _confirm_replaced(invocation, name, profile.server, profile.access_key_id, yes=yes)
    try:
        user, place = _kept(name, profile)
    except BaseException:  # also Ctrl-C: nobody could sign in if the new key were not shown
        if setup:
            _print_key(invocation, profile)
        raise
    invocation.output.record(
        {**user.answer, "graveler": {"profile": name, "server": profile.server}},
        [f"signed in to {profile.server} as {user.id}: profile {name}"],
    )
    invocation.output.note(f"kept in {place}")
    return 0


def _confirm_replaced(
    invocation: Invocation, name: str, url: str, key: str | None = None, *, yes: bool
) -> None:
    """Ask before a login replaces the credentials for another server, or those of another key.
    `key`: None for the key that a server without an administrator will make; it knows no other."""
    before = profiles.read(environment()).by_name.get(name, Profile())
    is_other_key = key is not None and before.access_key_id not in ("", key)
    if is_other_key or not profiles.same_origin(url, before.server):
        change = f"Replace the profile {name} of {before.server} (--profile NAME keeps both)"
        confirm_loss(invocation, before, change, yes=yes)


def _kept(name: str, profile: Profile) -> tuple["User", Path]:
    """Try the credentials of a profile and write it; the user, and the folder of the files."""
    from graveler.lake.connections import Connections
    from graveler.lake.lake import Lake

    lake = Lake(profiles.session(profile, Connections()))
    try:
        with _at_url():
            user = lake.admin.me()
    except Unauthenticated as error:
        error.fields = {**error.fields, **profile.not_accepted()}
        raise
    known = profiles.read(environment())
    before = known.by_name.get(name, Profile())
    profile = replace(profile, name=name, repository=before.repository)
    profile = profiles.in_keyring(profile)
    return user, profiles.write(Profiles(name, {**known.by_name, name: profile}), environment())


@contextmanager
def _at_url() -> Iterator[None]:
    """For a sign-in: if nothing answers at the URL, or something else, the URL is what to look at,
    because no profile is in use."""
    try:
        yield
    except (Unavailable, NotFound) as error:
        is_answer = error.fields.get("status", "404") != "404"
        if not is_answer and error.code is not Code.CERTIFICATE_REFUSED:
            error.fields = {**error.fields, "remedy": NOT_REACHED}
        raise


def _print_key(invocation: Invocation, profile: Profile) -> None:
    key = {
        "access_key_id": profile.access_key_id,
        "secret_access_key": profile.secret_access_key,
    }
    invocation.output.record(key, [f"{name}: {value}" for name, value in key.items()])


def _asked(invocation: Invocation, url: str) -> Profile:
    """URL, key and secret from the arguments, else from whoever can answer."""
    flags = invocation.flags
    if flags.get("secret_stdin"):
        key, secret = str(flags.get("access_key_id", "")), sys.stdin.readline().rstrip("\r\n")
        if not key:
            raise UsageMistake("--secret-stdin needs --access-key-id")
    else:
        key, secret = str(flags.get("access_key_id", "")), ""
    values = {"a URL": url, "--access-key-id": key, "--secret-stdin": secret}
    missing = [name for name, value in values.items() if not value]
    if missing and not invocation.may_ask():
        needed = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        is_empty = missing == ["--secret-stdin"] and flags.get("secret_stdin")
        empty = "; the standard input has none" if is_empty else ""
        raise UsageMistake(f"login needs {needed} if nobody can be asked{empty}")
    url = url or click.prompt("Server URL", err=True)
    if not (key and secret):
        from graveler.lake import admin

        profiles.check_url(url)
        with _at_url():
            admin.check_reachable(url)  # before somebody types a key in vain
    key = key or click.prompt("Access key id", err=True)
    secret = secret or click.prompt("Secret access key", hide_input=True, err=True)
    return Profile("", url, key, secret)


def _by_token(url: str) -> Profile:
    token = sys.stdin.readline().strip()
    if not url or not token:
        raise UsageMistake("--token-stdin needs a URL, and a token on the standard input")
    return Profile("", url, session_token=token)


def _set_up(invocation: Invocation, url: str) -> Profile:
    """The administrator of a new server, whose key exists from now on."""
    from graveler.lake import admin

    with _at_url():
        is_set_up = admin.is_set_up(url)
    if is_set_up:
        raise Conflict(
            f"{url} has an administrator already",
            remedy=f"graveler login {url}; a lost secret: graveler credentials reset --store DIR, "
            "on the server",
        )
    if invocation.may_ask():
        token = click.prompt("Setup token", hide_input=True, err=True)
    else:
        token = sys.stdin.readline().strip()
    try:
        key = admin.set_up(url, token, _ADMINISTRATOR)
    except Refused as error:  # what else can be refused has been asked just before
        reason = "setup token missing or wrong"
        remedy = f"graveler login {url} --setup, with the token that `graveler serve` printed at "
        error.fields = {**error.fields, "reason": reason, "remedy": f"{remedy}its last start"}
        raise
    return Profile("", url, key.id, key.secret)


def _from_store(store: Path) -> Profile:
    profile = profiles.of_store(store)
    if profile is None:
        raise NotFound(f"the store has no file of credentials: {store / 'credentials'}")
    profile.check_whole()
    return profile


@client("logout", examples=("graveler logout", "graveler logout --profile local --yes"))
@yes
def logout(invocation: Invocation, yes: bool) -> int:
    """Forget a profile and its credentials.

    The access key stays valid on the server, which does not show its secret again.
    """
    known = profiles.read(environment())
    name = profiles.chosen_name(invocation.flags, environment(), known.default)
    if name not in known.by_name:
        raise NotFound(f"profile not found: {name or 'there is no default'}")
    confirm_loss(invocation, known.by_name[name], f"Forget the profile {name}", yes=yes)
    rest = {each: profile for each, profile in known.by_name.items() if each != name}
    default = known.default if known.default != name else ""
    profiles.write(Profiles(default, rest), environment())
    if known.by_name[name].in_keyring:
        keyring_store.forget(name)
    invocation.output.done(f"profile {name} is forgotten")
    return 0


def confirm_loss(invocation: Invocation, profile: Profile, change: str, *, yes: bool) -> None:
    """Ask before the credentials of a profile are lost.  A profile that has none loses nothing.
    `change` begins with a verb."""
    if profile.session_token:
        lost = "its token"
    elif profile.secret_access_key or profile.in_keyring:
        lost = f"the secret of its access key {profile.access_key_id}"
    else:
        return
    invocation.confirm(f"{change}, with {lost}?  The server does not show it again.", yes=yes)


@client("whoami", examples=("graveler whoami", "graveler whoami --json"))
def whoami(invocation: Invocation) -> int:
    """Show the user, and the server that says so."""
    profile = invocation.profile
    user = invocation.lake.admin.me()
    source = {
        "server": profile.server,
        "access_key_id": profile.access_key_id,
        "source": profile.source,
    }
    columns = [field("id", title="USER"), field("email")]
    columns += [Column(name.upper(), _ours(name)) for name in source]
    invocation.output.pairs({**user.answer, "graveler": source}, columns)
    return 0


def _ours(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: record["graveler"][name]
