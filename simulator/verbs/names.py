"""Names that simulated clients create and delete: tags, and pairs of a repository's metadata.

For `calls.py`.  Results are commit ids or values; GONE if the name does not exist.
"""

from collections.abc import Callable
from typing import Any

from graveler.engine import names
from graveler.engine.names import PageQuery
from graveler.engine.repositories import repository
from graveler.errors import NotFound
from simulator.schedule import Call
from simulator.stage import GONE, Stage

Names = dict[str, str]


def commit_named(stage: Stage, value: str) -> str:
    """The commit on which a call with this value puts a tag."""
    choices = (stage.base, stage.other, stage.root)
    return choices[int(value.rpartition("-")[2]) % len(choices)]


def tag(client: Any, call: Call) -> str:
    name, value = call.arguments
    commit = commit_named(client.stage, value)
    return names.create_tag(client.opened, name, commit)


def untag(client: Any, call: Call) -> None:
    names.delete_tag(client.opened, call.arguments[0])


def tag_of(client: Any, call: Call) -> str | None:
    try:
        return names.get_tag(client.opened, call.arguments[0])
    except NotFound:
        return GONE


def tags(client: Any, call: Call) -> Names:
    """All tags, read in pages of one."""
    found: Names = {}
    after, more = "", True
    while more:
        page, more = names.list_tags(client.opened, PageQuery("", after, 1))
        for name, commit in page:
            found[name], after = commit, name
    return found


def pair(client: Any, call: Call) -> None:
    name, value = call.arguments
    repository.set_metadata(client.opened, {name: value})


def unpair(client: Any, call: Call) -> None:
    repository.delete_metadata(client.opened, [call.arguments[0]])


def pairs(client: Any, call: Call) -> Names:
    return repository.metadata(client.opened)


NAME_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "tag": tag,
    "untag": untag,
    "tag_of": tag_of,
    "tags": tags,
    "pair": pair,
    "unpair": unpair,
    "pairs": pairs,
}
