"""The engine as the door of a replay."""

from collections.abc import Mapping, Sequence

from graveler.core import identity
from graveler.core.errors import MergeConflict
from graveler.core.records import BreakParameters, Commit, Entry
from graveler.engine import names
from graveler.engine.commits import adopt, commit, diff, log, merge, reset
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from tests.replay.recorded import Change, Recorded, Tree
from tests.replay.replay import Made, Merged

SECOND_NS = 1_000_000_000
PAGE = 1_000


class EngineDoor:
    """A new repository.  Commits have times of their own, in nanoseconds."""

    is_octopus = True

    def __init__(self, ports: Ports) -> None:
        breaks = BreakParameters(raggedness=60, salt=b"replay")
        new = repository.NewRepository("history", "mem://lake/history", breaks=breaks)
        self._ports, self._repo = ports, repository.create(ports, new)
        self.first = self.head("main")

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self._ports, self._repo)

    def open(self, branch: str, commit: str) -> None:
        names.create_branch(self.opened, branch, commit)

    def close(self, branch: str) -> None:
        names.delete_branch(self.opened, branch)

    def head(self, branch: str) -> str:
        return names.get_branch(self.opened, branch).branch.commit

    def commit(
        self, branch: str, row: Recorded, changes: Sequence[Change], *, fixes: bool, empty: bool
    ) -> Made:
        for path, blob, size in changes:
            if blob is None:
                write.delete(self.opened, branch, path)
            else:
                entry = Entry(f"data/{blob}", size, blob, row.time * SECOND_NS)
                write.stage(self.opened, branch, path, entry)
        at = created_ns(row) + fixes
        request = commit.CommitRequest(f"commit {row.n}", "git", allow_empty=empty, created_ns=at)
        made = commit.commit(self.opened, branch, request)
        return Made(made.id, made.commit.parents)

    def merge(self, source: str, branch: str, row: Recorded) -> Merged:
        repo = self.opened
        bases = log.merge_base(repo, source, branch)
        assert bases[:2] == (self.commit_of(source), self.head(branch)), f"merge base: {row.n=}"
        found = merge.conflicts(repo, source, branch, diff.DiffQuery(amount=PAGE))
        assert not found.more, "no merge of this history has more conflicts than a page"
        conflicts = [line.path for line in found.lines]
        request = merge.MergeRequest(
            "git", f"merge {row.n}", allow_empty=True, created_ns=created_ns(row)
        )
        try:
            made: str = merge.merge(repo, source, branch, request)
        except MergeConflict as error:
            assert list(error.paths) == conflicts[: len(error.paths)], f"merge: {row.n=}"
            made = merge.merge(repo, source, branch, request._replace(strategy="dest-wins"))
            return Merged(made, bases[2], conflicts, refused=True)
        return Merged(made, bases[2], conflicts, refused=False)

    def with_parents(self, branch: str, made: str, parents: tuple[str, ...]) -> str:
        repo = self.opened
        simple = log.get_commit(repo, made).commit
        above = [log.get_commit(repo, parent) for parent in parents]
        record = Commit(
            "git",
            f"{simple.message} with all parents",
            simple.created_ns,
            simple.metarange,
            parents=tuple(each.id for each in above),
            generation=1 + max(each.commit.generation for each in above),
        )
        id = identity.commit_id(record)
        adopt.add_record(repo, adopt.NewCommitRecord(id, record))
        reset.hard_reset(repo, branch, id)
        return id

    def tree(self, ref: str) -> Tree:
        found: dict[str, str] = {}
        after, more = "", True
        while more:
            page = read.list_objects(self.opened, ref, read.ListQuery(after=after, amount=PAGE))
            for path, entry in page.lines:
                assert isinstance(entry, Entry)
                found[path], after = entry.checksum, path
            more = page.more
        return found

    def difference(self, left: str, right: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        query = diff.DiffQuery(amount=PAGE)
        while True:
            page = diff.diff_refs(self.opened, left, right, query, three_dot=False)
            found += [(line.kind, line.path) for line in page.lines]
            if not page.more:
                return found
            query = query._replace(after=page.lines[-1].path)

    def commit_of(self, ref: str) -> str:
        return log.get_commit(self.opened, ref).id

    def log(self, ref: str, *, first_parent: bool = False) -> list[str]:
        found: list[str] = []
        after = ""
        while not found or after:
            request = log.LogRequest(after, PAGE, first_parent=first_parent)
            entries, after = log.log(self.opened, ref, request)
            found += [entry.id for entry in entries]
        return found

    def uncommitted(self) -> Mapping[str, int]:
        views, more = names.list_branches(self.opened, names.PageQuery(amount=PAGE))
        assert not more
        return {
            view.id: len(diff.diff_branch(self.opened, view.id, diff.DiffQuery()).lines)
            for view in views
        }


def created_ns(row: Recorded) -> int:
    """The time of the commit that stands for a recorded one; a fix-up is one later."""
    return row.time * SECOND_NS + 2 * row.n
