"""Clone, init, pull and checkout: the folder becomes equal to a commit, or nothing changes.

    plan ──► journal, state file: operation and old head
                │
                ├─ receive   new contents go to the shelf
                ├─ place     a displaced file to the shelf, the new one to its path
                ▼
             state file: new head, no operation ──► base kept, journal and shelf removed

The *shelf* is a folder beside the linked folder, with numbered slots for files.  Every move is a
rename between the folder and a slot, so the full slots show what was done.  After a kill at any
place the same command continues the operation, and `checkout` undoes it: displaced files return.  A
file that its user changed meanwhile is never overwritten; it is renamed to `NAME.mine`.  For this
folder, and for the command.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from graveler.errors import Conflict, Invalid, MergeConflict, NotFound, Unavailable
from graveler.local import names, unstage
from graveler.local.compare import Digest, three_way
from graveler.local.entries import Change, Entry, File, Link, PlanStep, Prefix, is_md5
from graveler.local.ports import Content, Job, Move
from graveler.local.records import Operation
from graveler.local.work import (
    Work,
    base,
    ignored,
    ignored_now,
    keep_ignored,
    known_link,
    linked,
    local_changes,
    remote_changes,
    write_link,
)

Choice = Literal["", "ours", "theirs"]
Confirm = Callable[[int], None]
Goal = Callable[[], str]
_SHOWN = 20
_BEFORE, _AFTER = "ignored before", "ignored after"  # notes in the journal


class Outcome(NamedTuple):
    """What a command did.  `head`: the commit of the folder now.  `aside`: files that were renamed,
    because they changed meanwhile.  `undone`: the operation that was undone.  `landed`: it was a
    commit, and the branch has it."""

    head: str
    written: int = 0
    removed: int = 0
    aside: tuple[str, ...] = ()
    undone: str = ""
    landed: bool = False


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
        settle(work, "init")
    head = work.server.head()
    keep_ignored(work, ignored_now(work))
    write_link(work, Link(source, head))
    return Outcome(head)


def clone(work: Work, source: Prefix) -> Outcome:
    """Fill an empty folder with a prefix, and link it.  Requests: one, one for each 1,000 entries,
    one for each object."""
    _forget_removed(work)
    operation = settle(work, "clone")
    if operation is not None:
        if operation.new.source != source:
            raise Conflict(f"a clone of {operation.new.source} was interrupted here")
        return _complete(work, operation, work.records.steps())
    _check_unlinked(work)
    if next(iter(work.folder.files()), None) is not None:
        raise Conflict("the folder is not empty")
    new = Link(source, work.server.head())
    entries = base(work, new).whole
    operation = Operation("clone", "receive", None, new)
    return _apply(work, operation, entries, entries, {})


def pull(
    work: Work, choice: Choice = "", *, force: bool = False, confirm: Confirm = lambda count: None
) -> Outcome:
    """Take what the branch changed.  `choice` decides conflicts.  `force`: discard the changes of
    the folder.  `confirm` is called with the number of local changes that are lost.

    Requests: one, those of `remote_changes`, one for each object.  Raises `MergeConflict` if both
    sides changed a path; nothing was changed."""
    operation = settle(work, "pull")
    if operation is not None:
        return _complete(work, operation, work.records.steps())
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
        split = three_way(local, remote, work.checksum, work.settings)
        if split.conflicts and not choice:
            raise conflict(split.conflicts)
        if split.conflicts and choice == "theirs":
            confirm(len(split.conflicts))
        taken = [*split.remote, *(split.conflicts if choice == "theirs" else ())]
        wanted_paths = {path: whole.get(path) for path in taken}
    new = Link(link.source, head)
    return _apply(work, Operation("pull", "receive", link, new), wanted_paths, whole, local)


def checkout(work: Work, goal: Goal = _of_folder, confirm: Confirm = lambda count: None) -> Outcome:
    """Undo an interrupted operation; if it is the same checkout, continue it.

    If nothing was interrupted: discard the changes of the folder, after `confirm` with their
    number.  If `goal` returns a ref, make the folder equal to that ref.

    `goal` may ask the server.  It is called only for what needs it, which an undo of another
    command does not.  An interrupted checkout is undone if `goal` finds no ref or no server.

    Requests: one for each object; with a ref, one more and those of a listing."""
    operation = settle(work, "checkout", any_name=True)
    if operation is not None:
        if _is_same_checkout(operation, goal):
            return _complete(work, operation, work.records.steps())
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
    return _apply(work, Operation("checkout", "receive", link, new), wanted_paths, entries, local)


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


def settle(work: Work, command: str, *, any_name: bool = False) -> Operation | None:
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
    Files that it displaced stay, and `settle` names them."""
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
    """Undo an operation.  Requests: none, of a commit those of `unstage.undo`."""
    if operation.name == "commit" and operation.old is not None:
        landed = unstage.undo(work, operation)
        return Outcome(operation.old.head, undone=operation.name, landed=landed)
    steps = work.records.steps()
    aside: list[str] = []
    if operation.phase in ("place", "back"):
        operation = work.records.enter(operation, "back")
        new, old = work.shelf.slots()
        for step in reversed(steps):
            aside += _undo(work, step, new, old)
        work.records.enter(operation, "undone")
    keep_ignored(work, operation.metadata.get(_BEFORE, ""))
    write_link(work, operation.old)
    work.shelf.discard()
    work.records.finish()
    head = operation.old.head if operation.old is not None else ""
    return Outcome(head, aside=tuple(aside), undone=operation.name)


def _undo(work: Work, step: PlanStep, new: set[int], old: set[int]) -> list[str]:
    """Undo a step, and return the name of a file that its user changed meanwhile."""
    slot, path, entry, _ = step
    file = work.folder.look(path)
    aside = []
    if entry is not None and slot not in new and file is not None:
        if _is_placed(work, file, entry):
            work.shelf.take_back(path, slot)
            file = None
    elif entry is not None and slot in new and slot not in old:
        return []  # not placed, and nothing displaced
    if slot in old:
        if file is not None:
            aside.append(work.folder.set_aside(path))
        work.shelf.restore(slot, path)
    return aside


def _is_placed(work: Work, file: File, entry: Entry) -> bool:
    """Whether a file is the one that was placed, unchanged."""
    if file.fingerprint.size != entry.size or file.link != entry.link:
        return False
    if file.link or file.path.endswith("/"):
        return True
    if not is_md5(entry.checksum):
        return file.mtime == entry.mtime
    return work.checksum(file.path) == entry.checksum


# ---- the operation -------------------------------------------------------------------------------


def _apply(
    work: Work,
    operation: Operation,
    wanted_paths: Mapping[str, Entry | None],
    entries: Mapping[str, Entry],
    local: Mapping[str, Change],
) -> Outcome:
    """Make each of `wanted_paths` what its entry says, or remove it.  `entries`: the listing of the
    new head.  `local`: the local changes."""
    _check_names(work, wanted_paths, entries, local)
    if not wanted_paths and operation.name != "clone":
        note = ignored_now(work)
        if operation.new != operation.old or note != ignored(work):
            keep_ignored(work, note)
            write_link(work, operation.new)
            work.records.cache.keep_base(operation.new, entries)
        return Outcome(operation.new.head)
    steps = _plan_steps(work, wanted_paths)
    notes = {_BEFORE: ignored(work), _AFTER: ignored_now(work)}
    operation = replace(operation, metadata=notes)
    work.records.begin(operation, steps)
    write_link(work, (operation.old or operation.new).during(operation.name))
    return _complete(work, operation, steps, entries)


def _plan_steps(work: Work, wanted_paths: Mapping[str, Entry | None]) -> list[PlanStep]:
    """Removals first, deepest paths first, because a file may replace a folder.  Folders last,
    deepest first, because their modes may forbid what is placed in them."""
    removed = sorted((path for path, entry in wanted_paths.items() if entry is None), reverse=True)
    written = sorted(path for path, entry in wanted_paths.items() if entry is not None)
    files = [path for path in written if not path.endswith("/")]
    folders = [path for path in reversed(written) if path.endswith("/")]
    steps = []
    for slot, path in enumerate((*removed, *files, *folders)):
        file = work.folder.look(path)
        before = file.fingerprint if file is not None else None
        steps.append(PlanStep(slot, path, wanted_paths[path], before))
    return steps


def _check_names(
    work: Work,
    wanted_paths: Mapping[str, Entry | None],
    entries: Mapping[str, Entry],
    local: Mapping[str, Change],
) -> None:
    written = [path for path, entry in wanted_paths.items() if entry is not None]
    own = {path: change.entry for path, change in local.items() if path not in wanted_paths}
    paths = [path for path, entry in {**entries, **own}.items() if entry is not None]
    new = [*written, *(path for path in wanted_paths if not names.is_utf8(path))]
    names.check(paths, new, work.folder.folding, work.folder.exists)
    for path in written:
        entry = wanted_paths[path]
        if entry is not None and entry.link and not names.is_inside(path, entry.link):
            raise Invalid(f"symbolic link leads out of the folder: {path}; nothing was changed")


def _complete(
    work: Work,
    operation: Operation,
    steps: list[PlanStep],
    entries: Mapping[str, Entry] | None = None,
) -> Outcome:
    """Continue an operation from its phase to its end."""
    if operation.phase == "receive":
        filled = work.shelf.slots()[0]
        head = operation.new.head
        jobs = [
            Job(step.path, step.entry.size, _receiver(work, head, step))
            for step in steps
            if step.entry is not None and step.slot not in filled
        ]
        work.run("received", jobs)
        work.shelf.settle()
        operation = work.records.enter(operation, "place")
    new, old = work.shelf.slots()
    aside: list[str] = []
    for step in steps:
        aside += _place(work, step, new, old)
    keep_ignored(work, operation.metadata.get(_AFTER, ""))
    write_link(work, operation.new)
    _learn(work, steps)
    work.shelf.discard()
    work.records.finish((operation.new, entries) if entries is not None else None)
    written = sum(step.entry is not None for step in steps)
    return Outcome(operation.new.head, written, len(steps) - written, tuple(aside))


def _receiver(work: Work, head: str, step: PlanStep) -> Callable[[Move], None]:
    slot, path, entry, _ = step
    assert entry is not None

    def receive(move: Move) -> None:
        if entry.link or path.endswith("/"):
            work.shelf.receive(slot, entry, Content())
            return
        with work.server.read(head, path, entry.checksum) as content:
            taken = counted(content.pieces, move)
            work.shelf.receive(slot, entry, Content(taken, content.md5))

    return receive


def counted(pieces: Iterable[bytes], move: Move) -> Iterable[bytes]:
    """The pieces, counted as they are taken."""
    for piece in pieces:
        move(len(piece))
        yield piece


def _place(work: Work, step: PlanStep, new: set[int], old: set[int]) -> list[str]:
    """Do a step, unless it is done.  Returns the new name of a file that was renamed, because
    its user changed it meanwhile."""
    slot, path, entry, before = step
    if entry is not None and slot not in new:
        return []
    file = work.folder.look(path)
    aside = []
    if file is not None:
        is_folder = path.endswith("/")  # files were placed in it, so its time is another
        is_known = before is not None and (is_folder or before.moved(file.fingerprint))
        if is_known and slot not in old:
            work.shelf.displace(path, slot)
        elif entry is not None and not is_folder:
            aside.append(work.folder.set_aside(path))
    if entry is not None:
        work.shelf.place(slot, path)
    return aside


def _learn(work: Work, steps: Iterable[PlanStep]) -> None:
    """Keep the checksums of what was placed."""
    known = {}
    for _, path, entry, _ in steps:
        file = work.folder.look(path) if entry is not None and not path.endswith("/") else None
        if file is None or entry is None or file.link:
            continue
        if (file.fingerprint.size, file.mtime) == (entry.size, entry.mtime):
            known[path] = Digest(file.fingerprint, entry.checksum)
    work.records.cache.learn(known)


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
    split = three_way(local, remote, work.checksum, work.settings)
    shown = {**split.remote, **{path: remote[path] for path in split.conflicts}}
    return (
        sorted(local.values(), key=lambda change: change.path),
        sorted(shown.values(), key=lambda change: change.path),
        split.conflicts,
    )
