"""Marking: strikes off the candidates whatever is in use, or may be before an operation ends.

    1 branches, then the staged rows of every token that a branch or a clean-up record names
    2 upload addresses                   3 the records of all commits             4 refs once more
    5 content of commits, and of metaranges that no commit has, range by range

The order matters.  An entry moves from a token into a commit, never back: rows before commits.  The
commit that a ref is moved to has its record before: commits before the second look.  A branch that
was put on a condemned commit, by somebody who had looked before, is seen by the first look; what is
made from it later is not condemned, and has a record by then.

Content is *kept* for commits that retention keeps; it is *needed* also for any other commit until
its mark has stood for the whole undo period.  For collect.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from graveler import limits
from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.reader import range_batches
from graveler.engine.candidates import FILES, Candidates, used_name
from graveler.engine.ports import Ports, keyspace
from graveler.engine.retention import Heads, get_rule, kept
from graveler.errors import Corrupt, NotFound
from graveler.ids import NO_METARANGE, CommitId, MetarangeId, RangeId
from graveler.records import TOMBSTONE, Commit, RangeRef, Repository
from graveler.refs import branches, cleanups, commits, condemned, tags, uploads
from graveler.refs.branches import NamedBranch
from graveler.staging import area
from graveler.wire import decode_entry

_NO_FILE = (NO_METARANGE, EMPTY_METARANGE)
_USES_COUNT_MIN = 100  # from so many on, a list that lacks most of them is not believed


@dataclass(slots=True)
class Verdict:
    """Ids of commits and metaranges that are to be condemned and that must not be any longer;
    counts of commits."""

    condemn: set[str] = field(default_factory=set)
    revive: set[str] = field(default_factory=set)
    commits: int = 0
    kept: int = 0


def mark(ports: Ports, repo: Repository, candidates: Candidates, due_ns: int) -> Verdict:
    """Strike off what is in use.  `due_ns`: marks that were set by then have stood long enough.

    Raises `Gone` or `Corrupt` if anything needed cannot be read, or most of it was not listed:
    nothing may be deleted then.  Cost: rows, commits, metaranges and ranges are read once each.
    """
    first = _branches(ports, repo)
    heads = _heads(ports, repo, first)
    _strike_staged(ports, repo, candidates, first)
    for name, _ in uploads.list_all(ports.kv, repo):
        candidates.strike(name, is_kept=True)
    history = {entry.id: entry.commit for entry in commits.list_all(ports.kv, repo)}
    again = _heads(ports, repo, _branches(ports, repo))
    heads = Heads(heads.branches + again.branches, heads.tags + again.tags)
    _complete(ports, repo, history, heads.commits)
    marks = dict(condemned.list_all(ports.kv, repo))
    gone = _gone(history, marks, candidates)
    alive = kept(get_rule(ports, repo), history, heads, ports.clock.now_ns()) - gone
    alive |= {id for id in history.keys() - gone if _is_young(history[id], candidates)}
    due = {id for id, set_ in marks.items() if set_.since_ns <= due_ns}
    content = _Content(ports, repo, candidates)
    for id in history.keys() - gone - (due - alive):
        content.add(history[id].metarange, is_kept=id in alive)
    dead = history.keys() - alive - gone
    verdict = Verdict(set(dead), commits=len(history), kept=len(alive))
    verdict.condemn |= content.add_orphans({commit.metarange for commit in history.values()}, due)
    verdict.condemn |= {history[id].metarange for id in dead} - content.kept - set(_NO_FILE)
    content.strike()
    verdict.revive = marks.keys() & (alive | content.kept)
    _check_listed(repo, candidates)
    return verdict


# ---- refs and rows -------------------------------------------------------------------------------


def _branches(ports: Ports, repo: Repository) -> list[NamedBranch]:
    found: list[NamedBranch] = []
    after, more = "", True
    while more:
        page, more = branches.list_page(
            ports.kv, repo, "", after, limits.page_count_max, show_hidden=True
        )
        found += page
        after = page[-1].id if page else after
    return found


def _heads(ports: Ports, repo: Repository, named: Iterable[NamedBranch]) -> Heads:
    found: list[CommitId] = []
    after, more = "", True
    while more:
        page, more = tags.list_page(ports.kv, repo, "", after, limits.page_count_max)
        found += [tag.tag.commit for tag in page]
        after = page[-1].id if page else after
    return Heads(tuple((each.id, each.branch.commit) for each in named), tuple(found))


def _strike_staged(
    ports: Ports, repo: Repository, candidates: Candidates, named: Iterable[NamedBranch]
) -> None:
    tokens = {token for each in named for token in each.branch.tokens_newest_first}
    tokens |= {pending.token for pending in cleanups.list_cleanups(ports.kv, repo)}
    for token in sorted(tokens):
        for _, row in area.scan(ports.kv, token):
            if row.value is not TOMBSTONE:
                candidates.strike(used_name(repo, decode_entry(row.value)), is_kept=True)


# ---- commits -------------------------------------------------------------------------------------


def _complete(
    ports: Ports, repo: Repository, history: dict[CommitId, Commit], heads: Iterable[CommitId]
) -> None:
    """Add what was committed behind the back of the list, as far as refs lead to it."""
    todo = [id for id in heads if id not in history]
    while todo:
        id = todo.pop()
        if id not in history:
            history[id] = commits.get(ports.kv, repo, id)
            todo.extend(history[id].parents)


def _gone(
    history: Mapping[CommitId, Commit], marks: Iterable[str], candidates: Candidates
) -> set[CommitId]:
    """Condemned commits whose content was deleted: the metarange goes before all the rest."""
    return {
        id
        for id in map(CommitId, marks)
        if id in history
        and history[id].metarange not in _NO_FILE
        and FILES + history[id].metarange not in candidates.names
    }


def _is_young(commit: Commit, candidates: Candidates) -> bool:
    """Whether its metarange was written lately: it may not have landed yet, whatever its date."""
    return commit.metarange not in _NO_FILE and not candidates.is_old(FILES + commit.metarange)


# ---- content -------------------------------------------------------------------------------------


class _Content:
    """Metaranges and ranges in use; each range is read once, however many name it."""

    def __init__(self, ports: Ports, repo: Repository, candidates: Candidates) -> None:
        self._space: Keyspace = keyspace(ports, repo)
        self._repo = repo
        self._candidates = candidates
        self._seen: set[MetarangeId] = set()
        self._ranges: dict[RangeId, tuple[RangeRef, bool]] = {}
        self.kept: set[MetarangeId] = set()

    def add(self, metarange: MetarangeId, *, is_kept: bool) -> None:
        """Something uses this metarange."""
        if metarange in _NO_FILE or metarange in self.kept:
            return
        if is_kept:
            self.kept.add(metarange)
        elif metarange in self._seen:
            return
        self._seen.add(metarange)
        for ref in self._space.metarange(metarange).ranges:
            was_kept = self._ranges.get(ref.id, (ref, False))[1]
            self._ranges[ref.id] = ref, is_kept or was_kept

    def add_orphans(self, known: set[MetarangeId], due: set[str]) -> set[str]:
        """Metaranges that no commit has: content that somebody may still commit.  Those that are to
        be condemned."""
        for metarange in known:
            self._candidates.name_metarange(FILES + metarange)
        found: set[str] = set()
        files = {name for name in self._candidates.names if name.startswith(FILES)}
        for name in sorted(files - self._candidates.due):
            id = name[len(FILES) :]
            if id in known or id in self._ranges or id in due:
                continue
            try:
                self.add(MetarangeId(id), is_kept=not self._candidates.is_old(name))
            except (NotFound, Corrupt):
                continue  # a range, or gone by now
            if self._candidates.is_old(name):
                self._candidates.name_metarange(name)
                found.add(id)
        return found

    def strike(self) -> None:
        """Strike off all files and objects that are in use."""
        for metarange in self._seen:
            self._candidates.strike(FILES + metarange, is_kept=metarange in self.kept)
        for ref, is_kept in self._ranges.values():
            self._candidates.strike(FILES + ref.id, is_kept=is_kept)
            for name in self._names(ref):
                self._candidates.strike(name, is_kept=is_kept)

    def _names(self, ref: RangeRef) -> Iterator[str]:
        for records in range_batches(self._space, ref):
            for _, value in records:
                yield used_name(self._repo, decode_entry(value))


def _check_listed(repo: Repository, candidates: Candidates) -> None:
    """Addresses that are spelled otherwise than listed would doom everything."""
    if candidates.uses >= _USES_COUNT_MIN and 2 * candidates.misses > candidates.uses:
        raise Corrupt(
            "most of what is in use was not found in storage; nothing is collected: "
            f"repository={repo.id} uses={candidates.uses} misses={candidates.misses}"
        )
