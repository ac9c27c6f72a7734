"""What simulated clients do while garbage is collected: the production verbs on real addresses.

A call's arguments are a path, a name or a commit by its place in history.  For tests only.
"""

from collections.abc import Callable
from typing import NamedTuple

from graveler import limits
from graveler.engine import (
    branching,
    collect,
    commit,
    janitor,
    merge,
    objects,
    replay,
    repository,
    resetting,
    tagging,
    uploads,
)
from graveler.engine.collect import CollectSettings
from graveler.engine.ports import Ports
from graveler.records import AddressType, Repository
from graveler.testing.schedule import Call, World

LEAP_SECONDS = 9 * 3600
CAREFUL = CollectSettings()


class Keeper(NamedTuple):
    """What a verb is performed with."""

    ports: Ports
    repo: Repository
    world: World
    settings: CollectSettings = CAREFUL

    def now(self) -> Repository:
        """The repository's record."""
        return repository.get(self.ports, self.repo.id)


def upload(keeper: Keeper, call: Call) -> None:
    body = objects.Upload([f"{call.client} {call.start}".encode()])
    objects.upload(keeper.ports, keeper.now(), call.branch, call.arguments[0], body)


def full(keeper: Keeper, call: Call) -> None:
    """An entry by a full address, in another spelling, inside the namespace."""
    repo = keeper.now()
    body = objects.Upload([b"full"])
    made = objects.upload(keeper.ports, repo, call.branch, "tmp", body)
    address = f"{repo.namespace}//{made.address}".replace("mem://", "MEM://")
    spelled = made._replace(address=address, address_type=AddressType.FULL)
    objects.stage(keeper.ports, repo, call.branch, call.arguments[0], spelled)
    objects.delete(keeper.ports, repo, call.branch, "tmp")


def link(keeper: Keeper, call: Call) -> None:
    repo, path = keeper.now(), call.arguments[0]
    address = uploads.hand_out(keeper.ports, repo, call.branch, path)
    keeper.ports.blocks.put(address, [b"linked"])
    uploads.link(keeper.ports, repo, call.branch, path, uploads.Link(address, "linked", 6))


def describe(keeper: Keeper, call: Call) -> None:
    objects.set_user_metadata(
        keeper.ports, keeper.now(), call.branch, call.arguments[0], {"step": str(call.start)}
    )


def copy(keeper: Keeper, call: Call) -> None:
    source = objects.Source(call.arguments[1], call.arguments[0])
    objects.copy(keeper.ports, keeper.now(), call.branch, call.arguments[0], source)


def delete(keeper: Keeper, call: Call) -> None:
    objects.delete(keeper.ports, keeper.now(), call.branch, call.arguments[0])


def commit_(keeper: Keeper, call: Call) -> None:
    request = commit.CommitRequest("commit", "sim", created_ns=call.arguments[2])
    commit.commit(keeper.ports, keeper.now(), call.branch, request)


def commit_metarange(keeper: Keeper, call: Call) -> None:
    request = commit.CommitRequest("given", "sim", source_metarange=call.arguments[3])
    commit.commit(keeper.ports, keeper.now(), call.branch, request)


def merge_(keeper: Keeper, call: Call) -> None:
    request = merge.MergeRequest("sim", strategy="source-wins", allow_empty=True)
    merge.merge(keeper.ports, keeper.now(), call.arguments[1], call.branch, request)


def revert(keeper: Keeper, call: Call) -> None:
    request = replay.ReplayRequest("sim", allow_empty=True)
    replay.revert(keeper.ports, keeper.now(), call.branch, call.arguments[1], request)


def pick(keeper: Keeper, call: Call) -> None:
    request = replay.ReplayRequest("sim", allow_empty=True)
    replay.cherry_pick(keeper.ports, keeper.now(), call.branch, call.arguments[1], request)


def hard(keeper: Keeper, call: Call) -> None:
    resetting.hard_reset(keeper.ports, keeper.now(), call.branch, call.arguments[1])


def reset(keeper: Keeper, call: Call) -> None:
    resetting.reset(keeper.ports, keeper.now(), call.branch)


def reset_path(keeper: Keeper, call: Call) -> None:
    resetting.reset_path(keeper.ports, keeper.now(), call.branch, call.arguments[0])


def create(keeper: Keeper, call: Call) -> None:
    branching.create_branch(keeper.ports, keeper.now(), call.branch, call.arguments[1])


def drop(keeper: Keeper, call: Call) -> None:
    branching.delete_branch(keeper.ports, keeper.now(), call.branch)


def tag(keeper: Keeper, call: Call) -> None:
    tagging.create_tag(keeper.ports, keeper.now(), f"t{call.start}", call.arguments[1])


def collect_(keeper: Keeper, call: Call) -> collect.Collected:
    return collect.collect(keeper.ports, keeper.repo, keeper.settings, delete=True)


def sweep(keeper: Keeper, call: Call) -> None:
    janitor.sweep(keeper.ports, keeper.repo)


def leap(keeper: Keeper, call: Call) -> None:
    """Hours pass; what was on its way arrives before."""
    keeper.world.pause()
    while keeper.world.late:
        keeper.world.late.pop(0)()
    keeper.world.jumped_ns += LEAP_SECONDS * limits.SECOND_NS


VERBS: dict[str, Callable[[Keeper, Call], object]] = {
    "upload": upload,
    "full": full,
    "link": link,
    "describe": describe,
    "copy": copy,
    "delete": delete,
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
