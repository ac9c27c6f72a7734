"""Which files and objects the content of commits uses: metaranges, their ranges, what those name.

For marking.py.
"""

from collections.abc import Iterator

from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.reader import range_batches
from graveler.engine.candidates import FILES, Candidates, used_name
from graveler.engine.ports import Ports, keyspace
from graveler.errors import Corrupt, NotFound
from graveler.ids import NO_METARANGE, MetarangeId, RangeId
from graveler.records import RangeRef, Repository
from graveler.wire import stored_entry

NO_FILE = (NO_METARANGE, EMPTY_METARANGE)  # may be read without being stored


class Content:
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
        if metarange in NO_FILE or metarange in self.kept:
            return
        if is_kept:
            self.kept.add(metarange)
        elif metarange in self._seen:
            return
        self._seen.add(metarange)
        for ref in self._space.metarange(metarange).ranges:
            was_kept = self._ranges.get(ref.id, (ref, False))[1]
            self._ranges[ref.id] = ref, is_kept or was_kept

    def add_orphans(self, known: set[MetarangeId], others: set[str]) -> set[str]:
        """Metaranges that no commit has: content that somebody may still commit.  Those that are to
        be condemned; none of `others`."""
        for metarange in known:
            self._candidates.name_metarange(FILES + metarange)
        found: set[str] = set()
        files = {name for name in self._candidates.names if name.startswith(FILES)}
        for name in sorted(files - self._candidates.due):
            id = name[len(FILES) :]
            if id in known or id in self._ranges or id in others:
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
        if self._space.open(ref).marks:
            return  # of dumped refs: it holds no entries
        for records in range_batches(self._space, ref):
            for _, value in records:
                yield used_name(self._repo, stored_entry(value))
