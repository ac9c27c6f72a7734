"""Completes repositories, refs and paths by asking the server.

A shell calls `graveler` for each completion, so it must end soon: a server that has not answered
all requests within 300 ms (`GRAVELER_COMPLETION_SECONDS`) completes nothing, and an answer is kept
for 10 seconds.  Failures are silent, because the shell is drawing a line.  For this folder.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Final

from click.shell_completion import CompletionItem

from graveler.cli import profiles, state
from graveler.cli.address import SCHEMES, UsageMistake, base_before
from graveler.cli.invocation import Invocation, base_uri, current_repository
from graveler.client import objects, refs
from graveler.client.connections import Connections
from graveler.client.session import Session
from graveler.clock import SystemClock
from graveler.errors import GravelerError, Unavailable
from graveler.variables import environment

_SECONDS: Final = 0.3  # for all requests of one completion together
_SECONDS_MAX: Final = 3_600.0
_SECONDS_VARIABLE: Final = "GRAVELER_COMPLETION_SECONDS"
_ITEMS_MAX: Final = 200
_AGE_SECONDS: Final = 10


def addresses(invocation: Invocation, word: str, subject: str = "") -> list[CompletionItem]:
    """What an address could go on with.  `subject`: an earlier address of the command, whose
    repository a ref alone is in."""
    return _items(
        invocation, subject, word, lambda session: _texts(invocation, session, word, subject)
    )


def refs_of(invocation: Invocation, word: str, subject: str = "") -> list[CompletionItem]:
    """What a ref without a repository could go on with.  `subject`: the address whose repository it
    is in; without one, the current repository."""
    return _items(
        invocation,
        *(f"ref {subject}", word),
        lambda session: _refs(session, _repository(invocation, subject), word),
    )


def _items(
    invocation: Invocation, kind: str, word: str, ask: Callable[[Session], Iterable[str]]
) -> list[CompletionItem]:
    """What the cache has for a word of this kind in the current repository, else what the server
    says in time."""
    try:
        key = f"{current_repository(invocation)} {base_uri(invocation)} {kind} {word}"
        profile = invocation.profile
        seconds = limit(environment())
        session = profiles.session(profile, Connections(seconds=seconds))
        known = _Cache(profile.server, profile.access_key_id or profile.session_token)
        texts = known.texts(key, lambda: _in_time(ask, session, seconds))
        return [CompletionItem(text) for text in texts]
    except (GravelerError, OSError):
        return []


def limit(variables: Mapping[str, str]) -> float:
    """For how many seconds a completion waits for the server."""
    try:
        seconds = float(variables.get(_SECONDS_VARIABLE, ""))
    except ValueError:
        return _SECONDS
    return seconds if 0 < seconds <= _SECONDS_MAX else _SECONDS


def _in_time(
    ask: Callable[[Session], Iterable[str]], session: Session, seconds: float
) -> list[str]:
    """What the server says to all requests together in time; none of it later.

    The thread ends with the process: nothing else can interrupt the look-up of a host.
    """
    answers: list[list[str]] = []
    ended = threading.Event()

    def run() -> None:
        try:
            with suppress(Exception):  # a shell is drawing a line
                answers.append([*islice(ask(session), _ITEMS_MAX)])
        finally:
            ended.set()

    threading.Thread(target=run, name="completion", daemon=True).start()
    if not ended.wait(seconds) or not answers:
        raise Unavailable("the server does not answer in time")
    return answers[0]


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
        texts = [*ask()]
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


def _texts(invocation: Invocation, session: Session, word: str, subject: str) -> Iterable[str]:
    """Addresses that begin with `word`.  One that can go on ends with a slash.  The base URI counts
    as typed, and is left out of what is offered."""
    if subject and "/" not in word and not word.startswith(":"):
        alone = _refs(session, _repository(invocation, subject), word)
        if alone:
            return alone
    base = base_before(word, base_uri(invocation))
    whole = _whole_texts(invocation, session, base + word, subject)
    return [text.removeprefix(base) for text in whole if text.startswith(base)]


def _whole_texts(
    invocation: Invocation, session: Session, word: str, subject: str
) -> Iterable[str]:
    """As `_texts`, without a base URI."""
    if word.startswith(":"):
        repository, start, rest = _repository(invocation, subject), ":", word[1:]
    else:
        scheme = next((scheme for scheme in SCHEMES if word.startswith(scheme)), "")
        repository, slash, rest = word.removeprefix(scheme).partition("/")
        if not slash:
            rows = refs.list_repositories(session, prefix=repository, amount=_ITEMS_MAX)
            return [f"{scheme}{row['id']}/" for row in rows]
        start = f"{scheme}{repository}/"
    ref, slash, path = rest.partition("/")
    if not slash:
        return [start + name for name in _refs(session, repository, ref)]
    listed = objects.list_objects(session, repository, ref, path, delimiter="/", amount=_ITEMS_MAX)
    return [f"{start}{ref}/{row['path']}" for row in listed]


def _refs(session: Session, repository: str, prefix: str) -> list[str]:
    """The branches and tags that begin with `prefix`."""
    branches = refs.list_branches(session, repository, prefix=prefix, amount=_ITEMS_MAX)
    names = [row["id"] for row in branches]
    tags = refs.list_tags(session, repository, prefix=prefix, amount=_ITEMS_MAX)
    return [*names, *(row["id"] for row in tags)]


def _repository(invocation: Invocation, subject: str) -> str:
    """The repository of a ref that is alone.  Raises `UsageMistake` if there is none."""
    if subject:
        return invocation.address(subject).repository
    current = current_repository(invocation)
    if not current:
        raise UsageMistake("no current repository")
    return current
