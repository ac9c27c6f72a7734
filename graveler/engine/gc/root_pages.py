"""What a collection on a cluster must not delete, in pages, in the only order that is safe.

Staged rows, issued addresses, dumps, bulk jobs; then content, because an entry moves from a token
into a commit, never back.  The continuation token fixes the order.  The first page of content
judges all commits once; a longer result is a snapshot `_graveler/gc/cluster/judged/<kind>-<hash>`,
which the later pages read.  A page whose snapshot is gone raises `Gone`.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.address import FILES
from graveler.core import limits
from graveler.core.errors import Corrupt, Gone, Invalid, NotFound, RangeUnsatisfiable
from graveler.core.ids import MetarangeId, StagingToken
from graveler.core.records import TOMBSTONE, Repository, Staged
from graveler.core.wire import decode_entry
from graveler.engine import dump
from graveler.engine.bulk import job
from graveler.engine.gc import mark
from graveler.engine.gc.listing import used_name
from graveler.engine.gc.mark import Need, Objects
from graveler.engine.gc.retention import list_refs
from graveler.engine.ports import OpenRepository
from graveler.refs import cleanups, uploads
from graveler.staging import area

_FOLDER: Final = "_graveler/gc/cluster/judged"
_SPOT: Final = re.compile(r"([0-9a-f]{64})-([0-9]{1,12})-([0-9]{1,12})", re.ASCII)
_PHASES: Final = ("staged", "issued", "dumped", "jobs", "content")
_KIND: Final = "roots"
_RECORD_LENGTH: Final = len(f"{'0' * 64} 00\n")
_SCANS_MAX: Final = 200  # per page: branches may have many tokens without rows
_OBJECTS: Final[Mapping[Objects, Literal["kept", "expiring", "due", "gone"]]] = {
    Objects.KEPT: "kept",
    Objects.EXPIRING: "expiring",
    Objects.DUE: "due",
    Objects.GONE: "gone",
}


class SnapshotPlace(NamedTuple):
    """A place in a snapshot: its name, the number of records before the place, the number of all
    records.
    """

    name: str
    at: int
    total: int

    def __str__(self) -> str:
        return f"{self.name}-{self.at}-{self.total}"


class RecordPage(NamedTuple):
    """Consecutive records; `following`: the place of the next page, empty after the last."""

    records: Sequence[bytes]
    following: str


def first_records(
    repo: OpenRepository, kind: str, records: Sequence[bytes], amount: int
) -> RecordPage:
    """The first `amount` of `records`, which are sorted and of one length."""
    if len(records) <= amount:
        return RecordPage(records, "")
    body = b"".join(records)
    name = sha256(body).hexdigest()
    repo.blocks.put(_place(repo.record, kind, name), [body])
    return RecordPage(records[:amount], str(SnapshotPlace(name, amount, len(records))))


def later_records(
    repo: OpenRepository, kind: str, place: SnapshotPlace, amount: int, length: int
) -> RecordPage:
    """At most `amount` records of `length` bytes, from a place in a snapshot of this `kind` on."""
    number = min(amount, place.total - place.at)
    try:
        raw = repo.blocks.read(
            _place(repo.record, kind, place.name), place.at * length, number * length
        )
    except NotFound as error:
        raise Gone(
            "the result of the first page has expired; begin again without after: "
            f"repository={repo.id} after={place}"
        ) from error
    except RangeUnsatisfiable:
        raw = b""
    records = [raw[at : at + length] for at in range(0, len(raw), length)]
    if len(raw) != number * length or records != sorted(set(records)):
        raise Corrupt(f"snapshot of a judgement is damaged: repository={repo.id} after={place}")
    behind = place._replace(at=place.at + number)
    return RecordPage(records, str(behind) if behind.at < place.total else "")


def parse_place(text: str) -> SnapshotPlace:
    """The place that a page returned.  `Invalid` for any other text."""
    match = _SPOT.fullmatch(text)
    if match is not None:
        place = SnapshotPlace(match[1], int(match[2]), int(match[3]))
        if place.at < place.total:
            return place
    raise Invalid(f"after must be the value that the previous page returned: after={text!r:.80}")


def _place(repo: Repository, kind: str, name: str) -> str:
    return address.join(repo.namespace, f"{_FOLDER}/{kind}-{name}")


class Root(NamedTuple):
    """Something in use: a relative address, a bulk job, or a metarange.

    `kept`: everything that it names stays, too.  `files`: the metarange and its ranges stay.
    `objects`: what happens to the objects of its entries:

        kept        they stay
        expiring    they must stay until they were condemned for the undo period
        due         they may be deleted after a call of `cluster.sweep`
        gone        an earlier `cluster.sweep` has given them up
    """

    kind: Literal["address", "job", "metarange"]
    name: str
    kept: bool = True
    files: bool = True
    objects: Literal["kept", "expiring", "due", "gone"] = "kept"


class RootPage(NamedTuple):
    """Some roots; `following`: the continuation token of the next page, empty after the last."""

    roots: list[Root]
    following: str


class _Place(NamedTuple):
    """Where a page begins: the phase, and the position in it.  `key`: a position in a shard, in
    hex.
    """

    phase: str
    name: str = ""
    shard: int = 0
    key: str = ""


_Part = tuple[list[Root], _Place | None]  # None: the phase is over


def page(repo: OpenRepository, after: str, amount: int) -> RootPage:
    """At most `amount` roots from the continuation token `after` on; perhaps none although more
    follow.

    Errors: `Invalid` for an `after` that no page returned; `Gone` if the snapshot of the judgement
    is not stored any more: begin again.

    Cost: for addresses 1 KV request for each 1,000 refs and clean-up records, and 1 for each shard
    with rows, at most 200; for metaranges the first page costs what `roots.needed` costs, and a put
    if there are more of them; each other page costs a read.
    """
    place = _decoded(after)
    limit = max(1, min(amount, limits.bulk_page_count_max))
    records, following = _READERS[place.phase](repo, place, limit)
    if following is None:
        behind = _PHASES[_PHASES.index(place.phase) + 1 :]
        following = _Place(behind[0]) if behind else None
    return RootPage(records, "" if following is None else encoded(following))


def _staged(repo: OpenRepository, place: _Place, amount: int) -> _Part:
    named = set(list_refs(repo).tokens)
    named |= {pending.token for pending in cleanups.list_cleanups(repo.kv, repo.record)}
    entries: list[Root] = []
    scans = 0
    for token in sorted(each for each in named if each >= place.name):
        begun = token == place.name
        for shard in range(place.shard if begun else 0, area.shard_count(token)):
            resumed = begun and shard == place.shard
            start, more = bytes.fromhex(place.key) if resumed else b"", True
            while more:
                if len(entries) >= amount or scans >= _SCANS_MAX:
                    return entries, _Place("staged", token, shard, start.hex())
                rows, more = area.shard_page(repo.kv, token, shard, start, amount - len(entries))
                scans += 1
                entries += [each for _, row in rows for each in _used(repo.record, row)]
                start = rows[-1][0] + b"\0" if rows else start
    return entries, None


def _used(repo: Repository, row: Staged) -> list[Root]:
    name = "" if row.value is TOMBSTONE else used_name(repo, decode_entry(row.value))
    return [Root("address", name)] if name else []


def _issued(repo: OpenRepository, place: _Place, amount: int) -> _Part:
    issued: list[Root] = []
    for name, _ in uploads.list_addresses(repo.kv, repo.record, place.name):
        if len(issued) == amount:
            return issued, _Place("issued", issued[-1].name)
        issued.append(Root("address", name))
    return issued, None


def _dumped(repo: OpenRepository, place: _Place, amount: int) -> _Part:
    names = sorted(FILES + id for id in dump.files_in_use(repo))
    rest = [Root("address", name) for name in names if name > place.name]
    return rest[:amount], _next("dumped", rest, amount)


def _jobs(repo: OpenRepository, place: _Place, amount: int) -> _Part:
    alive = sorted(each.job.id for each in job.list_alive(repo))
    rest = [Root("job", name) for name in alive if name > place.name]
    return rest[:amount], _next("jobs", rest, amount)


def _content(repo: OpenRepository, place: _Place, amount: int) -> _Part:
    if place.name:
        begin = parse_place(place.name)
        part = later_records(repo, _KIND, begin, amount, _RECORD_LENGTH)
    else:
        judged = [_root_record(*each) for each in sorted(mark.needed(repo).items())]
        part = first_records(repo, _KIND, judged, amount)
    following = _Place("content", part.following) if part.following else None
    return [_root(each) for each in part.records], following


def _root_record(name: MetarangeId, need: Need) -> bytes:
    return f"{name} {need.objects:d}{need.files:d}\n".encode()


def _root(record: bytes) -> Root:
    name, need = record.decode().split()
    objects, files = Objects(int(need[0])), need[1] == "1"
    return Root("metarange", name, objects is Objects.KEPT, files, _OBJECTS[objects])


def _next(phase: str, rest: list[Root], amount: int) -> _Place | None:
    return _Place(phase, rest[amount - 1].name) if len(rest) > amount else None


_Reader = Callable[[OpenRepository, _Place, int], _Part]
_READERS: Final[dict[str, _Reader]] = {
    "staged": _staged,
    "issued": _issued,
    "dumped": _dumped,
    "jobs": _jobs,
    "content": _content,
}


def encoded(place: tuple[object, ...]) -> str:
    """A place in a listing, as the text that the next page is asked with."""
    return urlsafe_b64encode(json.dumps(place).encode()).decode()


def _decoded(after: str) -> _Place:
    if not after:
        return _Place(_PHASES[0])
    try:
        phase, name, shard, key = json.loads(urlsafe_b64decode(after))
        place = _Place(phase, StagingToken(name), shard, key)
        wrong = phase not in _PHASES or not isinstance(name, str) or type(shard) is not int
        bytes.fromhex(key)
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_returned(after) from error
    if wrong or not 0 <= shard < limits.staging_shard_count_max:
        raise _not_returned(after)
    return place


def _not_returned(after: str) -> Invalid:
    return Invalid(f"after must be the value that the previous page returned: after={after!r:.80}")
