"""The changes of a folder as a commit of its branch.

    plan ──► journal, state file: operation
                │
                ├─ send    contents go to addresses of the server; the branch stays as it was
                ├─ stage   the contents are linked, deletions staged
                ▼
             commit ──► state file: new head, no operation

A server that signs no URLs takes contents only onto the branch; then `send` does nothing.  If the
command is interrupted, what it staged is unstaged, at once or by the next command.  If the commit
was made all the same, the next command sees it on the branch.  For this folder, and for the
command.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from graveler.errors import Code, Conflict, GravelerError, Invalid, OutcomeUnknown
from graveler.local import names, sync, unstage
from graveler.local.compare import Digest, three_way
from graveler.local.entries import EMPTY_MD5, Change, Entry, Link, PlanStep
from graveler.local.ports import Job, Move
from graveler.local.records import Operation
from graveler.local.sync import Outcome
from graveler.local.work import (
    Listing,
    Work,
    base,
    ignored_now,
    keep_ignored,
    linked,
    local_changes,
    remote_changes,
    write_link,
)

_STAGED_SHOWN: Final = 10
_STAGED_MAX: Final = 10_000  # paths that are compared with the prefix


class Message(NamedTuple):
    """The message and metadata of the commit."""

    text: str
    metadata: Mapping[str, str]


Places = dict[str, tuple[Entry, Mapping[str, Any]]]


def commit(work: Work, message: Message, *, force: bool = False) -> Outcome:
    """Commit the changes of the folder.  `force`: also if the branch has uncommitted changes of
    others, which become part of the commit.

    Raises `Invalid` if there are no changes, `MergeConflict` if the branch changed the same paths,
    `Conflict` if it has uncommitted changes.  Then nothing was staged.  Requests: three, two for
    each file, one for each 1,000 deletions; those of `pull` if the branch has moved."""
    places: Places = {}
    pulled = _end_pull(work)
    operation = sync.settle(work, "commit")
    if operation is not None:
        places = work.records.places() if operation.phase == "send" else {}
        if unstage.undo(work, operation):
            return sync.pull(work)
    link = linked(work)
    head = work.server.head()
    known = base(work, link)
    entries = known.entries
    local = local_changes(work, entries)
    if not local and pulled is not None:
        return pulled
    if not local:
        raise Invalid("nothing to commit: the folder is as the branch was", Code.NO_CHANGES)
    local = _pending(work, local, link, head, known)
    if not local:  # the branch has all of it, perhaps from a commit that was interrupted
        return sync.pull(work)
    has_others = _check_staged(work, link, force=force)
    steps = [
        PlanStep(slot, path, local[path].entry, _before(local[path]))
        for slot, path in enumerate(sorted(local))
    ]
    operation = Operation("commit", "send", link, link, message.text, message.metadata)
    work.records.begin(operation, steps)
    write_link(work, link.during("commit"))
    written, commit_id, parent = _perform(work, operation, steps, places)
    if parent != link.head or has_others or known.unseen:
        unstage.clear(work, link)
        return sync.pull(work)
    keep_ignored(work, ignored_now(work))
    new = Link(link.source, commit_id)
    write_link(work, new)
    removed = {step.path for step in steps if step.entry is None}
    unchanged = {path: entry for path, entry in entries.items() if path not in removed}
    work.records.cache.learn(_known(work, local, written))
    work.records.finish((new, {**unchanged, **written}))
    return Outcome(commit_id, len(written), len(removed))


def _end_pull(work: Work) -> Outcome | None:
    """End a pull that was interrupted: an earlier call may have begun it after its commit."""
    operation = work.records.operation()
    return sync.pull(work) if operation is not None and operation.name == "pull" else None


# ---- checks --------------------------------------------------------------------------------------


def _pending(
    work: Work,
    local: Mapping[str, Change],
    link: Link,
    head: str,
    known: Listing,
) -> dict[str, Change]:
    """The local changes that the branch has not made too.  Raises `MergeConflict`, and `Invalid`
    for names that could not be cloned."""
    remote = remote_changes(work, link, head, known.unseen)
    split = three_way(local, remote, work.checksum, work.settings)
    if split.conflicts:
        raise sync.conflict(split.conflicts)
    after = {
        **known.entries,
        **{path: each.entry for path, each in (*remote.items(), *local.items())},
    }
    paths = [path for path, entry in after.items() if entry is not None]
    added = [path for path, change in local.items() if change.kind == "added"]
    names.check(paths, added, work.folder.folding)
    return {path: change for path, change in local.items() if path not in remote}


def _check_staged(work: Work, link: Link, *, force: bool) -> bool:
    """Whether the branch has uncommitted changes below the prefix.  Without `force`, raises
    `Conflict` if it has any."""
    staged = list(islice(work.server.uncommitted(), _STAGED_MAX))
    if staged and not force:
        shown = "\n  ".join(staged[:_STAGED_SHOWN])
        more = "\n  and more" if len(staged) > _STAGED_SHOWN else ""
        raise Conflict(
            "the branch has uncommitted changes, which would become part of the commit: commit or "
            f"reset them, or give --force:\n  {shown}{more}"
        )
    return any(path.startswith(link.source.path) for path in staged)


def _before(change: Change) -> Any:
    return change.file.fingerprint if change.file is not None else None


# ---- the operation -------------------------------------------------------------------------------


def _perform(
    work: Work, operation: Operation, steps: list[PlanStep], places: Places
) -> tuple[dict[str, Entry], str, str]:
    """Send, stage and commit.  An error or an interrupt before the commit undoes all, and the
    `KeyboardInterrupt` says that."""
    is_committing = False
    try:
        written = _send(work, steps, places)
        operation = work.records.enter(operation, "stage")
        _stage(work, steps, written)
        is_committing = True
        id, parent = work.server.commit(operation.message, operation.metadata)
    except OutcomeUnknown:
        raise
    except GravelerError:
        unstage.undo(work, operation)
        raise
    except KeyboardInterrupt as interrupt:
        if is_committing:
            raise
        unstage.undo(work, operation)
        raise KeyboardInterrupt("nothing was changed") from interrupt
    return {path: entry for path, (entry, _) in written.items()}, id, parent


def _send(work: Work, steps: list[PlanStep], earlier: Places) -> Places:
    """Store the contents, and return their entries and places."""
    places: Places = {}

    def sender(step: PlanStep) -> Callable[[Move], None]:
        path, entry = step.path, step.entry
        assert entry is not None

        def send(move: Move) -> None:
            whole = entry
            if not entry.checksum:
                whole = entry._replace(checksum=_content_checksum(work, path, entry))
            stored = earlier.get(path)
            if stored is not None and stored[0] == whole:
                place = stored[1]
            else:
                pieces = _content(work, path, whole, move)
                place = work.server.send(path, whole, pieces)
            _check_unchanged(work, step)
            work.records.keep_place(path, whole, place)
            places[path] = (whole, place)

        return send

    work.run("sent", [_job(step, sender(step)) for step in steps if step.entry])
    return places


def _stage(work: Work, steps: list[PlanStep], places: Places) -> None:
    def stager(step: PlanStep) -> Callable[[Move], None]:
        entry, place = places[step.path]

        def stage(move: Move) -> None:
            pieces = () if place else _content(work, step.path, entry, move)
            work.server.stage(step.path, entry, place, pieces)
            if not place:
                _check_unchanged(work, step)

        return stage

    work.run("staged", [_job(step, stager(step)) for step in steps if step.entry])
    removed = [step.path for step in steps if step.entry is None]
    if removed:
        work.server.delete(removed)


def _job(step: PlanStep, work: Callable[[Move], None]) -> Job:
    assert step.entry is not None
    return Job(step.path, step.entry.size, work)


def _content(work: Work, path: str, entry: Entry, move: Move) -> Iterator[bytes]:
    """The bytes of a file; none of a symbolic link or a folder."""
    if not entry.link and not path.endswith("/"):
        yield from sync.counted(work.folder.read(path), move)


def _content_checksum(work: Work, path: str, entry: Entry) -> str:
    return EMPTY_MD5 if entry.link or path.endswith("/") else work.checksum(path)


def _check_unchanged(work: Work, step: PlanStep) -> None:
    file = work.folder.look(step.path)
    if file is None or file.fingerprint != step.before:
        raise Conflict(f"the file changed while it was committed: {step.path}")


def _known(
    work: Work, local: Mapping[str, Change], written: Mapping[str, Entry]
) -> dict[str, Digest]:
    known = {}
    for path, entry in written.items():
        file = local[path].file
        if file is not None and not file.link:
            known[path] = Digest(file.fingerprint, entry.checksum)
    return known
