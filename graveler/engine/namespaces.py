"""Namespaces: which repositories an address, or another namespace, overlaps; who may be collected.

No two namespaces are equal or lie one below the other, because a repository reads and deletes the
files in its own.  A deleted repository holds its namespace until its purge has ended.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import NotFound, Refused
from graveler.core.records import ABSENT, Absent, Repository, RepositoryState
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.refs import lifecycle, repositories
from graveler.refs.lifecycle import Deletion, Note, notes_on

Holder = Repository | Deletion  # a live repository, or a deleted one that is not purged yet
LIVE = RepositoryState.LIVE


def holders(ports: Ports) -> Iterator[Holder]:
    """Every repository that holds its namespace: the live ones, then the deleted ones.

    A repository that is deleted meanwhile is among one of them: its deletion record is stored
    before its own record changes, and the live ones are read first.

    Cost: 1 KV request for each 1,000 repositories, and 1 for each 1,000 deletion records.
    """
    yield from repositories.every(ports.kv)
    yield from lifecycle.list_deletions(ports.kv)


def all_on(ports: Ports, namespace: str) -> Iterator[Holder | Note]:
    """Each holder whose namespace is this one, or lies above or below it; and the notes there that
    belong to no repository, because its creation runs or died.

    A repository that is deleted meanwhile is among them: its deletion record is stored before its
    own record changes, and is read second.

    Cost: that of `lifecycle.notes_on`, and 1 or 2 KV requests for each note.
    """
    for note in notes_on(ports.kv, namespace):
        stored = repositories.find(ports.kv, note.id)
        record = ABSENT if stored is ABSENT else stored.repository
        if record is not ABSENT and record.uid == note.uid and record.state is LIVE:
            yield record
            continue
        gone = lifecycle.find_deletion(ports.kv, note.id, note.uid)
        yield note if gone is ABSENT else gone


def holder_on(ports: Ports, namespace: str) -> Holder | Literal[Absent.ABSENT]:
    """A holder whose namespace is this one, or lies above or below it.  Cost: that of `all_on`."""
    found = (each for each in all_on(ports, namespace) if not isinstance(each, Note))
    return next(found, ABSENT)


def purge_due(ports: Ports, gone: Deletion) -> str:
    """When the purge of a deleted repository is due, or since when it is, as text."""
    due_ns = gone.deleted_ns + limits.collect_undo_seconds * limits.SECOND_NS
    word = "at" if ports.clock.now_ns() < due_ns else "since"
    due = datetime.fromtimestamp(due_ns // limits.SECOND_NS, UTC)
    return f"due {word} {due:%Y-%m-%dT%H:%M:%SZ}"


def overlapping(ports: Ports, namespace: str) -> Iterator[Repository]:
    """The live repositories whose namespace is this one, or lies above or below it.

    Cost: 1 KV request for each 1,000 repositories.
    """
    for repo in repositories.every(ports.kv):
        if address.overlaps(repo.namespace, namespace):
            yield repo


def spellings(ports: Ports) -> frozenset[str]:
    """The normal spellings of the namespaces of all holders: nobody else reads there.

    Cost: that of `holders`."""
    return frozenset(address.normalise(holder.namespace) for holder in holders(ports))


class Namespaces:
    """The namespaces of all live repositories, to find those that overlap, for collections and
    `verify`: these look at live repositories alone, because a purge looks at the deleted ones.

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
        for folder in (place, *_folders(place)):
            for other in self._at.get(folder, ()):
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


def collectable(repo: OpenRepository) -> OpenRepository:
    """The repository as it is now, checked that it may be collected."""
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
    no other live one overlaps it."""
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
