"""Tells whether the story of `graveler demo` was already played in a store.  For demo.py."""

from graveler.cli.sample import REPOSITORY, SAMPLES
from graveler.engine.commits import log
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.errors import Conflict, NotFound


def told(ports: Ports) -> bool:
    """Whether an earlier run reached the end of the story: the head of the default branch is not
    the first commit, so a merge has landed.  Raises `Conflict` if the user made a repository of
    that name."""
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
