"""The lane of a branch: verbs of this process that move its head take turns.

If two such verbs work at once, one loses the swap of the branch record and does its work again.  So
in one process they take turns (graveler/lanes.py), and commits that wait for the same turn share
one commit (docs/explanation/protocol.md, section 4b).  Between processes the swap alone decides.
Used by commit.py and land.py.
"""

from typing import TypeVar

from graveler.engine.ports import Deadline, OpenRepository
from graveler.ids import BranchId
from graveler.lanes import Patience, Work

T = TypeVar("T")


def in_lane(
    repo: OpenRepository,
    branch: BranchId,
    deadline: Deadline,
    work: Work[T],
    *,
    shares: bool = False,
) -> T:
    """The result of `work`, which begins when the verbs before it have ended.

    It begins earlier, beside them, if one of them takes longer than `lane_turn_seconds_max`, or if
    the deadline ends; so `work` checks the deadline first.  With `shares`, the result may be that
    of another call with `shares`, whose work began after this call came.  Errors: those of `work`.
    Cost: no request.
    """
    patience = Patience(repo.settings.lane_turn_seconds_max, deadline.remaining_seconds)
    return repo.lanes.run((repo.record.uid, branch), work, patience, shares=shares)
