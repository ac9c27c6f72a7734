"""Marking: removes from the candidates what is in use, or may be in use before an operation ends.

    1 branches, then the staged rows of every token that a branch or a clean-up record names
    2 upload addresses, tables of dumps  3 the records of all commits             4 refs once more
    5 content of commits, and of metaranges that no commit has, range by range

The order matters:

- An entry moves from a token into a commit, never back.  So rows are read before commits.
- The commit that a ref moves to has its record before the move.  So commits are read before the
  second look at the refs.
- An operation that checked before the condemnation may put a branch on a condemned commit.  The
  first look sees that branch.  Commits that are made from it later are not condemned, and they
  have a record by then.

Content is *kept* for commits that retention keeps.  It is *needed* also for every other commit
until its mark of condemnation has stood for the whole undo period.  Metaranges and ranges are kept
for all ancestors of refs and of kept commits, because a merge base must stay readable.

Used by collect.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from graveler.block.address import FILES
from graveler.engine.dumps import dump
from graveler.engine.gc.candidates import Candidates, used_name
from graveler.engine.gc.content import NO_FILE, Content
from graveler.engine.gc.retention import (
    check_restored,
    get_rule,
    kept,
    list_refs,
    with_ancestors,
)
from graveler.engine.ports import OpenRepository
from graveler.errors import Corrupt
from graveler.ids import CommitId, MetarangeId, StagingToken
from graveler.records import TOMBSTONE, Commit, Repository
from graveler.refs.gc import marks as condemned
from graveler.refs.gc import unreachable
from graveler.refs.gc.marks import DeletedContent, Mark
from graveler.refs.graph import commits
from graveler.refs.tokens import cleanups, uploads
from graveler.staging import area
from graveler.wire import decode_entry

_USES_COUNT_MIN = 100  # from this many uses on, a list that lacks most of them is rejected


@dataclass(slots=True)
class Verdict:
    """The result of marking.

    `condemn`, `revive`: ids of commits and metaranges to condemn, and to condemn no longer.
    `spend`: new marks of the commits that lose content once anything that is due is deleted; the
    marks must record the loss by then.  `lost`: commits that no ref reaches and that are not
    recorded as such yet.  `found`: recorded ones that a ref reaches again.  `commits`, `kept`:
    counts of commits.
    """

    condemn: set[str] = field(default_factory=set)
    revive: set[str] = field(default_factory=set)
    spend: dict[str, Mark] = field(default_factory=dict)
    lost: set[CommitId] = field(default_factory=set)
    found: set[CommitId] = field(default_factory=set)
    commits: int = 0
    kept: int = 0


class Due(NamedTuple):
    """Marks have stood long enough if one of the `runs` set them, not later than `since_ns`."""

    since_ns: int
    runs: frozenset[str]

    def has(self, mark: Mark) -> bool:
        """Whether this mark has stood long enough."""
        return mark.since_ns <= self.since_ns and mark.run in self.runs


def mark(repo: OpenRepository, content: Content, ripe: Due) -> Verdict:
    """Remove from the candidates of `content`, which is new, everything that is in use.

    `ripe`: which marks have stood long enough.

    Raises `Gone` or `Corrupt` if anything needed cannot be read, or if most of it was not listed:
    nothing may be deleted then.  Cost: rows, commits, metaranges and ranges are read once each,
    except ranges that an earlier attempt of the job has read.
    """
    candidates = content.candidates
    first = list_refs(repo)
    check_restored(repo, first)
    _strike_staged(repo, candidates, first.tokens)
    for name, _ in uploads.list_all(repo.kv, repo.record):
        candidates.strike(name, is_kept=True)
    in_dumps = dump.files_in_use(repo)
    for id in in_dumps:
        candidates.strike(FILES + id, is_kept=True)
    history = {entry.id: entry.commit for entry in commits.list_all(repo.kv, repo.record)}
    heads = first.heads.joined(list_refs(repo).heads)
    complete(repo, history, heads.commits)
    marks = dict(condemned.list_all(repo.kv, repo.record))
    gone = _gone(history, marks, candidates)
    since = dict(unreachable.list_all(repo.kv, repo.record))
    alive, led_to = kept(get_rule(repo), history, heads, since, repo.clock.now_ns())
    alive -= gone
    alive |= {id for id in history.keys() - gone if _is_young(history[id], candidates)}
    alive -= spent(history, marks, alive)
    due = {id for id, set_ in marks.items() if ripe.has(set_)}
    spent_ids = {id for id, set_ in marks.items() if set_.spent} - alive
    # Sorted, because it leads to requests: a simulation must not depend on the hash of strings.
    needed = history.keys() - gone - spent_ids - (due - alive)
    stay = with_ancestors(history, heads.commits | alive) - gone
    held = with_ancestors(history, needed | stay) - gone
    for id in sorted(needed):
        content.add(history[id].metarange, is_kept=id in alive, stays=id in stay)
    for id in sorted(held - needed):
        content.add_files(history[id].metarange, is_kept=id in stay)
    dead = history.keys() - alive - gone - spent_ids
    verdict = Verdict(set(dead), commits=len(history), kept=len(alive))
    losing = {id for id in map(CommitId, due | spent_ids) if id in history} - alive - gone
    verdict.spend = spending(history, marks, losing, held)
    verdict.lost = history.keys() - led_to - gone - since.keys()
    verdict.found = since.keys() & led_to
    named = {commit.metarange for commit in history.values()}
    verdict.condemn |= content.add_orphans(named, in_dumps | due)
    verdict.condemn |= {history[id].metarange for id in dead} - content.kept - set(NO_FILE)
    content.strike()
    verdict.revive = marks.keys() & (alive | content.kept | in_dumps)
    _check_listed(repo.record, candidates)
    return verdict


def spent(
    history: Mapping[CommitId, Commit], marks: Mapping[str, Mark], alive: set[CommitId]
) -> set[CommitId]:
    """Commits of `alive` whose content is gone, at least in part: their marks record the loss, and
    no commit with complete content shares their metarange.  Pure.
    """
    spent_ids = {id for id in alive if id in marks and marks[id].spent}
    whole = {history[id].metarange for id in alive - spent_ids}
    return {id for id in spent_ids if history[id].metarange not in whole.union(NO_FILE)}


def spending(
    history: Mapping[CommitId, Commit],
    marks: Mapping[str, Mark],
    losing: Iterable[CommitId],
    held: set[CommitId],
) -> dict[str, Mark]:
    """New marks of the commits `losing`, which record that they lose their content.

    Left out are commits whose marks record it already, and commits without content.  Commits of
    `held` keep metarange and ranges.  Pure.
    """
    new_marks: dict[str, Mark] = {}
    for id in losing:
        new = marks[id]._replace(spent=DeletedContent.OBJECTS if id in held else DeletedContent.ALL)
        if new != marks[id] and history[id].metarange not in NO_FILE:
            new_marks[id] = new
    return new_marks


def _strike_staged(
    repo: OpenRepository, candidates: Candidates, tokens: Iterable[StagingToken]
) -> None:
    dropped = {pending.token for pending in cleanups.list_cleanups(repo.kv, repo.record)}
    for token in sorted(dropped.union(tokens)):
        for _, row in area.scan(repo.kv, token):
            if row.value is not TOMBSTONE:
                candidates.strike(used_name(repo.record, decode_entry(row.value)), is_kept=True)


# ---- commits -------------------------------------------------------------------------------------


def complete(
    repo: OpenRepository, history: dict[CommitId, Commit], heads: Iterable[CommitId]
) -> None:
    """Add the commits that were made after the list was read, as far as refs reach them.  1 KV
    request for each.
    """
    todo = sorted(id for id in heads if id not in history)
    while todo:
        id = todo.pop()
        if id not in history:
            history[id] = commits.get(repo.kv, repo.record, id)
            todo.extend(history[id].parents)


def _gone(
    history: Mapping[CommitId, Commit], marks: Mapping[str, Mark], candidates: Candidates
) -> set[CommitId]:
    """Condemned commits whose metarange was deleted.  A metarange is deleted before the other
    files.
    """

    def is_gone(metarange: MetarangeId) -> bool:
        return metarange not in NO_FILE and FILES + metarange not in candidates.names

    return {id for id in map(CommitId, marks) if id in history and is_gone(history[id].metarange)}


def _is_young(commit: Commit, candidates: Candidates) -> bool:
    """Whether its metarange was written recently.  Such a commit may not have landed yet, whatever
    its date.
    """
    return commit.metarange not in NO_FILE and not candidates.is_old(FILES + commit.metarange)


def _check_listed(repo: Repository, candidates: Candidates) -> None:
    """Raises `Corrupt` if most uses were not listed: if the listing spelled addresses differently,
    everything would be condemned.
    """
    if candidates.uses >= _USES_COUNT_MIN and 2 * candidates.misses > candidates.uses:
        raise Corrupt(
            "most files in use were not found in storage; nothing is collected: "
            f"repository={repo.id} uses={candidates.uses} misses={candidates.misses}"
        )
