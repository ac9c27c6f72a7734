"""What an interrupted commit left on the branch, and how to take it back.  For this folder."""

from collections.abc import Mapping

from graveler.local.entries import Entry, Link, PlanStep
from graveler.local.records import Operation
from graveler.local.work import Work, entries_at, linked, write_link


def undo(work: Work, operation: Operation) -> bool:
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
    clear(work, link)
    return landed


def clear(work: Work, link: Link) -> None:
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
