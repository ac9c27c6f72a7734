"""Eligibility: which repositories may be collected, and how a repository announces its collection.

Used by collect.py, cluster.py and verify.py, and by collections on Spark.
"""

from dataclasses import replace

from graveler.block import address
from graveler.engine.namespaces import Namespaces, list_namespaces
from graveler.engine.ports import OpenRepository, open_repository
from graveler.errors import Code, Contended, NotFound, Refused
from graveler.records import ABSENT
from graveler.refs.names import repositories

_ROUNDS = 20


def checked(repo: OpenRepository) -> OpenRepository:
    """The repository as it is now, checked that it may be collected.

    Errors: `NotFound`; `Refused` unless the repository has claimed its namespace and no other one
    overlaps it (stores of earlier versions may have read-only or bare repositories on the files of
    another one); `Unsupported` if the storage keeps no versions.

    Cost: 2 KV requests, 1 more for each 1,000 repositories, a read, and `check_exact`.
    """
    repo = open_repository(repo, repositories.get(repo.kv, repo.id))
    check_own(repo, list_namespaces(repo))
    check_exact(repo)
    return repo


def check_exact(repo: OpenRepository) -> None:
    """Raises `Unsupported`, which names the remedy, unless files can be deleted exactly as they
    were listed.

    A file that is written again between list and deletion must stay.  A range that is written again
    has the same bytes, so only the version tells the two apart.  Cost: a request to the storage.
    """
    repo.blocks.check_versions(address.marker(repo.namespace))


def check_own(repo: OpenRepository, everyone: Namespaces) -> None:
    """Raises `Refused`, which names the remedy, unless the repository has claimed its namespace and
    no other live one overlaps it.

    Cost: a read.
    """
    claim = f"{repo.id} {repo.record.uid}\n".encode()
    try:
        marker = repo.blocks.read(address.marker(repo.namespace), 0, len(claim) + 1)
    except NotFound:
        marker = b""
    if marker != claim:
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
        f"not collected: repository {other} shares its files: repository={id}; import "
        "the objects of one into a repository with a namespace of its own, and "
        "delete it"
    )


def announce(repo: OpenRepository) -> None:
    """Have every operation that uses a commit check whether it is condemned, from now on.  Must be
    called before marks are stored.

    Errors: `NotFound`, `Contended`.  Cost: 1 KV request, 2 the first time.
    """
    for _ in range(_ROUNDS):
        seen = repositories.find(repo.kv, repo.id)
        if seen is ABSENT or seen.repository.uid != repo.record.uid:
            raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
        if seen.repository.collected:
            return
        new = replace(seen.repository, collected=True)
        done = repositories.swap(repo.kv, seen, new, repo.ids.stamp())
        repo.cache.forget_repository(repo.id)
        if done is not ABSENT:
            return
    raise Contended(f"repository record kept changing: repository={repo.id}")
