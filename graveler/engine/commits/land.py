"""Landing a commit that was not staged: merge, revert, cherry-pick, import, hard reset.

    1 read    the branch record
    2 clean   nothing staged at all: build on the head, note the commit, swap the record's commit
    3 else    staged rows that differ from the head: refuse (dirty).  Rows that say what the head
    says
              anyway (no-op rows) would undo the landing once they lie on top of it: seal them, look
              again, note what is trimmed, and take them off in the same swap

A failed swap means *unknown*: the commit found in the branch's history has landed, else begin again
on the new head.  Used by merge.py, replay.py, importing.py, commit.py and reset.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.committed import reader
from graveler.engine.commits.records import attempt, commit_of, fresh, lookup
from graveler.engine.commits.seal import (
    Once,
    history_until,
    made_once,
    nothing_staged,
    seal,
    trim_notes,
)
from graveler.engine.ports import Deadline, Ports, Unconfirmed, keyspace
from graveler.errors import (
    Conflict,
    Contended,
    DirtyBranch,
    HistoryTooLong,
    Invalid,
    NotFound,
    OutcomeUnknown,
)
from graveler.framing import identity_of
from graveler.identity import commit_id
from graveler.ids import (
    BranchId,
    StagingToken,
)
from graveler.kv.store import Declined, Write
from graveler.records import ABSENT, TOMBSTONE, Absent, Commit, CommitEntry, Repository, Versioned
from graveler.refs.graph import commits, graph
from graveler.staging import stack
from graveler.streams import END, Item

Build = Callable[[CommitEntry], Commit]  # from the head that it lands on; may raise to refuse
# The commit, and the version of the branch's record that it was found by; empty: by none.
Target = Callable[[], tuple[CommitEntry, bytes]]
_BATCH = 1_000


class Landing(NamedTuple):
    """What one round puts in place: the branch's new commit, and whether to note its record.

    `at`: the version of the branch's record that it was chosen by; empty for any.
    """

    entry: CommitEntry
    is_new: bool
    at: bytes = b""


class Tried(NamedTuple):
    """The commit of an earlier round, whether that round made it, the record that its swap wanted
    to replace, and whether that swap was refused, so that it never landed and never will."""

    entry: CommitEntry
    is_new: bool
    over: Versioned
    is_refused: bool


class Terms(NamedTuple):
    """Until when a commit may land, if not within the time of every commit; and whether it is made
    once: a commit with the mark that the branch has is the answer."""

    deadline: Deadline | None = None
    once: Once | Literal[Absent.ABSENT] = ABSENT


ANY_TIMES: Final = Terms()


def land(
    ports: Ports, repo: Repository, branch: BranchId, build: Build, terms: Terms = ANY_TIMES
) -> CommitEntry:
    """Make the commit that `build` draws on the head, and put the branch on it, atomically.

    Errors: those of `build`, `NotFound`, `DirtyBranch`, `Contended`.  Nothing changes on an error,
    but for staged rows moving from the open to a sealed token.  Cost on a clean branch with one
    shard: 4 KV requests and those of `build`.
    """

    def draw(head: CommitEntry) -> Landing:
        drawn = graph.positioned(lookup(ports, repo), build(head))
        return Landing(CommitEntry(commit_id(drawn), drawn), True)

    return _move(ports, repo, branch, draw, terms)


def put_on(ports: Ports, repo: Repository, branch: BranchId, target: Target) -> CommitEntry:
    """Put the branch on an existing commit (hard reset); `target` is asked again in every round.

    A commit that was chosen by another record than the one to be replaced is not tried: were its
    answer lost, the commit could be found behind a head that others made, as if it had landed.
    """

    def draw(head: CommitEntry) -> Landing:
        entry, at = target()
        return Landing(entry, False, at)

    return _move(ports, repo, branch, draw, ANY_TIMES)


def _move(
    ports: Ports,
    repo: Repository,
    branch: BranchId,
    draw: Callable[[CommitEntry], Landing],
    terms: Terms,
) -> CommitEntry:
    deadline = terms.deadline or Deadline(ports.clock, ports.settings.commit_seconds_max)
    tried: list[Tried] = []
    with Unconfirmed("landing a commit") as sent:
        for _ in range(limits.landing_round_count_max):
            deadline.check("landing a commit")
            seen = fresh(ports, repo, branch)
            landed = _landed(ports, repo, seen, tried, terms.once)
            if landed is not None:
                return landed
            try:
                seen, tokens = _cleaned(ports, repo, branch, seen, deadline)
                landed = _landed(ports, repo, seen, tried, terms.once)
                if landed is not None:
                    return landed
                head = CommitEntry(seen.branch.commit, commit_of(ports, repo, seen.branch.commit))
                landing = draw(head)
            except (Invalid, Conflict, NotFound):
                if not tried:
                    raise
                landed = _landed(ports, repo, _past_landing(ports, repo, branch, tried), tried)
                if landed is not None:
                    return landed
                raise
            if landing.at not in (b"", seen.version):
                continue
            deadline.check("landing a commit")
            _note(ports, repo, landing, trim_notes(ports, repo, branch, landing.entry.id, tokens))
            wanted = seen.branch._replace(
                rev=seen.branch.rev + 1,
                commit=landing.entry.id,
                sealed=seen.branch.sealed[len(tokens) :],
                changed_ns=ports.clock.now_ns(),
            )
            is_refused = False
            with suppress(OutcomeUnknown):
                is_refused = isinstance(attempt(ports, repo, branch, seen, wanted), Declined)
                if not is_refused:
                    return landing.entry
            tried.append(Tried(landing.entry, landing.is_new, seen, is_refused))
            sent.note()
        landed = _landed(ports, repo, fresh(ports, repo, branch), tried)
        if landed is not None:
            return landed
    raise Contended(f"landing a commit kept losing; try again: branch={branch}")


def _cleaned(
    ports: Ports, repo: Repository, branch: BranchId, seen: Versioned, deadline: Deadline
) -> tuple[Versioned, tuple[StagingToken, ...]]:
    """A record to land on, and the tokens to take off it; nothing staged differs from its head."""
    if nothing_staged(ports, seen):
        return seen, ()
    check_clean(ports, repo, branch, seen.branch.tokens_newest_first, seen, deadline)
    sealed = seal(ports, repo, branch, seen)
    tokens = sealed.branch.sealed
    check_clean(ports, repo, branch, tuple(reversed(tokens)), sealed, deadline)
    return sealed, tokens


def check_clean(
    ports: Ports,
    repo: Repository,
    branch: BranchId,
    tokens_newest_first: Sequence[StagingToken],
    seen: Versioned,
    deadline: Deadline,
) -> None:
    """Raises `DirtyBranch` if any staged row says something else than the record's commit.

    Holds `_BATCH` rows at a time; `Unavailable` once the time is over.
    """
    if not tokens_newest_first:
        return
    space = keyspace(ports, repo)
    metarange = commit_of(ports, repo, seen.branch.commit).metarange
    staged = _items(ports, tokens_newest_first)
    while batch := list(islice(staged, _BATCH)):
        deadline.check("landing a commit")
        there = reader.get_many(space, metarange, [key for key, _ in batch])
        for key, value in batch:
            old = there.get(key)
            if value is TOMBSTONE:
                same = old is None
            else:
                same = old is not None and identity_of(old) == identity_of(value)
            if not same:
                raise DirtyBranch(f"{branch}: uncommitted changes (dirty branch)")


def _items(ports: Ports, tokens_newest_first: Sequence[StagingToken]) -> Iterator[Item]:
    cursor = stack.view(ports.kv, tokens_newest_first, fanout=ports.fanout)
    while (item := cursor.peek()) is not END:
        yield item
        cursor.advance()


def _note(ports: Ports, repo: Repository, landing: Landing, notes: list[Write]) -> None:
    if landing.is_new:
        entry = landing.entry
        notes = [commits.write_of(repo, entry.id, entry.commit, ports.ids.stamp()), *notes]
    if notes:
        ports.kv.set_many(notes)
    if landing.is_new:
        ports.cache.put_commit(repo, landing.entry.id, landing.entry.commit)


def _landed(
    ports: Ports,
    repo: Repository,
    seen: Versioned,
    tried: Sequence[Tried],
    once: Once | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry | None:
    """The commit of an earlier round whose swap landed though its answer was lost, perhaps late;
    or that another call has made, if it is to be made once."""
    marked = made_once(ports, repo, once, seen.branch.commit)
    if marked is not ABSENT:
        return marked
    if not tried:
        return None
    now = seen.branch.commit
    ours = {each.entry.id for each in tried if each.is_new}
    try:
        for entry in history_until(ports, repo, now, tried[0].over.branch.commit):
            if entry.id in ours:
                return entry
    except HistoryTooLong:
        if not all(each.is_refused for each in tried):
            raise
    for each in tried:
        if each.is_new or each.is_refused or each.over.version == seen.version:
            continue
        if _was_put_on(tuple(history_until(ports, repo, now, each.entry.id)), each):
            return each.entry
        # Perhaps it landed, and others moved on from there: again would be once too often.
        raise OutcomeUnknown(f"reset not confirmed; outcome unknown: commit={each.entry.id}")
    return None


def _was_put_on(walked: Sequence[CommitEntry], each: Tried) -> bool:
    """Whether a history comes from the commit that a reset chose, and not over the old head.

    Asked because a relative ref (`main~`) would mean something else after the reset landed.
    """
    reached = bool(walked) and walked[-1].id == each.entry.id
    return reached and each.over.branch.commit not in [entry.id for entry in walked[:-1]]


def _past_landing(
    ports: Ports, repo: Repository, branch: BranchId, tried: Sequence[Tried]
) -> Versioned:
    """A fresh record over which no swap of ours can land any more."""
    seen = fresh(ports, repo, branch)
    if any(each.over.version == seen.version for each in tried):
        raise OutcomeUnknown(f"landing a commit not confirmed; outcome unknown: branch={branch}")
    return seen
