"""What a command prints with `--json` is of the type that its schema is made of.

`Client.run` calls `check` after every command, so each test of a command tests its schema too.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, get_origin

import click
import msgspec

from graveler.cli.commands import COMMANDS
from graveler.cli.main import root
from graveler.cli.support.command import ClientCommand
from scripts.cli_schemas import PRINTED, FailureAnswer, Named, Types

# Commands by other names, and what they print: the same as another one, or a type.
_ALIASES = {
    "branch reset": "reset",
    "branch revert": "revert",
    "repo create-bare": "repo create",
    "refs-dump": "refs dump",
    "refs-restore": "refs restore",
    "auth users list": "user list",
    "auth users create": "user create",
    "auth users policies list": "policy list",
    "auth users credentials list": "user key list",
    "auth users credentials create": "user key create",
    "auth groups list": "group list",
    "auth groups create": "group create",
    "auth groups policies list": "policy list",
    "auth policies list": "policy list",
    "auth policies show": "policy show",
    "auth policies create": "policy create",
    "fs update-metadata": "repo meta set",
}
_NAMES = ("auth users groups list", "auth groups members list")


@cache
def known() -> dict[tuple[str, ...], Types]:
    """The types by the words of a command."""
    group = root()
    by_words = {tuple(words.split()): types for words, types in PRINTED.items()}
    by_words |= {tuple(words.split()): PRINTED[other] for words, other in _ALIASES.items()}
    by_words |= {tuple(words.split()): (list[Named],) for words in _NAMES}
    by_command = {_command(group, words): types for words, types in by_words.items()}
    every = dict(_commands(group))
    return {words: by_command[each] for words, each in every.items() if each in by_command}


def visible() -> set[str]:
    """The client commands that help shows."""
    table = COMMANDS
    return {
        " ".join(words)
        for words, command in _commands(root())
        if table[words[0]].section
        and isinstance(command, ClientCommand)
        and " ".join(words) not in _ALIASES
        and words[:2] != ("actions", "runs")
    }


def _commands(group: click.Group, words: tuple[str, ...] = ()) -> Any:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        else:
            yield (*words, name), command


def _command(group: click.Group, words: Sequence[str]) -> click.Command:
    command: click.Command = group
    for word in words:
        assert isinstance(command, click.Group)
        child = command.get_command(click.Context(command), word)
        assert child is not None, words
        command = child
    return command


def check(arguments: Sequence[str], code: int, text: str) -> None:
    """Fail if the output of a command is not what its schema says, or has a name beyond it.

    What a command that failed has printed until then is left out."""
    forms = {"--json", "--jsonl"} & set(arguments)
    types = types_of(arguments)
    if not forms or types is None or not text or "--help" in arguments or code not in (0, 1):
        return
    if "--jsonl" in forms or set(arguments[:2]) & {"watch"}:
        lines = [json.loads(line) for line in text.splitlines()]
        if any(get_origin(kind) is list for kind in types):
            types = tuple(kind for kind in types if get_origin(kind) is list)
            fit(lines, types)
        else:
            for line in lines:
                fit(line, types)
        return
    fit(json.loads(text), types)


def check_failure(text: str) -> None:
    """Fail if an error that was printed as JSON is not what its schema says."""
    for line in text.splitlines():
        if line.startswith('{"error": '):
            fit(json.loads(line), (FailureAnswer,))


def types_of(arguments: Sequence[str]) -> Types | None:
    """The types of the first words of an argument list that are a command."""
    for start in range(len(arguments)):
        pair = arguments[start : start + 2]
        if len(pair) == 2 and " ".join(pair) in COMMANDS:  # a name of lakectl
            return None
        for length in (4, 3, 2, 1):
            types = known().get(tuple(arguments[start : start + length]))
            if types is not None and start + length <= len(arguments):
                return types
        if arguments[start] in COMMANDS:
            return None
    return None


def fit(document: Any, types: Types) -> None:
    """Fail unless the document is of one of the types, without further names."""
    failures = []
    for kind in types:
        try:
            typed = msgspec.convert(document, kind, strict=True)
        except msgspec.ValidationError as error:
            failures.append(str(error))
            continue
        unknown = sorted(set(_beyond(document, msgspec.to_builtins(typed))))
        if not unknown:
            return
        failures.append(f"names without a schema: {unknown}")
    raise AssertionError(f"scripts/cli_schemas.py: {failures}: {document}")


def _beyond(document: Any, typed: Any) -> list[str]:
    """The names of a document that its type does not have."""
    if isinstance(document, dict):
        names = [name for name in document if name not in typed]
        both = [name for name in document if name in typed]
        return names + [each for name in both for each in _beyond(document[name], typed[name])]
    if isinstance(document, list):
        pairs = zip(document, typed, strict=True)
        return [each for item, other in pairs for each in _beyond(item, other)]
    return []
