"""Refs: what can be read at a branch, a tag, a commit, or an expression such as `main~2`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeVar

from graveler.core.errors import Invalid, NotFound
from graveler.lake import show
from graveler.lake.answers import moment
from graveler.lake.errors import Raising
from graveler.lake.session import below, found, having, paged, with_query
from graveler.lake.show import SHOWN, Listing

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.dataset import Dataset
    from graveler.lake.files import Place
    from graveler.lake.records import Change, ChangeSummary, Entry, MergeBase, Summary
    from graveler.lake.repository import Repository
    from graveler.lake.session import Session
    from graveler.lake.snapshots import Snapshot
    from graveler.lake.transfer import Progress, Transferred

_WILD: Final = re.compile(r"[*?\[]")
_ID: Final = re.compile(r"[0-9a-f]{64}")
_ID_SHOWN: Final = 12
_PAGE_MAX: Final = 1_000
_COMMIT: Final = ("id", "parents", "committer", "message", "creation_date", "metadata")
_TITLES: Final = ("commit", "age", "committer", "message")
_MARK: Final = "graveler.job"  # by it the server knows the commit of a job again


class Ref(Raising):
    """What a name means in a repository.  Reads see it as it is now; `pin` fixes it.

    Making one sends no request.  Paths are relative to the ref, without a leading slash.
    """

    _word: str = "ref"

    def __init__(self, repository: "Repository", name: str) -> None:
        self.repository = repository
        self.name = name

    @property
    def address(self) -> str:
        """As the command line and file systems name it: REPOSITORY/REF."""
        return f"{self.repository.name}/{self.name}"

    @property
    def _named(self) -> str:  # type: ignore[override]
        return self.address

    @property
    def _title(self) -> str:
        return f"{self.repository.name}/{short(self.name)}"

    @property
    def _place(self) -> "Place":
        from graveler.lake.files import Place

        return Place(self.repository.lake, self.repository.name, self.name)

    # ---- objects -----------------------------------------------------------------------------

    def read_bytes(self, path: str, *, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an object, or those from `start` to before `end`.  Raises `NotFound`, which
        is a `FileNotFoundError`.  One request."""
        return self._place.read(path, start, end)

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The text of an object."""
        return self.read_bytes(path).decode(encoding)

    def stream(self, path: str, *, redirects: bool = True) -> Iterator[bytes]:
        """The bytes of an object, piece by piece, to be read once from its beginning.  `redirects`:
        False: only what the server sends itself, as for bytes that another one is given.  One
        request; two if the object store sends them."""
        yield from self._place.stream(path, redirects=redirects)

    def open(
        self,
        path: str,
        mode: Literal["r", "rb", "rt"] = "r",
        *,
        encoding: str = "utf-8",
        newline: str | None = None,
    ) -> IO[Any]:
        """The object as a file, as it is now.  One request, and one for each stretch that is read:
        256 KiB after a jump, then twice as much each time."""
        from graveler.lake import files

        return files.opened(self._place, path, mode, encoding, newline)

    def exists(self, path: str) -> bool:
        """Whether there is an object at a path, or below it if it ends with a slash.  One
        request."""
        if not path or path.endswith("/"):
            return bool(next(self._place.list(path, amount=1), None))
        return self._place.has(path)

    def stat(self, path: str, *, presign: bool = False) -> "Entry":
        """The object at a path, without its bytes.  `presign`: its address is a URL that reads it
        without credentials, for some minutes, if the object store signs URLs.  One request."""
        from graveler.lake import records

        return records.entry(self._place.stat(path, presign=presign))

    def storage_class(self, path: str) -> str:
        """The class of storage in which the object store keeps an object; empty if it does not say
        so.  One request."""
        where = self.repository._path("refs", self.name, "objects", "underlyingProperties")
        answer = self.repository.lake.session.call("GET", with_query(where, path=path))
        return having(answer).get("storage_class") or ""

    def url(self, path: str) -> str:
        """A URL that reads the object without credentials, for some minutes.  One request.  Raises
        `Unsupported` if the object store signs no URLs."""
        from graveler.core.errors import Unsupported

        if not self._place.presigns:
            raise Unsupported("the object store of this server signs no URLs")
        return self.stat(path, presign=True).address

    def list(
        self,
        prefix: str = "",
        *,
        recursive: bool = True,
        after: str = "",
        limit: int | None = None,
    ) -> "Listing[Entry]":
        """All objects below a prefix, sorted by path.  Without `recursive` those of one level, and
        one entry for each folder there (`Entry.is_folder`).  `after`: only paths after it.  A
        request for each 1,000."""

        def fetch() -> "Iterator[Entry]":
            from graveler.lake import records

            delimiter = "" if recursive else "/"
            listed = self._place.list(prefix, delimiter=delimiter, after=after, amount=limit)
            return map(records.entry, listed)

        return _entries(fetch, f"{self._title}/{prefix}")

    def folders(self, prefix: str = "") -> Listing[str]:
        """The folders directly in a folder, with a slash at their ends.  A request for each 1,000
        names in it."""

        def fetch() -> Iterator[str]:
            return (each.path for each in self.list(prefix, recursive=False) if each.is_folder)

        title = f"folders of {self._title}/{prefix}"
        return Listing(fetch, title, ("path",), lambda path: (path,))

    def glob(self, pattern: str) -> "Listing[Entry]":
        """The objects whose path has a pattern, as in pathlib: `*` and `?` stay within a name,
        `**` crosses folders.  Cost: the list of what begins as the pattern does."""
        head = pattern[: wild.start()] if (wild := _WILD.search(pattern)) else pattern
        regular = re.compile(_regular(pattern))

        def fetch() -> "Iterator[Entry]":
            return (each for each in self.list(head) if regular.fullmatch(each.path))

        return _entries(fetch, f"{self._title}/{pattern}")

    def summary(self, prefix: str = "") -> "Summary":
        """How many committed objects are below a prefix, and their bytes.  Cost: one request for
        each 1,000 names in the folder; the server reads no ranges that lie below one name."""
        from graveler.lake.records import Summary

        where = below("repositories", self.repository.name, "refs", self.name, "objects", "summary")
        count = size = 0
        for line in paged(self._place.session, with_query(where, prefix=prefix), 1_000):
            count += int(line["objects"])
            size += int(line.get("size_bytes") or 0)
        return Summary(prefix, count, size)

    def download(
        self,
        source: str = "",
        target: "str | Path" = ".",
        *,
        overwrite: bool = True,
        progress: "Progress" = None,
    ) -> "Transferred":
        """Copy an object, or everything below a prefix that ends with a slash, into a folder.

        `target`: a folder, or for one object also the name of the file.  Files that are the same
        already are left out; each appears when its size and checksum are right.  `progress`: called
        with files and bytes done; None: a line on a terminal or in a notebook; True: a line.
        Raises the first error when all else is done.  16 at a time."""
        from graveler.lake import transfer

        return transfer.download(self, source, Path(target), overwrite, progress)

    def dataset(
        self, prefix: str = "", *, format: str = "parquet", partitioning: Any = "hive"
    ) -> "Dataset":
        """The files below a prefix as a `pyarrow.dataset`, all of one commit.  What is not
        committed is not in it.  Needs the extra `arrow`."""
        from graveler.lake.dataset import Dataset

        return Dataset(self.pin(), prefix, format, partitioning)

    def table(self, path: str, *, format: str = "") -> Any:
        """The table in a folder, as a `graveler.spark.Table`: DataFrames are read from it, and
        written to it if this is a branch.  `format`: of its files, if the lake does not say it.
        Raises `Unsupported` if the lake has no session of Spark (`graveler.spark.connect`).  Sends
        no request."""
        return self.repository.lake._table(self, path, format)

    def publish(self, prefix: str, *, name: str = "") -> "Snapshot":
        """Publish the Parquet files below a prefix as a table of Delta Lake, all of one commit, for
        engines that know nothing of Graveler.

        The answer has its address in the object store, which the engines read with credentials of
        their own.  `name`: where the table is (`prod/orders`), so that the address stays: a later
        call with the same name makes the next version.  Without one, a commit and a prefix have an
        address of their own.  No file is copied, and what has been published is not published
        again.  A garbage collection keeps the files of this version and of the one before, until
        `Repository.withdraw`.

        Raises `NotFound` (no files); `Invalid` (types of a column that differ, two paths of one
        file); `Unsupported` (a type that Delta lacks, an object store other than S3); `Corrupt` (a
        file is no Parquet); `Conflict` (somebody else publishes under this name).  Needs the extra
        `arrow`.  Cost: the list of the prefix, of both versions; two requests for each file, 16 at
        a time; four.
        """
        from graveler.lake import snapshots

        return snapshots.publish(self, prefix, name)

    # ---- history -----------------------------------------------------------------------------

    def pin(self) -> "Commit":
        """The commit that this means now.  It never moves.  One request."""
        answer = self.repository._call("GET", "commits", self.name)
        return Commit(self.repository, having(answer, *_COMMIT)["id"], answer)

    def log(
        self,
        limit: int | None = None,
        *,
        path: str | Sequence[str] = "",
        prefixes: Sequence[str] = (),
        since: datetime | None = None,
        first_parent: bool = False,
        after: str = "",
        stop_at: "Ref | str" = "",
    ) -> "Listing[Commit]":
        """The commits that lead here, newest first.  `path`: those that changed this object, or
        what is below it if it ends with a slash, or one of several such paths.  `prefixes`: those
        that changed what begins with one of these.  `after`: what follows the commit with this id.
        `stop_at`: a ref whose commit is the last one."""
        if isinstance(limit, str):
            raise Invalid(f"limit must be a number; the commits of a path: log(path={limit!r})")
        paths = [path] if isinstance(path, str) else path
        names = [each for each in paths if each and not each.endswith("/")]
        folders = [*prefixes, *(each for each in paths if each.endswith("/"))]
        is_page = bool(names or folders) and limit is not None and limit <= _PAGE_MAX
        where = with_query(
            self.repository._path("refs", self.name, "commits"),
            objects=names,
            prefixes=folders,
            since="" if since is None else since.astimezone().isoformat(),
            first_parent=first_parent,
            limit=is_page,  # the server looks for no commit after these
            stop_at=name_of(stop_at),
        )

        def fetch() -> "Iterator[Commit]":
            session = self.repository.lake.session
            for answer in found(session, where, *_COMMIT, after=after, amount=limit):
                yield Commit(self.repository, answer["id"], answer)

        title = f"log of {self._title}"
        if names or folders or since or first_parent:
            return Listing(fetch, title, _TITLES, Commit._row)
        return _Log(fetch, title, ("", *_TITLES), Commit._row)

    def diff(
        self,
        other: "Ref | str",
        prefix: str = "",
        *,
        two_dot: bool = False,
        limit: int | None = None,
    ) -> "Listing[Change]":
        """What `other` changed since it parted from this; with `two_dot`, how it differs from
        this.  Sorted by path; a request for each 1,000."""
        where = with_query(
            self.repository._path("refs", self.name, "diff", name_of(other)),
            type="two_dot" if two_dot else "three_dot",
        )

        def fetch() -> "Iterator[Change]":
            from graveler.lake import records

            session = self.repository.lake.session
            return map(records.change, found(session, where, prefix=prefix, amount=limit))

        return changes(fetch, f"{self._title}...{short(name_of(other))}")

    def diff_summary(
        self, other: "Ref | str", prefix: str = "", *, two_dot: bool = False
    ) -> "Listing[ChangeSummary]":
        """As `diff`, counted: a line for each folder and object directly below `prefix`.  Ranges
        that both sides share are not read.  A request for each 1,000 lines."""
        where = self.repository._path("refs", self.name, "diff", name_of(other), "summary")
        path = with_query(where, type="two_dot" if two_dot else "three_dot")
        title = f"{self._title}...{short(name_of(other))}"
        return summaries(self.repository.lake.session, path, prefix, title)

    def merge_base(self, other: "Ref | str") -> "MergeBase":
        """The best common ancestor with another ref, and the commits that both mean.  One
        request."""
        from graveler.lake import records

        answer = self.repository._call("GET", "refs", self.name, "merge", name_of(other))
        return records.merge_base(answer)

    # ---- names -------------------------------------------------------------------------------

    def create_branch(self, name: str) -> "Branch":
        """A new branch that begins here.  Raises `AlreadyExists`.  One request."""
        return self.repository.create_branch(name, self)

    def tag(self, name: str) -> "Tag":
        """A new tag here.  Raises `AlreadyExists`.  One request."""
        return self.repository.create_tag(name, self)

    # ---- as a value --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ref) or type(self) is not type(other):
            return NotImplemented
        return (self.name, self.repository) == (other.name, other.repository)

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.repository))

    def __str__(self) -> str:
        return self.address

    def __repr__(self) -> str:
        try:
            rest = f" at {self.pin()._line()}"
        except NotFound:
            rest = ": there is none"
        except Exception:  # a representation never raises
            rest = ""
        return f"{self._word} {show.printable(self.address)}{rest}"

    def _repr_html_(self) -> str:
        return show.paragraph(repr(self))


class NamedRef(Ref):
    """A branch or a tag: a name that has a commit."""

    _kind: str = "tags"

    @property
    def answer(self) -> Mapping[str, Any]:
        """`id` and `commit_id`, as the list told them that this came from, or its creation; else as
        they are now.  One request then.  Raises `NotFound`."""
        known: Mapping[str, Any] | None = vars(self).get("_told")
        if known is None:
            known = self.repository._call("GET", self._kind, self.name)
        return having(known, "id", "commit_id")

    @property
    def head(self) -> str:
        """The id of the commit, as `answer` has it."""
        return str(self.answer["commit_id"])


class Tag(NamedRef):
    """A tag: a name that stays at its commit."""

    _word = "tag"

    def delete(self) -> None:
        """Delete the tag; its commit stays.  One request."""
        self.repository.delete_tag(self.name)


class Commit(Ref):
    """A commit: it never changes.  What is known of it is asked for once, when it is needed."""

    _word = "commit"

    def __init__(
        self, repository: "Repository", id: str, answer: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(repository, id)
        if answer is not None:
            self.__dict__["_answer"] = answer

    @cached_property
    def _answer(self) -> Mapping[str, Any]:
        return Ref.pin(self)._answer

    @property
    def answer(self) -> Mapping[str, Any]:
        """What the server says of it, as JSON."""
        return self._answer

    @property
    def hooks_are_off(self) -> bool:
        """Whether a commit that was just made brings an action file, while the server runs no
        hooks, so that the file has no effect."""
        return bool(vars(self).get("_hooks_are_off"))

    @property
    def id(self) -> str:
        """The whole id."""
        return str(self._answer["id"])

    @property
    def message(self) -> str:
        """What the committer wrote."""
        return str(self._answer["message"])

    @property
    def committer(self) -> str:
        """Who committed."""
        return str(self._answer["committer"])

    @property
    def created(self) -> datetime:
        """When, in UTC."""
        return moment(self._answer["creation_date"]) or datetime.min

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata that the commit was given."""
        pairs = self._answer.get("metadata") or {}
        return {key: value for key, value in pairs.items() if key != _MARK}

    @property
    def parents(self) -> "tuple[Commit, ...]":
        """The commits before it; a merge has two, the first commit of a repository none."""
        return tuple(Commit(self.repository, id) for id in self._answer["parents"])

    def pin(self) -> "Commit":
        """Itself."""
        return self

    def changes(self, prefix: str = "") -> "Listing[Change]":
        """What this commit changed, compared with its first parent; nothing for the first commit
        of a repository, which is empty."""
        if not self.parents:
            return changes(tuple, self.address)
        return self.parents[0].diff(self, prefix, two_dot=True)

    def _row(self) -> tuple[object, ...]:
        subject = self.message.partition("\n")[0]
        return self.id[:_ID_SHOWN], show.age(self.created), self.committer, subject

    def _line(self) -> str:
        id, age, committer, subject = map(show.printable, self._row())
        return f"{id} ({', '.join(filter(None, (age, committer)))}): {subject}"

    def __repr__(self) -> str:
        line = show.safe(self._line, show.printable(self.name))
        return f"commit {show.printable(self.repository.name)}/{line}"


class _Log(Listing[Commit]):
    """All commits of a history: they are shown with their graph."""

    def _shown(self) -> tuple[list[Sequence[object]], bool]:
        from graveler.lake import graph

        commits = list(islice(iter(self), SHOWN + 1))
        known = {commit.id: commit for commit in commits[:SHOWN]}
        lines = graph.draw(graph.ordered(commit.answer for commit in known.values()))
        rows = [
            (line.drawing, *(known[line.commit["id"]]._row() if line.commit else ("",) * 4))
            for line in lines
        ]
        return list(rows), len(commits) > SHOWN


def name_of(ref: "Ref | str") -> str:
    """The name of a ref, or the text."""
    return ref.name if isinstance(ref, Ref) else ref


def short(name: str) -> str:
    """A name for titles: the beginning of an id."""
    return name[:_ID_SHOWN] if _ID.fullmatch(name) else name


def changes(fetch: Any, title: str) -> "Listing[Change]":
    """A list of changes."""
    names = ("", "path", "size")
    signs = {"added": "+", "removed": "-", "changed": "~", "conflict": "!"}
    return Listing(
        fetch, title, names, lambda each: (signs[each.type], each.path, show.size(each.size))
    )


def summaries(session: "Session", path: str, prefix: str, title: str) -> "Listing[ChangeSummary]":
    """A list of counted changes."""

    def fetch() -> "Iterator[ChangeSummary]":
        from graveler.lake import records

        return map(records.change_summary, found(session, path, prefix=prefix))

    names = ("path", "added", "changed", "removed", "conflicts")
    return Listing(fetch, title, names, lambda each: [getattr(each, name) for name in names])


def _entries(fetch: Any, title: str) -> "Listing[Entry]":
    names = ("path", "size", "modified")
    return Listing(
        fetch, title, names, lambda each: (each.path, show.size(each.size), show.age(each.modified))
    )


def _regular(pattern: str) -> str:
    """The regular expression of a glob."""
    parts, at = [], 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^{inner[1:]}]" if inner[0] == "!" else f"[{inner}]")
            at = end + 1
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[at], re.escape(pattern[at])))
            at += 1
    return f"(?s:{''.join(parts)})"


N = TypeVar("N", bound=NamedRef)


def told(ref: N, answer: Mapping[str, Any]) -> N:
    """The branch or tag, of which the server told this."""
    vars(ref)["_told"] = answer
    return ref
