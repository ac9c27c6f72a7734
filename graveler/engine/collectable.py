"""Whose files may be collected, and how a repository says that they are.

For collect.py, condemning.py and verify.py.
"""

from dataclasses import replace

from graveler import limits
from graveler.block import address
from graveler.engine.ports import Ports
from graveler.errors import Contended, NotFound, Refused
from graveler.records import ABSENT, Repository
from graveler.refs import repositories

_ROUNDS = 20


def checked(ports: Ports, repo: Repository) -> Repository:
    """The repository as it is now.  Raises `NotFound`; `Refused` unless it has claimed its
    namespace and no other one reads it: stores of earlier versions may have read-only or bare
    repositories on the files of another one; `Unsupported` where the storage keeps no versions.

    Cost: 2 KV requests, 1 more for each 1,000 repositories, a read, and `check_exact`."""
    repo = repositories.get(ports.kv, repo.id)
    check_own(ports, repo)
    check_exact(ports, repo)
    return repo


def check_exact(ports: Ports, repo: Repository) -> None:
    """Raises `Unsupported`, which names the remedy, unless files can be deleted exactly as they
    were listed: what is written again in between must stay, and a range has the same bytes then.

    Cost: a request to the storage."""
    ports.blocks.check_versions(address.marker(repo.namespace))


def check_own(ports: Ports, repo: Repository) -> None:
    """Raises `Refused`, which names the remedy, unless the repository has claimed its namespace and
    no other live one lies on it.

    Cost: a KV request for each 1,000 repositories, and a read."""
    claim = f"{repo.id} {repo.uid}\n".encode()
    try:
        found = ports.blocks.read(address.marker(repo.namespace), 0, len(claim) + 1)
    except NotFound:
        found = b""
    if found != claim:
        raise Refused(
            f"not collected: its namespace is not its own: repository={repo.id}; import its "
            "objects into a repository with a namespace of its own, and delete this one"
        )
    after, more = "", True
    while more:
        page, more = repositories.list_page(ports.kv, "", "", after, limits.page_count_max)
        for other in page:
            after = other.id
            if other.id != repo.id and address.overlaps(other.namespace, repo.namespace):
                raise Refused(
                    f"not collected: {other.id} has its files too: repository={repo.id}; import "
                    "the objects of one into a repository with a namespace of its own, and "
                    "delete it"
                )


def announce(ports: Ports, repo: Repository) -> None:
    """From now on whoever uses a commit looks whether it is condemned.  To be called before marks
    are put.

    Errors: `NotFound`, `Contended`.  Cost: 1 KV request, 2 the first time."""
    for _ in range(_ROUNDS):
        seen = repositories.find(ports.kv, repo.id)
        if seen is ABSENT or seen.repository.uid != repo.uid:
            raise NotFound("repository not found")
        if seen.repository.collected:
            return
        told = replace(seen.repository, collected=True)
        done = repositories.swap(ports.kv, seen, told, ports.ids.stamp())
        ports.cache.forget_repository(repo.id)
        if done is not ABSENT:
            return
    raise Contended(f"repository record kept changing: repository={repo.id}")
