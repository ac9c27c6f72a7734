"""The changes of a folder as a commit of its branch.

    plan ──► journal, state file: operation
                ├─ send    contents go to addresses of the server; the branch stays as it was
                ├─ stage   the contents are linked, deletions staged
                ▼
             commit ──► state file: new head, no operation

A server that signs no URLs takes contents only onto the branch; then `send` does nothing.  What an
interrupted command staged is unstaged, at once or by the next command, unless the commit was made.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from graveler.core.errors import Code, Conflict, GravelerError, Invalid, OutcomeUnknown
from graveler.lake.transfers import paths, sync
from graveler.lake.transfers.apply import Outcome
from graveler.lake.transfers.compare import (
    Listing,
    Work,
    base,
    ignored_now,
    keep_ignored,
    linked,
    local_changes,
    remote_changes,
    three_way,
    write_link,
)
from graveler.lake.transfers.link import Link
from graveler.lake.transfers.records import EMPTY_MD5, Change, Digest, Entry, Operation, PlanStep
from graveler.lake.transfers.workers import Item, Tally

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
    pulled = _end_pull(work)
    operation, places = sync.unfinished(work, "commit"), Places()
    if operation is not None:
        places = work.records.places() if operation.phase == "send" else places
        if sync.undo_commit(work, operation):
            return sync.pull(work)
    link = linked(work)
    head = work.server.head()
    known = base(work, link)
    local = local_changes(work, known.entries)
    if not local and pulled is not None:
        return pulled
    if not local:
        raise Invalid("nothing to commit: the folder is as the branch was", Code.NO_CHANGES)
    local = _pending(work, local, link, head, known)
    if not local:  # the branch has all of it, perhaps from a commit that was interrupted
        return sync.pull(work)
    has_others = _check_staged(work, link, force=force)
    operation = Operation("commit", "send", link, link, message.text, message.metadata)
    written, id, parent = _perform(work, operation, local, places)
    if parent != link.head or has_others or known.unseen:
        sync.end_without_commit(work, link)
        return sync.pull(work)
    return _conclude(work, Link(link.source, id), known, local, written)


def _end_pull(work: Work) -> Outcome | None:
    """End a pull that was interrupted: an earlier call may have begun it after its commit."""
    operation = work.records.operation()
    return sync.pull(work) if operation is not None and operation.name == "pull" else None


def _conclude(
    work: Work,
    link: Link,
    known: Listing,
    local: Mapping[str, Change],
    written: Mapping[str, Entry],
) -> Outcome:
    """Link the folder with the commit that has its changes alone."""
    keep_ignored(work, ignored_now(work))
    write_link(work, link)
    removed = {path for path in local if path not in written}
    unchanged = {path: entry for path, entry in known.entries.items() if path not in removed}
    files = ((path, local[path].file, entry.checksum) for path, entry in written.items())
    work.records.learn(
        {
            path: Digest(file.fingerprint, checksum)
            for path, file, checksum in files
            if file is not None and not file.link
        }
    )
    work.records.keep_base(link, {**unchanged, **written})
    work.records.finish()
    return Outcome(link.head, len(written), len(removed))


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
    split = three_way(work, local, remote)
    if split.conflicts:
        raise sync.conflict(split.conflicts)
    after = {
        **known.entries,
        **{path: each.entry for path, each in (*remote.items(), *local.items())},
    }
    whole = [path for path, entry in after.items() if entry is not None]
    added = [path for path, change in local.items() if change.kind == "added"]
    paths.check(whole, added, work.folder.folding())
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


# ---- the operation -------------------------------------------------------------------------------


def _perform(
    work: Work, operation: Operation, local: Mapping[str, Change], places: Places
) -> tuple[dict[str, Entry], str, str]:
    """Send, stage and commit; return what was written, the commit and its parent.  An error or an
    interrupt before the commit undoes all, and the `KeyboardInterrupt` says that."""
    changes = enumerate(local[path] for path in sorted(local))
    steps = [
        PlanStep(slot, path, entry, file.fingerprint if file is not None else None)
        for slot, (_, path, entry, file) in changes
    ]
    work.records.begin(operation, steps)
    write_link(work, operation.new.during("commit"))
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
        sync.undo_commit(work, operation)
        raise
    except KeyboardInterrupt as interrupt:
        if is_committing:
            raise
        sync.undo_commit(work, operation)
        raise KeyboardInterrupt("nothing was changed") from interrupt
    return {path: entry for path, (entry, _) in written.items()}, id, parent


def _send(work: Work, steps: list[PlanStep], earlier: Places) -> Places:
    """Store the contents, and return their entries and places."""
    places: Places = {}

    def send(step: PlanStep, entry: Entry, tally: Tally) -> None:
        path = step.path
        if not entry.checksum:
            is_empty = bool(entry.link) or path.endswith("/")
            checksum = EMPTY_MD5 if is_empty else work.folder.checksum(path)
            entry = entry._replace(checksum=checksum)
        stored = earlier.get(path)
        if stored is not None and stored[0] == entry:
            place = stored[1]
        else:
            place = work.server.send(path, entry, _content(work, path, entry, tally))
        _check_unchanged(work, step)
        work.records.keep_place(path, entry, place)
        places[path] = (entry, place)
        tally.ended()

    work.run("sent", _items(steps, send))
    return places


def _stage(work: Work, steps: list[PlanStep], places: Places) -> None:
    def stage(step: PlanStep, _: Entry, tally: Tally) -> None:
        entry, place = places[step.path]
        pieces = () if place else _content(work, step.path, entry, tally)
        work.server.stage(step.path, entry, place, pieces)
        if not place:
            _check_unchanged(work, step)
        tally.ended()

    work.run("staged", _items(steps, stage))
    removed = [step.path for step in steps if step.entry is None]
    if removed:
        work.server.delete(removed)


def _items(steps: list[PlanStep], work: Callable[[PlanStep, Entry, Tally], None]) -> list[Item]:
    return [
        Item(step.path, step.entry.size, partial(work, step, step.entry))
        for step in steps
        if step.entry is not None
    ]


def _content(work: Work, path: str, entry: Entry, tally: Tally) -> Iterator[bytes]:
    """The bytes of a file; none of a symbolic link or a folder."""
    if not entry.link and not path.endswith("/"):
        yield from tally.pieces(work.folder.read(path))


def _check_unchanged(work: Work, step: PlanStep) -> None:
    file = work.folder.look(step.path)
    if file is None or file.fingerprint != step.before:
        raise Conflict(f"the file changed while it was committed: {step.path}")
