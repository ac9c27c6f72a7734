"""A round over all repositories: jobs whose worker was silent too long are handed on.

A worker that dies is replaced when its message is delivered again, or when somebody asks after the
job; this round is for jobs that nobody asks after and whose message is late.  For the functions.
"""

from contextlib import suppress

from graveler.engine.ports import Ports
from graveler.engine.upkeep.rounds import in_turn
from graveler.errors import GravelerError
from graveler.jobs.handover import Desk, revive_silent
from graveler.jobs.queue import Queue


def revive_everywhere(ports: Ports, queue: Queue, seconds: float) -> int:
    """Hand on what is silent; how many jobs.  No repository is begun after `seconds`; each round
    begins at another one, so that none waits for ever.

    Errors of one repository are passed over, those of the list are raised.  Cost: the list of
    repositories, and `revive_silent` for each.
    """
    end = ports.clock.steady_seconds() + seconds
    count = 0
    for repo in in_turn(ports):
        if ports.clock.steady_seconds() >= end:
            break
        with suppress(GravelerError):
            count += revive_silent(Desk(ports, repo, queue))
    return count
