"""Restore: branches, tags and commits from a dump, into a bare repository on the same namespace.

The whole dump is verified first; nothing in it is trusted.  Then: record of the restore, marks,
commits by generation, tags, branches, the default branch last.  A repository is *bare* until that
branch exists, so the same restore, sent again, continues one that stopped.  Nothing that exists is
changed.  Content stays where it is: its metaranges and ranges must be in the namespace.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from graveler.block import address
from graveler.block.drivers import list_all
from graveler.committed import dumps
from graveler.core import limits, wire_dumps
from graveler.core.errors import (
    AlreadyExists,
    Code,
    Conflict,
    Contended,
    Corrupt,
    Gone,
    Invalid,
    NotFound,
)
from graveler.core.identity import commit_id
from graveler.core.ids import (
    NO_METARANGE,
    BranchId,
    CommitId,
    MetarangeId,
    TagId,
    parse_branch_id,
    parse_metarange_id,
    parse_tag_id,
)
from graveler.core.records import ABSENT, Commit, CommitEntry, Record
from graveler.core.wire_dumps import DumpedRef
from graveler.engine.commits.heads import first_record, lookup, new_token
from graveler.engine.gc import notes
from graveler.engine.gc.content import NO_FILE
from graveler.engine.ports import (
    OpenRepository,
    UnconfirmedWrite,
    check_message,
    check_metadata,
    check_writable,
    keyspace,
)
from graveler.refs import branches, commits, garbage, graph, lifecycle, tags
from graveler.refs.garbage import DeletedContent, Mark
from graveler.refs.lifecycle import DumpIds

T = TypeVar("T")


class Attempt(NamedTuple):
    """One attempt of a restore.

    `stored`: how many commits earlier attempts have stored, in the order of `restore`.  `begun`:
    whether an earlier attempt of the same request may have completed the restore.  `note` is called
    with the number of commits that are stored, after each 1,000 rows.
    """

    stored: int = 0
    begun: bool = False
    note: Callable[[int], None] = lambda count: None


FIRST: Final = Attempt()


def parse_ids(commits: str, tags: str, branches: str) -> DumpIds:
    """The ids of a dump, from the texts of a client.  Raises `Invalid`."""
    return DumpIds(
        parse_metarange_id(commits, "commits_meta_range_id"),
        parse_metarange_id(tags, "tags_meta_range_id"),
        parse_metarange_id(branches, "branches_meta_range_id"),
    )


def check_bare(repo: OpenRepository, dump: DumpIds, *, force: bool = False) -> None:
    """Raises `Invalid` unless the repository is bare, or an earlier restore of the same dump has
    made it less bare.

    Errors: also `Refused` for a read-only repository, `Conflict` if another dump is being restored.
    Cost: 4 KV requests at most.
    """
    check_writable(repo.record, force)
    earlier = lifecycle.find_restore(repo.kv, repo.record)
    if _has_default(repo) or (earlier is ABSENT and _has_refs(repo)):
        raise Invalid(
            "can only restore into a bare repository: create one with bare=true: "
            f"repository={repo.id}",
            Code.NOT_BARE,
        )
    if earlier not in (ABSENT, dump):
        raise _other_dump(repo)


def restore(
    repo: OpenRepository, dump: DumpIds, attempt: Attempt = FIRST, *, force: bool = False
) -> None:
    """Restore all refs and commits of a dump.  Idempotent until the default branch exists.

    Errors: those of `check_bare`; `Invalid` if the dump does not verify; `NotFound` if a table is
    not in the namespace; `Unsupported` if the dump is too large; `Conflict` if a ref of the same
    name points elsewhere; `OutcomeUnknown` behind the first write: the same call continues.
    Cost: `check_bare`, 1 KV request for each 1,000 commits, 1 for each tag, 2 for each branch, and
    2; 1 or 2 block requests for each table of the dump, those that read the metaranges that refs
    name, that of `lost_content.read`, and 1 for each 1,000 files of `_lakefs/`; if any commit has
    lost content, 2 KV requests and 1 for each 1,000 marks.  Memory: the dump.
    """
    if attempt.begun and is_complete(repo, dump):
        return
    check_bare(repo, dump, force=force)
    refs = _read(repo, dump)
    lost = _lost(repo, refs)
    with UnconfirmedWrite("restore") as unconfirmed:
        if lifecycle.begin_restore(repo.kv, repo.record, dump, repo.ids.stamp()) != dump:
            raise _other_dump(repo)
        unconfirmed.mark_unconfirmed()
        _mark_lost(repo, refs, lost)
        _put_commits(repo, refs.commits, attempt)
        for page in _pages(repo, refs.tags):
            repo.fanout.map(lambda tag: _put_tag(repo, tag), page)
            attempt.note(len(refs.commits))
        for page in _pages(repo, refs.branches):
            repo.fanout.map(lambda branch: _put_branch(repo, branch), page)
            attempt.note(len(refs.commits))
        _put_branch(repo, refs.default)


def is_complete(repo: OpenRepository, dump: DumpIds) -> bool:
    """Whether the repository was restored from this dump.  2 KV requests."""
    return lifecycle.find_restore(repo.kv, repo.record) == dump and _has_default(repo)


def _other_dump(repo: OpenRepository) -> Conflict:
    return Conflict(
        "another dump is being restored: restore that one again, or delete the repository: "
        f"repository={repo.id}"
    )


def _has_default(repo: OpenRepository) -> bool:
    return branches.is_live(repo.kv, repo.record, repo.record.default_branch)


def _has_refs(repo: OpenRepository) -> bool:
    named, _ = branches.list_page(repo.kv, repo.record, "", "", 1, show_hidden=True)
    tagged, _ = tags.list_page(repo.kv, repo.record, "", "", 1)
    return bool(named or tagged)


# ---- reading and verifying -----------------------------------------------------------------------


class _Refs(NamedTuple):
    """A dump that was verified.  `commits`: each after its parents.  `branches`: all but the
    default one."""

    commits: Sequence[CommitEntry]
    tags: Sequence[DumpedRef]
    branches: Sequence[DumpedRef]
    default: DumpedRef


def _read(repo: OpenRepository, dump: DumpIds) -> _Refs:
    try:
        ordered = _ordered(_commits(repo, dump))
        tagged = [wire_dumps.tag_of(line) for line in _lines(repo, dump.tags, wire_dumps.TAGS)]
        lines = _lines(repo, dump.branches, wire_dumps.BRANCHES)
        named = [wire_dumps.branch_of(line) for line in lines]
    except Gone as error:
        raise NotFound(f"dump not found in the repository's namespace: {error}") from error
    except Corrupt as error:
        raise Invalid(f"dump does not verify: {error}") from error
    for tag in tagged:
        parse_tag_id(tag.id)
    for branch in named:
        parse_branch_id(branch.id)
    default = [branch for branch in named if branch.id == repo.record.default_branch]
    if not default:
        raise Invalid(
            "dump has no branch with the name of the repository's default branch; create the bare "
            f"repository with another one: default_branch={repo.record.default_branch}"
        )
    _check_heads(repo, {entry.id: entry.commit for entry in ordered}, [*named, *tagged])
    others = [branch for branch in named if branch.id != repo.record.default_branch]
    return _Refs(ordered, tagged, others, default[0])


def _lines(repo: OpenRepository, table: str, marks: Mapping[str, str]) -> Iterator[Record]:
    bounds = dumps.ReadLimits(repo.settings.restore_records_max, repo.settings.restore_bytes_max)
    return dumps.read(repo.blocks, repo.namespace, MetarangeId(table), marks, bounds)


def _commits(repo: OpenRepository, dump: DumpIds) -> Iterator[CommitEntry]:
    for line in _lines(repo, dump.commits, wire_dumps.COMMITS):
        entry = wire_dumps.commit_of(line)
        if commit_id(entry.commit) != entry.id:
            raise Corrupt(f"commit does not hash to its id: commit={entry.id}")
        if len(entry.commit.parents) > limits.commit_parents_max:
            raise Corrupt(f"commit has too many parents: commit={entry.id}")
        check_message(entry.commit.message)
        check_metadata(entry.commit.metadata)
        yield entry


def _ordered(entries: Iterable[CommitEntry]) -> list[CommitEntry]:
    """The commits by generation, each with its place in the graph.  Raises `Corrupt`."""
    known: dict[CommitId, Commit] = {}

    def look(id: CommitId) -> Commit:
        if id not in known:
            raise Corrupt(f"commit is not in the dump, or not before its children: commit={id}")
        return known[id]

    for entry in sorted(entries, key=lambda entry: (entry.commit.generation, entry.id)):
        placed = graph.positioned(look, entry.commit)
        if placed.generation != entry.commit.generation:
            raise Corrupt(
                f"commit has a wrong generation: commit={entry.id} "
                f"generation={entry.commit.generation} expected={placed.generation}"
            )
        known[entry.id] = placed
    return [CommitEntry(id, commit) for id, commit in known.items()]


def _check_heads(
    repo: OpenRepository, known: Mapping[CommitId, Commit], refs: Sequence[DumpedRef]
) -> None:
    """Raises `Invalid` unless the dump has the commit of each ref, and the namespace its
    metarange."""
    for ref in refs:
        if ref.commit not in known:
            raise Invalid(f"dump lacks a commit that it names: ref={ref.id} commit={ref.commit}")
    space = keyspace(repo)
    metaranges = {known[ref.commit].metarange for ref in refs} - {NO_METARANGE}
    try:
        repo.fanout.map(space.metarange, sorted(metaranges))
    except (Corrupt, Gone) as error:
        raise Invalid(
            "the content of a ref is not in the repository's namespace; create the repository on "
            f"the namespace of the dumped one, or copy that namespace first: {error}"
        ) from error


def _lost(repo: OpenRepository, refs: _Refs) -> dict[str, DeletedContent]:
    """The commits of the dump that have lost content, and what of it."""
    try:
        noted = notes.read_lost(repo)
    except Corrupt as error:
        raise Invalid(f"nothing is restored: {error}") from error
    named: dict[str, MetarangeId] = {
        entry.id: entry.commit.metarange
        for entry in refs.commits
        if entry.commit.metarange not in NO_FILE
    }
    stored = _stored(repo, set(named.values()))
    return {id: noted[id] for id in named if id in noted} | {
        id: DeletedContent.ALL for id, metarange in named.items() if metarange not in stored
    }


def _stored(repo: OpenRepository, metaranges: set[MetarangeId]) -> set[MetarangeId]:
    """Those of the metaranges that are in the namespace.  The folder is listed, because one request
    for each would outlive the lease of a job."""
    if not metaranges:
        return set()
    folder = address.join(repo.namespace, address.FILES)
    listed = (line.address.removeprefix(folder) for line in list_all(repo.blocks, folder))
    return metaranges.intersection(listed)


# ---- writing -------------------------------------------------------------------------------------


def _pages(repo: OpenRepository, items: Sequence[T]) -> Iterator[Sequence[T]]:
    size = repo.settings.restore_batch_count
    return (items[first : first + size] for first in range(0, len(items), size))


def _mark_lost(repo: OpenRepository, refs: _Refs, lost: Mapping[str, DeletedContent]) -> None:
    """Mark the commits that have `lost` content, and their metaranges: verbs refuse them, and no
    collection reads them."""
    marked: dict[str, DeletedContent] = {**lost}
    whole = {entry.commit.metarange for entry in refs.commits if entry.id not in lost}
    for entry in refs.commits:
        if entry.id in lost and entry.commit.metarange not in whole:
            marked[entry.commit.metarange] = DeletedContent.NOTHING  # as collections do
    if marked:
        notes.announce(repo)
        now_ns = repo.clock.now_ns()
        new = {id: Mark(garbage.RESTORED, now_ns, kind) for id, kind in marked.items()}
        garbage.put_marks(repo.kv, repo.record, new, repo.ids)


def _put_commits(repo: OpenRepository, ordered: Sequence[CommitEntry], attempt: Attempt) -> None:
    stored = attempt.stored
    for page in _pages(repo, ordered[stored:]):
        commits.put_many(repo.kv, repo.record, page, repo.ids.stamp())
        stored += len(page)
        attempt.note(stored)


def _put_tag(repo: OpenRepository, ref: DumpedRef) -> None:
    tag = TagId(ref.id)
    try:
        tags.create(repo.kv, repo.record, tag, ref.commit, repo.ids)
    except AlreadyExists as error:
        known = tags.find(repo.kv, repo.record, tag)
        if known is ABSENT or known.commit != ref.commit:
            raise Conflict(f"tag exists already, at another commit: {tag=}") from error


def _put_branch(repo: OpenRepository, ref: DumpedRef) -> None:
    """Create a branch.  One that exists must be at the commit of the dump, or have moved on from
    there: an earlier attempt created it."""
    branch = BranchId(ref.id)
    for _ in range(limits.conditional_round_count_max):
        seen = branches.find(repo.kv, repo.record, branch)
        if seen is not ABSENT and seen.branch.live:
            _check_restored(repo, ref, seen.branch.commit)
            return
        new = first_record(repo, seen, ref.commit, new_token(repo, 0), hidden=ref.hidden)
        stamp = repo.ids.stamp()
        if branches.swap(repo.kv, repo.record, branch, seen, new, stamp) is not ABSENT:
            return
    raise Contended(f"branch not restored: its record kept changing: {branch=}")


def _check_restored(repo: OpenRepository, ref: DumpedRef, head: CommitId) -> None:
    """Raises `Conflict` unless the commit of the dump is `head` or a first-parent ancestor."""
    look = lookup(repo)
    now, dumped = CommitEntry(head, look(head)), CommitEntry(ref.commit, look(ref.commit))
    if not graph.on_line(look, now, dumped):
        raise Conflict(f"branch exists already, at another commit: branch={ref.id}")
