"""The files and objects that the content of commits uses: metaranges, their ranges, their objects.

Metaranges and ranges that an earlier attempt of the same job has read are not read again
(readings.py).  Used by collect.py and mark.py.
"""

from collections.abc import Iterable, Iterator

from graveler.block.address import FILES, is_ours
from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.reader import range_batches
from graveler.engine.gc.candidates import Candidates, used_name
from graveler.engine.gc.readings import KnownMetaranges, KnownUses, Uses
from graveler.engine.jobs.checkpoints import NO_STEPS, Steps
from graveler.engine.ports import OpenRepository, keyspace
from graveler.errors import Corrupt, NotFound
from graveler.ids import NO_METARANGE, MetarangeId, RangeId
from graveler.records import RangeRef
from graveler.wire import stored_entry

NO_FILE = (NO_METARANGE, EMPTY_METARANGE)  # readable although no file of them is stored


class Content:
    """Metaranges and ranges in use.  Each range is read once, however many metaranges name it.

    `add` puts the metarange, its ranges and their objects into use.  `add_files` puts only the
    metarange and its ranges into use, and does not read the ranges.
    """

    def __init__(
        self, repo: OpenRepository, candidates: Candidates, steps: Steps = NO_STEPS
    ) -> None:
        self._space: Keyspace = keyspace(repo)
        self._repo = repo.record
        self.candidates = candidates
        self._known = KnownUses(steps)
        self._metaranges = KnownMetaranges(self._space, steps)
        self._seen: set[MetarangeId] = set()
        self._ranges: dict[RangeId, tuple[RangeRef, bool]] = {}
        self._files: dict[str, bool] = {}
        self.kept: set[MetarangeId] = set()

    def add(self, metarange: MetarangeId, *, is_kept: bool, stays: bool = False) -> None:
        """Record that something uses this metarange.

        `is_kept`: the user stays.  `stays`: the metarange and its ranges stay in any case.  If the
        metarange cannot be read, nothing is recorded.
        """
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
        """Record that this metarange and its ranges are in use, whatever happens to their objects.

        If the metarange cannot be read, nothing is recorded.
        """
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
        """Add metaranges that no commit has: content that a client may still commit.

        `known`: metaranges of commits.  `others`: ids that are skipped.  Returns the metaranges to
        condemn.
        """
        for metarange in known:
            self.candidates.name_metarange(FILES + metarange)
        orphans: set[str] = set()
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
                self._metaranges.add_none(id)  # it is a range
                continue
            if self.candidates.is_old(name):
                self.candidates.name_metarange(name)
                orphans.add(id)
        return orphans

    def strike(self) -> None:
        """Remove all files and objects in use from the candidates.

        Whether a use is kept is what this attempt has determined.  Checkpoints hold only the names
        in a range, not whether anything uses the range.
        """
        for metarange in self._seen:
            self.candidates.strike(FILES + metarange, is_kept=metarange in self.kept)
        for id, is_kept in self._files.items():
            self.candidates.strike(FILES + id, is_kept=is_kept)
        for ref, is_kept in self._ranges.values():
            self.candidates.strike(FILES + ref.id, is_kept=is_kept)
        missing = dict(self._ranges)
        for uses in self._known.read():
            if uses.range in missing:
                _, is_kept = missing.pop(uses.range)
                self._strike(uses.names, is_kept=is_kept)
        for ref, is_kept in missing.values():
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
            return  # a table of dumped refs, which holds no entries
        for records in range_batches(self._space, ref):
            for _, value in records:
                yield used_name(self._repo, stored_entry(value))
