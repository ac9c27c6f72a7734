"""Garbage collection: finds files that nothing uses, condemns them, and deletes them one run later.

    run 1   list storage ─► mark what is in use ─► condemn the rest: store its list and its marks
    ...     undo period: nothing is deleted; new uses of condemned commits are refused
    run 2   (list) ─► mark again ─► delete, by version, what is condemned and still unused
Every operation ends within half the undo period; young files are never condemned.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

from graveler.block.adapter import UNVERSIONED, Target
from graveler.core import limits
from graveler.core.clock import ulid
from graveler.core.errors import Conflict, Contended, Invalid, NotFound
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent
from graveler.engine import namespaces
from graveler.engine.gc import listing as listed
from graveler.engine.gc import mark as marking
from graveler.engine.gc import notes
from graveler.engine.gc.content import ContentUses
from graveler.engine.gc.listing import Candidates, GarbageFile, candidates_of
from graveler.engine.gc.mark import MarkResult, StandingMarks
from graveler.engine.jobs.checkpoints import NO_STEPS, Steps
from graveler.engine.ports import OpenRepository
from graveler.refs import garbage
from graveler.refs.garbage import Mark, Run, RunState, VersionedRun

_ROUNDS = 20
_OPEN = (RunState.CONDEMNED, RunState.SWEEPING)
_BEFORE = {
    RunState.SWEEPING: (RunState.CONDEMNED,),
    RunState.SWEPT: (RunState.SWEEPING,),
    RunState.UNDONE: (RunState.CONDEMNED,),
}


class CollectSettings(NamedTuple):
    """The waiting times of a collection.  Neither may be shorter than twice the longest
    operation.
    """

    min_age_seconds: int = limits.collect_min_age_seconds
    undo_seconds: int = limits.collect_undo_seconds


class CollectionResult(NamedTuple):
    """What one run did or, as a dry run, would do.

    `run`: empty if the run condemned nothing.  `files`: how many files it listed.
    """

    run: str
    condemned: tuple[GarbageFile, ...]
    deleted: tuple[GarbageFile, ...]
    commits: int
    kept: int
    files: int


class _Plan(NamedTuple):
    """What a run has determined before it changes anything."""

    candidates: Candidates
    verdict: MarkResult
    due: tuple[VersionedRun, ...]
    listing: listed.Listing


def collect(
    repo: OpenRepository,
    settings: CollectSettings | None = None,
    *,
    delete: bool = False,
    steps: Steps = NO_STEPS,
) -> CollectionResult:
    """Run one collection of a repository.  Without `delete` nothing changes: it is a dry run.

    `steps`: the checkpoints of the job that runs the collection; it continues from them.

    Errors: `Refused` if the namespace is not this repository's alone; `Unsupported` if its bucket
    keeps no versions (nothing is condemned then); `Invalid` for settings; `Gone` or `Corrupt` if
    something in use cannot be read (nothing is deleted then); `Contended`.
    Cost: a list of the namespace, and what `mark.mark` reads; both less what `steps` hold.
    """
    chosen = settings or CollectSettings()
    check_settings(chosen)
    repo = namespaces.collectable(repo)
    plan = _plan(repo, chosen, steps)
    doomed = tuple(plan.candidates.fresh.values())
    counts = plan.verdict.commits, plan.verdict.kept, len(plan.candidates.names)
    if not delete:
        deleted = tuple(
            file
            for seen in plan.due
            for page in notes.read_list(repo, seen.run.id)
            for file in page
            if file.address in plan.candidates.due
        )
        return CollectionResult("", doomed, deleted, *counts)
    note_unreached(repo, plan.verdict.lost, plan.verdict.found)
    notes.note_kept(repo, plan.verdict.revive)
    garbage.forget_marks(repo.kv, repo.record, sorted(plan.verdict.revive))
    if plan.candidates.due:
        listed.close_listing(steps, plan.listing)
    swept = _sweep(repo, plan)
    run = _condemn(repo, plan.verdict, doomed)
    return CollectionResult(run, doomed, tuple(swept), *counts)


def note_unreached(
    repo: OpenRepository, lost: Iterable[CommitId], reached: Iterable[CommitId]
) -> None:
    """Record that no ref reaches the commits `lost` from now on, and that a ref reaches the commits
    `reached` again."""
    garbage.forget_unreachable(repo.kv, repo.record, sorted(reached))
    garbage.put_unreachable(repo.kv, repo.record, sorted(lost), repo.clock.now_ns(), repo.ids)


def _may_be_new(doomed: GarbageFile, candidates: Candidates) -> bool:
    """Whether a file may have been written again since it was condemned, with the same version.

    All files that a bucket stored before it kept versions share one version, `UNVERSIONED`.
    """
    return doomed.version == UNVERSIONED and doomed.address in candidates.young


def check_settings(settings: CollectSettings) -> None:
    """Raises `Invalid` if an operation could take longer than the times that collection waits."""
    least = max(2 * limits.import_seconds_max, limits.link_address_seconds)
    if min(settings.min_age_seconds, settings.undo_seconds) < least:
        raise Invalid(f"collection must wait for at least {least} seconds: {settings}")


def _plan(repo: OpenRepository, settings: CollectSettings, steps: Steps) -> _Plan:
    now_ns = repo.clock.now_ns()
    due_ns = now_ns - settings.undo_seconds * limits.SECOND_NS
    known = list(garbage.list_runs(repo.kv, repo.record))
    open_runs = [seen for seen in known if seen.run.state in _OPEN]
    due = tuple(seen for seen in open_runs if seen.run.condemned_ns <= due_ns)
    pending: dict[str, list[GarbageFile]] = {
        seen.run.id: [file for page in notes.read_list(repo, seen.run.id) for file in page]
        for seen in open_runs
    }
    names = (file.address for files in pending.values() for file in files)
    listing = listed.list_files(repo.blocks, repo.record, steps, now_ns)
    before_ns = listing.began_ns - settings.min_age_seconds * limits.SECOND_NS
    candidates = candidates_of(listing.lines, before_ns, names)
    candidates.due.update(
        file.address
        for seen in due
        for file in pending[seen.run.id]
        if not _may_be_new(file, candidates)
    )
    content = ContentUses(repo, candidates, steps)
    swept = {seen.run.id for seen in known if seen.run.state is RunState.SWEPT}
    ripe = StandingMarks(
        due_ns, frozenset(swept.union({garbage.RESTORED}, (seen.run.id for seen in due)))
    )
    return _Plan(candidates, marking.mark(repo, content, ripe), due, listing)


def _sweep(repo: OpenRepository, plan: _Plan) -> list[GarbageFile]:
    """Delete what is still due.  Delete nothing if one of the due runs was undone meanwhile,
    because marking relied on the marks of that run for the files of the others, too.

    All due runs become *sweeping* first, so none of them can be undone when marks record the loss
    of content.  All marks record it before the first file is deleted, and a note in the namespace
    before them.
    """
    sweeping: list[VersionedRun] = []
    for seen in plan.due:
        turned = turn(repo, seen, RunState.SWEEPING)
        if turned is ABSENT:
            return []
        sweeping.append(turned)
    if plan.candidates.due:
        notes.note_lost(repo, plan.verdict.spend)
        garbage.put_marks(repo.kv, repo.record, plan.verdict.spend, repo.ids)
    return [each for run in sweeping for each in _delete_all(repo, run, plan.candidates.due)]


def _delete_all(repo: OpenRepository, sweeping: VersionedRun, due: set[str]) -> list[GarbageFile]:
    """Delete what one run condemned and what is still `due`."""
    run = sweeping.run.id
    swept: list[GarbageFile] = []
    for number, page in enumerate(notes.read_list(repo, run)):
        doomed = tuple(each for each in page if each.address in due)
        if doomed:
            notes.log_deleted(repo, run, number, doomed)
            _delete(repo, doomed)
            swept += doomed
    turn(repo, sweeping, RunState.SWEPT)
    return swept


def _delete(repo: OpenRepository, doomed: Sequence[GarbageFile]) -> None:
    """Delete files, at most one page of a list."""
    repo.blocks.delete_all(
        [Target(f"{repo.namespace}/{each.address}", each.version) for each in doomed]
    )


def _condemn(repo: OpenRepository, verdict: MarkResult, doomed: Sequence[GarbageFile]) -> str:
    """Store the marks first, then the list, then the record of the run, which makes the list count.
    So when the list counts, no operation can begin to use its files."""
    known = {seen.run.id: seen.run.state for seen in garbage.list_runs(repo.kv, repo.record)}
    stored = garbage.list_marks(repo.kv, repo.record)
    standing = {id for id, mark in stored if stands(mark, known)}
    fresh = sorted(verdict.condemn - standing)
    if not (fresh or doomed):
        return ""
    run = ulid(repo.clock.now_ns(), repo.ids.stamp())
    if fresh:
        notes.announce(repo)
        mark = Mark(run, repo.clock.now_ns())
        garbage.put_mark(repo.kv, repo.record, fresh, mark, repo.ids)
    notes.write_list(repo, run, doomed)
    size = sum(each.size for each in doomed)
    new = Run(run, RunState.CONDEMNED, repo.clock.now_ns(), len(doomed), size)
    note(repo, new)
    return run


def stands(mark: Mark, states: Mapping[str, RunState]) -> bool:
    """Whether a mark need not be made again: a run that is known and was not undone has made it, or
    a restore, or content was lost.  `states`: of all runs, by id.  Pure."""
    is_undone = states.get(mark.run, RunState.UNDONE) is RunState.UNDONE
    return bool(mark.spent) or mark.run == garbage.RESTORED or not is_undone


# ---- runs ----------------------------------------------------------------------------------------


def list_runs(repo: OpenRepository) -> list[Run]:
    """Every run that condemned anything, oldest first."""
    return [seen.run for seen in garbage.list_runs(repo.kv, repo.record)]


def undo(repo: OpenRepository, run: str) -> Run:
    """Undo a run: remove its marks, and never delete its files.

    Errors: `NotFound`; `Conflict` once its files are being deleted.  The next run may condemn the
    same files again: change the retention rule, or put refs on the commits, before.
    """
    undone = turn(repo, garbage.get_run(repo.kv, repo.record, run), RunState.UNDONE)
    if undone is ABSENT:
        raise Conflict(
            f"run cannot be undone: its files are being deleted or were deleted: run={run}"
        )
    stored = garbage.list_marks(repo.kv, repo.record)
    garbage.forget_marks(repo.kv, repo.record, [id for id, mark in stored if mark.run == run])
    return undone.run


def turn(
    repo: OpenRepository, seen: VersionedRun, state: RunState
) -> VersionedRun | Literal[Absent.ABSENT]:
    """Move a run to `state`; ABSENT if no transition leads there from its current state.

    Cost: 1 KV request; none if the run is already in that state.
    """
    for _ in range(_ROUNDS):
        if seen.run.state is state:
            return seen
        if seen.run.state not in _BEFORE[state]:
            return ABSENT
        done = garbage.put_run(
            repo.kv, repo.record, replace(seen.run, state=state), seen, repo.ids.stamp()
        )
        if done is not ABSENT:
            return done
        seen = garbage.get_run(repo.kv, repo.record, seen.run.id)
    raise Contended(f"run of garbage collection kept changing: run={seen.run.id}")


def note(repo: OpenRepository, new: Run) -> None:
    """Store a new run; if a run with its id exists, that one stays.  1 KV request."""
    for _ in range(_ROUNDS):
        if garbage.put_run(repo.kv, repo.record, new, ABSENT, repo.ids.stamp()) is not ABSENT:
            return
        with suppress(NotFound):
            garbage.get_run(repo.kv, repo.record, new.id)
            return  # our own write, whose answer was lost: no other run has this id
    raise Contended(
        f"run of garbage collection not recorded: its record kept changing: repository={repo.id}"
    )
