"""What a collection on a cluster must not delete, in pages, in the only order that is safe.

    staged    addresses of staged rows, of every token that a branch or a clean-up record names
    issued    upload addresses that were handed out
    dumped    tables of dumps of refs
    jobs      bulk jobs that may still land: everything below `_graveler/jobs/<id>/` is in use
    content   metaranges of commits whose content must stay; read last, because an entry moves from
              a token into a commit, never back

The continuation token fixes that order, so no reader can get it wrong.  Tokens are sorted by their
time of creation, and each page lists them again, so a token that is created meanwhile comes later.
Files that are younger than `collect_min_age_seconds` are not listed for their age: they must never
be deleted.

The first page of content judges all commits once.  If the result does not fit into one page, that
page stores a snapshot (judgements.py), and the later pages read it.  No entry is missed (as in
mark.py):

- The continuation token leads to the first page of content only after the last row of the last
  token.  So the judgement begins after all tokens were read.
- A row leaves a token only after the commit that holds it is on its branch.  So an entry that has
  left its token before the token was read is in a commit that the judgement sees.
- A commit that lands after the judgement holds one of three kinds of entries: rows whose addresses
  were read from the tokens; addresses that were staged later, and are too young to be deleted;
  entries of other commits, which were kept, or whose marks refuse their use.

Each read from the beginning judges again.  So the read that follows `cluster.sweep` never gets an
older judgement.  Used by the service.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.block.address import FILES
from graveler.engine.bulk import job
from graveler.engine.dumps import dump
from graveler.engine.gc import judgements, roots
from graveler.engine.gc.candidates import used_name
from graveler.engine.gc.retention import list_refs
from graveler.engine.gc.roots import Need, Objects
from graveler.engine.ports import OpenRepository
from graveler.errors import Invalid
from graveler.ids import MetarangeId, StagingToken
from graveler.records import TOMBSTONE, Repository, Staged
from graveler.refs.tokens import cleanups, uploads
from graveler.staging import area
from graveler.wire import decode_entry

_PHASES: Final = ("staged", "issued", "dumped", "jobs", "content")
_UNCOMMITTED: Final = _PHASES[:2]
_KIND: Final = "roots"
_RECORD_LENGTH: Final = len(f"{'0' * 64} 00\n")
_SCANS_MAX: Final = 200  # per page: branches may have many tokens without rows


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


_OBJECTS: Final[Mapping[Objects, Literal["kept", "expiring", "due", "gone"]]] = {
    Objects.KEPT: "kept",
    Objects.EXPIRING: "expiring",
    Objects.DUE: "due",
    Objects.GONE: "gone",
}


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


def uncommitted(repo: OpenRepository, after: str, amount: int) -> RootPage:
    """A page of the phases staged and issued only: addresses that no commit may name yet.

    Errors and cost: those of `page`.
    """
    if _decoded(after).phase not in _UNCOMMITTED:
        raise _not_returned(after)
    part = page(repo, after, amount)
    if part.following and _decoded(part.following).phase in _UNCOMMITTED:
        return part
    return RootPage(part.roots, "")


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
    for name, _ in uploads.list_all(repo.kv, repo.record, place.name):
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
        spot = judgements.parse_spot(place.name)
        part = judgements.later(repo, _KIND, spot, amount, _RECORD_LENGTH)
    else:
        judged = [_record(*each) for each in sorted(roots.needed(repo).items())]
        part = judgements.first(repo, _KIND, judged, amount)
    following = _Place("content", part.following) if part.following else None
    return [_root(each) for each in part.records], following


def _record(name: MetarangeId, need: Need) -> bytes:
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
