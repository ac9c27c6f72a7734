"""Commits of arrived objects: one commit for each batch, however often its message is delivered.

    deliver ──► note: open a batch, or close the full one ──► commit ──► forget
                tick: close what is overdue ────────────────────┘
The name of the batch is an idempotency key in the metadata of the commit.
"""

from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import (
    Conflict,
    Contended,
    HistoryTooLong,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unsupported,
)
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.search import Once, find_by_key
from graveler.engine.ports import OpenRepository, Ports
from graveler.refs import arrivals
from graveler.refs.arrivals import BatchCount, Batches, ClosingBatch, StoredBatches
from graveler.refs.event_rules import EventRule

BATCH_KEY: Final = "graveler.batch"
RULE_KEY: Final = "graveler.rule"
_NAME_LENGTH = 20


class Delivery(NamedTuple):
    """What one delivery staged: the number of objects, and whether a marker object was among
    them.
    """

    objects: int
    marked: bool = False


def note(
    repo: OpenRepository, rule: EventRule, delivery: Delivery
) -> ClosingBatch | Literal[Absent.ABSENT]:
    """Count a delivery in the rule's open batch; if that closes the batch, return it, to be
    committed.

    Cost: 1 KV request; 3 more if the rule limits the number of objects; 1 more to open or to close
    a batch; to close also 1 for the branch.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
        if not seen.batches.open:
            opened = seen.batches._replace(
                open=repo.ids.unique(_NAME_LENGTH),
                number=seen.batches.number + 1,
                opened_ns=repo.clock.now_ns(),
            )
            if not _swap(repo, rule, seen, opened):
                continue
            seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
            if not seen.batches.open:
                return ABSENT  # another caller closed it at once; it contains our objects
        if rule.objects_max and delivery.objects:
            _count(repo, rule, seen.batches.number, delivery.objects)
        if not delivery.marked and not _is_full(repo, rule, seen.batches):
            return ABSENT
        return _close(repo, rule, seen)
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def tick(
    repo: OpenRepository, rule: EventRule, *, again_seconds: float = 0
) -> tuple[ClosingBatch, ...]:
    """Close the open batch if it is overdue.  Returns it, and every batch that waits for its commit
    and was neither closed, nor returned here, nor begun by a worker in the last `again_seconds`
    (0: every batch that waits).

    If the branch is gone, its staged rows are gone, too: the open batch ends without a commit.
    Cost: 1 KV request; 2 more to return batches that wait; to close 2 more and 1 for the branch.
    """
    seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
    closing = seen.batches.closing
    if again_seconds:
        closing = _taken_again(repo, rule, seen, again_seconds)
        seen = arrivals.get_batches(repo.kv, repo.record, rule.id) if closing else seen
    if not seen.batches.open or not _is_overdue(repo, rule, seen.batches):
        return closing
    try:
        closed = _close(repo, rule, seen)
    except NotFound:
        _swap(repo, rule, seen, seen.batches._replace(open=""))
        return closing
    return closing if closed is ABSENT else (*closing, closed)


def _taken_again(
    repo: OpenRepository, rule: EventRule, seen: StoredBatches, again_seconds: float
) -> tuple[ClosingBatch, ...]:
    """The batches that nobody has taken for `again_seconds`; records that they are taken now.  None
    if another process changes the record meanwhile: the next tick finds them."""
    now_ns = repo.clock.now_ns()
    old_ns = now_ns - again_seconds * limits.SECOND_NS
    again = tuple(each for each in seen.batches.closing if each.taken_ns <= old_ns)
    changed = tuple(
        each._replace(taken_ns=now_ns) if each in again else each for each in seen.batches.closing
    )
    if not again or not _swap(repo, rule, seen, seen.batches._replace(closing=changed)):
        return ()
    return again


def commit_batch(
    repo: OpenRepository, rule: EventRule, batch: str
) -> CommitId | Literal[Absent.ABSENT]:
    """Commit everything that is staged on the rule's branch, once for `batch`.

    ABSENT: there was nothing to commit (another commit contains it, or the branch is gone), or the
    batch was committed and forgotten before.  Errors: those of `commit.commit`; the batch then
    stays, and its message must be delivered again.
    """
    seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
    closing = _closing(seen, batch)
    if closing is None:
        return ABSENT
    commit_id: CommitId | Literal[Absent.ABSENT] = ABSENT
    try:
        commit_id = _committed(repo, rule, closing)
    except (NoChanges, NotFound):  # taken by another commit, or deleted with its branch
        pass
    except Contended:
        raise
    except Conflict:  # the branch was reset meanwhile, on purpose
        pass
    _forget(repo, rule, batch)
    return commit_id


def _committed(repo: OpenRepository, rule: EventRule, closing: ClosingBatch) -> CommitId:
    """The commit of a batch.  If the history is too long to search for the key, the batch is in it,
    or is still staged: a commit without the key then has it, or finds nothing to commit."""
    request = CommitRequest(
        message=f"Objects that arrived in {rule.bucket}",
        committer=rule.committer or "events",
        metadata={BATCH_KEY: closing.batch, RULE_KEY: rule.id},
        once=Once(BATCH_KEY, closing.batch, closing.since),
    )
    try:
        return commit(repo, rule.branch, request).id
    except HistoryTooLong:
        return commit(repo, rule.branch, request._replace(once=ABSENT)).id


def note_run(repo: OpenRepository, rule: EventRule, batch: str) -> None:
    """Record that a worker begins a closed batch, or give the batch up: its objects stay staged,
    for the next commit of the branch.

    A batch is given up if `limits.job_restart_count_max` workers have begun it, the first of them
    longer ago than `limits.batch_restart_seconds`, and none of them has committed it.  No client
    requests a batch again, so an outage of the storage must not use up its attempts.

    Errors: `Unsupported`, `Contended`, `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(limits.conditional_round_count_max):
        seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
        closing = _closing(seen, batch)
        if closing is None:
            return
        now_ns = repo.clock.now_ns()
        first_ns = closing.first_ns or now_ns
        age_seconds = (now_ns - first_ns) / limits.SECOND_NS
        is_old = age_seconds >= limits.batch_restart_seconds
        if is_old and closing.runs >= limits.job_restart_count_max:
            if _is_landed(repo, rule, closing):
                return
            _forget(repo, rule, batch)
            raise Unsupported(
                f"batch given up: {closing.runs} workers did not commit it, "
                f"its objects stay staged: repository={repo.id} branch={rule.branch} "
                f"rule={rule.id} batch={batch}"
            )
        begun = closing._replace(runs=closing.runs + 1, first_ns=first_ns, taken_ns=now_ns)
        if _counted(repo, rule, seen, begun):
            return
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def _is_landed(repo: OpenRepository, rule: EventRule, closing: ClosingBatch) -> bool:
    """Whether `commit_batch` would find that the batch is committed, or that nothing is left to
    commit."""
    once = Once(BATCH_KEY, closing.batch, closing.since)
    try:
        head = fresh(repo, rule.branch).branch.commit
        return find_by_key(repo, once, head) is not ABSENT
    except (HistoryTooLong, NotFound):
        return True


def forget_runs(repo: OpenRepository, rule: EventRule, batch: str) -> None:
    """Reset the count of attempts, because the batch waits for a bulk job.  Best effort; 2 KV
    requests.
    """
    seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
    closing = _closing(seen, batch)
    if closing is not None:
        _counted(repo, rule, seen, closing._replace(runs=0, first_ns=0))


def _closing(seen: StoredBatches, batch: str) -> ClosingBatch | None:
    return next((each for each in seen.batches.closing if each.batch == batch), None)


def _counted(repo: OpenRepository, rule: EventRule, seen: StoredBatches, new: ClosingBatch) -> bool:
    changed = tuple(new if each.batch == new.batch else each for each in seen.batches.closing)
    return _swap(repo, rule, seen, seen.batches._replace(closing=changed))


def _count(repo: OpenRepository, rule: EventRule, number: int, objects: int) -> None:
    """Add objects to the count of a batch.  Never fails: a batch with too low a count is closed
    when it is overdue."""
    for _ in range(limits.conditional_round_count_max):
        stamp = repo.ids.stamp()
        counted = BatchCount(number, stamp[-1] % arrivals.COUNTERS, objects)
        try:
            if arrivals.add_count(repo.kv, repo.record, rule.id, counted, stamp):
                return
        except OutcomeUnknown:
            return


def _is_full(repo: OpenRepository, rule: EventRule, current: Batches) -> bool:
    if _is_overdue(repo, rule, current):
        return True
    if not rule.objects_max:
        return False
    return arrivals.count_of(repo.kv, repo.record, rule.id, current.number) >= rule.objects_max


def _is_overdue(ports: Ports, rule: EventRule, current: Batches) -> bool:
    return ports.clock.now_ns() >= current.opened_ns + rule.seconds_max * limits.SECOND_NS


def _close(
    repo: OpenRepository, rule: EventRule, seen: StoredBatches
) -> ClosingBatch | Literal[Absent.ABSENT]:
    """Close the batch that is open in `seen`; ABSENT: another caller closed it, or too many batches
    wait already."""
    name = seen.batches.open
    for _ in range(limits.conditional_round_count_max):
        current = seen.batches
        if current.open != name or len(current.closing) >= limits.event_batches_closing_max:
            return ABSENT
        head = fresh(repo, rule.branch).branch.commit
        closing = ClosingBatch(name, head, taken_ns=repo.clock.now_ns())
        closed = current._replace(open="", closing=(*current.closing, closing))
        if _swap(repo, rule, seen, closed):
            return closing
        seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
    raise Contended(f"batch record kept changing; try again: rule={rule.id}")


def _forget(repo: OpenRepository, rule: EventRule, batch: str) -> None:
    for _ in range(limits.conditional_round_count_max):
        seen = arrivals.get_batches(repo.kv, repo.record, rule.id)
        remaining = tuple(each for each in seen.batches.closing if each.batch != batch)
        if remaining == seen.batches.closing:
            return
        if _swap(repo, rule, seen, seen.batches._replace(closing=remaining)):
            return


def _swap(repo: OpenRepository, rule: EventRule, seen: StoredBatches, new: Batches) -> bool:
    return arrivals.swap_batches(repo.kv, repo.record, rule.id, seen, new, repo.ids.stamp())
