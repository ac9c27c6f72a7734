"""What simulated clients call: the production verbs, each with the arguments of a `Call`.

Results are values, contents (path to value) or commit ids.  For tests only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from graveler.block.adapter import CREATE, Update
from graveler.engine import janitor, names
from graveler.engine.commits import commit, merge
from graveler.engine.commits import reset as resetting
from graveler.engine.objects import read as reads
from graveler.engine.objects import write as writes
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.errors import NotFound
from graveler.records import Entry, Repository
from simulator.lanes import VETOED
from simulator.schedule import Call
from simulator.stage import GONE, NO_BRANCH, Stage, entry, value_of
from simulator.verbs.more import MORE_VERBS


class Client(NamedTuple):
    """What a verb needs to run."""

    ports: Ports
    stage: Stage
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)


def write(client: Client, call: Call) -> None:
    key, value = call.arguments
    writes.stage(client.opened, call.branch, key, entry(value))


def delete(client: Client, call: Call) -> None:
    writes.delete(client.opened, call.branch, call.arguments[0])


def create_only(client: Client, call: Call) -> None:
    key, value = call.arguments
    writes.stage(client.opened, call.branch, key, entry(value), CREATE)


def replace_only(client: Client, call: Call) -> str:
    """Read the value of a path, and replace it only while the path still has it.

    Returns the value that was replaced."""
    key, value = call.arguments
    before = reads.stat(client.opened, call.branch, key).checksum
    writes.stage(client.opened, call.branch, key, entry(value), Update(before))
    return before


def read(client: Client, call: Call) -> str | None:
    try:
        found = reads.stat(client.opened, call.branch, call.arguments[0])
    except NotFound as error:
        return GONE if str(error).startswith("path") else NO_BRANCH
    return value_of(found)


def list_all(client: Client, call: Call) -> Any:
    try:
        page = reads.list_objects(client.opened, call.branch, reads.ListQuery())
    except NotFound:
        return NO_BRANCH
    return {path: value_of(line) for path, line in page.lines if isinstance(line, Entry)}


def commit_(client: Client, call: Call) -> str:
    request = commit.CommitRequest("commit", "sim")
    return commit.commit(client.opened, call.branch, request).id


def commit_empty(client: Client, call: Call) -> str:
    request = commit.CommitRequest("empty", "sim", allow_empty=True)
    return commit.commit(client.opened, call.branch, request).id


def commit_vetoed(client: Client, call: Call) -> str:
    """A commit that hooks veto, unless another one serves the call too."""
    return commit.commit(client.opened, call.branch, commit.CommitRequest(VETOED, "sim")).id


def merge_(client: Client, call: Call) -> str:
    sides: dict[str, merge.Side] = {"": "dest", "m": "source"}  # what changed is m1 and m2
    request = merge.MergeRequest("sim", resolutions=sides, allow_empty=True)
    return merge.merge(client.opened, client.stage.other, call.branch, request)


def squash(client: Client, call: Call) -> str:
    request = merge.MergeRequest("sim", strategy="source-wins", squash=True, allow_empty=True)
    return merge.merge(client.opened, client.stage.other, call.branch, request)


def hard(client: Client, call: Call) -> None:
    resetting.hard_reset(client.opened, call.branch, client.stage.base)


def reset(client: Client, call: Call) -> None:
    resetting.reset(client.opened, call.branch)


def reset_prefix(client: Client, call: Call) -> None:
    resetting.reset_prefix(client.opened, call.branch, call.arguments[0])


def reset_path(client: Client, call: Call) -> None:
    resetting.reset_path(client.opened, call.branch, call.arguments[0])


def drop(client: Client, call: Call) -> None:
    names.delete_branch(client.opened, call.branch)


def create(client: Client, call: Call) -> None:
    names.create_branch(client.opened, call.branch, client.stage.base)


def sweep(client: Client, call: Call) -> None:
    janitor.sweep(client.opened)


VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "write": write,
    "delete": delete,
    "create_only": create_only,
    "replace_only": replace_only,
    "read": read,
    "list": list_all,
    "commit": commit_,
    "commit_empty": commit_empty,
    "commit_vetoed": commit_vetoed,
    "merge": merge_,
    "squash": squash,
    "hard": hard,
    "reset": reset,
    "prefix": reset_prefix,
    "reset_path": reset_path,
    "drop": drop,
    "create": create,
    "sweep": sweep,
    **MORE_VERBS,
}
