"""`graveler completion`: repositories, refs and paths, completed by asking the server.

A shell calls the command for each completion, so it must end soon: a server that does not answer
within 300 ms completes nothing.  Failures are silent, because the shell is drawing a line.  For
this folder.
"""

from itertools import islice
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.client import objects, refs
from graveler.client.connections import Connections
from graveler.client.session import Session, connect
from graveler.errors import GravelerError

_SECONDS: Final = 0.3
_ITEMS_MAX: Final = 200
_VARIABLE: Final = "_GRAVELER_COMPLETE"


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
    from graveler.cli.main import root

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(root(), {}, "graveler", _VARIABLE).source()
    invocation.output.record({"graveler": {"script": script}}, [script])
    return 0


def addresses(invocation: Invocation, word: str) -> list[CompletionItem]:
    """What an address could go on with."""
    try:
        profile = invocation.profile
        profile.check_whole()
        pool = Connections(seconds=_SECONDS)
        keys = (profile.server, profile.access_key_id, profile.secret_access_key)
        session = connect(*keys, connections=pool)
        return [CompletionItem(text) for text in islice(_texts(session, word), _ITEMS_MAX)]
    except (GravelerError, OSError):
        return []


def _texts(session: Session, word: str) -> "list[str]":
    """Addresses that begin with `word`.  One that can go on ends with a slash."""
    scheme = "lakefs://" if word.startswith("lakefs://") else ""
    repository, slash, rest = word.removeprefix(scheme).partition("/")
    if not slash:
        rows = refs.list_repositories(session, prefix=repository, amount=_ITEMS_MAX)
        return [f"{scheme}{row['id']}/" for row in rows]
    ref, slash, path = rest.partition("/")
    start = f"{scheme}{repository}/"
    if not slash:
        branches = refs.list_branches(session, repository, prefix=ref, amount=_ITEMS_MAX)
        names = [row["id"] for row in branches]
        tags = refs.list_tags(session, repository, prefix=ref, amount=_ITEMS_MAX)
        return [start + name for name in [*names, *(row["id"] for row in tags)]]
    listed = objects.list_objects(session, repository, ref, path, delimiter="/", amount=_ITEMS_MAX)
    return [f"{start}{ref}/{row['path']}" for row in listed]
