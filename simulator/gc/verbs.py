"""What simulated clients do with commits and refs during garbage collection; the collector; time.

For tests only.
"""

from collections.abc import Callable

from graveler import limits
from graveler.engine import janitor, names
from graveler.engine.commits import commit, merge
from graveler.engine.commits import reset as resetting
from graveler.records import ABSENT
from simulator.gc.objects import OBJECT_VERBS, Keeper
from simulator.gc.steps import collect_
from simulator.schedule import Call

LEAP_SECONDS = 9 * 3600


def commit_(keeper: Keeper, call: Call) -> None:
    request = commit.CommitRequest("commit", "sim", created_ns=call.arguments[2] or ABSENT)
    commit.commit(keeper.now(), call.branch, request)


def commit_metarange(keeper: Keeper, call: Call) -> None:
    request = commit.CommitRequest("given", "sim", source_metarange=call.arguments[3])
    commit.commit(keeper.now(), call.branch, request)


def merge_(keeper: Keeper, call: Call) -> None:
    request = merge.MergeRequest("sim", strategy="source-wins", allow_empty=True)
    merge.merge(keeper.now(), call.arguments[1], call.branch, request)


def revert(keeper: Keeper, call: Call) -> None:
    request = merge.ReplayRequest("sim", allow_empty=True)
    merge.revert(keeper.now(), call.branch, call.arguments[1], request)


def pick(keeper: Keeper, call: Call) -> None:
    request = merge.ReplayRequest("sim", allow_empty=True)
    merge.cherry_pick(keeper.now(), call.branch, call.arguments[1], request)


def hard(keeper: Keeper, call: Call) -> None:
    resetting.hard_reset(keeper.now(), call.branch, call.arguments[1])


def reset(keeper: Keeper, call: Call) -> None:
    resetting.reset(keeper.now(), call.branch)


def reset_path(keeper: Keeper, call: Call) -> None:
    resetting.reset_path(keeper.now(), call.branch, call.arguments[0])


def create(keeper: Keeper, call: Call) -> None:
    names.create_branch(keeper.now(), call.branch, call.arguments[1])


def drop(keeper: Keeper, call: Call) -> None:
    names.delete_branch(keeper.now(), call.branch)


def tag(keeper: Keeper, call: Call) -> None:
    names.create_tag(keeper.now(), f"t{call.start}", call.arguments[1])


def sweep(keeper: Keeper, call: Call) -> None:
    janitor.sweep(keeper.opened)


def leap(keeper: Keeper, call: Call) -> None:
    """Let hours pass; delayed writes arrive before."""
    keeper.world.pause()
    while keeper.world.late:
        keeper.world.late.pop(0)()
    keeper.world.jumped_ns += LEAP_SECONDS * limits.SECOND_NS


VERBS: dict[str, Callable[[Keeper, Call], object]] = {
    **OBJECT_VERBS,
    "commit": commit_,
    "commit_metarange": commit_metarange,
    "merge": merge_,
    "revert": revert,
    "pick": pick,
    "hard": hard,
    "reset": reset,
    "reset_path": reset_path,
    "create": create,
    "drop": drop,
    "tag": tag,
    "collect": collect_,
    "sweep": sweep,
    "leap": leap,
}
