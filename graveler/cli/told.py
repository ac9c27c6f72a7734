"""Whether the sample lake of `graveler demo` has been told already.  For demo.py."""

from graveler.cli.sample import REPOSITORY, SAMPLES
from graveler.engine.commits import log
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.errors import Conflict, NotFound


def told(ports: Ports) -> bool:
    """Whether an earlier run came to the end: something was merged into the default branch.  Raises
    `Conflict` for a repository of that name that is somebody's own."""
    try:
        repo = repository.get(ports, REPOSITORY)
    except NotFound:
        return False
    if not repo.namespace.startswith(SAMPLES):
        raise Conflict(
            f"the store has a repository {REPOSITORY} of your own, which the sample would change; "
            "choose another store"
        )
    return bool(log.get_commit(ports, repo, repo.default_branch).commit.parents)
