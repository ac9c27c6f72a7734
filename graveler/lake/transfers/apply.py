"""Makes the files of a linked folder what a plan says, or undoes that.

    plan ──► journal, state file: operation and old head
                │
                ├─ receive   new contents go to the shelf
                ├─ place     a displaced file to the shelf, the new one to its path
                ▼
             state file: new head, no operation ──► base kept, journal and shelf removed

Every move is a rename between the folder and a numbered slot of the shelf, so the full slots show
what was done.  A file that its user changed meanwhile is renamed to `NAME.mine`, not overwritten.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from graveler.core.errors import Invalid
from graveler.lake.transfers import paths
from graveler.lake.transfers.compare import Work, ignored, ignored_now, keep_ignored, write_link
from graveler.lake.transfers.records import Change, Digest, Entry, File, Operation, PlanStep, is_md5
from graveler.lake.transfers.workers import Item, Tally

BEFORE: Final = "ignored before"  # notes in the journal
AFTER: Final = "ignored after"


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


def apply(
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
            work.records.keep_base(operation.new, entries)
        return Outcome(operation.new.head)
    steps = _plan_steps(work, wanted_paths)
    notes = {BEFORE: ignored(work), AFTER: ignored_now(work)}
    operation = replace(operation, metadata=notes)
    work.records.begin(operation, steps)
    write_link(work, (operation.old or operation.new).during(operation.name))
    return complete(work, operation, steps, entries)


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
    whole = [path for path, entry in {**entries, **own}.items() if entry is not None]
    new = [*written, *(path for path in wanted_paths if not paths.is_utf8(path))]
    paths.check(whole, new, work.folder.folding(), work.folder.exists)
    for path in written:
        entry = wanted_paths[path]
        if entry is not None and entry.link and not paths.is_inside(path, entry.link):
            raise Invalid(f"symbolic link leads out of the folder: {path}; nothing was changed")


def complete(
    work: Work,
    operation: Operation,
    steps: list[PlanStep],
    entries: Mapping[str, Entry] | None = None,
) -> Outcome:
    """Continue an operation from its phase to its end."""
    if operation.phase == "receive":
        filled = work.shelf.slots()[0]
        head = operation.new.head
        items = [
            Item(step.path, step.entry.size, partial(_receive, work, head, step))
            for step in steps
            if step.entry is not None and step.slot not in filled
        ]
        work.run("received", items)
        work.shelf.flush()
        operation = work.records.enter(operation, "place")
    new, old = work.shelf.slots()
    aside: list[str] = []
    for step in steps:
        aside += _place(work, step, new, old)
    keep_ignored(work, operation.metadata.get(AFTER, ""))
    write_link(work, operation.new)
    _learn(work, steps)
    work.shelf.discard()
    if entries is not None:
        work.records.keep_base(operation.new, entries)
    work.records.finish()
    written = sum(step.entry is not None for step in steps)
    return Outcome(operation.new.head, written, len(steps) - written, tuple(aside))


def _receive(work: Work, head: str, step: PlanStep, tally: Tally) -> None:
    entry = step.entry
    assert entry is not None

    def fill(part: Path, then: Callable[[Path], None]) -> None:
        work.server.receive(head, step.path, entry, part, then, tally.moved)

    work.shelf.receive(step.slot, step.path, entry, fill)
    tally.ended()


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
    work.records.learn(known)


# ---- the way back --------------------------------------------------------------------------------


def undo_step(work: Work, step: PlanStep, new: set[int], old: set[int]) -> list[str]:
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
    return work.folder.checksum(file.path) == entry.checksum
