"""Garbage collection: finds files that nothing needs, condemns them, and deletes them a run later.

    run 1   list storage ─► mark what is in use ─► condemn the rest: list and marks are stored
    ...     undo period: nothing is deleted; new uses of condemned commits are refused
    run 2   (list) ─► mark again ─► delete, by version, what is condemned and still in nobody's use

Why that is safe against everybody else, at any speed: a file is deleted only as the version that
was listed, so one that was written again since stays; every operation ends within half the undo
period, so whoever found a commit uncondemned has landed, and is seen, when its files go; whoever
looks later is refused.  What is younger than `min_age_seconds` is never condemned.  A crash leaves
a list that nobody names, or a run that the next one resumes.

One collector at a time for a repository; any number of everything else.  For the commands and the
service.  Basis: docs/protocol.md.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from graveler import limits
from graveler.block import address
from graveler.clock import ulid
from graveler.engine import condemned_lists, marking
from graveler.engine.candidates import Candidates, Doomed, list_candidates
from graveler.engine.marking import Verdict
from graveler.engine.ports import Ports
from graveler.errors import Conflict, Contended, Invalid, NotFound, Refused
from graveler.records import ABSENT, Absent, Repository
from graveler.refs import condemned, repositories, runs
from graveler.refs.condemned import Mark
from graveler.refs.runs import Run, RunState, VersionedRun

_ROUNDS = 20
_OPEN = (RunState.CONDEMNED, RunState.SWEEPING)


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """How careful to be.  Neither may be shorter than twice the longest operation."""

    min_age_seconds: int = limits.collect_min_age_seconds
    undo_seconds: int = limits.collect_undo_seconds


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run did, or (dry) would do.  `run` is empty if it condemned nothing."""

    run: str
    condemned: tuple[Doomed, ...]
    deleted: tuple[Doomed, ...]
    commits: int
    kept: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run has found out."""

    candidates: Candidates
    verdict: Verdict
    due: tuple[VersionedRun, ...]


def collect(
    ports: Ports, repo: Repository, settings: CollectSettings | None = None, *, delete: bool = False
) -> Collected:
    """One run over a repository.  Without `delete` nothing changes; what would is answered.

    Errors: `Refused` if the namespace is not this repository's alone; `Invalid` for settings;
    `Gone` or `Corrupt` if something in use cannot be read (nothing is deleted then); `Contended`.
    Cost: a list of the namespace, and what `marking.mark` reads.
    """
    careful = settings or CollectSettings()
    check_settings(careful)
    repo = repositories.get(ports.kv, repo.id)
    _check_own(ports, repo)
    plan = _plan(ports, repo, careful)
    doomed = tuple(plan.candidates.fresh.values())
    counts = plan.verdict.commits, plan.verdict.kept
    if not delete:
        deleted = tuple(
            each
            for seen in plan.due
            for page in condemned_lists.read(ports, repo, seen.run.id)
            for each in page
            if each.address in plan.candidates.due
        )
        return Collected("", doomed, deleted, *counts)
    condemned.forget(ports.kv, repo, sorted(plan.verdict.revive))
    swept = [each for seen in plan.due for each in _sweep(ports, repo, seen, plan.candidates.due)]
    run = _condemn(ports, repo, plan.verdict, doomed)
    return Collected(run, doomed, tuple(swept), *counts)


def check_settings(settings: CollectSettings) -> None:
    """Raises `Invalid` if an operation could outlive what collection waits for."""
    least = max(2 * limits.import_seconds_max, limits.link_address_seconds)
    if min(settings.min_age_seconds, settings.undo_seconds) < least:
        raise Invalid(f"collection must wait for {least} seconds at least: {settings}")


def _check_own(ports: Ports, repo: Repository) -> None:
    """Raises `Refused` unless this repository has claimed its namespace and no other one reads it:
    a read-only or bare repository may lie on files of somebody else."""
    claim = f"{repo.id} {repo.uid}\n".encode()
    try:
        found = ports.blocks.read(address.marker(repo.namespace), 0, len(claim) + 1)
    except NotFound:
        found = b""
    if found != claim:
        raise Refused(f"not collected: its namespace is not its own: repository={repo.id}")
    after, more = "", True
    while more:
        page, more = repositories.list_page(ports.kv, "", "", after, limits.page_count_max)
        for other in page:
            after = other.id
            if other.id != repo.id and address.overlaps(other.namespace, repo.namespace):
                raise Refused(f"not collected: {other.id} has its files too: repository={repo.id}")


def _plan(ports: Ports, repo: Repository, settings: CollectSettings) -> _Plan:
    now_ns = ports.clock.now_ns()
    due_ns = now_ns - settings.undo_seconds * limits.SECOND_NS
    open_runs = [seen for seen in runs.list_all(ports.kv, repo) if seen.run.state in _OPEN]
    due = tuple(seen for seen in open_runs if seen.run.condemned_ns <= due_ns)
    pending: dict[str, list[str]] = {
        seen.run.id: [
            each.address for page in condemned_lists.read(ports, repo, seen.run.id) for each in page
        ]
        for seen in open_runs
    }
    names = (name for listed in pending.values() for name in listed)
    before_ns = now_ns - settings.min_age_seconds * limits.SECOND_NS
    candidates = list_candidates(ports.blocks, repo, before_ns, names)
    candidates.due.update(name for seen in due for name in pending[seen.run.id])
    return _Plan(candidates, marking.mark(ports, repo, candidates, due_ns), due)


def _sweep(ports: Ports, repo: Repository, seen: VersionedRun, due: set[str]) -> list[Doomed]:
    """Delete what a run condemned and is still `due`; nothing if it was undone meanwhile."""
    sweeping = turn(ports, repo, seen, RunState.SWEEPING)
    if sweeping is ABSENT:
        return []
    swept: list[Doomed] = []
    for number, page in enumerate(condemned_lists.read(ports, repo, seen.run.id)):
        doomed = tuple(each for each in page if each.address in due)
        if doomed:
            condemned_lists.log_deleted(ports, repo, seen.run.id, number, doomed)
            ports.fanout.map(lambda each: _delete(ports, repo, each), doomed)
            swept += doomed
    turn(ports, repo, sweeping, RunState.SWEPT)
    return swept


def _delete(ports: Ports, repo: Repository, doomed: Doomed) -> None:
    ports.blocks.delete(f"{repo.namespace}/{doomed.address}", doomed.version)


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
        announce(ports, repo)
        mark = Mark(run, ports.clock.now_ns())
        condemned.put(ports.kv, repo, fresh, mark, ports.ids)
    condemned_lists.write(ports, repo, run, doomed)
    size = sum(each.size for each in doomed)
    new = Run(run, RunState.CONDEMNED, ports.clock.now_ns(), len(doomed), size)
    note(ports, repo, new)
    return run


def announce(ports: Ports, repo: Repository) -> None:
    """From now on whoever uses a commit looks whether it is condemned.  To be called before marks
    are put.  1 KV request, 2 the first time."""
    for _ in range(_ROUNDS):
        seen = repositories.find(ports.kv, repo.id)
        if seen is ABSENT or seen.repository.uid != repo.uid:
            raise NotFound("repository not found")
        if seen.repository.collected:
            return
        told = replace(seen.repository, collected=True)
        done = repositories.swap(ports.kv, seen, told, ports.ids.stamp())
        ports.cache.forget_repository(repo.id)
        if done is not ABSENT:
            return
    raise Contended(f"repository record kept changing: repository={repo.id}")


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
