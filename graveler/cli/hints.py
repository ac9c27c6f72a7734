"""The commands that messages name, for the server of this call.

A note, a hint or an interrupt names further commands: `graveler jobs show lake 7f3c9a`.  Options
may have chosen the server and the credentials of this call.  The commands need the same options,
because without them they reach the server of the default profile.  Their addresses are whole, so
where a base URI is set they need an empty one.  For this folder.
"""

import re
import shlex
from typing import Final

from graveler.cli import overview
from graveler.cli.address import Address
from graveler.cli.invocation import Invocation, base_uri

# They reach no server, or a message names them with the place that they work on.
_WITHOUT: Final = frozenset(
    (
        *("completion", "config", "login", "logout"),
        *("credentials", "demo", "gateway", "gc", "retention", "serve", "verify"),
    )
)
NOT_REACHED: Final = "is the server running, is the URL right, does a firewall or a proxy block it?"
_OPTIONS: Final = ("profile", "config", "access_key_id")
_COMMAND: Final = re.compile(r"(?<![\w./-])graveler (?P<name>[a-z][a-z-]*)")


def of_server(invocation: Invocation, text: str) -> str:
    """The text, whose commands lead to the server of this call."""
    return _with_options(server_options(invocation), text)


def on(invocation: Invocation, place: Address, text: str) -> str:
    """The text, whose commands lead to the server of the profile that an address names."""
    if not place.profile:  # `of_server` does the rest
        return text
    return _with_options(["--profile", place.profile, *_without_base(invocation)], text)


def until_commit(invocation: Invocation, place: Address) -> str:
    """Words for a change of the branch of `place`, which is in no commit yet."""
    text = f"uncommitted until `graveler commit {place.at('').unprofiled}`"
    return of_server(invocation, on(invocation, place, text))


def _with_options(words: list[str], text: str) -> str:
    if not words:
        return text
    options = shlex.join(words)

    def command(named: re.Match[str]) -> str:
        name = named["name"]
        is_ours = name in overview.COMMANDS and name not in _WITHOUT
        return f"graveler {options} {name}" if is_ours else named[0]

    return _COMMAND.sub(command, text)


def server_options(invocation: Invocation) -> list[str]:
    """The options that chose the server and the credentials of this call, as they were given, and
    one that ends a base URI.  `--server` without a URL, which the operator commands take, is left
    out."""
    flags = invocation.flags
    words = ["--server", str(flags["server"])] if flags.get("server") else []
    for name in _OPTIONS:
        if flags.get(name):
            words += [f"--{name.replace('_', '-')}", str(flags[name])]
    words += ["--secret-stdin"] if flags.get("secret_stdin") else []
    return [*words, *_without_base(invocation)]


def _without_base(invocation: Invocation) -> list[str]:
    return ["--base-uri", ""] if base_uri(invocation) else []
