"""The queue of jobs on Amazon SQS.

The client is made when the first message is sent, because most processes never send one.
"""

from graveler.core.aws import FAILURES, AwsSession, Client, failure_of, unavailable
from graveler.jobs.queue import Message, encode


class SqsQueue:
    """`Queue` on SQS: messages are delivered at least once, in no order."""

    def __init__(self, session: AwsSession, url: str) -> None:
        self._session = session
        self._url = url
        self._client: Client = None

    def enqueue(self, message: Message) -> None:
        try:
            self._opened().send_message(QueueUrl=self._url, MessageBody=encode(message))
        except FAILURES as error:
            raise unavailable(failure_of(error), "send a job", write=True) from error

    def deliver_again(self, receipt: str, seconds: int) -> None:
        """Have a message that failed delivered again after `seconds`, not after the time that the
        longest job may take.  1 request.

        Errors: `Unavailable`: it comes after that time.
        """
        try:
            self._opened().change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
            )
        except FAILURES as error:
            raise unavailable(failure_of(error), "delay a job", write=False) from error

    def _opened(self) -> Client:
        if self._client is None:
            self._client = self._session.client("sqs")
        return self._client
