"""The queue of jobs: what is handed to the worker, as messages.

    {"kind": "batch", "repository": …, "rule": …, "batch": …}    commit a closed batch of events

A message may be delivered more than once, so every job may be run more than once.
"""

import json
from typing import Any

from starting import deployment

from graveler.assembly.aws import Aws
from graveler.aws import FAILURES, failure_of, unavailable
from graveler.events.intake import BatchJob

BATCH = "batch"


class JobQueue:
    """Sends jobs.  The client is made when the first one is sent: most sandboxes never do."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._client: Any = None

    def hand_on(self, job: BatchJob) -> None:
        """A batch is to be committed.  `OutcomeUnknown` if nobody knows whether it was sent."""
        if self._client is None:
            self._client = self._aws.session.client("sqs")
        body = json.dumps({"kind": BATCH, **job._asdict()})
        try:
            self._client.send_message(QueueUrl=deployment().jobs_queue, MessageBody=body)
        except FAILURES as error:
            raise unavailable(failure_of(error), "send a job", write=True) from error


def batch_job(body: dict[str, Any]) -> BatchJob:
    """The job that a message of kind `BATCH` says."""
    return BatchJob(body["repository"], body["rule"], body["batch"])
