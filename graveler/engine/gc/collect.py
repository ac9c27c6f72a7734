"""Garbage collection: finds files that nothing needs, condemns them, and deletes them a run later.

    run 1   list storage ─► mark what is in use ─► condemn the rest: list and marks are stored
    ...     undo period: nothing is deleted; new uses of condemned commits are refused
    run 2   (list) ─► mark again ─► delete, by version, what is condemned and still in nobody's use

What a ref leads to keeps its metarange and ranges, so that old branches can be merged for ever; of
an expired commit only objects go.  Its mark says so before the first of them does.

Why that is safe against everybody else, at any speed: a file is deleted only as the version that
was listed, so one that was written again since stays; every operation ends within half the undo
period, so whoever found a commit uncondemned has landed, and is seen, when its files go; whoever
looks later is refused.  What is younger than `min_age_seconds` is never condemned.  A crash leaves
a list that nobody names, or a run that the next one resumes.

A run that goes on for another of its job (checkpoints.py) takes over what was listed and what
ranges name; refs, rows, commits and marks it reads anew, always after the list.  So it is the same
as one run that was slow in between.

One collector at a time for a repository; any number of everything else.  For the commands and the
service.  Basis: docs/protocol.md.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from graveler import limits
from graveler.block.adapter import Target
from graveler.clock import ulid
from graveler.engine.gc import eligible, lists
from graveler.engine.gc import listing as listed
from graveler.engine.gc import mark as marking
from graveler.engine.gc.candidates import Candidates, Doomed, candidates_of
from graveler.engine.gc.content import Content
from graveler.engine.gc.mark import Due, Verdict
from graveler.engine.jobs.checkpoints import NO_STEPS, Steps
from graveler.engine.ports import Ports
from graveler.errors import Conflict, Contended, Invalid, NotFound
from graveler.ids import CommitId
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.gc import marks as condemned
from graveler.refs.gc import runs, unreachable
from graveler.refs.gc.marks import Mark
from graveler.refs.gc.runs import Run, RunState, VersionedRun

_ROUNDS = 20
_OPEN = (RunState.CONDEMNED, RunState.SWEEPING)


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """How careful to be.  Neither may be shorter than twice the longest operation."""

    min_age_seconds: int = limits.collect_min_age_seconds
    undo_seconds: int = limits.collect_undo_seconds


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run did, or (dry) would do.  `run` is empty if it condemned nothing.  `files`: how
    many it has listed."""

    run: str
    condemned: tuple[Doomed, ...]
    deleted: tuple[Doomed, ...]
    commits: int
    kept: int
    files: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run has found out."""

    candidates: Candidates
    verdict: Verdict
    due: tuple[VersionedRun, ...]
    listing: listed.Listing


def collect(
    ports: Ports,
    repo: Repository,
    settings: CollectSettings | None = None,
    *,
    delete: bool = False,
    steps: Steps = NO_STEPS,
) -> Collected:
    """One run over a repository.  Without `delete` nothing changes; what would is answered.

    `steps`: those of the job that runs it; it goes on where an earlier run of the job was.

    Errors: `Refused` if the namespace is not this repository's alone; `Unsupported` if its bucket
    keeps no versions: nothing is condemned then; `Invalid` for settings;
    `Gone` or `Corrupt` if something in use cannot be read (nothing is deleted then); `Contended`.
    Cost: a list of the namespace, and what `mark.mark` reads; both less what `steps` hold.
    """
    careful = settings or CollectSettings()
    check_settings(careful)
    repo = eligible.checked(ports, repo)
    plan = _plan(ports, repo, careful, steps)
    doomed = tuple(plan.candidates.fresh.values())
    counts = plan.verdict.commits, plan.verdict.kept, len(plan.candidates.names)
    if not delete:
        deleted = tuple(
            each
            for seen in plan.due
            for page in lists.read(ports, repo, seen.run.id)
            for each in page
            if each.address in plan.candidates.due
        )
        return Collected("", doomed, deleted, *counts)
    note_unreached(ports, repo, plan.verdict.lost, plan.verdict.found)
    condemned.forget(ports.kv, repo, sorted(plan.verdict.revive))
    if plan.candidates.due:
        listed.close(steps, plan.listing)
    swept = _sweep(ports, repo, plan)
    run = _condemn(ports, repo, plan.verdict, doomed)
    return Collected(run, doomed, tuple(swept), *counts)


def note_unreached(
    ports: Ports, repo: Repository, lost: Iterable[CommitId], found: Iterable[CommitId]
) -> None:
    """No ref leads to what is `lost`, from now on; to what is `found` again, one does.

    Cost: 1 KV request for each 1,000 of each."""
    unreachable.forget(ports.kv, repo, sorted(found))
    unreachable.put(ports.kv, repo, sorted(lost), ports.clock.now_ns(), ports.ids)


def check_settings(settings: CollectSettings) -> None:
    """Raises `Invalid` if an operation could outlive what collection waits for."""
    least = max(2 * limits.import_seconds_max, limits.link_address_seconds)
    if min(settings.min_age_seconds, settings.undo_seconds) < least:
        raise Invalid(f"collection must wait for {least} seconds at least: {settings}")


def _plan(ports: Ports, repo: Repository, settings: CollectSettings, steps: Steps) -> _Plan:
    now_ns = ports.clock.now_ns()
    due_ns = now_ns - settings.undo_seconds * limits.SECOND_NS
    known = list(runs.list_all(ports.kv, repo))
    open_runs = [seen for seen in known if seen.run.state in _OPEN]
    due = tuple(seen for seen in open_runs if seen.run.condemned_ns <= due_ns)
    pending: dict[str, list[str]] = {
        seen.run.id: [
            each.address for page in lists.read(ports, repo, seen.run.id) for each in page
        ]
        for seen in open_runs
    }
    names = (name for found in pending.values() for name in found)
    listing = listed.listing(ports.blocks, repo, steps, now_ns)
    before_ns = listing.began_ns - settings.min_age_seconds * limits.SECOND_NS
    candidates = candidates_of(listing.lines, before_ns, names)
    candidates.due.update(name for seen in due for name in pending[seen.run.id])
    content = Content(ports, repo, candidates, steps)
    over = {seen.run.id for seen in known if seen.run.state is RunState.SWEPT}
    ripe = Due(due_ns, frozenset(over.union(seen.run.id for seen in due)))
    return _Plan(candidates, marking.mark(ports, repo, content, ripe), due, listing)


def _sweep(ports: Ports, repo: Repository, plan: _Plan) -> list[Doomed]:
    """Delete what is still due.  Nothing if one of its runs was undone meanwhile: what the others
    condemned was judged by the marks of that one, too.

    No run can be undone any more when marks say that content goes, and all say so before it does.
    """
    sweeping: list[VersionedRun] = []
    for seen in plan.due:
        turned = turn(ports, repo, seen, RunState.SWEEPING)
        if turned is ABSENT:
            return []
        sweeping.append(turned)
    if plan.candidates.due:
        condemned.put_all(ports.kv, repo, plan.verdict.spend, ports.ids)
    return [each for run in sweeping for each in _delete_all(ports, repo, run, plan.candidates.due)]


def _delete_all(
    ports: Ports, repo: Repository, sweeping: VersionedRun, due: set[str]
) -> list[Doomed]:
    """Delete what one run condemned and is still `due`."""
    run = sweeping.run.id
    swept: list[Doomed] = []
    for number, page in enumerate(lists.read(ports, repo, run)):
        doomed = tuple(each for each in page if each.address in due)
        if doomed:
            lists.log_deleted(ports, repo, run, number, doomed)
            _delete(ports, repo, doomed)
            swept += doomed
    turn(ports, repo, sweeping, RunState.SWEPT)
    return swept


def _delete(ports: Ports, repo: Repository, doomed: Sequence[Doomed]) -> None:
    """At most a page of a list."""
    ports.blocks.delete_all(
        [Target(f"{repo.namespace}/{each.address}", each.version) for each in doomed]
    )


def _condemn(ports: Ports, repo: Repository, verdict: Verdict, doomed: Sequence[Doomed]) -> str:
    """Marks first: nobody may begin to use what stands in a list that counts."""
    known = {seen.run.id: seen.run.state for seen in runs.list_all(ports.kv, repo)}
    standing = {
        id
        for id, mark in condemned.list_all(ports.kv, repo)
        if known.get(mark.run, RunState.UNDONE) is not RunState.UNDONE
    }
    fresh = sorted(verdict.condemn - standing)
    if not (fresh or doomed):
        return ""
    run = ulid(ports.clock.now_ns(), ports.ids.stamp())
    if fresh:
        eligible.announce(ports, repo)
        mark = Mark(run, ports.clock.now_ns())
        condemned.put(ports.kv, repo, fresh, mark, ports.ids)
    lists.write(ports, repo, run, doomed)
    size = sum(each.size for each in doomed)
    new = Run(run, RunState.CONDEMNED, ports.clock.now_ns(), len(doomed), size)
    note(ports, repo, new)
    return run


# ---- runs ----------------------------------------------------------------------------------------


def list_runs(ports: Ports, repo: Repository) -> list[Run]:
    """Every run that condemned anything, oldest first."""
    return [seen.run for seen in runs.list_all(ports.kv, repo)]


def undo(ports: Ports, repo: Repository, run: str) -> Run:
    """Take back what a run condemned.  `NotFound`; `Conflict` once its files are being deleted.

    The next run may condemn them again: change the rule of retention, or name the commits, before.
    """
    undone = turn(ports, repo, runs.get(ports.kv, repo, run), RunState.UNDONE)
    if undone is ABSENT:
        raise Conflict(f"run cannot be undone: its files are being deleted, or gone: run={run}")
    marks = condemned.list_all(ports.kv, repo)
    condemned.forget(ports.kv, repo, [id for id, mark in marks if mark.run == run])
    return undone.run


_BEFORE = {
    RunState.SWEEPING: (RunState.CONDEMNED,),
    RunState.SWEPT: (RunState.SWEEPING,),
    RunState.UNDONE: (RunState.CONDEMNED,),
}


def turn(
    ports: Ports, repo: Repository, seen: VersionedRun, state: RunState
) -> VersionedRun | Literal[Absent.ABSENT]:
    """Bring a run to `state`; ABSENT if it is in one from which no way leads there.  1 KV request,
    none if it is there already."""
    for _ in range(_ROUNDS):
        if seen.run.state is state:
            return seen
        if seen.run.state not in _BEFORE[state]:
            return ABSENT
        done = runs.put(ports.kv, repo, replace(seen.run, state=state), seen, ports.ids.stamp())
        if done is not ABSENT:
            return done
        seen = runs.get(ports.kv, repo, seen.run.id)
    raise Contended(f"run of garbage collection kept changing: run={seen.run.id}")


def note(ports: Ports, repo: Repository, new: Run) -> None:
    """Store a run that is new; one of its id that is there stays.  1 KV request."""
    for _ in range(_ROUNDS):
        if runs.put(ports.kv, repo, new, ABSENT, ports.ids.stamp()) is not ABSENT:
            return
        with suppress(NotFound):
            runs.get(ports.kv, repo, new.id)
            return  # ours, whose answer was lost: nobody else has this id
    raise Contended(f"run of garbage collection could not be noted: repository={repo.id}")
