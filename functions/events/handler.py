"""The function behind the events queue: stages objects that arrive in buckets, by the event rules.

Once a minute the schedule sends an event without records.  It closes the batches whose time is
over.  It also hands a closed batch that still waits to a worker again, `limits.batch_again_seconds`
after it was closed, handed on or begun last.
"""

from quiet_start import start

# isort: split
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import at_rest, deployment, open_log, open_store

from graveler.core import limits
from graveler.core.errors import Invalid, Unavailable, explained
from graveler.events import intake
from graveler.events.intake import FailedMessage, Message
from graveler.jobs.sqs import SqsQueue

SECONDS_KEPT_BACK = 30.0  # the longest time that one step may take

log, metrics = open_log(), Metrics()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)
arrived = SqsQueue(aws.session, deployment().events_queue)


@start.end
@at_rest(aws)
@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Process one delivery of the queue or the schedule.  Messages that failed are delivered again
    within minutes, and finally moved to the dead-letter queue."""
    if "Records" not in event:
        again_seconds = limits.batch_again_seconds
        return {"closed": intake.tick(aws.ports, queue.enqueue, again_seconds=again_seconds)}
    messages = [Message(each["messageId"], each["body"]) for each in event["Records"]]
    seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_KEPT_BACK
    counts, failed = intake.take_in(aws.ports, messages, queue.enqueue, seconds)
    for each in failed:
        log.warning("message failed", message_id=each.id, cause=explained(each.error))
    deliver_again({each["messageId"]: each["receiptHandle"] for each in event["Records"]}, failed)
    for taken, count in counts.items():
        metrics.add_metric(f"Events{taken.value.title()}", MetricUnit.Count, count)
    if counts:
        metrics.flush_metrics()
    return {"batchItemFailures": [{"itemIdentifier": each.id} for each in failed]}


def deliver_again(receipts: Mapping[str, str], failed: Sequence[FailedMessage]) -> None:
    """Have messages that failed delivered soon.  If the queue does not answer, they and those
    behind them come after its visibility timeout.  1 request for each."""
    with suppress(Unavailable):
        for each in failed:
            hopeless = isinstance(each.error, Invalid)
            seconds = limits.no_job_again_seconds if hopeless else limits.job_again_seconds
            arrived.deliver_again(receipts[each.id], seconds)
