"""Completes repositories, refs and paths by asking the server.

A shell calls `graveler` for each completion, so it must end soon: a server that has not answered
all requests within 300 ms (`GRAVELER_COMPLETION_SECONDS`) completes nothing.  Failures are silent,
because the shell is drawing a line.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from click.shell_completion import CompletionItem

from graveler.cli.support.address import SCHEMES, base_before
from graveler.cli.support.invocation import Invocation, base_uri, current_repository
from graveler.core.errors import GravelerError, UsageMistake
from graveler.core.settings import environment
from graveler.lake import profiles
from graveler.lake.connections import Connections
from graveler.lake.lake import Lake

_SECONDS: Final = 0.3  # for all requests of one completion together
_SECONDS_MAX: Final = 3_600.0
_SECONDS_VARIABLE: Final = "GRAVELER_COMPLETION_SECONDS"
_ITEMS_MAX: Final = 200
# Shells insert a completion as it is: any other character could split it, or run as code.
_INERT: Final = re.compile(r"[\w./:@=+,%-]*")


def addresses(invocation: Invocation, word: str, subject: str = "") -> list[CompletionItem]:
    """What an address could go on with.  `subject`: an earlier address of the command, whose
    repository a ref alone is in."""
    return _items(invocation, lambda lake: _texts(invocation, lake, word, subject))


def refs_of(invocation: Invocation, word: str, subject: str = "") -> list[CompletionItem]:
    """What a ref without a repository could go on with.  `subject`: the address whose repository it
    is in; without one, the current repository."""
    return _items(invocation, lambda lake: _refs(lake, _repository(invocation, subject), word))


def limit(variables: Mapping[str, str]) -> float:
    """For how many seconds a completion waits for the server."""
    try:
        seconds = float(variables.get(_SECONDS_VARIABLE, ""))
    except ValueError:
        return _SECONDS
    return seconds if 0 < seconds <= _SECONDS_MAX else _SECONDS


def _items(invocation: Invocation, ask: Callable[[Lake], Iterable[str]]) -> list[CompletionItem]:
    """What the server says in time, without names that a shell would not take as they are."""
    try:
        seconds = limit(environment())
        lake = Lake(profiles.session(invocation.profile, Connections(seconds=seconds)))
        texts = _in_time(ask, lake, seconds)
        return [CompletionItem(text) for text in texts if _INERT.fullmatch(text)]
    except (GravelerError, OSError):
        return []


def _in_time(ask: Callable[[Lake], Iterable[str]], lake: Lake, seconds: float) -> list[str]:
    """What the server says to all requests together in time; none of it later.

    The thread ends with the process: nothing else can interrupt the look-up of a host."""
    answers: list[list[str]] = []

    def run() -> None:
        with suppress(Exception):  # a shell is drawing a line
            answers.append([*islice(ask(lake), _ITEMS_MAX)])

    thread = threading.Thread(target=run, name="completion", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else []


def _texts(invocation: Invocation, lake: Lake, word: str, subject: str) -> Iterable[str]:
    """Addresses that begin with `word`.  One that can go on ends with a slash.  The base URI counts
    as typed, and is left out of what is offered."""
    if subject and "/" not in word and not word.startswith(":"):
        alone = _refs(lake, _repository(invocation, subject), word)
        if alone:
            return alone
    base = base_before(word, base_uri(invocation))
    whole = _whole_texts(invocation, lake, base + word, subject)
    return [text.removeprefix(base) for text in whole if text.startswith(base)]


def _whole_texts(invocation: Invocation, lake: Lake, word: str, subject: str) -> Iterable[str]:
    """As `_texts`, without a base URI."""
    if word.startswith(":"):
        repository, start, rest = _repository(invocation, subject), ":", word[1:]
    else:
        scheme = next((scheme for scheme in SCHEMES if word.startswith(scheme)), "")
        repository, slash, rest = word.removeprefix(scheme).partition("/")
        if not slash:
            found = lake.repositories(repository, limit=_ITEMS_MAX)
            return [f"{scheme}{each.name}/" for each in found]
        start = f"{scheme}{repository}/"
    ref, slash, path = rest.partition("/")
    if not slash:
        return [start + name for name in _refs(lake, repository, ref)]
    known = lake.repository(repository).ref(ref)
    listed = known.list(path, recursive=False, limit=_ITEMS_MAX)
    return [f"{start}{ref}/{entry.path}" for entry in listed]


def _refs(lake: Lake, repository: str, prefix: str) -> list[str]:
    """The branches and tags that begin with `prefix`."""
    known = lake.repository(repository)
    branches = known.branches(prefix, limit=_ITEMS_MAX).all()
    return [each.name for each in (*branches, *known.tags(prefix, limit=_ITEMS_MAX))]


def _repository(invocation: Invocation, subject: str) -> str:
    """The repository of a ref that is alone.  Raises `UsageMistake` if there is none."""
    if subject:
        return invocation.address(subject).repository
    current = current_repository(invocation)
    if not current:
        raise UsageMistake("no current repository")
    return current
