"""What simulated clients do with objects during garbage collection, on real addresses.

A call's arguments are a path, a ref, a date and a metarange.  For tests only.
"""

from collections.abc import Callable
from typing import NamedTuple

from graveler.engine.gc.collect import CollectSettings
from graveler.engine.objects import addresses, copies, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.records import AddressType, Repository
from simulator.schedule import Call, World

CAREFUL = CollectSettings()


class Keeper(NamedTuple):
    """What a verb needs to run."""

    ports: Ports
    repo: Repository
    world: World
    settings: CollectSettings = CAREFUL
    by_steps: bool = False

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def now(self) -> OpenRepository:
        """The repository with its present record."""
        return open_repository(self.ports, repository.get(self.ports, self.repo.id))


def upload(keeper: Keeper, call: Call) -> None:
    body = write.Upload([f"{call.client} {call.start}".encode()])
    write.upload(keeper.now(), call.branch, call.arguments[0], body)


def full(keeper: Keeper, call: Call) -> None:
    """Stage an entry with a full address inside the namespace, in another spelling."""
    repo = keeper.now()
    body = write.Upload([b"full"])
    made = write.upload(repo, call.branch, "tmp", body)
    address = f"{repo.namespace}//{made.address}".replace("mem://", "MEM://")
    spelled = made._replace(address=address, address_type=AddressType.FULL)
    write.stage(repo, call.branch, call.arguments[0], spelled)
    write.delete(repo, call.branch, "tmp")


def link(keeper: Keeper, call: Call) -> None:
    repo, path = keeper.now(), call.arguments[0]
    address = addresses.hand_out(repo, call.branch, path)
    keeper.ports.blocks.put(address, [b"linked"])
    addresses.link(repo, call.branch, path, addresses.Link(address, "linked", 6))


def describe(keeper: Keeper, call: Call) -> None:
    copies.set_user_metadata(
        keeper.now(),
        call.branch,
        call.arguments[0],
        {"step": str(call.start)},
    )


def copy(keeper: Keeper, call: Call) -> None:
    source = copies.Source(call.arguments[1], call.arguments[0])
    copies.copy(keeper.now(), call.branch, call.arguments[0], source)


def delete(keeper: Keeper, call: Call) -> None:
    write.delete(keeper.now(), call.branch, call.arguments[0])


OBJECT_VERBS: dict[str, Callable[[Keeper, Call], object]] = {
    "upload": upload,
    "full": full,
    "link": link,
    "describe": describe,
    "copy": copy,
    "delete": delete,
}
