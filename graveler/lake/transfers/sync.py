"""Clone, init, pull and checkout: the folder becomes equal to a commit, or nothing changes.

After a kill at any place the same command continues the operation, and `checkout` undoes it:
displaced files return, and what a commit staged is unstaged.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from graveler.core.errors import Conflict, MergeConflict, NotFound, Unavailable
from graveler.lake.transfers.apply import BEFORE, Outcome, apply, complete, undo_step
from graveler.lake.transfers.compare import (
    Work,
    base,
    entries_at,
    ignored_now,
    keep_ignored,
    known_link,
    linked,
    local_changes,
    remote_changes,
    three_way,
    write_link,
)
from graveler.lake.transfers.link import Link, Prefix
from graveler.lake.transfers.records import Change, Entry, Operation, PlanStep

Choice = Literal["", "ours", "theirs"]
Confirm = Callable[[int], None]
Goal = Callable[[], str]
_SHOWN = 20


# ---- the commands --------------------------------------------------------------------------------


def _of_folder() -> str:
    """The goal of a checkout without a ref."""
    return ""


def init(work: Work, source: Prefix, *, force: bool = False) -> Outcome:
    """Link a folder as it is.  Its differences from the branch are local changes then.  One
    request.  `force`: link it anew."""
    if not force:
        _check_unlinked(work)
    _forget_removed(work)
    if not force or work.records.operation() is not None:
        unfinished(work, "init")
    head = work.server.head()
    keep_ignored(work, ignored_now(work))
    write_link(work, Link(source, head))
    return Outcome(head)


def clone(work: Work, source: Prefix) -> Outcome:
    """Fill an empty folder with a prefix, and link it.  Requests: one, one for each 1,000 entries,
    one for each object."""
    _forget_removed(work)
    operation = unfinished(work, "clone")
    if operation is not None:
        if operation.new.source != source:
            raise Conflict(f"a clone of {operation.new.source} was interrupted here")
        return complete(work, operation, work.records.steps())
    _check_unlinked(work)
    if next(iter(work.folder.files()), None) is not None:
        raise Conflict("the folder is not empty")
    new = Link(source, work.server.head())
    entries = base(work, new).whole
    operation = Operation("clone", "receive", None, new)
    return apply(work, operation, entries, entries, {})


def pull(
    work: Work, choice: Choice = "", *, force: bool = False, confirm: Confirm = lambda count: None
) -> Outcome:
    """Take what the branch changed.  `choice` decides conflicts.  `force`: discard the changes of
    the folder.  `confirm` is called with the number of local changes that are lost.

    Requests: one, those of `remote_changes`, one for each object.  Raises `MergeConflict` if both
    sides changed a path; nothing was changed."""
    operation = unfinished(work, "pull")
    if operation is not None:
        return complete(work, operation, work.records.steps())
    link = linked(work)
    head = work.server.head()
    entries, unseen = base(work, link)
    local = local_changes(work, entries)
    remote = remote_changes(work, link, head, unseen)
    target = {**entries, **{path: change.entry for path, change in remote.items()}}
    whole = {path: entry for path, entry in target.items() if entry is not None}
    if force:
        if local:
            confirm(len(local))
        wanted_paths = {path: whole.get(path) for path in (*local, *remote)}
    else:
        split = three_way(work, local, remote)
        if split.conflicts and not choice:
            raise conflict(split.conflicts)
        if split.conflicts and choice == "theirs":
            confirm(len(split.conflicts))
        taken = [*split.remote, *(split.conflicts if choice == "theirs" else ())]
        wanted_paths = {path: whole.get(path) for path in taken}
    new = Link(link.source, head)
    return apply(work, Operation("pull", "receive", link, new), wanted_paths, whole, local)


def checkout(work: Work, goal: Goal = _of_folder, confirm: Confirm = lambda count: None) -> Outcome:
    """Undo an interrupted operation; if it is the same checkout, continue it.

    If nothing was interrupted: discard the changes of the folder, after `confirm` with their
    number.  If `goal` returns a ref, make the folder equal to that ref.

    `goal` may ask the server.  It is called only for what needs it, which an undo of another
    command does not.  An interrupted checkout is undone if `goal` finds no ref or no server.

    Requests: one for each object; with a ref, one more and those of a listing."""
    operation = unfinished(work, "checkout", any_name=True)
    if operation is not None:
        if _is_same_checkout(operation, goal):
            return complete(work, operation, work.records.steps())
        return go_back(work, operation)
    link, ref = linked(work), goal()
    local = local_changes(work, base(work, link).whole)
    if local:
        confirm(len(local))
    if link.operation:  # another program began it; the changes that it left are discarded now
        link = link.during("")
        write_link(work, link)
    source = link.source._replace(ref=ref or link.source.ref)
    new = Link(source, work.server.head(ref) if ref else link.head)
    entries = base(work, new).whole
    changes = local if new.head == link.head else local_changes(work, entries)
    wanted_paths = {path: entries.get(path) for path in changes}
    return apply(work, Operation("checkout", "receive", link, new), wanted_paths, entries, local)


def discarded(work: Work) -> int:
    """How many changes of the folder a checkout would discard.  Changes nothing.  None are counted
    if an operation was interrupted, because a checkout goes on with it or undoes it."""
    if work.records.operation() is not None:
        return 0
    return len(local_changes(work, base(work, linked(work)).whole))


def _is_same_checkout(operation: Operation, goal: Goal) -> bool:
    if operation.name != "checkout" or operation.old is None:
        return False
    try:
        ref = goal()
    except (NotFound, Unavailable):
        return False
    return operation.new.source.ref == (ref or operation.old.source.ref)


def conflict(paths: list[str]) -> MergeConflict:
    """The error for paths that both sides changed."""
    more = f"\n  and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    shown = "\n  ".join(paths[:_SHOWN])
    return MergeConflict(
        f"the folder and the branch changed the same paths; nothing was changed:\n  {shown}{more}",
        tuple(paths),
    )


# ---- what an earlier command left ----------------------------------------------------------------


def unfinished(work: Work, command: str, *, any_name: bool = False) -> Operation | None:
    """Look for an operation that has not ended.  Returns it if it is that of `command`, which
    continues it.  An operation whose end was not recorded is ended, and one that was being undone
    is undone.  Raises `Conflict` for the operation of another command."""
    link, operation = known_link(work.folder, work.records), work.records.operation()
    if operation is None:
        if work.shelf.slots()[1]:
            raise Conflict(
                "files that an operation displaced are still beside the folder, but its journal is "
                "gone: take what you need from .NAME.graveler-…, and remove it"
            )
        work.shelf.discard()
        if link is not None and link.operation and not any_name:
            raise Conflict(
                f"{link.operation} was interrupted, and another program began it: end it there, or "
                "run `graveler local checkout`, which discards the changes of the folder"
            )
        return None
    if operation.phase in ("back", "undone"):
        go_back(work, operation)
        return None
    if (link is None or not link.operation) and _has_ended(operation, link):
        work.shelf.discard()
        work.records.finish()
        return None
    if operation.name != command and not any_name:
        raise Conflict(
            f"{operation.name} was interrupted: run `graveler local {operation.name}` again to end "
            "it, or `graveler local checkout` to go back"
        )
    return operation


def _forget_removed(work: Work) -> None:
    """End the operation of a folder that was removed: without a state file it cannot continue.
    Files that it displaced stay, and `unfinished` names them."""
    operation = work.records.operation()
    if operation is not None and known_link(work.folder, work.records) is None:
        work.records.finish()


def _has_ended(operation: Operation, link: Link | None) -> bool:
    """Whether an operation that the state file does not show has nothing left to do."""
    if operation.phase in ("receive", "send"):  # it had not begun
        return True
    if operation.name == "commit":
        return link is not None and operation.old is not None and link.head != operation.old.head
    return link == operation.new


def go_back(work: Work, operation: Operation) -> Outcome:
    """Undo an operation.  Requests: none, of a commit those of `undo_commit`."""
    if operation.name == "commit" and operation.old is not None:
        landed = undo_commit(work, operation)
        return Outcome(operation.old.head, undone=operation.name, landed=landed)
    steps = work.records.steps()
    aside: list[str] = []
    if operation.phase in ("place", "back"):
        operation = work.records.enter(operation, "back")
        new, old = work.shelf.slots()
        for step in reversed(steps):
            aside += undo_step(work, step, new, old)
        work.records.enter(operation, "undone")
    keep_ignored(work, operation.metadata.get(BEFORE, ""))
    write_link(work, operation.old)
    work.shelf.discard()
    work.records.finish()
    head = operation.old.head if operation.old is not None else ""
    return Outcome(head, aside=tuple(aside), undone=operation.name)


def undo_commit(work: Work, operation: Operation) -> bool:
    """Undo a commit that was interrupted: unstage what it staged.  Returns true if the commit was
    made all the same; the branch has moved then.

    Requests: one, of a commit that had begun to stage also one for each 1,000 uncommitted changes
    and two for each change of ours."""
    link = operation.old
    assert link is not None
    landed = False
    if operation.phase == "stage":
        steps = work.records.steps()
        staged = {path: entry for path, (entry, _) in work.records.places().items()}
        head = work.server.head()
        landed = head != link.head and _landed(work, steps, staged, head)
        if not landed:
            _unstage(work, steps, staged, head)
    end_without_commit(work, link)
    return landed


def end_without_commit(work: Work, link: Link) -> None:
    """End the operation without a new head."""
    write_link(work, link.during(""))
    work.records.finish()


def _landed(work: Work, steps: list[PlanStep], staged: Mapping[str, Entry], head: str) -> bool:
    """Whether a commit of the branch has all changes."""
    entries = entries_at(work, head, [step.path for step in steps])
    return all(_is_result(work, step, staged, entries) for step in steps)


def _unstage(work: Work, steps: list[PlanStep], staged: Mapping[str, Entry], head: str) -> None:
    """Unstage the changes that are ours.  What others staged meanwhile stays."""
    link = linked(work)
    uncommitted = {
        path.removeprefix(link.source.path)
        for path in work.server.uncommitted()
        if path.startswith(link.source.path)
    }
    candidates = [step for step in steps if step.path in uncommitted]
    entries = entries_at(work, link.source.ref, [step.path for step in candidates])
    for step in candidates:
        if _is_result(work, step, staged, entries):
            work.server.unstage(step.path)


def _is_result(
    work: Work, step: PlanStep, staged: Mapping[str, Entry], entries: Mapping[str, Entry]
) -> bool:
    """Whether a path is as the step leaves it."""
    entry, expected = entries.get(step.path), staged.get(step.path)
    if step.entry is None:
        return entry is None
    return entry is not None and expected is not None and work.settings.same(entry, expected)


def _check_unlinked(work: Work) -> None:
    link = work.folder.link()
    if link is not None:
        raise Conflict(f"the folder is linked with {link.source} already")


def changes_of(
    work: Work, *, local_only: bool = False
) -> tuple[list[Change], list[Change], list[str]]:
    """What status shows: local changes, remote changes, conflicts; each sorted by path."""
    link = known_link(work.folder, work.records)
    if link is None:
        link = linked(work)
    entries, unseen = base(work, link)
    local = local_changes(work, entries)
    remote = {} if local_only else remote_changes(work, link, work.server.head(), unseen)
    split = three_way(work, local, remote)
    shown = {**split.remote, **{path: remote[path] for path in split.conflicts}}
    return (
        sorted(local.values(), key=lambda change: change.path),
        sorted(shown.values(), key=lambda change: change.path),
        split.conflicts,
    )
