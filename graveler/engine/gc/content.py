"""Which files and objects the content of commits uses: metaranges, their ranges, what those name.

What an earlier run of the same job has read is not read again (known_metaranges.py, known_uses.py).
For collect.py and mark.py.
"""

from collections.abc import Iterable, Iterator

from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.reader import range_batches
from graveler.engine.gc.candidates import FILES, Candidates, is_ours, used_name
from graveler.engine.gc.known_metaranges import KnownMetaranges
from graveler.engine.gc.known_uses import KnownUses, Uses
from graveler.engine.jobs.checkpoints import NO_STEPS, Steps
from graveler.engine.ports import Ports, keyspace
from graveler.errors import Corrupt, NotFound
from graveler.ids import NO_METARANGE, MetarangeId, RangeId
from graveler.records import RangeRef, Repository
from graveler.wire import stored_entry

NO_FILE = (NO_METARANGE, EMPTY_METARANGE)  # may be read without being stored


class Content:
    """Metaranges and ranges in use; each range is read once, however many name it.

    What is added has its objects in use, too; of what is added by `add_files` only metarange and
    ranges are, and its ranges are not read."""

    def __init__(
        self, ports: Ports, repo: Repository, candidates: Candidates, steps: Steps = NO_STEPS
    ) -> None:
        self._space: Keyspace = keyspace(ports, repo)
        self._repo = repo
        self.candidates = candidates
        self._known = KnownUses(steps)
        self._metaranges = KnownMetaranges(self._space, steps)
        self._seen: set[MetarangeId] = set()
        self._ranges: dict[RangeId, tuple[RangeRef, bool]] = {}
        self._files: dict[str, bool] = {}
        self.kept: set[MetarangeId] = set()

    def add(self, metarange: MetarangeId, *, is_kept: bool, stays: bool = False) -> None:
        """Something uses this metarange; `stays`: itself and its ranges for good, at any rate.  If
        it cannot be read, nothing is noted."""
        if metarange in NO_FILE or metarange in self.kept:
            return
        if not is_kept and metarange in self._seen and self._files.get(metarange, not stays):
            return
        ranges = self._metaranges.ranges(metarange)
        if stays:
            self._note_files(metarange, ranges, is_kept=True)
        if is_kept:
            self.kept.add(metarange)
        self._seen.add(metarange)
        for ref in ranges:
            was_kept = self._ranges.get(ref.id, (ref, False))[1]
            self._ranges[ref.id] = ref, is_kept or was_kept

    def add_files(self, metarange: MetarangeId, *, is_kept: bool) -> None:
        """This metarange and its ranges are in use, whatever becomes of their objects.  If it
        cannot be read, nothing is noted."""
        is_noted = self._files.get(metarange, not is_kept and metarange in self._seen)
        if metarange in NO_FILE or metarange in self.kept or is_noted:
            return
        self._note_files(metarange, self._metaranges.ranges(metarange), is_kept=is_kept)

    def _note_files(
        self, metarange: MetarangeId, ranges: Iterable[RangeRef], *, is_kept: bool
    ) -> None:
        for id in (metarange, *(ref.id for ref in ranges)):
            self._files[id] = is_kept or self._files.get(id, False)

    def add_orphans(self, known: set[MetarangeId], others: set[str]) -> set[str]:
        """Metaranges that no commit has: content that somebody may still commit.  Those that are to
        be condemned; none of `others`."""
        for metarange in known:
            self.candidates.name_metarange(FILES + metarange)
        found: set[str] = set()
        files = {name for name in self.candidates.names if name.startswith(FILES)}
        for name in sorted(files - self.candidates.due):
            id = name[len(FILES) :]
            if id in known or id in self._ranges or id in self._files or id in others:
                continue
            if self._metaranges.is_none(id):
                continue
            try:
                self.add(MetarangeId(id), is_kept=not self.candidates.is_old(name))
            except NotFound:
                continue  # gone by now
            except Corrupt:
                self._metaranges.add_none(id)  # a range
                continue
            if self.candidates.is_old(name):
                self.candidates.name_metarange(name)
                found.add(id)
        return found

    def strike(self) -> None:
        """Strike off all files and objects that are in use, at the level that this run has found:
        the steps of a job say only what a range names, not whether anything uses it."""
        for metarange in self._seen:
            self.candidates.strike(FILES + metarange, is_kept=metarange in self.kept)
        for id, is_kept in self._files.items():
            self.candidates.strike(FILES + id, is_kept=is_kept)
        for ref, is_kept in self._ranges.values():
            self.candidates.strike(FILES + ref.id, is_kept=is_kept)
        left = dict(self._ranges)
        for uses in self._known.read():
            if uses.range in left:
                _, is_kept = left.pop(uses.range)
                self._strike(uses.names, is_kept=is_kept)
        for ref, is_kept in left.values():
            if not self._known.are_kept:
                self._strike(self._names(ref), is_kept=is_kept)
                continue
            read = Uses(ref.id, list(filter(is_ours, self._names(ref))))
            self._strike(read.names, is_kept=is_kept)
            self._known.add(read)

    def _strike(self, names: Iterable[str], *, is_kept: bool) -> None:
        for name in names:
            self.candidates.strike(name, is_kept=is_kept)

    def _names(self, ref: RangeRef) -> Iterator[str]:
        if self._space.open(ref).marks:
            return  # of dumped refs: it holds no entries
        for records in range_batches(self._space, ref):
            for _, value in records:
                yield used_name(self._repo, stored_entry(value))
