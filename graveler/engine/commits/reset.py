"""Resets: uncommitted changes are dropped, all of them or below one path or prefix; or the head
moves.

Dropping all puts a fresh staging token in place and takes every other one off the record.  Dropping
some covers them: a new token, filled beforehand with what the commit says at those paths, is put on
top of the old ones as the newest sealed, under a fresh open one.  It is never open itself: its rows
are written blindly, and a late twin of such a write must not undo a writer's.  It has a clean-up
intent that may not be acted on before every operation alive now is gone; after a failed swap it is
left alone, for the swap may have landed.  Basis: docs/protocol.md.
"""

from collections.abc import Iterator
from itertools import islice

from graveler import limits
from graveler.committed import reader
from graveler.engine.commits import land
from graveler.engine.commits.records import check_kept, commit_of, fresh, new_token, resolved, swap
from graveler.engine.ports import (
    Deadline,
    Ports,
    Unconfirmed,
    check_writable,
    keyspace,
    operation_deadline,
)
from graveler.errors import Conflict, Contended
from graveler.ids import BranchId, StagingToken, parse_branch_id, parse_path, parse_prefix
from graveler.kv.store import Write
from graveler.records import ABSENT, TOMBSTONE, CommitEntry, Repository, Versioned
from graveler.refs.tokens import cleanups
from graveler.staging import area, stack
from graveler.streams import END, Item

_SMALLER = "nothing was dropped; reset smaller prefixes, or the whole branch at once"


def reset(ports: Ports, repo: Repository, branch: str, *, force: bool = False) -> None:
    """Drop every uncommitted change of `branch`.  Errors: `NotFound`, `Refused`, `Contended`.

    Atomic.  Cost: 3 KV requests.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)
    grace_ns = ports.settings.token_grace_seconds * limits.SECOND_NS
    seen = fresh(ports, repo, name)
    with Unconfirmed("reset") as sent:
        for _ in range(limits.commit_round_count_max):
            record = seen.branch
            token = new_token(ports, repo, record.recent_rows)
            dropped = (*record.sealed, record.staging)
            due_ns = ports.clock.now_ns() + grace_ns
            ports.kv.set_many(cleanups.cleanup_writes(repo, name, dropped, due_ns, ports.ids))
            wanted = record._replace(
                rev=record.rev + 1,
                staging=token,
                sealed=(),
                changed_ns=ports.clock.now_ns(),
            )
            if swap(ports, repo, name, seen, wanted) is not None:
                return
            sent.note()
            seen = fresh(ports, repo, name)
            if token in seen.branch.tokens_newest_first:
                return
    raise Contended(f"reset kept losing; try again: branch={name}")


def reset_path(
    ports: Ports, repo: Repository, branch: str, path: str, *, force: bool = False
) -> None:
    """Drop the uncommitted change of one path; none there is no error.  Errors as `reset`."""
    key = parse_path(path)
    _cover(ports, repo, parse_branch_id(branch), (key, key + b"\0"), force)


def reset_prefix(
    ports: Ports, repo: Repository, branch: str, prefix: str, *, force: bool = False
) -> None:
    """Drop the uncommitted changes of all paths that begin with `prefix`.  Errors as `reset`, and
    `Unavailable` if they are too many for the time of a request: nothing was dropped then.

    Atomic.  An empty prefix is a `reset`, whatever is staged.  Holds `limits.kv_batch_count_max`
    rows at a time.  More of them than that are read twice: to count them, and to cover them.
    """
    stem = parse_prefix(prefix)
    if not stem:
        reset(ports, repo, branch, force=force)
        return
    _cover(ports, repo, parse_branch_id(branch), (stem, b""), force)


def _cover(
    ports: Ports, repo: Repository, branch: BranchId, stretch: tuple[bytes, bytes], force: bool
) -> None:
    check_writable(repo, force)
    deadline = operation_deadline(ports)
    with Unconfirmed("reset") as sent:
        for _ in range(limits.commit_round_count_max):
            deadline.check("reset")
            seen = fresh(ports, repo, branch)
            batches = _staged(ports, seen, stretch, deadline)
            keys = next(batches, None)
            if keys is None:
                return
            if len(seen.branch.sealed) >= limits.reset_token_count_max:
                raise Conflict(
                    f"too many resets since the last commit; commit first: branch={branch}"
                )
            further = sum(len(batch) for batch in batches)
            token = _noted(ports, repo, branch, len(keys) + further)
            _fill(ports, token, _reverting(ports, repo, seen, keys))
            if further:
                for batch in _staged(ports, seen, stretch, deadline, keys[-1] + b"\0"):
                    _fill(ports, token, _reverting(ports, repo, seen, batch))
            record = seen.branch
            wanted = record._replace(
                rev=record.rev + 1,
                staging=new_token(ports, repo, record.recent_rows),
                sealed=(*record.sealed, record.staging, token),
                changed_ns=ports.clock.now_ns(),
            )
            if swap(ports, repo, branch, seen, wanted) is not None:
                return
            sent.note()
            if token in fresh(ports, repo, branch).branch.tokens_newest_first:
                return
    raise Contended(f"reset kept losing; try again: branch={branch}")


def _staged(
    ports: Ports,
    seen: Versioned,
    stretch: tuple[bytes, bytes],
    deadline: Deadline,
    begin: bytes = b"",
) -> Iterator[list[bytes]]:
    """Staged keys from the first of `stretch` to before its second (empty: all with that prefix),
    none before `begin`, as many at a time as one batch writes.

    Two calls may differ by what was written in between, which is as good as written after the
    reset or before it.
    """
    start, end = stretch
    cursor = stack.view(ports.kv, seen.branch.tokens_newest_first, fanout=ports.fanout)
    cursor.seek(max(start, begin))

    def keys() -> Iterator[bytes]:
        while (item := cursor.peek()) is not END:
            if (item[0] >= end) if end else (not item[0].startswith(start)):
                return
            yield item[0]
            cursor.advance()

    found = keys()
    while batch := list(islice(found, limits.kv_batch_count_max)):
        deadline.check("reset", _SMALLER)
        yield batch


def _reverting(ports: Ports, repo: Repository, seen: Versioned, keys: list[bytes]) -> list[Item]:
    head = commit_of(ports, repo, seen.branch.commit)
    there = reader.get_many(keyspace(ports, repo), head.metarange, keys)
    return [(key, there.get(key, TOMBSTONE)) for key in keys]


def _noted(ports: Ports, repo: Repository, branch: BranchId, rows: int) -> StagingToken:
    """A token that nobody knows yet; noted for clean-up before it has a row."""
    token = new_token(ports, repo, rows)
    due_ns = area.born_ns(token) + ports.settings.unnamed_token_seconds * limits.SECOND_NS
    ports.kv.set_many(cleanups.cleanup_writes(repo, branch, [token], due_ns, ports.ids))
    return token


def _fill(ports: Ports, token: StagingToken, items: list[Item]) -> None:
    wid = ports.ids.stamp()
    writes: list[Write] = [
        area.row_write(token, key, value, wid=wid, version=ports.ids.stamp())
        for key, value in items
    ]
    ports.kv.set_many(writes)


def hard_reset(
    ports: Ports, repo: Repository, branch: str, ref: str, *, force: bool = False
) -> CommitEntry:
    """Put `branch` on the commit that `ref` means; relative refs are resolved anew in every round.

    Errors: `NotFound`, `DirtyBranch`, `Refused`, `Contended`.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)

    def target() -> tuple[CommitEntry, bytes]:
        found = resolved(ports, repo, ref)
        check_kept(ports, repo, found.commit)
        is_own = found.branch is not ABSENT and found.branch_id == name
        at = found.branch.version if found.branch is not ABSENT and is_own else b""
        return CommitEntry(found.commit, commit_of(ports, repo, found.commit)), at

    return land.put_on(ports, repo, name, target)
