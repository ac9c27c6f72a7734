"""The function of the worker: runs the jobs of the queue, one after the other.

A message that fails is delivered again, and finally moved to the dead-letter queue.  Any worker may
run a job again, because jobs record what is done.  If a job needs longer than a function may run,
the worker sends it to the next worker in time.
"""

from quiet_start import start

# isort: split
from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from bootstrap import deployment, open_log, open_store

from graveler import limits
from graveler.jobs.queue import decode
from graveler.jobs.sqs import SqsQueue
from graveler.jobs.worker import run

log = open_log()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


def work(record: SQSRecord, lambda_context: Any) -> None:
    """Run one job, or as much of it as the time allows."""
    message = decode(record.body)
    left = lambda_context.get_remaining_time_in_millis() / 1000
    seconds = left - limits.job_step_seconds_max
    run(aws.ports, queue, message, seconds)
    log.info("job run", **message._asdict())


@start.end
@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> Any:
    """Run the jobs of a delivery, and return the messages that failed."""
    return process_partial_response(
        event=event, record_handler=work, processor=processor, context=context
    )
