"""A round over all repositories that enqueues again the jobs whose worker has gone silent.

If a worker dies, the redelivery of its message or the next client that asks for the job replaces
it.  This round is for jobs that no client asks for and whose message is late.
"""

from contextlib import suppress

from graveler.engine.janitor import in_turn
from graveler.engine.ports import Ports
from graveler.errors import GravelerError
from graveler.jobs.handover import Scheduler, revive_silent
from graveler.jobs.queue import Queue


def revive_everywhere(ports: Ports, queue: Queue, seconds: float) -> int:
    """Enqueue every silent job again; returns how many jobs.

    No repository is begun after `seconds`.  Each round begins at a random repository, so that
    every repository is reached in time.

    Errors of one repository are ignored; errors of the list of repositories are raised.  Cost: the
    list of repositories, and `revive_silent` for each.
    """
    end = ports.clock.steady_seconds() + seconds
    count = 0
    for repo in in_turn(ports):
        if ports.clock.steady_seconds() >= end:
            break
        with suppress(GravelerError):
            count += revive_silent(Scheduler(repo, queue))
    return count
