"""Branches: what can be written, committed, merged and taken back."""

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain, compress, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Protocol

from graveler.core.errors import (
    Conflict,
    DirtyBranch,
    GravelerError,
    Invalid,
    MergeConflict,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from graveler.lake import show
from graveler.lake.errors import advising
from graveler.lake.ref import Commit, NamedRef, Ref, changes, name_of, summaries
from graveler.lake.session import (
    Answer,
    Session,
    below,
    failure,
    found,
    having,
    looks,
    paused,
    with_query,
)
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.change import ChangeContext, Check
    from graveler.lake.errors import Error
    from graveler.lake.job import Import
    from graveler.lake.pull_requests import PullRequest
    from graveler.lake.records import Change, ChangeSummary, Entry, Preview
    from graveler.lake.transfer import Progress, Transferred

Side = Literal["source", "dest"]
_CONFLICT_ROWS_MAX: Final = 10_000
_STATUS_SHOWN: Final = 1_000
_LOOKERS: Final = 8  # threads
_NO_PARENT_NUMBER: Final = "must specify 1-based parent number"  # what servers say of a merge


class HasCommit(Protocol):
    """What has landed, or has not."""

    @property
    def commit(self) -> Commit | str | None: ...


class Branch(NamedRef):
    """A branch.  Writes are visible on it at once, and stay when they are committed."""

    _word, _kind = "branch", "branches"

    # ---- objects -----------------------------------------------------------------------------

    def write_bytes(
        self,
        path: str,
        data: bytes | bytearray | memoryview,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        overwrite: bool = True,
    ) -> "Entry":
        """Write an object.  Without `overwrite`, raises `PreconditionFailed`, a `FileExistsError`,
        if there is one.  One request; three if the object store signs URLs and the object is larger
        than 256 KiB."""
        from graveler.lake import records
        from graveler.lake.files import pieces_of
        from graveler.lake.objects import Upload

        how = Upload(content_type, dict(metadata or {}), create_only=not overwrite)
        file = io.BytesIO(data)
        length = file.getbuffer().nbytes
        return records.entry(self._place.write(path, pieces_of(file), length, how))

    def write_stream(
        self,
        path: str,
        pieces: Iterable[bytes],
        *,
        length: int = -1,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        overwrite: bool = True,
        redirects: bool = True,
    ) -> "Entry":
        """Write an object from pieces, which are sent as they come, with no copy in memory or on
        disk.  `length`: of all of them, if it is known; other pieces write nothing and raise
        `Invalid`.  `redirects`: False: the server takes them itself.  Otherwise as
        `write_bytes`."""
        from graveler.lake import records
        from graveler.lake.objects import Upload

        how = Upload(content_type, dict(metadata or {}), create_only=not overwrite)
        return records.entry(self._place.write(path, pieces, length, how, redirects=redirects))

    def write_text(
        self,
        path: str,
        text: str,
        encoding: str = "utf-8",
        *,
        content_type: str = "text/plain",
        metadata: Mapping[str, str] | None = None,
        overwrite: bool = True,
    ) -> "Entry":
        """Write a text, as `write_bytes`."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}: use write_bytes")
        return self.write_bytes(
            path,
            text.encode(encoding),
            content_type=content_type,
            metadata=metadata,
            overwrite=overwrite,
        )

    def open(
        self,
        path: str,
        mode: Literal["r", "rb", "rt", "w", "wb", "wt", "x", "xb", "xt"] = "r",
        *,
        encoding: str = "utf-8",
        newline: str | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> IO[Any]:
        """The object as a file.  What is written appears when the file is closed, whole; if its
        `with` block raises, nothing is written, nor if nobody closes it: then a `RuntimeWarning`
        says so."""
        from graveler.lake import files

        return files.opened(
            self._place,
            path,
            mode,
            encoding,
            newline,
            content_type=content_type,
            metadata=metadata,
        )

    def upload(
        self,
        source: str | Path,
        target: str = "",
        *,
        overwrite: bool = True,
        delete: bool = False,
        progress: "Progress" = None,
    ) -> "Transferred":
        """Copy a file, or a folder with everything in it, to the branch.

        `target`: a prefix that ends with a slash, or for one file also the path of the object.
        Files that are the same already are left out.  `delete`: also delete the objects below the
        target that the folder does not have, but not the marks of folders, whose paths end with a
        slash; raises `Invalid` if the folder has nothing.  Large files continue after an interrupt.
        `progress`: as for `download`.  16 at a time."""
        from graveler.lake import transfer

        return transfer.upload(self, Path(source), target, overwrite, delete, progress)

    def delete(self, *paths: str) -> int:
        """Delete the objects at these paths, and everything below a path that ends with a slash:
        `raw` is an object, `raw/` a folder.  A path that is not there is no error.  Returns how
        many objects were deleted.  Raises `Invalid`, before anything is deleted, for a folder
        without its slash.  One or two requests for each path, and one for each 1,000 objects:
        `delete_objects` looks at none of many paths."""
        from concurrent.futures import ThreadPoolExecutor

        if "" in paths:
            raise Invalid("path missing: to delete everything, list() it and name the paths")
        for path in paths:
            self._place.check_relative(path)
        named = tuple(path for path in paths if path.endswith("/"))
        folders = [path for path in dict.fromkeys(named) if not _is_below(path, named)]
        others = (path for path in dict.fromkeys(paths) if not path.endswith("/"))
        objects = [path for path in others if not _is_below(path, named)]
        with ThreadPoolExecutor(_LOOKERS) as pool:
            present = [*compress(objects, pool.map(self._has_object, objects))]
        below_folders = (each["path"] for path in folders for each in self._place.list(path))
        return self._place.delete(chain(present, below_folders))

    def _has_object(self, path: str) -> bool:
        """Whether there is an object at a path; so it is said if the caller may not look.  Raises
        `Invalid` if the path is that of a folder."""
        with suppress(Refused, Unauthenticated):  # lakeFS refuses with 401
            if self._place.has(path):
                return True
            if any(self._place.list(f"{path}/", amount=1)):
                raise Invalid(
                    f"{path} is a folder: a deletion of all that is below it names {path}/",
                    remedy=f'delete("{path}/")',
                )
            return False
        return True

    def delete_objects(self, paths: Iterable[str]) -> "dict[str, Error]":
        """Delete the objects at exactly these paths: `raw/` is then the mark of a folder.  What
        fails stops no other: returns the error of each path that was not deleted.  A request for
        each 1,000."""
        from graveler.lake.errors import of
        from graveler.lake.objects import DELETIONS_MAX

        rest, failed = iter(paths), dict[str, GravelerError]()
        while batch := [*islice(rest, DELETIONS_MAX)]:
            try:
                failed |= self._place.delete_batch(batch)
            except Unauthenticated:
                raise
            except GravelerError as error:
                failed |= dict.fromkeys(batch, error)
        return {path: of(error) for path, error in failed.items()}

    def copy(self, source: str, target: str, *, ref: Ref | str = "") -> "Entry":
        """Copy an object; no bytes move.  `ref`: where the source is, if not on this branch, but in
        this repository.  One request."""
        from graveler.lake import records

        if isinstance(ref, Ref) and ref.repository != self.repository:
            raise Invalid(f"copy works within a repository: {ref.address} is not in {self.address}")
        return records.entry(self._place.copy(target, name_of(ref) or self.name, source))

    def move(self, source: str, target: str) -> "Entry":
        """Copy an object, then delete its source.  Two requests."""
        moved = self.copy(source, target)
        self._place.delete([source])
        return moved

    def stage(
        self,
        path: str,
        url: str,
        *,
        size: int,
        checksum: str,
        modified: datetime | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> "Entry":
        """Make the object at a URL outside the repository the object at a path; nothing is copied.
        `size`: in bytes; `checksum`: the MD5 of them; `modified`: when it was changed, instead of
        now.  One request.  Many objects: `import_objects`."""
        from graveler.lake import objects, records

        seconds = None if modified is None else int(modified.timestamp())
        outside = objects.Outside(url, checksum, size, seconds)
        how = objects.Upload(content_type, dict(metadata or {}))
        return records.entry(objects.stage(*self._place.where, path, outside, how))

    def write_symlinks(self, prefix: str = "") -> str:
        """Write the addresses of the objects below a prefix into files for Hive and its like, one
        for each folder.  Returns where they are in the object store.  One request."""
        path = self.repository._path("refs", self.name, "symlink")
        answer = self.repository.lake.session.call("POST", with_query(path, location=prefix))
        return str(having(answer, "location")["location"])

    def set_metadata(self, path: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of an object.  One request."""
        self._place.set_metadata(path, metadata)

    def import_objects(
        self,
        source: str,
        target: str = "",
        message: str = "",
        *,
        metadata: Mapping[str, str] | None = None,
        is_object: bool | None = None,
    ) -> "Import":
        """Begin to make the objects below a URL (`s3://bucket/prefix/`) objects of the branch,
        without a copy of their bytes, in a commit.  What is below `target` is replaced.  Returns
        the import: `wait` for it, or ask for its `progress`.  `is_object`: the URL is that of one
        object; None: if it has no slash at its end, and `target` is a path.  Raises `Invalid` for
        a source that the server may not read.  One request."""
        from graveler.lake.job import Import

        if is_object is None:
            is_object = not source.endswith("/") and bool(target)
            if not is_object and target and not target.endswith("/"):
                raise Invalid(f"target must end with a slash, as the source does: {target!r}")
        kind = "object" if is_object else "common_prefix"
        location = {"type": kind, "path": source, "destination": target}
        body = {"paths": [location], "commit": _message(message or f"Import {source}", metadata)}
        answer = self.repository._call("POST", "branches", self.name, "import", body=body)
        return Import(self, str(having(answer, "id")["id"]))

    # ---- commits -----------------------------------------------------------------------------

    def status(self, prefix: str = "", *, limit: int | None = None) -> "Listing[Change]":
        """What is not committed, sorted by path.  A request for each 1,000."""
        where = self.repository._path("branches", self.name, "diff")

        def fetch() -> "Iterator[Change]":
            from graveler.lake import records

            session = self.repository.lake.session
            for answer in found(session, where, prefix=prefix, amount=limit):
                if answer.get("type") == "removed" and not answer.get("size_bytes"):
                    answer.pop("size_bytes", None)  # servers say 0 of all that is removed
                yield records.change(answer)

        return changes(fetch, f"uncommitted on {self.address}")

    def status_summary(self, prefix: str = "") -> "Listing[ChangeSummary]":
        """As `status`, counted: a line for each folder and object directly below `prefix`.  A
        request for each 1,000 lines."""
        path = self.repository._path("branches", self.name, "diff", "summary")
        session = self.repository.lake.session
        return summaries(session, path, prefix, f"uncommitted on {self.address}")

    def commit(
        self,
        message: str,
        metadata: Mapping[str, str] | None = None,
        *,
        allow_empty: bool = False,
        date: datetime | None = None,
    ) -> Commit:
        """Commit everything that is not committed.  Raises `NoChanges` if nothing is, `HookFailed`
        if an action of the repository forbids it; after `OutcomeUnknown`, read the log.  The server
        goes on if the caller goes away.  Two requests, and one for each two seconds."""
        with advising(NoChanges, "write something first, or commit with allow_empty=True"):
            return self._commit(_message(message, metadata, allow_empty, date))

    def _commit(self, body: Mapping[str, Any], source_metarange: str = "") -> Commit:
        path = self.repository._path("branches", self.name, "commits")
        session = self.repository.lake.session
        result, told = _task(session, path, body, source_metarange=source_metarange)
        commit = Commit(self.repository, having(result, "id", "parents", "message")["id"], result)
        vars(commit)["_hooks_are_off"] = told.says_that_hooks_are_off
        return commit

    def begin_commit(
        self,
        message: str,
        metadata: Mapping[str, str] | None = None,
        *,
        allow_empty: bool = False,
        date: datetime | None = None,
    ) -> str:
        """As `commit`, without waiting: the id of the job.  Only Graveler and lakeFS's later
        versions can do it.  One request."""
        body = _message(message, metadata, allow_empty, date)
        answer = self.repository._call("POST", "branches", self.name, "commits", "async", body=body)
        return str(having(answer, "id")["id"])

    def merge(
        self,
        source: Ref | str,
        message: str = "",
        *,
        metadata: Mapping[str, str] | None = None,
        strategy: Literal["", "source-wins", "dest-wins"] = "",
        resolve: Mapping[str, Side] | None = None,
        squash: bool = False,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Merge a ref into this branch.

        `resolve`: which side a conflict takes, by path or by prefix: `{"raw/": "source"}`; the
        longest prefix decides, then `strategy`.  `squash`: as one commit with one parent.
        `allow_empty`: even if nothing changes.  `force`: also into a read-only repository.  Raises
        `MergeConflict` with `paths`, and nothing was changed; `DirtyBranch` if this branch has
        uncommitted changes; `NoChanges`, with a remedy if the source has changes that nobody has
        committed.  Two requests, three if nothing changes."""
        asked: dict[str, Any] = {
            **_message(message, metadata, allow_empty),
            "strategy": strategy,
            "squash_merge": squash,
            "resolutions": dict(resolve or {}),
            "force": force,
        }
        body = {name: value for name, value in asked.items() if value}
        path = self.repository._path("refs", name_of(source), "merge", self.name)
        try:
            with advising(DirtyBranch, f"commit or reset {self.address} first"):
                result, _ = _task(self.repository.lake.session, path, body)
            landed = having(result, "reference")
        except NoChanges as error:
            with suppress(GravelerError):  # a source that is no branch
                if self.repository.branch(name_of(source)).status().first() is not None:
                    remedy = f"commit what is uncommitted on {name_of(source)}, then merge"
                    error.fields = {**error.fields, "remedy": remedy}
            raise
        except Conflict as error:
            paths = () if isinstance(error, MergeConflict) else self.conflicts(source)
            if not paths:
                raise
            conflict = MergeConflict(str(error), paths)
            conflict.fields = {**error.fields, "remedy": "preview it, then merge with resolve="}
            raise conflict from error
        return Commit(self.repository, str(landed["reference"]))

    def conflicts(self, source: Ref | str, *, limit: int = 100) -> tuple[str, ...]:
        """The first paths at which a merge of `source` would conflict.  One request; a server
        without previews of merges is asked for at most 10,000 differences instead."""
        path = self.repository._path("refs", name_of(source), "merge", self.name, "preview")
        try:
            items = found(self.repository.lake.session, path, "path", amount=limit)
            return tuple(item["path"] for item in items)
        except NotFound:
            differences = self.diff(source, limit=_CONFLICT_ROWS_MAX)
            paths = (each.path for each in differences if each.type == "conflict")
            return tuple(islice(paths, limit))

    def preview(self, source: Ref | str) -> "Preview":
        """What a merge of `source` would do.  At most 1,000 conflicts.  One request."""
        from graveler.lake import records

        where = self.repository._path("refs", name_of(source), "merge", self.name, "preview")
        path = with_query(where, amount=1_000)
        answer = having(self.repository.lake.session.call("GET", path), "counts", "results")
        counts = answer["counts"]
        return records.Preview(
            answer["source_commit_id"],
            answer["destination_commit_id"],
            answer["base_commit_id"],
            int(counts["added"]),
            int(counts["changed"]),
            int(counts["removed"]),
            tuple(map(records.conflict, answer["results"])),
            bool(answer["complete"]),
        )

    def revert(
        self, commit: Ref | str, *, message: str = "", parent: int = 0, allow_empty: bool = False
    ) -> Commit:
        """Take back what a commit changed, by a new commit.  `parent`: for a merge, the parent to
        return to, from 1.  Raises `Conflict`, `NoChanges`.  Two requests."""
        body: dict[str, Any] = {"ref": name_of(commit), "parent_number": parent}
        body |= {"commit_overrides": {"message": message}} if message else {}
        body |= {"allow_empty": True} if allow_empty else {}
        with _asking_for_a_parent("revert"):
            self.repository._call("POST", "branches", self.name, "revert", body=body)
        return self.pin()

    def cherry_pick(self, commit: Ref | str, *, parent: int = 0) -> Commit:
        """Repeat what a commit changed, by a new commit.  `parent`: for a merge, the side to leave
        out, from 1.  Raises `Conflict`, `NoChanges`; `Invalid` for a merge without a parent.  One
        request."""
        body = {"ref": name_of(commit), **({"parent_number": parent} if parent else {})}
        with _asking_for_a_parent("cherry_pick"):
            answer = self.repository._call("POST", "branches", self.name, "cherry-pick", body=body)
        return Commit(self.repository, having(answer, "id", "message")["id"], answer)

    def restore(self, ref: Ref | str, message: str = "") -> Commit:
        """Make the content that of `ref`, by a new commit; all history stays.  Raises `NoChanges`
        if it is that already, and `DirtyBranch`.  Three requests; two for a commit that is
        known."""
        old = self.repository.ref(name_of(ref)).pin() if not isinstance(ref, Commit) else ref
        metarange = str(old.answer.get("meta_range_id", ""))
        if not metarange:  # the server would commit what is not committed
            raise Unsupported("an empty commit cannot be restored: delete what the branch has")
        return self._commit(_message(message or f"Restore {old.id[:12]}"), metarange)

    def reset(self, *paths: str, to: Ref | str = "", expected: str = "") -> None:
        """Discard what is not committed: all, or of some paths; a path that ends with a slash
        means everything below it.

        `to`: move the branch to this commit instead, as `git reset --hard`; raises `DirtyBranch` if
        anything is not committed.  `expected`: the id of the commit that it must be on then, unless
        it is on that of `to` already; raises `PreconditionFailed`.  A request for each path."""
        if to and paths:
            raise Invalid("reset takes paths or to=, not both")
        if to:
            where = self.repository._path("branches", self.name, "hard_reset")
            headers = {"If-Match": f'"{expected}"'} if expected else {}
            path = with_query(where, ref=name_of(to))
            self.repository.lake.session.call("PUT", path, headers=headers)
            return
        for path in paths or ("",):
            kind = "reset" if not path else "common_prefix" if path.endswith("/") else "object"
            body = {"type": kind, **({"path": path} if path else {})}
            self.repository._call("PUT", "branches", self.name, body=body)

    def undo(self, landed: "Commit | str | HasCommit") -> None:
        """Move the branch back to before `landed`, which must be its last commit: what `commit` or
        `merge` returned, the id of a commit, or what has it as its `commit`, such as a `change`.
        Raises `PreconditionFailed` if the branch has moved since (`revert` takes a commit back
        then), `DirtyBranch` if anything is not committed, `Invalid` if nothing has landed.  One or
        two requests."""
        named: object = landed
        if not isinstance(landed, Ref | str):
            named = getattr(landed, "commit", landed)
            if not named or getattr(landed, "is_unchanged", False):
                raise Invalid(f"nothing has landed, so nothing is undone: {landed!r:.100}")
        if isinstance(named, str):  # a name that moves would guard nothing
            found = self.repository.commit(named).pin()
            named = found if found.id.startswith(named) else named
        if not isinstance(named, Commit):
            raise Invalid(
                f"undo takes a commit, its id, or what has landed as its `commit`: {named!r:.100}"
            )
        if named.repository != self.repository:
            raise Invalid(f"a commit of another repository: {named.address}")
        if not named.parents:
            raise Invalid("the first commit of a repository cannot be undone")
        way = "revert(commit, parent=1)" if len(named.parents) > 1 else "revert(commit)"
        with advising(PreconditionFailed, f"if the log has it, {way} takes it back"):
            self.reset(to=named.parents[0], expected=named.id)

    def change(
        self,
        message: str,
        checks: "Iterable[Check]" = (),
        *,
        metadata: Mapping[str, str] | None = None,
        pull_request: bool = False,
        name: str = "",
        job: str = "",
    ) -> "ChangeContext":
        """A branch of its own for a `with` block, merged into this one when the block and all
        `checks` pass.

            with main.change("load 1102", checks=[no_nulls]) as wip:
                wip.upload("out/", "raw/")

        A check is called with the branch after the commit; it fails if it raises, returns False,
        or returns bad rows: a list, or a table of Arrow, pandas, Polars or Spark, that is not
        empty.  When anything fails, the branch is kept, and the error names it.  `pull_request`:
        leave the merge to people.  `name`: of the branch, instead of a generated one.

        `job`: a name for the work, if it may be run again, as a scheduler does.  The branch is
        named after it; a run that failed is begun anew, and its branch goes.  If this job is among
        the last 10,000 commits of the target, or its request is open or merged, nothing is merged:
        what the block writes is thrown away, with a `UserWarning`.  To leave out the work too, ask
        first:

            change = main.change("load 1102", job="load-1102")
            if change.has_landed():
                print("skipped: landed before")
            else:
                with change as wip:
                    wip.upload("out/", "raw/")

        Corrected data needs another name: job="load-1102-2".  A commit that was reverted still
        counts as landed; after `undo` of it the job runs again.
        Two runs of a job at one time are not kept apart: the scheduler sees to that."""
        from graveler.lake.change import ChangeContext

        return ChangeContext(self, message, tuple(checks), metadata or {}, pull_request, name, job)

    # ---- the branch itself -------------------------------------------------------------------

    def protect(self) -> None:
        """Allow changes by merges alone.  Two requests.  Raises `Conflict` if it is protected."""
        self.repository.protect(self.name)

    def unprotect(self) -> None:
        """End that.  Two requests."""
        self.repository.unprotect(self.name)

    def pull_request(
        self, target: "Branch | str", title: str, description: str = ""
    ) -> "PullRequest":
        """Ask to merge this branch into another one.  Two requests."""
        return self.repository.pull_requests.create(self, target, title, description)

    def __repr__(self) -> str:
        return f"{super().__repr__()}{show.safe(self._uncommitted)}"

    def _uncommitted(self) -> str:
        count = len(self.status(limit=_STATUS_SHOWN).all())
        more = "at least " if count == _STATUS_SHOWN else ""
        return f"; {more}{count:,} uncommitted" if count else ""


def _message(
    text: str,
    metadata: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    date: datetime | None = None,
) -> dict[str, Any]:
    """The message and metadata of a new commit, as a request has them."""
    body: dict[str, Any] = {"message": text}
    body |= {"metadata": dict(metadata)} if metadata else {}
    body |= {"allow_empty": True} if allow_empty else {}
    return body | ({"date": int(date.timestamp())} if date is not None else {})


@contextmanager
def _asking_for_a_parent(verb: str) -> Iterator[None]:
    """A call that needs a parent if the commit is a merge: without one, its error says so."""
    try:
        yield
    except (Conflict, Invalid) as error:
        if _NO_PARENT_NUMBER in error.fields.get("reason", ""):
            error.fields = {**error.fields, "remedy": f"{verb}(commit, parent=1)"}
        raise


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path lies in one of the folders, and is none of them."""
    return any(path != folder and path.startswith(folder) for folder in folders)


def _task(session: Session, path: str, body: Mapping[str, Any], **query: str) -> tuple[Any, Answer]:
    """The result of a call that the server may execute in the background, and the answer that has
    it.  A server that cannot is asked to answer with the result itself.  `OutcomeUnknown`: the
    server does not say whether the task, which it has begun, is done: it does not answer, or not to
    this caller, or no more to its token."""
    try:
        begun = session.call("POST", with_query(f"{path}/async", **query), body)
        id = str(having(begun, "id")["id"])
    except (NotFound, Unsupported):
        answer = session.answer("POST", with_query(path, **query), body)
        return answer.decoded(session.url), answer

    def look() -> Answer | None:
        answer = session.answer("GET", f"{path}/async{below(id)}/status")
        return answer if having(answer.decoded(session.url), "completed")["completed"] else None

    try:
        last = paused(session.clock, looks(session.clock, look))
    except (Unavailable, Unauthenticated, Refused, NotFound) as error:
        raise OutcomeUnknown(f"task={id} was begun: {error}") from error
    if last is None:
        raise OutcomeUnknown(f"task={id} was begun, and still runs after a week")
    status = last.decoded(session.url)
    if "error" in status:
        message = str(having(status["error"], "message")["message"])
        raise failure(int(status.get("status_code", 500)), message)
    return having(status, "result")["result"], last
