"""Purge: removes the files and rows of a deleted repository after the undo period.

    parts of uploads ──► files ──► claim ──► rows of staging and of events ──► other rows ──► record
Files go only while the claim names this repository and no other one overlaps the namespace, and
only those that the repository wrote during its life.  Rows of tokens go before the records that
name the tokens.  Every step may be repeated, and any number of purges may run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Literal

from graveler.block import address
from graveler.block.adapter import ListedObject, Target
from graveler.block.address import FILES, OBJECTS, is_ours
from graveler.block.drivers import list_all
from graveler.core import limits
from graveler.core.errors import NotFound, Refused
from graveler.core.ids import RepositoryId, RepositoryUid
from graveler.core.records import ABSENT, Absent, RepositoryState
from graveler.engine import namespaces
from graveler.engine.gc.retention import list_refs
from graveler.engine.objects.multipart import discard
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.refs import cleanups, event_rules, keys, lifecycle, repositories, uploads
from graveler.refs.lifecycle import Deletion
from graveler.staging import area

_GoesOn = Callable[[], bool]
_LAST_WRITE_SECONDS = limits.collect_undo_seconds * 3 // 4  # every operation has ended by then


def list_due(ports: Ports, after: str = "") -> Iterator[Deletion]:
    """Deleted repositories whose undo period is over, by name, behind `after`.

    Cost: 1 KV request for each 1,000 deletion records.
    """
    due_ns = _due_ns(ports)
    return (gone for gone in lifecycle.list_deletions(ports.kv, after) if gone.deleted_ns <= due_ns)


def find_due(
    ports: Ports, id: RepositoryId, uid: RepositoryUid
) -> Deletion | Literal[Absent.ABSENT]:
    """The deletion record of a repository, or ABSENT if there is none or its undo period is not
    over.  1 KV request."""
    gone = lifecycle.find_deletion(ports.kv, id, uid)
    return ABSENT if gone is ABSENT or gone.deleted_ns > _due_ns(ports) else gone


def _due_ns(ports: Ports) -> int:
    return ports.clock.now_ns() - limits.collect_undo_seconds * limits.SECOND_NS


def purge(ports: Ports, gone: Deletion, seconds: float = inf) -> bool:
    """Remove the files and rows of a repository that is due.  Return whether nothing is left.

    The call ends soon after `seconds`.
    Errors: `Refused` if another repository overlaps the namespace, `Unsupported` if the storage
    keeps no versions of files; nothing is removed then.
    Cost: a list of the namespace, 1 deletion for each 1,000 files and for each file of jobs and
    collections, 1 block request for each upload in parts; 2 KV requests for each 1,000 rows, 1 for
    each shard of each token, 128 for each event rule, 1 for each 1,000 repositories, and 3 for the
    record and the notes.
    """
    end = ports.clock.steady_seconds() + seconds

    def goes_on() -> bool:
        return ports.clock.steady_seconds() < end

    record = repositories.find(ports.kv, gone.id)
    known = ABSENT if record is ABSENT else record.repository
    if known is not ABSENT and known.uid == gone.uid and known.state is not RepositoryState.DELETED:
        lifecycle.forget_deletion(
            ports.kv, gone
        )  # the deletion crashed before it changed the record
        return True
    if not lifecycle.deletion_stands(
        ports.kv, gone
    ):  # deleted again since it was listed: not due yet
        return True
    repo = open_repository(ports, gone.repository)
    whole = (
        _drop_uploads(repo, goes_on)
        and _drop_files(repo, gone.deleted_ns, goes_on)
        and _drop_rows(repo, goes_on)
    )
    if whole:
        if record is not ABSENT and record.repository.uid == gone.uid:
            repositories.remove(ports.kv, record)
        lifecycle.forget_deletion(ports.kv, gone)
        lifecycle.forget_namespace(ports.kv, repo.record)
    return whole


# ---- files ---------------------------------------------------------------------------------------


def _drop_files(repo: OpenRepository, deleted_ns: int, goes_on: _GoesOn) -> bool:
    """Delete the files, then the claim.  Return whether none is left.

    Returns True, and deletes nothing, if another repository owns the namespace or none claimed it.
    """
    place = address.marker(repo.namespace)
    claim = f"{repo.id} {repo.record.uid}\n".encode()
    try:
        # The head comes first: if the claim is replaced meanwhile, its version differs.
        head = repo.blocks.head(place)
        content = repo.blocks.read(place, 0, len(claim) + 1)
    except NotFound:
        return True
    if content != claim:
        return True
    _check_alone(repo)
    namespaces.check_exact(repo)
    before_ns = deleted_ns + _LAST_WRITE_SECONDS * limits.SECOND_NS

    def drop(page: Sequence[ListedObject]) -> None:
        repo.blocks.delete_all([Target(file.address, file.head.version) for file in page])

    dropped = _drop_all(_files(repo, before_ns), drop, goes_on)
    if not (dropped and _drop_notes(repo, before_ns, goes_on)):
        return False
    _drop(repo, ListedObject(place, head))
    return True


def _drop_uploads(repo: OpenRepository, goes_on: _GoesOn) -> bool:
    """Discard the parts of uploads in progress.  Return whether none are left."""
    for seen in uploads.list_all(repo.kv, repo.record):
        if not goes_on():
            return False
        with suppress(Refused):
            discard(repo, seen)
    return True


def _check_alone(repo: OpenRepository) -> None:
    for other in namespaces.overlapping(repo, repo.namespace):
        raise Refused(f"not purged: repository {other.id} shares its files: repository={repo.id}")


def _files(repo: OpenRepository, before_ns: int) -> Iterator[ListedObject]:
    """The files whose names the repository generated, last written during its life and before
    `before_ns`."""
    for folder in (FILES, OBJECTS):
        for file in list_all(repo.blocks, f"{repo.namespace}/{folder}"):
            name = address.relative_to(repo.namespace, file.address)
            if name is not ABSENT and is_ours(name) and _is_own(repo, file, before_ns):
                yield file


def _is_own(repo: OpenRepository, file: ListedObject, before_ns: int) -> bool:
    return repo.record.created_ns <= file.head.modified_ns < before_ns


def _drop_notes(repo: OpenRepository, before_ns: int, goes_on: _GoesOn) -> bool:
    """Delete the files of jobs and collections (`_graveler/`) and the logs of hooks that were
    written during the life of the repository and before `before_ns`.

    A file that the process may not delete stays: the worker of an older deployment has no right to
    delete the lists of collected files.
    """

    def drop(file: ListedObject) -> None:
        with suppress(Refused):
            _drop(repo, file)

    def drop_page(page: Sequence[ListedObject]) -> None:
        repo.fanout.map(drop, page)

    notes = (
        file
        for folder in (address.OWN_FOLDER, address.HOOK_LOGS)
        for file in list_all(repo.blocks, f"{repo.namespace}/{folder}")
        if _is_own(repo, file, before_ns)
    )
    return _drop_all(notes, drop_page, goes_on)


def _drop_all(
    files: Iterator[ListedObject],
    drop: Callable[[Sequence[ListedObject]], None],
    goes_on: _GoesOn,
) -> bool:
    while page := list(islice(files, limits.block_delete_count_max)):
        if not goes_on():
            return False
        drop(page)
    return True


def _drop(ports: Ports, file: ListedObject) -> None:
    with suppress(NotFound):
        ports.blocks.delete(file.address, file.head.version)


# ---- rows ----------------------------------------------------------------------------------------


def _drop_rows(repo: OpenRepository, goes_on: _GoesOn) -> bool:
    kv = repo.kv
    pending = {cleanup.token for cleanup in cleanups.list_cleanups(kv, repo.record)}
    for token in sorted(pending.union(list_refs(repo).tokens)):
        if not area.drop(kv, token, goes_on).whole:
            return False
    events = (
        partition
        for rule in event_rules.every_id(kv, repo.record)
        for partition in keys.of_events(repo.record, rule)
    )
    dropped = all(_drop_partition(repo, partition, goes_on) for partition in events)
    return dropped and _drop_records(repo, goes_on)


def _drop_records(repo: OpenRepository, goes_on: _GoesOn) -> bool:
    event_rules.remove_all(repo.kv, repo.record)
    return _drop_partition(repo, keys.space(repo.record), goes_on)


def _drop_partition(ports: Ports, partition: bytes, goes_on: _GoesOn) -> bool:
    more = True
    while more:
        if not goes_on():
            return False
        rows, more = ports.kv.scan(partition, b"", b"", limits.kv_batch_count_max)
        if rows:
            ports.kv.delete(partition, [key for key, _ in rows])
    return True
