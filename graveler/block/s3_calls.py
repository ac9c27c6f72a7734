"""Sends S3 requests with the client of the AWS session, and translates their errors.

    404 NoSuchKey, NoSuchVersion    `NotFound`
    404 NoSuchUpload                `NoSuchUpload`
    412 PreconditionFailed          `PreconditionFailed`: the condition is false, nothing was stored
    409 ConditionalRequestConflict  `Unavailable`: a concurrent write, nothing was stored
    503 SlowDown                    `Unavailable`: too many requests, nothing was stored
    5xx, no answer                  `OutcomeUnknown` for a write, `Unavailable` for a read

Each call is sent once.  If the client itself repeated a conditional write, its own first attempt
could make the condition fail.  `RetryingBlocks` repeats calls and recognises their results.  The
client is made at first use.
"""

import threading
from dataclasses import dataclass
from typing import Any, Final

from graveler.aws import FAILURES, AwsSession, CallPolicy, Client, Failure, failure_of, unavailable
from graveler.errors import GravelerError, Invalid, NotFound, PreconditionFailed, Unavailable

_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchVersion"})
_UPLOAD_ABSENT: Final = "NoSuchUpload"
_CONTENDED: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_WRONG: Final = frozenset(
    {
        "EntityTooLarge",
        "EntityTooSmall",
        "InvalidPart",
        "InvalidPartOrder",
        "InvalidStorageClass",
        "KeyTooLongError",
    }
)


class NoSuchUpload(NotFound):
    """The upload does not exist.  This does not show whether the object of a condition exists."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its verb, its purpose in words (for messages), its target, and whether it
    changes anything."""

    verb: str
    what: str
    bucket: str
    key: str = ""
    is_write: bool = True


class S3Calls:
    """Sends calls.  Thread-safe."""

    def __init__(self, session: AwsSession, policy: CallPolicy) -> None:
        self._session = session
        self._policy = policy
        self._lock = threading.Lock()
        self._made: list[Client] = []

    def send(self, call: Call, **arguments: Any) -> dict[str, Any]:
        """The answer of S3.  Raises the errors of the table above."""
        client = self._client()
        target = {"Bucket": call.bucket, **({"Key": call.key} if call.key else {})}
        try:
            answer: dict[str, Any] = getattr(client, call.verb)(**target, **arguments)
        except FAILURES as error:
            raise error_of(failure_of(error), call) from error
        return answer

    def _client(self) -> Client:
        with self._lock:
            if not self._made:
                style = "path" if self._session.settings.endpoint_url else "auto"
                options = {
                    "s3": {"addressing_style": style},
                    "signature_version": "s3v4",
                    # Reads are signed without a client and use only the endpoint of the settings,
                    # so writes must not use a configured one either.
                    "ignore_configured_endpoint_urls": True,
                }
                self._made.append(self._session.client("s3", self._policy, options))
            return self._made[0]


def error_of(failure: Failure, call: Call) -> GravelerError:
    """The error for a failure, by the table above."""
    attempt = f"{call.what}: address=s3://{call.bucket}/{call.key}"
    if failure.code in _ABSENT:
        return NotFound(f"{attempt} code={failure.code}")
    if failure.code == _UPLOAD_ABSENT:
        return NoSuchUpload(f"{attempt} code={failure.code}")
    if failure.status == 412:
        return PreconditionFailed(f"{attempt} code={failure.code}")
    if failure.code in _CONTENDED:
        return Unavailable(f"{attempt} code={failure.code}")
    if failure.code in _WRONG:
        return Invalid(f"{attempt} code={failure.code} {failure.message}")
    return unavailable(failure, attempt, write=call.is_write)
