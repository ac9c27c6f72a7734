"""What simulated clients call: the production verbs, each with the arguments of a `Call`.

Results are values, contents (path to value) or commit ids; GONE if a name does not exist.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from graveler.block.adapter import CREATE, Update
from graveler.core.errors import NotFound, Refused
from graveler.core.records import Entry, PullState, Repository
from graveler.engine import janitor, names, protection, pulls
from graveler.engine.commits import commit, merge
from graveler.engine.commits import reset as resetting
from graveler.engine.names import PageQuery
from graveler.engine.objects import copies
from graveler.engine.objects import read as reads
from graveler.engine.objects import write as writes
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.pulls import PullChanges
from graveler.engine.repositories import repository
from simulator.ports import VETOED
from simulator.schedule import Call
from simulator.stage import GONE, NO_BRANCH, Stage, entry, value_of
from simulator.verbs.arrivals import ARRIVAL_VERBS
from simulator.verbs.landings import LANDING_VERBS
from simulator.verbs.uploads import UPLOAD_VERBS

PROPOSED = "i/c"  # the path that commits on the source of the pull request change
Names = dict[str, str]
_CLOSED, _OPEN = PullChanges(state=PullState.CLOSED), PullChanges(state=PullState.OPEN)
_SIDES: dict[str, merge.Side] = {"": "dest", "m": "source"}  # what changed is m1 and m2
_MERGE = merge.MergeRequest("sim", resolutions=_SIDES, allow_empty=True)
_SQUASH = merge.MergeRequest("sim", strategy="source-wins", squash=True, allow_empty=True)


class Client(NamedTuple):
    """What a verb needs to run."""

    ports: Ports
    stage: Stage
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)


def _staged(call: Call) -> tuple[str, Entry]:
    key, value = call.arguments
    return key, entry(value)


def delete_many(client: Client, call: Call) -> dict[str, bool]:
    """Delete several paths; return those that could not be deleted, and whether by a rule."""
    failed = writes.delete_many(client.opened, call.branch, call.arguments)
    return {each.path: isinstance(each.error, Refused) for each in failed}


def replace_only(client: Client, call: Call) -> str:
    """Read the value of a path, and replace it only while the path still has it; return it."""
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


def _commit(client: Client, branch: str, message: str, *, allow_empty: bool = False) -> str:
    request = commit.CommitRequest(message, "sim", allow_empty=allow_empty)
    return commit.commit(client.opened, branch, request).id


def advance(client: Client, call: Call) -> str:
    """Commit on the source of the pull request."""
    writes.stage(client.opened, "other", PROPOSED, entry(call.arguments[1]))
    return _commit(client, "other", "more")


def commit_named(stage: Stage, value: str) -> str:
    """The commit on which a call with this value puts a tag."""
    choices = (stage.base, stage.other, stage.root)
    return choices[int(value.rpartition("-")[2]) % len(choices)]


def tag_of(client: Client, call: Call) -> str | None:
    try:
        return names.get_tag(client.opened, call.arguments[0])
    except NotFound:
        return GONE


def tags(client: Client, call: Call) -> Names:
    """All tags, read in pages of one."""
    found: Names = {}
    after, more = "", True
    while more:
        page, more = names.list_tags(client.opened, PageQuery("", after, 1))
        for name, id in page:
            found[name], after = id, name
    return found


VERBS: dict[str, Callable[[Any, Call], Any]] = {
    # objects
    "write": lambda c, call: writes.stage(c.opened, call.branch, *_staged(call)),
    "delete": lambda c, call: writes.delete(c.opened, call.branch, call.arguments[0]),
    "delete_many": delete_many,
    "note": lambda c, call: copies.set_user_metadata(
        c.opened, call.branch, call.arguments[0], {"n": call.arguments[1]}
    ),
    "create_only": lambda c, call: writes.stage(c.opened, call.branch, *_staged(call), CREATE),
    "replace_only": replace_only,
    "read": read,
    "list": list_all,
    # commits, heads
    "commit": lambda c, call: _commit(c, call.branch, "commit"),
    "commit_empty": lambda c, call: _commit(c, call.branch, "empty", allow_empty=True),
    # hooks veto it, unless another commit serves the call too
    "commit_vetoed": lambda c, call: _commit(c, call.branch, VETOED),
    "merge": lambda c, call: merge.merge(c.opened, c.stage.other, call.branch, _MERGE),
    "squash": lambda c, call: merge.merge(c.opened, c.stage.other, call.branch, _SQUASH),
    "hard": lambda c, call: resetting.hard_reset(c.opened, call.branch, c.stage.base),
    "reset": lambda c, call: resetting.reset(c.opened, call.branch),
    "prefix": lambda c, call: resetting.reset_prefix(c.opened, call.branch, call.arguments[0]),
    "reset_path": lambda c, call: resetting.reset_path(c.opened, call.branch, call.arguments[0]),
    "drop": lambda c, call: names.delete_branch(c.opened, call.branch),
    "create": lambda c, call: names.create_branch(c.opened, call.branch, c.stage.base),
    "sweep": lambda c, _: janitor.sweep(c.opened),
    # protection of the branch alone, pull requests
    "protect": lambda c, call: protection.set_rules(c.opened, [call.branch]),
    "unprotect": lambda c, _: protection.set_rules(c.opened, []),
    "pull_merge": lambda c, _: pulls.merge(c.opened, c.stage.pull, "sim").id,
    "pull_close": lambda c, _: pulls.update(c.opened, c.stage.pull, _CLOSED),
    "pull_open": lambda c, _: pulls.update(c.opened, c.stage.pull, _OPEN),
    "advance": advance,
    # tags, pairs of the repository's metadata
    "tag": lambda c, call: names.create_tag(
        c.opened, call.arguments[0], commit_named(c.stage, call.arguments[1])
    ),
    "untag": lambda c, call: names.delete_tag(c.opened, call.arguments[0]),
    "tag_of": tag_of,
    "tags": tags,
    "pair": lambda c, call: repository.set_metadata(c.opened, dict([call.arguments])),
    "unpair": lambda c, call: repository.delete_metadata(c.opened, [call.arguments[0]]),
    "pairs": lambda c, _: repository.metadata(c.opened),
    **LANDING_VERBS,
    **ARRIVAL_VERBS,
    **UPLOAD_VERBS,
}
