"""`graveler completion`: repositories, refs and paths, completed by asking the server.

A shell calls the command for each completion, so it must end soon: a server that does not answer
within 300 ms completes nothing, and an answer is kept for 10 seconds.  Failures are silent, because
the shell is drawing a line.  For this folder.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from graveler.cli import profiles, state
from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.client import objects, refs
from graveler.client.connections import Connections
from graveler.client.session import Session
from graveler.clock import SystemClock
from graveler.errors import GravelerError
from graveler.variables import environment

_SECONDS: Final = 0.3
_ITEMS_MAX: Final = 200
_AGE_SECONDS: Final = 10
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
        session = profiles.session(profile, Connections(seconds=_SECONDS))
        known = _Cache(profile.server, profile.access_key_id or profile.session_token)
        return [CompletionItem(text) for text in known.texts(word, lambda: _texts(session, word))]
    except (GravelerError, OSError):
        return []


class _Cache:
    """What the last words were completed to, for 10 seconds: a person who presses Tab again, or
    types on, waits for no server.  The file is for the owner alone, and holds no secret."""

    def __init__(self, *whose: str) -> None:
        self._file = state.folder(environment()) / "completion.json"
        self._whose = sha256("\0".join(whose).encode()).hexdigest()[:16]

    def texts(self, word: str, ask: Callable[[], Iterable[str]]) -> list[str]:
        """The texts that go on `word`; asked for if the file has none that is young."""
        now, key = SystemClock().now_ns() // 10**9, f"{self._whose} {word}"
        entries = {
            name: entry
            for name, entry in self._read().items()
            if 0 <= now - entry[0] < _AGE_SECONDS
        }
        if key in entries:
            return list(entries[key][1])
        texts = list(islice(ask(), _ITEMS_MAX))
        entries[key] = (now, texts)
        with suppress(GravelerError):  # a disk that is full must not keep an answer back
            state.write(self._file, json.dumps(entries))
        return texts

    def _read(self) -> dict[str, tuple[int, list[str]]]:
        try:
            entries = json.loads(state.read(self._file) or "{}")
            return {
                str(name): (int(at), [*map(str, texts)]) for name, (at, texts) in entries.items()
            }
        except (GravelerError, ValueError, TypeError, AttributeError):
            return {}


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
