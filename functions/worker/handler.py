"""Jobs of the queue, one by one.  A job that fails is delivered again, at last to the dead letters.

Every job may be run again, by any worker: what was done already is known.  One that needs longer
than a function may run is handed on before that.
"""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from bootstrap import deployment, open_log, open_store

from graveler.jobs.queue import decode
from graveler.jobs.sqs import SqsQueue
from graveler.jobs.worker import run

SECONDS_KEPT_BACK = 60.0  # for what is between two beats

log = open_log()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


def work(record: SQSRecord, lambda_context: Any) -> None:
    """Do one job, or as much of it as there is time for."""
    message = decode(record.body)
    seconds = lambda_context.get_remaining_time_in_millis() / 1000 - SECONDS_KEPT_BACK
    run(aws.ports, queue, message, seconds)
    log.info("job run", **message._asdict())


@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> Any:
    """Which messages failed."""
    return process_partial_response(
        event=event, record_handler=work, processor=processor, context=context
    )
