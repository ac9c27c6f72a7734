"""Branch protection and pull requests, as simulated clients use them.  For `calls.py`."""

from collections.abc import Callable
from typing import Any

from graveler.engine import protection, pulls
from graveler.engine.commits import commit
from graveler.engine.objects import write
from graveler.engine.pulls import PullChanges
from graveler.records import PullState
from simulator.schedule import Call
from simulator.stage import entry

PROPOSED = "i/c"  # the path that commits on the source of the pull request change


def protect(client: Any, call: Call) -> None:
    """Protect the branch, and nothing else."""
    protection.set_rules(client.opened, [call.branch])


def unprotect(client: Any, call: Call) -> None:
    protection.set_rules(client.opened, [])


def pull_merge(client: Any, call: Call) -> str:
    return pulls.merge(client.opened, client.stage.pull, "sim").id


def pull_close(client: Any, call: Call) -> None:
    _put(client, PullState.CLOSED)


def pull_open(client: Any, call: Call) -> None:
    _put(client, PullState.OPEN)


def _put(client: Any, state: PullState) -> None:
    pulls.update(client.opened, client.stage.pull, PullChanges(state=state))


def advance(client: Any, call: Call) -> str:
    """Commit on the source of the pull request."""
    write.stage(client.opened, "other", PROPOSED, entry(call.arguments[1]))
    return commit.commit(client.opened, "other", commit.CommitRequest("more", "sim")).id


GATE_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "protect": protect,
    "unprotect": unprotect,
    "pull_merge": pull_merge,
    "pull_close": pull_close,
    "pull_open": pull_open,
    "advance": advance,
}
