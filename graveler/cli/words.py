"""Words that are no commands or options here, and what leads to what they mean elsewhere.

Other tools say `put` for upload, `branch -d` for branch delete, `add` for creations.  For this
folder.
"""

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Final

import click
from click.exceptions import NoSuchCommand, NoSuchOption

from graveler.cli.command import Group

_OF_GIT: Final[Mapping[str, str]] = {
    "add": "graveler upload FILE REPOSITORY/BRANCH/ stages a file",
    "checkout": "each command names its branch: graveler ls REPOSITORY/BRANCH",
    "clone": "graveler local clone REPOSITORY/BRANCH, or graveler download -r",
    "fetch": "nothing is fetched: each command asks the server",
    "init": "graveler repo create NAME",
    "pull": "graveler local pull, in a folder that graveler local clone made",
    "push": "nothing is pushed: graveler commit commits on the server",
    "rebase": "graveler cherry-pick, or graveler merge --squash",
    "stash": "graveler branch create: an uncommitted change belongs to its branch",
    "switch": "each command names its branch: graveler ls REPOSITORY/BRANCH",
}
_OF_STORES: Final[Mapping[str, str]] = {
    "copy": "cp",
    "del": "rm",
    "delete": "rm",
    "dir": "ls",
    "get": "download",
    "list": "ls",
    "move": "mv",
    "put": "upload",
    "remove": "rm",
    "rename": "mv",
}
_OF_GROUPS: Final[Mapping[str, str]] = {
    "add": "create",
    "del": "delete",
    "describe": "show",
    "get": "show",
    "info": "show",
    "ls": "list",
    "new": "create",
    "remove": "delete",
    "rm": "delete",
}
_DELETIONS: Final = ("-d", "-D")  # of git's branch and tag
# Options of other servers for what `--listen` says.
_OF_LISTEN: Final = frozenset(("--address", "--bind", "--host", "--port", "-p"))
_ALIKE: Final = 0.75  # of two names of options, so that one may be meant by the other


def lead(error: click.ClickException) -> tuple[str, str] | None:
    """The message and the remedy for a word that has another name here.  No remedy: it is only
    misspelt."""
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    if isinstance(error, NoSuchCommand):
        remedy = _command(error.command_name, context)
        # Without names that look alike: the meaning is known.
        return (error.message, remedy) if remedy else None
    if isinstance(error, NoSuchOption):
        remedy = _option(error.option_name, context)
        if remedy:
            return error.message, remedy
        alike = _alike(error.option_name, error.possibilities or ())
        return NoSuchOption(
            error.option_name, possibilities=alike, ctx=context
        ).format_message(), ""
    return None


def _command(word: str, context: click.Context) -> str:
    group = context.command
    if context.parent is None:
        name = _OF_STORES.get(word, "")
        return _OF_GIT.get(word, "") or (name and f"graveler {name} --help")
    if not isinstance(group, Group):
        return ""
    name = _OF_GROUPS.get(word, "")
    if name in group.commands:
        return _example(group, name)
    if "/" in word and {"create", "delete"} <= group.commands.keys():
        path = context.command_path
        return f"{path} create {word}, {path} show {word}, or {path} delete {word}"
    return ""


def _option(word: str, context: click.Context) -> str:
    command = context.command
    if word in _OF_LISTEN and any("--listen" in each.opts for each in command.params):
        return f"{context.command_path} --listen HOST:PORT"
    if word in _DELETIONS and isinstance(command, Group) and "delete" in command.commands:
        return _example(command, "delete")
    return ""


def _example(group: Group, name: str) -> str:
    """The first example of a command."""
    examples = getattr(group.commands[name], "examples", ())
    return str(examples[0]).partition("  #")[0].rstrip() if examples else ""


def _alike(word: str, names: "list[str] | tuple[str, ...]") -> list[str]:
    def ratio(name: str) -> float:
        return SequenceMatcher(None, word.lstrip("-"), name.lstrip("-")).ratio()

    return [name for name in names if ratio(name) >= _ALIKE]
