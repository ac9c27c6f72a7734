"""The lanes of simulated processes, and hooks that veto: what shared commits need.

The clients of one process share its lanes, with the code of the product (graveler/lanes.py).  A
client that waits makes steps, so that the scheduler chooses when it looks up; after some steps it
gives a turn up.  A kill ends a process with all its clients.  For tests only.
"""

from contextlib import nullcontext

from graveler.engine.commits.heads import commit_of
from graveler.engine.hooks import COMMIT, HookEvent, NoHooks, Pending
from graveler.engine.ports import Deadline, OpenRepository
from graveler.errors import HookFailed
from graveler.lanes import TurnLanes
from simulator.schedule import World

VETOED = "vetoed"  # the message of the commits that hooks veto
_STEPS = 24  # of one wait


class SteppedGate:
    """A `Gate` at which a client makes steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_open = False

    def wait(self, seconds: float) -> None:
        for _ in range(_STEPS):
            if self._is_open:
                return
            self._world.pause()

    def open(self) -> None:
        self._is_open = True


def stepped_lanes(world: World) -> TurnLanes:
    """The lanes of one process of the world."""
    return TurnLanes(nullcontext(), lambda: SteppedGate(world))


class VetoingHooks(NoHooks):
    """Hooks of a repository that refuses the commits with the message `VETOED`."""

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        if event.kind == COMMIT and commit_of(repo, event.commit).message == VETOED:
            raise HookFailed("vetoed")
        return Pending()
