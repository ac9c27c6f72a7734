"""Commits of arrived objects: one for each batch, however often its closing is told.

    deliver ──► note: open a batch, or close the full one ──► commit ──► forget
                tick: close what is overdue ────────────────────┘

A delivery stages first and notes afterwards.  The batch that it then sees open will be closed
later, so the commit of that batch contains what was staged.  Closing is a compare-and-swap; the
commit carries the batch's name in its metadata and is made only on a head behind which no such
commit stands (commit.py), so a commit that is told twice, or by two at once, is made once.
"""

from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.commits.records import fresh
from graveler.engine.commits.seal import Once, made_once
from graveler.engine.ports import Ports
from graveler.errors import (
    Conflict,
    Contended,
    HistoryTooLong,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unsupported,
)
from graveler.ids import CommitId
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.events import batches
from graveler.refs.events.batches import Batches, Closing, Counted, StoredBatches
from graveler.refs.events.rules import EventRule

BATCH_KEY: Final = "graveler.batch"
RULE_KEY: Final = "graveler.rule"
_NAME_LENGTH = 20


class Delivery(NamedTuple):
    """What one delivery staged: how many objects, and whether a marker was among them."""

    objects: int
    marked: bool = False


def note(
    ports: Ports, repo: Repository, rule: EventRule, delivery: Delivery
) -> Closing | Literal[Absent.ABSENT]:
    """Put what was staged into the rule's open batch; the batch that this closed, to be committed.

    Cost: 1 KV request, with a number of objects in the rule 3 more; to open or to close 1 more, to
    close also 1 for the branch.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = batches.get(ports.kv, repo, rule.id)
        if not seen.batches.open:
            opened = seen.batches._replace(
                open=_name(ports),
                number=seen.batches.number + 1,
                opened_ns=ports.clock.now_ns(),
            )
            if not _swap(ports, repo, rule, seen, opened):
                continue
            seen = batches.get(ports.kv, repo, rule.id)
            if not seen.batches.open:
                return ABSENT  # closed by another at once, with what we staged in it
        if rule.objects_max and delivery.objects:
            _count(ports, repo, rule, seen.batches.number, delivery.objects)
        if not delivery.marked and not _is_full(ports, repo, rule, seen.batches):
            return ABSENT
        return _close(ports, repo, rule, seen)
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def tick(
    ports: Ports, repo: Repository, rule: EventRule, *, waiting: bool = True
) -> tuple[Closing, ...]:
    """Close the open batch if its time is over; it, and with `waiting` all that wait for their
    commit.

    What was staged on a branch went with it: its open batch ends without a commit.
    Cost: 1 KV request, to close 2 more and 1 for the branch.
    """
    seen = batches.get(ports.kv, repo, rule.id)
    found = seen.batches.closing if waiting else ()
    if not seen.batches.open or not _is_overdue(ports, rule, seen.batches):
        return found
    try:
        closed = _close(ports, repo, rule, seen)
    except NotFound:
        _swap(ports, repo, rule, seen, seen.batches._replace(open=""))
        return found
    return found if closed is ABSENT else (*found, closed)


def commit_batch(
    ports: Ports, repo: Repository, rule: EventRule, batch: str
) -> CommitId | Literal[Absent.ABSENT]:
    """Commit everything that is staged on the rule's branch, once for `batch`.

    ABSENT: there was nothing to commit (a commit of somebody else took it, or the branch is gone),
    or it was done and forgotten before.  Errors: those of `commit.commit`; the batch stays, to be
    told again.
    """
    seen = batches.get(ports.kv, repo, rule.id)
    closing = _closing(seen, batch)
    if closing is None:
        return ABSENT
    made: CommitId | Literal[Absent.ABSENT] = ABSENT
    try:
        made = commit(ports, repo, rule.branch, _request(rule, closing)).id
    except (NoChanges, NotFound):  # taken by another commit, or deleted with its branch
        pass
    except HistoryTooLong:  # each of so many commits took in all that was staged before it
        pass
    except Contended:
        raise
    except Conflict:  # the branch was reset meanwhile, by somebody who meant it
        pass
    _forget(ports, repo, rule, batch)
    return made


def note_run(ports: Ports, repo: Repository, rule: EventRule, batch: str) -> None:
    """A worker begins a closed batch, or gives it up: its objects stay staged, for the next commit
    of the branch.

    It is given up if `limits.job_restart_count_max` workers have begun it, the first of them longer
    ago than `limits.batch_restart_seconds`, and none of them has committed it.  Nobody asks for a
    batch once more, so an outage of the storage must not use up its runs.

    Errors: `Unsupported`, `Contended`, `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = batches.get(ports.kv, repo, rule.id)
        closing = _closing(seen, batch)
        if closing is None:
            return
        now_ns = ports.clock.now_ns()
        first_ns = closing.first_ns or now_ns
        age_seconds = (now_ns - first_ns) / limits.SECOND_NS
        is_old = age_seconds >= limits.batch_restart_seconds
        if is_old and closing.runs >= limits.job_restart_count_max:
            if _is_landed(ports, repo, rule, closing):
                return
            _forget(ports, repo, rule, batch)
            raise Unsupported(
                f"batch not committed by {closing.runs} workers, its objects stay staged: "
                f"repository={repo.id} branch={rule.branch} rule={rule.id} batch={batch}"
            )
        begun = closing._replace(runs=closing.runs + 1, first_ns=first_ns)
        if _counted(ports, repo, rule, seen, begun):
            return
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def _is_landed(ports: Ports, repo: Repository, rule: EventRule, closing: Closing) -> bool:
    """Whether `commit_batch` finds that the batch has ended, and has nothing to commit."""
    once = Once(BATCH_KEY, closing.batch, closing.since)
    try:
        head = fresh(ports, repo, rule.branch).branch.commit
        return made_once(ports, repo, once, head) is not ABSENT
    except (HistoryTooLong, NotFound):
        return True


def forget_runs(ports: Ports, repo: Repository, rule: EventRule, batch: str) -> None:
    """The runs so far count no more: the batch waits for somebody else.  Best effort; 2 KV
    requests."""
    seen = batches.get(ports.kv, repo, rule.id)
    closing = _closing(seen, batch)
    if closing is not None:
        _counted(ports, repo, rule, seen, closing._replace(runs=0, first_ns=0))


def _closing(seen: StoredBatches, batch: str) -> Closing | None:
    return next((each for each in seen.batches.closing if each.batch == batch), None)


def _counted(
    ports: Ports, repo: Repository, rule: EventRule, seen: StoredBatches, new: Closing
) -> bool:
    changed = tuple(new if each.batch == new.batch else each for each in seen.batches.closing)
    return _swap(ports, repo, rule, seen, seen.batches._replace(closing=changed))


def _request(rule: EventRule, closing: Closing) -> CommitRequest:
    return CommitRequest(
        message=f"Objects that arrived in {rule.bucket}",
        committer=rule.committer or "events",
        metadata={BATCH_KEY: closing.batch, RULE_KEY: rule.id},
        once=Once(BATCH_KEY, closing.batch, closing.since),
    )


def _count(ports: Ports, repo: Repository, rule: EventRule, number: int, objects: int) -> None:
    """Never fails: a batch that counted too little is closed by its time."""
    for _ in range(limits.conditional_round_count_max):
        stamp = ports.ids.stamp()
        counted = Counted(number, stamp[-1] % batches.COUNTERS, objects)
        try:
            if batches.add(ports.kv, repo, rule.id, counted, stamp):
                return
        except OutcomeUnknown:
            return


def _is_full(ports: Ports, repo: Repository, rule: EventRule, found: Batches) -> bool:
    if _is_overdue(ports, rule, found):
        return True
    if not rule.objects_max:
        return False
    return batches.count_of(ports.kv, repo, rule.id, found.number) >= rule.objects_max


def _is_overdue(ports: Ports, rule: EventRule, found: Batches) -> bool:
    return ports.clock.now_ns() >= found.opened_ns + rule.seconds_max * limits.SECOND_NS


def _close(
    ports: Ports, repo: Repository, rule: EventRule, seen: StoredBatches
) -> Closing | Literal[Absent.ABSENT]:
    """Close the batch that `seen` shows open; ABSENT: another did, or too many wait already."""
    name = seen.batches.open
    for _ in range(limits.conditional_round_count_max):
        found = seen.batches
        if found.open != name or len(found.closing) >= limits.event_batches_closing_max:
            return ABSENT
        closing = Closing(name, fresh(ports, repo, rule.branch).branch.commit)
        closed = found._replace(open="", closing=(*found.closing, closing))
        if _swap(ports, repo, rule, seen, closed):
            return closing
        seen = batches.get(ports.kv, repo, rule.id)
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def _forget(ports: Ports, repo: Repository, rule: EventRule, batch: str) -> None:
    for _ in range(limits.conditional_round_count_max):
        seen = batches.get(ports.kv, repo, rule.id)
        kept = tuple(each for each in seen.batches.closing if each.batch != batch)
        if kept == seen.batches.closing:
            return
        if _swap(ports, repo, rule, seen, seen.batches._replace(closing=kept)):
            return


def _swap(
    ports: Ports, repo: Repository, rule: EventRule, seen: StoredBatches, new: Batches
) -> bool:
    return batches.swap(ports.kv, repo, rule.id, seen, new, ports.ids.stamp())


def _name(ports: Ports) -> str:
    return ports.ids.unique(_NAME_LENGTH)
