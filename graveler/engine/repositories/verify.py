"""Verify: reads everything that is reachable in all repositories, and reports damage.

It checks the claim of every namespace, and every reachable branch, tag, commit, metarange and
range, and on request every object.  It changes nothing.  Damage is returned, not raised, so that
one damaged file does not hide the next.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from graveler.committed import reader
from graveler.committed.verify import metarange_damages
from graveler.engine.gc import eligible
from graveler.engine.namespaces import Namespaces
from graveler.engine.objects import reachable
from graveler.engine.ports import OpenRepository, Ports, keyspace, open_repository
from graveler.errors import Corrupt, GravelerError, NotFound, Refused
from graveler.identity import commit_id
from graveler.ids import CommitId, MetarangeId
from graveler.records import TOMBSTONE, RangeRef
from graveler.refs.gc import marks
from graveler.refs.gc.marks import DeletedContent
from graveler.refs.graph import commits
from graveler.refs.names import branches, repositories, tags
from graveler.staging import stack
from graveler.streams import END
from graveler.wire import decode_entry


class Damage(NamedTuple):
    """One defect: the repository, the place, and a description."""

    repository: str
    where: str
    what: str


def verify(ports: Ports, *, objects: bool = False) -> Iterator[Damage]:
    """All damage of all repositories.

    With `objects`, this includes objects that are missing or have another size.
    Cost: everything reachable is read once, and the list of all repositories.
    """
    everyone = list(repositories.every(ports.kv))
    namespaces = Namespaces((record.id, record.namespace) for record in everyone)
    for record in everyone:
        repo = open_repository(ports, record)
        for where, damage in _namespace(repo, namespaces):
            yield Damage(repo.id, where, damage)
        for where, damage in _repository(repo, objects):
            yield Damage(repo.id, where, damage)


Found = tuple[str, str]


def _namespace(repo: OpenRepository, everyone: Namespaces) -> Iterator[Found]:
    """Damage if the repository has no claim on its namespace or shares it with another one."""
    try:
        eligible.check_own(repo, everyone)
    except Refused as error:
        yield f"namespace {repo.namespace}", str(error)


class _Content(NamedTuple):
    """A metarange to check: the commit that names it, and whether its objects must exist."""

    where: str
    has_objects: bool


def _repository(repo: OpenRepository, objects: bool) -> Iterator[Found]:
    heads = [
        (f"branch {each.id}", each.branch.commit) for each in branches.every(repo.kv, repo.record)
    ]
    heads += [(f"tag {each.id}", each.tag.commit) for each in tags.every(repo.kv, repo.record)]
    seen: set[CommitId] = set()
    metaranges: dict[MetarangeId, _Content] = {}
    expired = {
        id: mark.spent
        for id, mark in marks.list_all(repo.kv, repo.record)
        if id not in {head for _, head in heads}
    }
    for where, head in heads:
        yield from _history(repo, where, head, seen, metaranges, expired)
    space = keyspace(repo)
    sound: set[str] = set()
    whole: set[str] = set()  # sound ranges whose objects were checked too
    for metarange, (where, has_objects) in metaranges.items():
        damaged = False
        for damage in metarange_damages(space, metarange, frozenset(sound)):
            damaged = True
            yield f"{where}, file {damage.id}", damage.reason
        if damaged:
            continue
        refs = reader.ranges(space, metarange)
        if objects and has_objects:
            fresh_refs = {ref.id for ref in refs} - whole
            for ref in refs:
                if ref.id in fresh_refs:
                    yield from _committed_objects(repo, metarange, ref)
            whole |= fresh_refs
        sound.update(ref.id for ref in refs)
    if objects:
        yield from _staged_objects(repo)


def _history(
    repo: OpenRepository,
    where: str,
    head: CommitId,
    seen: set[CommitId],
    metaranges: dict[MetarangeId, _Content],
    expired: Mapping[str, DeletedContent],
) -> Iterator[Found]:
    """Damage in the history of `head`, which `where` names; adds the metaranges to check to
    `metaranges`.

    `expired`: the commits whose content may be gone by retention.  Such a commit's metarange is not
    checked, unless only its objects may be gone: then the metarange and its ranges must exist.
    """
    todo = [(where, head)]
    while todo:
        said_by, name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            commit = commits.get(repo.kv, repo.record, name)
        except (Corrupt, NotFound) as error:
            yield f"commit {name}, named by {said_by}", str(error)
            continue
        if commit_id(commit) != name:
            yield f"commit {name}", "commit does not hash to its id"
        has_objects = name not in expired
        known = metaranges.get(commit.metarange)
        has_files = has_objects or expired[name] is DeletedContent.OBJECTS
        if commit.metarange and has_files and (known is None or not known.has_objects):
            metaranges[commit.metarange] = _Content(f"commit {name}", has_objects)
        todo.extend((f"commit {name}", parent) for parent in commit.parents)


def _committed_objects(
    repo: OpenRepository, metarange: MetarangeId, within: RangeRef
) -> Iterator[Found]:
    for key, value in reader.scan(keyspace(repo), metarange, within.min_key):
        if key > within.max_key:
            return
        yield from _object(repo, key, value)


def _staged_objects(repo: OpenRepository) -> Iterator[Found]:
    for named in branches.every(repo.kv, repo.record):
        cursor = stack.view(repo.kv, named.branch.tokens_newest_first, fanout=repo.fanout)
        while (item := cursor.peek()) is not END:
            if item[1] is not TOMBSTONE:
                yield from _object(repo, item[0], item[1])
            cursor.advance()


def _object(repo: OpenRepository, key: bytes, value: bytes) -> Iterator[Found]:
    where = f"path {key.decode(errors='replace')}"
    try:
        entry = decode_entry(value)
        head = repo.blocks.head(reachable.address_of(repo, entry))
    except GravelerError as error:
        yield where, f"object cannot be read: {error}"
        return
    if head.size != entry.size:
        yield where, f"object has another size: recorded={entry.size} found={head.size}"
