"""The queue of jobs on Amazon SQS.

The client is made when the first message is sent, because most processes never send one.
Used by the Lambda functions.
"""

from graveler.aws import FAILURES, AwsSession, Client, failure_of, unavailable
from graveler.jobs.queue import Message, encode


class SqsQueue:
    """`Queue` on SQS: messages are delivered at least once, in no order."""

    def __init__(self, session: AwsSession, url: str) -> None:
        self._session = session
        self._url = url
        self._client: Client = None

    def enqueue(self, message: Message) -> None:
        if self._client is None:
            self._client = self._session.client("sqs")
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=encode(message))
        except FAILURES as error:
            raise unavailable(failure_of(error), "send a job", write=True) from error
