"""Eligibility: which repositories may be collected, and how a repository announces its collection.

Used by collect.py, cluster.py and verify.py, and by collections on Spark.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from graveler.block import address
from graveler.engine.ports import Ports
from graveler.errors import Contended, NotFound, Refused
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.names import repositories

_ROUNDS = 20


class Namespaces:
    """The namespaces of all live repositories, to find those that overlap.

    Building it takes time in proportion to their number; the time of `other_on` does not depend on
    it.
    """

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        """`named`: pairs of repository id and namespace."""
        self._at: dict[str, list[str]] = {}
        self._below: dict[str, str] = {}
        for id, namespace in named:
            place = address.normalise(namespace)
            self._at.setdefault(place, []).append(id)
            self._below |= dict.fromkeys(_folders(place), id)

    def other_on(self, id: str, namespace: str) -> str | Literal[Absent.ABSENT]:
        """The id of another repository whose namespace is this one, or lies above or below it."""
        place = address.normalise(namespace)
        for each in (place, *_folders(place)):
            for other in self._at.get(each, ()):
                if other != id:
                    return other
        return self._below.get(place, ABSENT)


def _folders(place: str) -> Iterator[str]:
    """All folders above a namespace."""
    while "/" in place:
        place = place.rpartition("/")[0]
        yield place


def list_namespaces(ports: Ports) -> Namespaces:
    """The namespaces of all live repositories.  1 KV request for each 1,000."""
    return Namespaces((repo.id, repo.namespace) for repo in repositories.every(ports.kv))


def checked(ports: Ports, repo: Repository) -> Repository:
    """The repository as it is now, checked that it may be collected.

    Errors: `NotFound`; `Refused` unless the repository has claimed its namespace and no other one
    overlaps it (stores of earlier versions may have read-only or bare repositories on the files of
    another one); `Unsupported` if the storage keeps no versions.

    Cost: 2 KV requests, 1 more for each 1,000 repositories, a read, and `check_exact`.
    """
    repo = repositories.get(ports.kv, repo.id)
    check_own(ports, repo, list_namespaces(ports))
    check_exact(ports, repo)
    return repo


def check_exact(ports: Ports, repo: Repository) -> None:
    """Raises `Unsupported`, which names the remedy, unless files can be deleted exactly as they
    were listed.

    A file that is written again between list and deletion must stay.  A range that is written again
    has the same bytes, so only the version tells the two apart.  Cost: a request to the storage.
    """
    ports.blocks.check_versions(address.marker(repo.namespace))


def check_own(ports: Ports, repo: Repository, everyone: Namespaces) -> None:
    """Raises `Refused`, which names the remedy, unless the repository has claimed its namespace and
    no other live one overlaps it.

    Cost: a read.
    """
    claim = f"{repo.id} {repo.uid}\n".encode()
    try:
        found = ports.blocks.read(address.marker(repo.namespace), 0, len(claim) + 1)
    except NotFound:
        found = b""
    if found != claim:
        raise Refused(not_its_own(repo.id))
    other = everyone.other_on(repo.id, repo.namespace)
    if other is not ABSENT:
        raise Refused(shared(repo.id, other))


def not_its_own(id: str) -> str:
    """The error text for a repository without a claim, with the remedy."""
    return (
        f"not collected: its namespace is not its own: repository={id}; import its "
        "objects into a repository with a namespace of its own, and delete this one"
    )


def shared(id: str, other: str) -> str:
    """The error text for a repository whose namespace overlaps another one's, with the remedy."""
    return (
        f"not collected: {other} has its files too: repository={id}; import "
        "the objects of one into a repository with a namespace of its own, and "
        "delete it"
    )


def announce(ports: Ports, repo: Repository) -> None:
    """Have every operation that uses a commit check whether it is condemned, from now on.  Must be
    called before marks are stored.

    Errors: `NotFound`, `Contended`.  Cost: 1 KV request, 2 the first time.
    """
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
