"""Jobs of the queue, one by one.  A job that fails is delivered again, at last to the dead letters.

Every kind of job may be run again from its start: what was done already is known.
"""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from jobs import BATCH, batch_job
from starting import open_log, open_store

from graveler.events import intake

log = open_log()
aws = open_store()
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


def run(record: SQSRecord) -> None:
    """Do one job, whole."""
    body = record.json_body
    kind = body["kind"]
    if kind != BATCH:
        raise ValueError(f"job of an unknown kind: {kind=}")
    intake.run(aws.ports, batch_job(body))
    log.info("job done", **body)


@log.inject_lambda_context
def handle(event: dict[str, Any], context: Any) -> Any:
    """Which messages failed."""
    return process_partial_response(
        event=event, record_handler=run, processor=processor, context=context
    )
