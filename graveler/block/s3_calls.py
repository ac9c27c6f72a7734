"""Calls of S3's verbs through the AWS session's client, and what their errors mean.

    404 NoSuchKey, NoSuchVersion    `NotFound`
    404 NoSuchUpload                `NoSuchUpload`
    412 PreconditionFailed          `PreconditionFailed`: the condition is false, nothing was stored
    409 ConditionalRequestConflict  `Unavailable`: another write was under way, nothing was stored
    503 SlowDown                    `Unavailable`: too much at once, nothing was stored
    5xx, no answer                  `OutcomeUnknown` of a write, `Unavailable` of a read

A call is sent once: a client that repeats a conditional write by itself would be told that the
condition fails, by its own first attempt.  `RetryingBlocks` repeats, and recognises.  The client is
made when first needed.  For the S3 driver.
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
    """The upload is not there; of the object that a condition is about nothing is said."""


@dataclass(frozen=True, slots=True)
class Call:
    """One verb, what it is for in words, whether it changes anything, and its target."""

    verb: str
    what: str
    bucket: str
    key: str = ""
    is_write: bool = True


class S3Calls:
    """Thread-safe."""

    def __init__(self, session: AwsSession, policy: CallPolicy) -> None:
        self._session = session
        self._policy = policy
        self._lock = threading.Lock()
        self._made: list[Client] = []

    def send(self, call: Call, **arguments: Any) -> dict[str, Any]:
        """The service's answer, or the kind of error that the table above says."""
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
                    # Reads are signed without a client and know the settings' endpoint alone.
                    "ignore_configured_endpoint_urls": True,
                }
                self._made.append(self._session.client("s3", self._policy, options))
            return self._made[0]


def error_of(failure: Failure, call: Call) -> GravelerError:
    """The kind of error that the table above says."""
    said = f"{call.what}: address=s3://{call.bucket}/{call.key}"
    if failure.code in _ABSENT:
        return NotFound(f"{said} code={failure.code}")
    if failure.code == _UPLOAD_ABSENT:
        return NoSuchUpload(f"{said} code={failure.code}")
    if failure.status == 412:
        return PreconditionFailed(f"{said} code={failure.code}")
    if failure.code in _CONTENDED:
        return Unavailable(f"{said} code={failure.code}")
    if failure.code in _WRONG:
        return Invalid(f"{said} code={failure.code} {failure.message}")
    return unavailable(failure, said, write=call.is_write)
