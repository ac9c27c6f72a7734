"""Repositories: create, find, delete; their metadata pairs and break parameters.

A creation stores a note with the namespace, checks overlaps, claims the namespace by a file with id
and uid, makes the first commit and branch, then stores the record: a crash at any point does no
harm.  Of two creations on overlapping namespaces, at least one sees the note of the other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import CREATE, ObjectHead, Update
from graveler.committed import writer
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Code,
    Contended,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
    Unavailable,
)
from graveler.core.identity import commit_id
from graveler.core.ids import (
    BranchId,
    CommitId,
    RepositoryId,
    RepositoryUid,
    parse_branch_id,
    parse_namespace,
    parse_path,
    parse_repository_id,
)
from graveler.core.records import (
    ABSENT,
    Absent,
    BreakParameters,
    Commit,
    Record,
    Repository,
    RepositoryState,
)
from graveler.core.wire import encode_entry
from graveler.engine import namespaces
from graveler.engine.commits.heads import first_record, new_token, placed
from graveler.engine.objects.write import Upload, stored
from graveler.engine.ports import (
    OpenRepository,
    Ports,
    UnconfirmedWrite,
    check_metadata,
    check_writable,
    keyspace,
    open_repository,
    operation_deadline,
)
from graveler.refs import branches, commits, event_rules, lifecycle, repositories
from graveler.refs.repositories import VersionedRepository

FIRST_MESSAGE = "Repository created"
_CLAIM_ABANDONED_SECONDS = 4 * limits.operation_seconds_max
# A deletion is noted before it takes effect, by the clock of another process.
_NOTE_SECONDS = 60
_SALT_BYTES = 16
_BULK_ROOTS = 4  # a million records get `range_raggedness_bulk`; fewer get shorter ranges
_LAKEFS_CLAIM = b"created by lakeFS"  # in the file that lakeFS puts in the place of a claim


class InitialFile(NamedTuple):
    """One file: its path in the repository, its bytes, its content type."""

    path: str
    body: bytes
    content_type: str


class InitialContent(NamedTuple):
    """Files with different paths, and the committer and message of their commit."""

    files: Sequence[InitialFile]
    committer: str
    message: str


@dataclass(frozen=True, slots=True)
class NewRepository:
    """The caller's choices for a new repository.

    - `bare`: create no branch and no commit; the namespace may be one that lakeFS uses.
    - `breaks`: the break parameters; an empty salt means a fresh random one.
    - `staging_shards`: the smallest number of shards of its staging tokens.
    - `content`: the files that the default branch contains from the beginning.
    - `protected`: whether a rule protects the default branch from the beginning.
    """

    name: str
    namespace: str
    default_branch: str = "main"
    read_only: bool = False
    bare: bool = False
    breaks: BreakParameters = field(default_factory=BreakParameters)
    staging_shards: int = 1
    content: InitialContent | Literal[Absent.ABSENT] = ABSENT
    protected: bool = False


def create(ports: Ports, new: NewRepository) -> Repository:
    """Create a repository.

    Errors: `AlreadyExists`; `OutcomeUnknown`; `Invalid` for names, for break parameters, for a
    namespace that another repository holds or an event rule watches, and for content without a
    branch.  If a repository of this name was deleted a moment ago, it waits for at most
    `EngineSettings.repository_cached_seconds`.  Cost: about 6 KV requests, that of
    `namespaces.all_on`, 1 for each 1,000 event rules, and 1 put; with content, also the cost of
    its commit.
    """
    if new.bare and new.content is not ABSENT:
        raise Invalid("a bare repository cannot have content, because it has no branch")
    name = parse_repository_id(new.name)
    default_branch = parse_branch_id(new.default_branch, "default_branch")
    deadline = operation_deadline(ports)
    earlier = repositories.find(ports.kv, name)
    if earlier is not ABSENT and earlier.repository.state is RepositoryState.LIVE:
        raise AlreadyExists("error creating repository: not unique", Code.REPOSITORY_EXISTS)
    if earlier is not ABSENT:
        _outwait(ports, earlier.repository)
    repo = open_repository(ports, _drawn(ports, new, name, default_branch))
    try:
        lifecycle.note_namespace(ports.kv, repo.record, ports.ids.stamp())
        _prepare(repo, new, earlier)
        deadline.check("repository creation")
    except GravelerError:
        _end(repo)
        raise
    # If no answer comes, the record may still land, so the note of the namespace stays.
    read_at = ports.cache.now()
    is_created = repositories.put_new(ports.kv, repo.record, ports.ids.stamp(), earlier)
    if not is_created and repositories.find(ports.kv, name) is ABSENT:  # `earlier` was purged
        is_created = repositories.put_new(ports.kv, repo.record, ports.ids.stamp(), ABSENT)
    if not is_created:
        _end(repo)
        raise AlreadyExists("error creating repository: not unique", Code.REPOSITORY_EXISTS)
    ports.cache.put_repository(repo.record, read_at)
    return repo.record


def _prepare(
    repo: OpenRepository, new: NewRepository, earlier: VersionedRepository | Literal[Absent.ABSENT]
) -> None:
    """All steps between the note of the namespace and the record."""
    # Bare and read-only repositories need the checks too: on a shared namespace they could read the
    # owner's files and block it.
    _check_unused(repo)
    _check_unwatched(repo)
    _claim(repo, bare=new.bare)
    if not new.bare:
        _first_branch(repo, _first_commit(repo, new.content))
    if earlier is not ABSENT:
        repositories.note_replaced(repo.kv, earlier.repository, repo.ids.stamp())


def _outwait(ports: Ports, earlier: Repository) -> None:
    """Wait until no process can have the record of the deleted repository `earlier` cached: what it
    writes there would not be in the new one.  No wait if it was deleted long ago."""
    seconds = ports.settings.repository_cached_seconds
    gone = lifecycle.find_deletion(ports.kv, earlier.id, earlier.uid) if seconds else ABSENT
    if gone is ABSENT:
        return
    if ports.clock.now_ns() - gone.deleted_ns < (seconds + _NOTE_SECONDS) * limits.SECOND_NS:
        ports.clock.sleep(seconds)


def _end(repo: OpenRepository) -> None:
    with suppress(Unavailable):  # a later creation removes the note after it expires
        lifecycle.forget_namespace(repo.kv, repo.record)


def _check_unwatched(repo: OpenRepository) -> None:
    """Raises `Invalid` if an event rule watches the namespace: it would take the files that the
    repository writes for arrivals."""
    own = address.split_prefix(repo.namespace.rstrip("/") + "/")
    for rule in event_rules.every(repo.kv):
        if rule.watches(own.bucket, own.key):
            raise Invalid(
                "an event rule watches the namespace; delete the rule or choose another namespace: "
                f"repository={rule.repository} rule={rule.id}"
            )


def _drawn(
    ports: Ports, new: NewRepository, name: RepositoryId, default_branch: BranchId
) -> Repository:
    breaks = new.breaks
    check_breaks(breaks)
    if not 1 <= new.staging_shards <= limits.staging_shard_count_max:
        raise Invalid(f"staging_shards must be 1 to {limits.staging_shard_count_max}")
    return Repository(
        id=name,
        uid=RepositoryUid(ports.ids.unique(20)),
        namespace=parse_namespace(new.namespace),
        default_branch=default_branch,
        created_ns=ports.clock.now_ns(),
        read_only=new.read_only,
        breaks=breaks if breaks.salt else replace(breaks, salt=ports.ids.stamp()[:_SALT_BYTES]),
        staging_shards=new.staging_shards,
        protected=(default_branch,) if new.protected else (),
    )


def _in_use(repo: Repository) -> Invalid:
    return Invalid(
        f"storage namespace already in use: storage_namespace={repo.namespace}",
        Code.NAMESPACE_IN_USE,
        storage_namespace=repo.namespace,
    )


def _claimed(repo: Repository, place: str) -> Invalid:
    """A bare repository restores refs, so its caller may have lost the records of the claimant,
    which no record here tells from those of another deployment."""
    remedy = (
        f"if its records are lost, delete the object {place}; if another deployment serves it, "
        "copy the namespace without that object"
    )
    return Invalid(
        f"storage namespace already in use: {remedy}: storage_namespace={repo.namespace}",
        Code.NAMESPACE_CLAIMED,
        storage_namespace=repo.namespace,
        remedy=remedy,
    )


def _check_unused(repo: OpenRepository) -> None:
    """Raises `Invalid` if another repository holds this namespace, one inside it or one around it,
    or is being created there.  Removes the notes of creations that cannot be alive any more."""
    dead_ns = repo.clock.now_ns() - _CLAIM_ABANDONED_SECONDS * limits.SECOND_NS
    for other in namespaces.all_on(repo, repo.namespace):
        if other.uid == repo.record.uid:
            continue
        if isinstance(other, Repository):
            raise _in_use(repo.record)
        if isinstance(other, lifecycle.Deletion):
            # The error names no repository: the caller may have no right to know of it.
            due = namespaces.purge_due(repo, other)
            raise Invalid(
                f"storage namespace already in use until the purge of a deleted repository, {due}: "
                f"storage_namespace={repo.namespace}",
                Code.NAMESPACE_OF_DELETED,
                storage_namespace=repo.namespace,
                due=due,
            )
        if other.since_ns > dead_ns:
            raise Invalid(
                "storage namespace already in use: another repository is being created there; if "
                "that fails, the namespace is free two minutes later: "
                f"storage_namespace={repo.namespace}",
                Code.NAMESPACE_IN_USE,
                storage_namespace=repo.namespace,
            )
        lifecycle.forget_note(repo.kv, other)


def _claim(repo: OpenRepository, *, bare: bool) -> None:
    place = address.marker(repo.namespace)
    claim = f"{repo.id} {repo.record.uid}\n".encode()
    with suppress(AlreadyExists):
        repo.blocks.put(place, [claim], CREATE)
        return
    head = repo.blocks.head(place)
    if not (_abandoned(repo, place, head) or (bare and _is_of_lakefs(repo, place))):
        raise _claimed(repo.record, place) if bare else _in_use(repo.record)
    try:
        repo.blocks.put(place, [claim], Update(head.etag))
    except (PreconditionFailed, NotFound) as error:
        raise _in_use(repo.record) from error


def _abandoned(ports: Ports, place: str, head: ObjectHead) -> bool:
    """Whether the claim belongs to a creation that died before it stored the repository record."""
    age_ns = ports.clock.now_ns() - head.modified_ns
    if age_ns < _CLAIM_ABANDONED_SECONDS * limits.SECOND_NS:
        return False
    words = ports.blocks.read(place, 0, limits.name_length_max).split()
    if len(words) != 2:
        return False  # the file is not a claim of this system
    with suppress(Invalid, UnicodeDecodeError):
        claimant = repositories.find(ports.kv, parse_repository_id(words[0].decode()))
        # The objects of a deleted repository remain, so its namespace stays claimed.
        if claimant is not ABSENT and claimant.repository.uid.encode() == words[1]:
            return False
        return not _was_replaced(ports, words)
    return False


def _is_of_lakefs(ports: Ports, place: str) -> bool:
    return _LAKEFS_CLAIM in ports.blocks.read(place, 0, limits.name_length_max)


def _was_replaced(ports: Ports, words: Sequence[bytes]) -> bool:
    """Whether a repository with this name and uid existed, and another one has the name now."""
    past = Repository(
        RepositoryId(words[0].decode()), RepositoryUid(words[1].decode()), "", BranchId(""), 0
    )
    return repositories.was_replaced(ports.kv, past)


def _first_commit(
    repo: OpenRepository, content: InitialContent | Literal[Absent.ABSENT]
) -> CommitId:
    first = Commit(committer="", message=FIRST_MESSAGE, created_ns=repo.record.created_ns)
    first_id = commit_id(first)
    commits.put(repo.kv, repo.record, first_id, first, repo.ids.stamp())
    return first_id if content is ABSENT else _initial_commit(repo, first_id, content)


def _first_branch(repo: OpenRepository, head: CommitId) -> None:
    branch = first_record(repo, ABSENT, head, new_token(repo, 0))
    name = repo.record.default_branch
    created = branches.swap(repo.kv, repo.record, name, ABSENT, branch, repo.ids.stamp())
    # The uid is fresh, so an existing record is from this call: its answer was lost.
    if created is ABSENT and branches.find(repo.kv, repo.record, name) is ABSENT:
        raise Unavailable(f"repository not created; try again: repository={repo.id}")


def get(ports: Ports, repository: str) -> Repository:
    """The live repository; the answer may be `limits.repository_cache_seconds_max` old.

    Errors: `NotFound`, `Invalid`.  Cost: no request if it is cached, else 1 KV request.
    """
    name = parse_repository_id(repository)
    known = ports.cache.repository(name)
    if known is not ABSENT:
        return known
    read_at = ports.cache.now()
    record = repositories.get(ports.kv, name)
    ports.cache.put_repository(record, read_at)
    return record


def list_page(
    ports: Ports, prefix: str, matches: Callable[[str], bool], after: str, amount: int
) -> tuple[tuple[Repository, ...], bool]:
    """One page of live repositories by name, of those whose name `matches`, and whether more
    follow."""
    return repositories.list_page(ports.kv, prefix, matches, after, amount)


def every(ports: Ports, after: str = "") -> Iterator[OpenRepository]:
    """All live repositories by name, after `after`.  1 KV request for each 1,000."""
    return (open_repository(ports, record) for record in repositories.every(ports.kv, after))


def delete(repo: OpenRepository, *, force: bool = False) -> None:
    """Mark the repository as deleted.  Atomic.

    Its rows, and its own files in the namespace, are removed after the undo period of garbage
    collection (purge.py).  Errors: `NotFound`, `Refused`, `Contended`, `OutcomeUnknown`.
    """
    check_writable(repo.record, force)
    tried, last = False, b""
    with UnconfirmedWrite("repository deletion") as unconfirmed:
        for _ in range(limits.commit_round_count_max):
            repo.cache.forget_repository(repo.id)
            seen = repositories.find(repo.kv, repo.id)
            if not _is_live(seen, repo.record):
                if tried:
                    return  # it existed when this call began: this call or another one deleted it
                raise NotFound(
                    "repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id
                )
            assert seen is not ABSENT, "what is live is there"
            gone = replace(seen.repository, state=RepositoryState.DELETED)
            # Stored first: after a crash in between, the purge finds the deletion record void.
            lifecycle.note_deletion(repo.kv, repo.record, repo.clock.now_ns(), repo.ids.stamp())
            tried, last = True, seen.version
            done = repositories.swap(repo.kv, seen, gone, repo.ids.stamp())
            repo.cache.forget_repository(repo.id)
            if done is not ABSENT:
                return
            unconfirmed.mark_unconfirmed()
        now = repositories.find(repo.kv, repo.id)
        if not _is_live(now, repo.record):
            return  # the last swap landed after all
        if now is not ABSENT and now.version == last:  # the last swap may land later
            raise OutcomeUnknown(f"repository deletion not confirmed: repository={repo.id}")
    raise Contended(f"repository deletion kept losing; try again: repository={repo.id}")


def _is_live(seen: VersionedRepository | Literal[Absent.ABSENT], repo: Repository) -> bool:
    """Whether the record belongs to this repository (same uid) and is not deleted."""
    if seen is ABSENT or seen.repository.uid != repo.uid:
        return False
    return seen.repository.state is not RepositoryState.DELETED


def metadata(repo: OpenRepository) -> dict[str, str]:
    """All metadata pairs of the repository."""
    return repositories.get_metadata(repo.kv, repo.record)


def set_metadata(repo: OpenRepository, pairs: Mapping[str, str], *, force: bool = False) -> None:
    """Set `pairs`; other keys stay as they are.  `Invalid`, `Refused`, `OutcomeUnknown`."""
    check_writable(repo.record, force)
    check_metadata(pairs)
    for key in pairs:
        if len(parse_path(key, "metadata key")) > limits.kv_key_length_bytes_max - 2:
            raise Invalid(f"metadata key is too long: {len(key)=}")
    repositories.merge_metadata(repo.kv, repo.record, pairs, repo.ids)


def delete_metadata(repo: OpenRepository, keys: Sequence[str], *, force: bool = False) -> None:
    """Remove the pairs of `keys`, if they exist.  `Refused`, `OutcomeUnknown`."""
    check_writable(repo.record, force)
    repositories.delete_metadata(repo.kv, repo.record, keys, repo.ids)


def _initial_commit(repo: OpenRepository, parent: CommitId, content: InitialContent) -> CommitId:
    """Store the files, and a commit of them whose parent is the empty commit `parent`."""

    def put(file: InitialFile) -> Record:
        entry = stored(repo, Upload((file.body,), file.content_type))
        return parse_path(file.path), encode_entry(entry)

    records = sorted(repo.fanout.map(put, content.files))
    drawn = Commit(
        committer=content.committer,
        message=content.message,
        created_ns=repo.clock.now_ns(),
        metarange=writer.write(keyspace(repo), records),
        parents=(parent,),
    )
    entry = placed(repo, drawn)
    commits.put(repo.kv, repo.record, *entry, repo.ids.stamp())
    return entry.id


def check_breaks(breaks: BreakParameters) -> None:
    """Raises `Invalid` for parameters that no writer can use or that exceed a limit.  Pure."""
    if not 0 <= breaks.min_size <= breaks.max_size or breaks.max_size < 1 or breaks.raggedness < 1:
        raise Invalid(
            "break parameters invalid: 0 <= min_size <= max_size and raggedness >= 1: "
            f"min_size={breaks.min_size} max_size={breaks.max_size} raggedness={breaks.raggedness}"
        )
    if breaks.max_size > limits.range_size_bytes_max:
        raise Invalid(f"max_size must be {limits.range_size_bytes_max} at most: {breaks.max_size=}")
    if breaks.raggedness > limits.range_raggedness_max:
        most = limits.range_raggedness_max
        raise Invalid(f"raggedness must be {most} at most: {breaks.raggedness=}")
    if len(breaks.salt) > limits.range_salt_bytes_max:
        raise Invalid(f"salt must have {limits.range_salt_bytes_max} bytes at most")


def fitted_breaks(seen: BreakParameters, records: int) -> BreakParameters:
    """The parameters by which an empty branch gets this number of records: a raggedness that fits
    them, if the repository has the default.  Pure.

    A commit writes the ranges that it touches, and the list of all ranges; with the square root of
    the number of records, both cost about the same.  Loads and scans want longer ranges, and up to
    `range_raggedness_bulk` a commit can spare them.  A multiple of the default, because its break
    keys are some of those of the default: what was read with the one serves the other."""
    default, root = limits.range_raggedness_default, isqrt(records)
    fitting = max(root, min(_BULK_ROOTS * root, limits.range_raggedness_bulk))
    fitting = min(fitting, limits.range_raggedness_chosen_max)
    fitting -= fitting % default
    if seen.raggedness != default or fitting <= default:
        return seen
    return replace(seen, raggedness=fitting)


def first_breaks(repo: OpenRepository, records: int) -> BreakParameters:
    """`fitted_breaks` of the repository.  Nothing is stored (`keep_breaks`).
    Cost: none for less than 1,000,000 records, else 1 KV request."""
    seen = repo.record.breaks
    fitted = fitted_breaks(seen, records)
    return fitted if fitted == seen else fitted_breaks(read_breaks(repo), records)


def keep_breaks(repo: OpenRepository, chosen: BreakParameters) -> None:
    """After the records of `first_breaks` have landed: set its parameters for the commits that
    follow.  What somebody else has set meanwhile stays.  If it fails, later commits write shorter
    ranges, and all is right.  Cost: that of `swap_breaks`, none if they are the repository's."""
    if chosen != repo.record.breaks:
        with suppress(PreconditionFailed, Refused, Contended, Unavailable):
            swap_breaks(repo, repo.record.breaks, chosen)


def read_breaks(repo: OpenRepository) -> BreakParameters:
    """The parameters, read from the store now.  `NotFound`.  Cost: 1 KV request."""
    record = repositories.get(repo.kv, repo.id)
    if record.uid != repo.record.uid:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
    return record.breaks


def swap_breaks(
    repo: OpenRepository, seen: BreakParameters, new: BreakParameters, *, force: bool = False
) -> None:
    """Set the parameters to `new` if they are `seen`.  Atomic; the call may be repeated.

    Errors: `Invalid`, `NotFound`, `Refused` (a read-only repository), `PreconditionFailed` (they
    are neither `seen` nor `new`; nothing changed), `Contended`, `OutcomeUnknown`.
    Cost: 2 KV requests; 1 if they are `new` already.
    """
    check_writable(repo.record, force)
    check_breaks(new)
    if not new.salt:
        raise Invalid("salt must not be empty: send the present salt or a new one")

    def change(
        record: Repository | Literal[Absent.ABSENT], lost: bool
    ) -> Repository | Literal[Absent.ABSENT]:
        is_live = record is not ABSENT and record.state is RepositoryState.LIVE
        if record is ABSENT or not is_live or record.uid != repo.record.uid:
            raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
        if record.breaks == new:
            return ABSENT
        if lost:  # our write may have landed, and another client may have replaced it
            raise OutcomeUnknown(f"break parameters not confirmed: repository={repo.id}")
        if record.breaks != seen:
            raise PreconditionFailed(f"break parameters have changed: {_said(record.breaks)}")
        return replace(record, breaks=new)

    try:
        repositories.change(repo.kv, repo.id, repo.ids, change)
    finally:
        repo.cache.forget_repository(repo.id)


def _said(breaks: BreakParameters) -> str:
    return (
        f"min_size={breaks.min_size} max_size={breaks.max_size} raggedness={breaks.raggedness} "
        f"salt={breaks.salt.hex()}"
    )
