"""Notifications of buckets become staged changes and batches, by the rules of the repositories.

Once a minute an event of the schedule, which has no records, closes the batches whose time is over;
now and then those are handed on again that were closed before and still wait.
"""

from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import deployment, open_log, open_store

from graveler.events import intake
from graveler.events.intake import Message
from graveler.jobs.sqs import SqsQueue

MINUTE_NS = 60 * 10**9
MINUTES_BETWEEN = 10  # a commit that takes minutes is not begun again and again meanwhile
SECONDS_KEPT_BACK = 30.0  # what one step may take

log, metrics = open_log(), Metrics()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)


@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Take in a delivery; what failed is delivered again, at last to the dead letters."""
    if "Records" not in event:
        waiting = aws.ports.clock.now_ns() // MINUTE_NS % MINUTES_BETWEEN == 0
        return {"closed": intake.tick(aws.ports, queue.enqueue, waiting=waiting)}
    messages = [Message(each["messageId"], each["body"]) for each in event["Records"]]
    seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_KEPT_BACK
    counts, failed = intake.take_in(aws.ports, messages, queue.enqueue, seconds)
    for each in failed:
        log.warning("message failed", message_id=each.id, error=str(each.error))
    for taken, count in counts.items():
        metrics.add_metric(f"Events{taken.value.title()}", MetricUnit.Count, count)
    if counts:
        metrics.flush_metrics()
    return {"batchItemFailures": [{"itemIdentifier": each.id} for each in failed]}
