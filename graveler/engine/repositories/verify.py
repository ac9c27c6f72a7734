"""Verify: reads everything that is reachable in all repositories, and reports damage.

It changes nothing.  Damage is returned, not raised, so that one damaged file does not hide the
next.  Objects are checked by repository, range and path, then the staged ones, so a check that
ended early can go on behind the last object.
"""

import hashlib
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, Literal, NamedTuple

from graveler.block.adapter import Body
from graveler.committed import reader
from graveler.committed.reader import metarange_damages
from graveler.core.errors import Corrupt, GravelerError, Invalid, NotFound, Refused
from graveler.core.identity import commit_id, extended
from graveler.core.ids import CommitId, MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Absent, AddressType, Entry, RangeRef, Record
from graveler.core.streams import END
from graveler.core.wire import decode_entry
from graveler.engine import namespaces as eligible
from graveler.engine.namespaces import Namespaces
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository, Ports, keyspace, open_repository
from graveler.refs import branches, commits, garbage, repositories, tags
from graveler.refs.garbage import DeletedContent
from graveler.staging import stack

_STAGED: Final = "staged"  # in a position, instead of a range; behind all ids of ranges
_MD5: Final = re.compile(r"[0-9a-f]{32}")
_SEEN_COUNT: Final = 1 << 20


class Damage(NamedTuple):
    """One defect: the repository, the place, and a description."""

    repository: str
    where: str
    what: str


def _nothing(_place: str, _size: int) -> None: ...


class ObjectChecks:
    """How objects are checked.

    `content`: read all bytes, and compare them with the checksum of the entry, or with that of the
    file.  `after`: the position of the last object that was checked, `REPOSITORY/RANGE/PATH`;
    everything up to it is left out.  `note`: called with the position and the size of each object
    that was checked.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        after: str = "",
        note: Callable[[str, int], object] = _nothing,
    ) -> None:
        self.content = content
        self.note = note
        if after and after.count("/") < 2:
            raise Invalid(f"position invalid: it must be REPOSITORY/RANGE/PATH: after={after!r}")
        self._after = tuple(after.split("/", 2))
        self._seen = array("Q", bytes(8 * _SEEN_COUNT))

    def is_before(self, *place: str) -> bool:
        """Whether a repository, a range or a path was checked before, with all that is in it."""
        return place <= self._after if len(place) == 3 else place < self._after[: len(place)]

    def is_new(self, address: str) -> bool:
        """Whether an object was not read lately: many ranges may name it.  Bounded memory."""
        name = int.from_bytes(hashlib.blake2b(address.encode(), digest_size=8).digest(), "big")
        at = name % _SEEN_COUNT
        is_new, self._seen[at] = self._seen[at] != name, name
        return is_new


def verify(
    ports: Ports, *, objects: bool = False, checks: ObjectChecks | Literal[Absent.ABSENT] = ABSENT
) -> Iterator[Damage]:
    """All damage of all repositories.

    With `objects` or `checks`, this includes objects that are missing or have another size.
    Cost: everything reachable is read once, and the list of all repositories.
    """
    if objects and checks is ABSENT:
        checks = ObjectChecks()
    everyone = list(repositories.every(ports.kv))
    namespaces = Namespaces((record.id, record.namespace) for record in everyone)
    for record in everyone:
        if checks is not ABSENT and checks.is_before(record.id):
            continue
        repo = open_repository(ports, record)
        for where, damage in _namespace(repo, namespaces):
            yield Damage(repo.id, where, damage)
        for where, damage in _repository(repo, checks):
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


def _repository(
    repo: OpenRepository, checks: ObjectChecks | Literal[Absent.ABSENT]
) -> Iterator[Found]:
    heads = [
        (f"branch {each.id}", each.branch.commit) for each in branches.every(repo.kv, repo.record)
    ]
    heads += [(f"tag {each.id}", each.tag.commit) for each in tags.every(repo.kv, repo.record)]
    seen: set[CommitId] = set()
    metaranges: dict[MetarangeId, _Content] = {}
    expired = {
        id: mark.spent
        for id, mark in garbage.list_marks(repo.kv, repo.record)
        if id not in {head for _, head in heads}
    }
    for where, head in heads:
        yield from _history(repo, where, head, seen, metaranges, expired)
    space = keyspace(repo)
    sound: set[str] = set()
    whole: dict[str, RangeRef] = {}  # sound ranges with objects to check
    for metarange, (where, has_objects) in metaranges.items():
        damaged = False
        for damage in metarange_damages(space, metarange, frozenset(sound)):
            damaged = True
            yield f"{where}, file {damage.id}", damage.reason
        if damaged:
            continue
        refs = reader.ranges(space, metarange)
        if has_objects:
            whole.update((ref.id, ref) for ref in refs)
        sound.update(ref.id for ref in refs)
    if checks is not ABSENT:
        for name in sorted(whole):
            if not checks.is_before(repo.id, name):
                yield from _committed_objects(repo, whole[name], checks)
        yield from _staged_objects(repo, checks)


def _history(
    repo: OpenRepository,
    where: str,
    head: CommitId,
    seen: set[CommitId],
    metaranges: dict[MetarangeId, _Content],
    expired: Mapping[str, DeletedContent],
) -> Iterator[Found]:
    """Damage in the history of `head`, which `where` names; adds the metaranges to check to
    `metaranges`."""
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
    repo: OpenRepository, ref: RangeRef, checks: ObjectChecks
) -> Iterator[Found]:
    for record in chain.from_iterable(reader.range_batches(keyspace(repo), ref)):
        yield from _object(repo, ref.id, record, checks)


def _staged_objects(repo: OpenRepository, checks: ObjectChecks) -> Iterator[Found]:
    for named in branches.every(repo.kv, repo.record):
        cursor = stack.view(repo.kv, named.branch.tokens_newest_first, fanout=repo.fanout)
        while (item := cursor.peek()) is not END:
            if item[1] is not TOMBSTONE:
                yield from _object(repo, f"{_STAGED}:{named.id}", (item[0], item[1]), checks)
            cursor.advance()


def _object(
    repo: OpenRepository, part: str, record: Record, checks: ObjectChecks
) -> Iterator[Found]:
    """Damage of one object.  `part`: of the position, the range or the branch."""
    path = record[0].decode(errors="replace")
    if checks.is_before(repo.id, part, path):
        return
    size = 0
    try:
        entry = decode_entry(record[1])
        place = read.address_of(repo, entry)
        if not checks.content:
            head = repo.blocks.head(place)
            defect = "" if head.size == entry.size else _other_size(entry, head.size)
        elif checks.is_new(f"{place} {entry.size} {entry.checksum}"):
            body = repo.blocks.get(place)
            size, defect = body.head.size, _compared(entry, body)
        else:
            defect = ""
    except GravelerError as error:
        defect = f"object cannot be read: {error}"
    if defect:
        yield f"path {path}", defect
    checks.note(f"{repo.id}/{part}/{path}", size)


def _other_size(entry: Entry, size: int) -> str:
    return f"object has another size: recorded={entry.size} found={size}"


def _compared(entry: Entry, body: Body) -> str:
    """What is wrong with the bytes of an object; empty if nothing is.  They are all read, also if
    no checksum of them is known."""
    head = body.head
    if head.size != entry.size:
        return _other_size(entry, head.size)
    md5, crc32c = hashlib.md5(usedforsecurity=False), 0
    has_md5 = _MD5.fullmatch(entry.checksum) is not None and not head.encryption
    for chunk in body.chunks:
        if has_md5:
            md5.update(chunk)
        elif head.crc32c is not ABSENT:
            crc32c = extended(crc32c, chunk)
    if has_md5 and md5.hexdigest() != entry.checksum:
        return f"object has other bytes: recorded={entry.checksum} found={md5.hexdigest()}"
    if not has_md5 and head.crc32c not in (ABSENT, crc32c):
        return f"object has other bytes: crc32c={head.crc32c:08x} found={crc32c:08x}"
    if not has_md5 and entry.address_type is not AddressType.RELATIVE:
        return "" if head.etag == entry.checksum else "object outside was replaced since"
    return ""
