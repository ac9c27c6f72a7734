"""A configuration of an S3 bucket, such as its notifications: one document, which a write replaces
unconditionally.  So whoever changes a part of it reads it, changes that part, writes it, and reads
it again.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from graveler.core.aws import FAILURES, AwsSession, CallPolicy, failure_of, unavailable
from graveler.core.errors import Conflict, Invalid, NotFound

T = TypeVar("T")
_POLICY: Final = CallPolicy(read_seconds=30.0)  # S3 tests a queue before it answers
_REFUSED: Final = ("InvalidArgument", "InvalidRequest", "MalformedXML")


def client_of(session: AwsSession) -> Any:
    """A client that waits long enough."""
    style = "path" if session.settings.endpoint_url else "auto"
    return session.client("s3", _POLICY, {"s3": {"addressing_style": style}})


def read(call: Callable[[], T], bucket: str, what: str) -> T:
    """What `call` reads.  Errors: `NotFound` (no such bucket), `Unavailable`, whose cause is the
    failure."""
    try:
        return call()
    except FAILURES as error:
        failure = failure_of(error)
        if failure.code == "NoSuchBucket":
            raise NotFound(f"bucket not found: {bucket=}") from error
        raise unavailable(failure, f"read the {what}: {bucket=}", write=False) from error


def replace(
    write: Callable[[], object],
    again: Callable[[], T],
    is_known: Callable[[T], bool],
    bucket: str,
    what: str,
) -> None:
    """Write a document by `write`, and read it `again`.  `is_known`: whether that is the new
    document or the old one, because S3 shows a configuration late.

    Errors: `Invalid` (S3 refuses it), `Conflict` (another client changed it at the same time: check
    it, and try again), `OutcomeUnknown`, those of `again`.
    """
    try:
        write()
    except FAILURES as error:
        failure = failure_of(error)
        if failure.code in _REFUSED:
            raise Invalid(f"S3 refuses: {failure.message} bucket={bucket}") from error
        raise unavailable(failure, f"set the {what}: {bucket=}", write=True) from error
    if not is_known(again()):
        raise Conflict(f"another client changed the {what} at the same time; try again: {bucket=}")
