"""The function of the worker: runs the jobs of the queue, one after the other.

A message that fails is delivered again, and finally moved to the dead-letter queue.  Any worker may
run a job again, because jobs record what is done.  If a job needs longer than a function may run,
the worker sends it to the next worker in time.
"""

from quiet_start import start

# isort: split
from contextlib import suppress
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import at_rest, deployment, open_log, open_store

from graveler.core import limits
from graveler.core.errors import Unavailable
from graveler.jobs.queue import decode, log_failure
from graveler.jobs.sqs import SqsQueue
from graveler.jobs.worker import run

log, metrics = open_log(), Metrics()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)


@start.end
@at_rest(aws)
@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the jobs of a delivery, each as far as the time allows.  Returns the messages that
    failed."""
    failed = [record for record in event["Records"] if not work(record, context)]
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in failed]}


def work(record: dict[str, Any], context: Any) -> bool:
    """Run one job.  False: it must be delivered again."""
    try:
        message = decode(record["body"])
    except Exception as error:
        log.error("message is not a job", message_id=record["messageId"], cause=str(error))
        deliver_again(record, limits.no_job_again_seconds)
        return False
    left = context.get_remaining_time_in_millis() / 1000
    try:
        if run(aws.ports, queue, message, left - limits.job_step_seconds_max):
            metrics.add_metric("JobsFailed", MetricUnit.Count, 1)
            metrics.flush_metrics()
    except Exception as error:
        log_failure(message, error, is_final=False)
        deliver_again(record, limits.job_again_seconds)
        return False
    return True


def deliver_again(record: dict[str, Any], seconds: int) -> None:
    """Have the message delivered after `seconds`, or, if the queue does not answer, after the time
    that the longest job may take."""
    with suppress(Unavailable):
        queue.deliver_again(record["receiptHandle"], seconds)
