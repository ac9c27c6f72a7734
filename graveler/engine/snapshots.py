"""Snapshots: a log of Delta Lake over the files of a commit, at an address that stays.

    begin ──► record: this commit is kept ──► a URL that creates exactly the next file of the log
    the caller puts the file: from then on readers see the version      withdraw ──► record, log

The engine never reads the log: whoever publishes reads the footers of the files, and writes it.  A
version that was begun is finished by the same table only, or by any other one after a while.
"""

import re
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from graveler.block import address
from graveler.block.adapter import PutTerms, Target
from graveler.block.drivers import list_all
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid, NotFound, PreconditionFailed, Unsupported
from graveler.core.ids import CommitId, parse_prefix
from graveler.core.records import ABSENT
from graveler.engine.commits.heads import check_kept, committed
from graveler.engine.ports import OpenRepository, check_writable
from graveler.refs import snapshots
from graveler.refs.snapshots import Known, Snapshot

_FOLDER: Final = "_graveler/snapshots"
_LOG: Final = "_delta_log"
# What stands in a URL as it is, so that every engine spells an address in the same way.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*(/[A-Za-z0-9_][A-Za-z0-9_.=-]*)*", re.ASCII)
_NAME_LENGTH_MAX: Final = 512
_LEASE_NS: Final = 4 * limits.presign_seconds_max * limits.SECOND_NS
_SCHEME: Final = "s3://"


class Publication(NamedTuple):
    """A version to publish.  `url`: where its file is put; empty if it was put before."""

    snapshot: Snapshot
    url: str


def table_address(repo: OpenRepository, name: str) -> str:
    """The address under which engines read a snapshot."""
    return address.join(repo.namespace, f"{_FOLDER}/{name}")


def get(repo: OpenRepository, name: str) -> Snapshot:
    """The version that readers see.  Errors: `NotFound`, `Invalid`, `Unsupported`.  1 KV request,
    and 1 of the storage."""
    snapshot = _published(repo, snapshots.find(repo.kv, repo.record, _checked(repo, name)))
    if snapshot is ABSENT:
        raise NotFound(f"snapshot not found: {name=}")
    return snapshot


def begin(repo: OpenRepository, name: str, ref: str, path: str, version: int) -> Publication:
    """Begin to publish the table below `path` at the commit of `ref` as a `version`: the one after
    the published one, or 0.  From now on the commit is kept.  If that version of the same table is
    published, nothing is done; if it was begun, it goes on.

    Errors: `Invalid`, `NotFound`, `Gone` (the commit has expired), `PreconditionFailed` (another
    version follows), `Conflict` (another publication of this name goes on, or a log without a
    record is there), `Unsupported` (the files are in no S3), `Refused`.  Cost: 2 KV requests, those
    of `ref`, 1 of the storage.
    """
    check_writable(repo.record, force=False)
    _checked(repo, name)
    parse_prefix(path)
    commit = committed(repo, ref).commit
    check_kept(repo, commit)
    wanted = Snapshot(name, commit, path, version, began_ns=repo.clock.now_ns())
    done: list[Snapshot] = []

    def change(known: Known) -> Known:
        done.clear()
        published = _published(repo, known)
        if published is not ABSENT and _same(published, wanted):
            done.append(published)
            return ABSENT
        following = 0 if published is ABSENT else published.version + 1
        if version != following:
            raise PreconditionFailed(
                f"snapshot has other versions; read it again: {name=} {version=} {following=}"
            )
        if known is not ABSENT and _holds(known, wanted):
            raise _being_published(known)
        if known is ABSENT and repo.blocks.list(_log(repo, name), "", 1).lines:
            raise Conflict(f"a log without a record is there; withdraw it first: {name=}")
        if published is ABSENT:
            return wanted
        return replace(wanted, before_commit=published.commit, before_path=published.path)

    snapshots.replace(repo.kv, repo.record, name, repo.ids, change)
    if done:
        return Publication(done[0], "")
    terms = PutTerms(only_create=True)
    where = _file(repo, name, version)
    url = repo.blocks.presign(where, "PUT", limits.presign_seconds_max, "", terms=terms).url
    return Publication(wanted, url)


def withdraw(repo: OpenRepository, name: str) -> None:
    """Delete the record of a snapshot, so its commits are kept no longer on its account, then its
    log; also a log without a record, which a call that died, or another repository, has left.

    Errors: `NotFound`, `Conflict` (it is being published, and the file may still be put),
    `Refused`.  Cost: 2 KV requests, 1 of the storage; for each 1,000 versions a list and a
    deletion.
    """
    check_writable(repo.record, force=False)
    _checked(repo, name)
    now_ns = repo.clock.now_ns()

    def check(known: Snapshot) -> None:
        if not _is_put(repo, name, known.version) and _is_leased(known, now_ns):
            raise _being_published(known)

    found = snapshots.end(repo.kv, repo.record, name, repo.ids, check)
    files = list_all(repo.blocks, _log(repo, name))
    while page := [Target(file.address) for file in islice(files, limits.block_delete_count_max)]:
        found = True
        repo.blocks.delete_all(page)
    if not found:
        raise NotFound(f"snapshot not found: {name=}")


def list_page(
    repo: OpenRepository, prefix: str, after: str, amount: int
) -> tuple[tuple[Snapshot, ...], bool]:
    """At most `amount` snapshots by name, also those whose first version is not put yet; and
    whether more follow."""
    return snapshots.list_page(repo.kv, repo.record, prefix, after, amount)


def _checked(repo: OpenRepository, name: str) -> str:
    if not repo.namespace.startswith(_SCHEME):
        raise Unsupported(
            "snapshots need files that other engines can open, in S3: use the S3 gateway here: "
            f"storage_namespace={repo.namespace}"
        )
    if not _NAME.fullmatch(name) or len(name) > _NAME_LENGTH_MAX or f"/{_LOG}/" in f"/{name}/":
        raise Invalid(
            "name of a snapshot invalid: it must have the letters a-z, A-Z, 0-9 and _ . = - and "
            f"slashes between them: {name=!r:.200}"
        )
    return name


def _holds(known: Snapshot, wanted: Snapshot) -> bool:
    """Whether another table may still become the version that is wanted."""
    is_begun = known.version == wanted.version and not _same(known, wanted)
    return is_begun and _is_leased(known, wanted.began_ns)


def _is_leased(known: Snapshot, now_ns: int) -> bool:
    """Whether the URL for the file of the version may still be in use."""
    return known.began_ns + _LEASE_NS > now_ns


def _being_published(known: Snapshot) -> Conflict:
    return Conflict(
        f"snapshot is being published; try again in an hour: name={known.name!r} "
        f"version={known.version} commit={known.commit}"
    )


def _same(one: Snapshot, other: Snapshot) -> bool:
    return (one.commit, one.path) == (other.commit, other.path)


def _published(repo: OpenRepository, known: Known) -> Known:
    """The version whose file is there: the recorded one, or the one before."""
    if known is ABSENT:
        return ABSENT
    if _is_put(repo, known.name, known.version):
        return known
    if not known.version:
        return ABSENT
    return replace(
        known,
        commit=CommitId(known.before_commit),
        path=known.before_path,
        version=known.version - 1,
        before_commit="",
        before_path="",
    )


def _is_put(repo: OpenRepository, name: str, version: int) -> bool:
    try:
        repo.blocks.head(_file(repo, name, version))
    except NotFound:
        return False
    return True


def _log(repo: OpenRepository, name: str) -> str:
    return f"{table_address(repo, name)}/{_LOG}/"


def _file(repo: OpenRepository, name: str, version: int) -> str:
    return f"{_log(repo, name)}{version:020}.json"
