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


class Client(NamedTuple):
    """What a verb needs to run."""

    ports: Ports
    stage: Stage
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)


# ---- objects -------------------------------------------------------------------------------------


def write(client: Client, call: Call) -> None:
    key, value = call.arguments
    writes.stage(client.opened, call.branch, key, entry(value))


def delete(client: Client, call: Call) -> None:
    writes.delete(client.opened, call.branch, call.arguments[0])


def delete_many(client: Client, call: Call) -> dict[str, bool]:
    """Delete several paths; return those that could not be deleted, and whether by a rule."""
    failed = writes.delete_many(client.opened, call.branch, call.arguments)
    return {each.path: isinstance(each.error, Refused) for each in failed}


def note(client: Client, call: Call) -> None:
    """Set user metadata; the rest of the entry stays."""
    key, number = call.arguments
    copies.set_user_metadata(client.opened, call.branch, key, {"n": number})


def create_only(client: Client, call: Call) -> None:
    key, value = call.arguments
    writes.stage(client.opened, call.branch, key, entry(value), CREATE)


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


# ---- commits, heads ------------------------------------------------------------------------------


def _commit(client: Client, branch: str, message: str, *, allow_empty: bool = False) -> str:
    request = commit.CommitRequest(message, "sim", allow_empty=allow_empty)
    return commit.commit(client.opened, branch, request).id


def commit_(client: Client, call: Call) -> str:
    return _commit(client, call.branch, "commit")


def commit_empty(client: Client, call: Call) -> str:
    return _commit(client, call.branch, "empty", allow_empty=True)


def commit_vetoed(client: Client, call: Call) -> str:
    """A commit that hooks veto, unless another one serves the call too."""
    return _commit(client, call.branch, VETOED)


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


# ---- protection, pull requests -------------------------------------------------------------------


def protect(client: Client, call: Call) -> None:
    """Protect the branch, and nothing else."""
    protection.set_rules(client.opened, [call.branch])


def unprotect(client: Client, call: Call) -> None:
    protection.set_rules(client.opened, [])


def pull_merge(client: Client, call: Call) -> str:
    return pulls.merge(client.opened, client.stage.pull, "sim").id


def pull_close(client: Client, call: Call) -> None:
    pulls.update(client.opened, client.stage.pull, PullChanges(state=PullState.CLOSED))


def pull_open(client: Client, call: Call) -> None:
    pulls.update(client.opened, client.stage.pull, PullChanges(state=PullState.OPEN))


def advance(client: Client, call: Call) -> str:
    """Commit on the source of the pull request."""
    writes.stage(client.opened, "other", PROPOSED, entry(call.arguments[1]))
    return _commit(client, "other", "more")


# ---- tags, pairs of a repository's metadata ------------------------------------------------------


def commit_named(stage: Stage, value: str) -> str:
    """The commit on which a call with this value puts a tag."""
    choices = (stage.base, stage.other, stage.root)
    return choices[int(value.rpartition("-")[2]) % len(choices)]


def tag(client: Client, call: Call) -> str:
    name, value = call.arguments
    return names.create_tag(client.opened, name, commit_named(client.stage, value))


def untag(client: Client, call: Call) -> None:
    names.delete_tag(client.opened, call.arguments[0])


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


def pair(client: Client, call: Call) -> None:
    name, value = call.arguments
    repository.set_metadata(client.opened, {name: value})


def unpair(client: Client, call: Call) -> None:
    repository.delete_metadata(client.opened, [call.arguments[0]])


def pairs(client: Client, call: Call) -> Names:
    return repository.metadata(client.opened)


VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "write": write,
    "delete": delete,
    "delete_many": delete_many,
    "note": note,
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
    "protect": protect,
    "unprotect": unprotect,
    "pull_merge": pull_merge,
    "pull_close": pull_close,
    "pull_open": pull_open,
    "advance": advance,
    "tag": tag,
    "untag": untag,
    "tag_of": tag_of,
    "tags": tags,
    "pair": pair,
    "unpair": unpair,
    "pairs": pairs,
    **LANDING_VERBS,
    **ARRIVAL_VERBS,
    **UPLOAD_VERBS,
}
