"""The AWS session of a process: makes clients, and classifies failed calls.

Clients are thread-safe; a session is not while it makes clients.  So there is one session, created
with the first client, and one lock around the creation of clients.  A client sends each request
once unless its policy says otherwise.  Code that repeats a request must consider that it may have
been applied (kv/retry.py, block/retry.py).

This module does not read the environment.  For an empty setting, AWS's own chain of configuration
(variables, files, roles) decides.
"""

import threading
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProxyConnectionError,
)
from botocore.parsers import ResponseParserError
from botocore.session import Session

from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.records import without

Client = Any  # botocore makes the classes of its clients at run time


class AwsSettings(NamedTuple):
    """Region, endpoint and credentials.  AWS's own chain of configuration fills empty fields."""

    region: str = ""
    endpoint_url: str = ""
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        return without(self, "secret_access_key", "session_token")


class Credentials(NamedTuple):
    """An access key to sign with.  `session_token` is empty except for temporary credentials."""

    access_key_id: str
    secret_access_key: str
    session_token: str

    def __repr__(self) -> str:
        return without(self, "secret_access_key", "session_token")


class CallPolicy(NamedTuple):
    """Timeouts, number of attempts (1: no request is sent twice) and connections of a client."""

    connect_seconds: float = 1.0
    read_seconds: float = 3.0
    attempts: int = 1
    connections: int = 32


class AwsSession:
    """Makes clients.  Thread-safe; loads and sends nothing before the first client."""

    def __init__(self, settings: AwsSettings | None = None) -> None:
        self.settings = settings or AwsSettings()
        self._lock = threading.Lock()
        self._session: Session | None = None

    def client(
        self,
        service: str,
        policy: CallPolicy | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Client:
        """A new client of `service`.  Keep it: making one takes milliseconds.

        `options` go into botocore's `Config`.  `Unavailable` if no region is configured.  botocore
        looks for credentials now and renews them; if there are none, the first call fails.
        """
        chosen = policy or CallPolicy()
        config = Config(
            connect_timeout=chosen.connect_seconds,
            read_timeout=chosen.read_seconds,
            retries={"total_max_attempts": chosen.attempts, "mode": "standard"},
            max_pool_connections=chosen.connections,
            tcp_keepalive=True,
            **(options or {}),
        )
        settings = self.settings
        with self._lock:
            session = self._opened()
            try:
                client = session.create_client(
                    service,
                    region_name=settings.region or None,
                    endpoint_url=settings.endpoint_url or None,
                    config=config,
                )
            except (BotoCoreError, ValueError) as error:
                raise Unavailable(f"aws client not created: {service=} reason={error}") from error
        client.meta.events.register("before-parse", _whole)
        return client

    def credentials(self) -> Credentials:
        """The present credentials, to sign without a client.  Temporary ones are renewed before
        they expire.  `Unavailable` if there are none.
        """
        with self._lock:
            try:
                known = self._opened().get_credentials()
                frozen = known.get_frozen_credentials() if known is not None else None
            except BotoCoreError as error:
                raise Unavailable(f"aws credentials not found: reason={error}") from error
        if frozen is None:
            raise Unavailable("aws credentials not found: configure them: reason=none configured")
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    def region(self) -> str:
        """The region that clients are made for; `Unavailable` if none is configured."""
        if self.settings.region:
            return self.settings.region
        with self._lock:
            name = self._opened().get_config_variable("region")
        if not name:
            raise Unavailable("aws region not found: reason=none configured")
        return str(name)

    def _opened(self) -> Session:
        if self._session is None:
            session, settings = Session(), self.settings
            if settings.access_key_id:
                session.set_credentials(
                    settings.access_key_id,
                    settings.secret_access_key,
                    settings.session_token or None,
                )
            self._session = session
        return self._session


def _whole(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    """Raises for a truncated answer.  botocore would parse it as an answer without rows."""
    body, length = response_dict.get("body"), response_dict["headers"].get("content-length")
    if not isinstance(body, bytes) or length is None or operation_model.http["method"] == "HEAD":
        return
    if len(body) != int(length):
        cause = EOFError(f"answer broke off: {len(body)} of {length} bytes came")
        raise HTTPClientError(error=cause)


# ---- what went wrong -----------------------------------------------------------------------------

FAILURES: Final = (BotoCoreError, ClientError, HTTPClientError, ResponseParserError)


class Fate(Enum):
    """Whether a failed request was applied."""

    REFUSED = "refused"  # answered: not applied; a repetition would be refused too
    BUSY = "busy"  # answered: not applied because of the load; a repetition may succeed
    UNSENT = "unsent"  # it never reached the service
    UNKNOWN = "unknown"  # no answer, or an answer that does not show it


class Failure(NamedTuple):
    """A failed call: code, status and message of the service.  Without an answer, `status` is 0 and
    `code` is empty."""

    fate: Fate
    code: str
    status: int
    message: str
    answer: Mapping[str, Any]


_BUSY_CODES: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "TransactionConflict",
        "TransactionConflictException",
    }
)
_UNSENT: Final = (
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProxyConnectionError,
)


def failure_of(error: BaseException) -> Failure:
    """Classifies an exception of `FAILURES`.  Any other exception has the fate UNKNOWN."""
    if isinstance(error, ClientError):
        answer: Mapping[str, Any] = error.response
        details = answer.get("Error", {})
        code, message = str(details.get("Code", "")), str(details.get("Message", ""))
        status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return Failure(_answered(code, status), code, status, message, answer)
    fate = Fate.UNSENT if isinstance(error, _UNSENT) else Fate.UNKNOWN
    return Failure(fate, "", 0, f"{type(error).__name__}: {error}", {})


def failure_said(code: str, message: str) -> Failure:
    """The failure of one item in the answer to a batch request, which has a code but no status.
    The fate is BUSY for a busy code, REFUSED for `AccessDenied`, else UNKNOWN."""
    status = 403 if code == "AccessDenied" else 500
    return Failure(_answered(code, status), code, status, message, {})


def is_busy(code: str) -> bool:
    """Whether an error code means: not applied because of the load."""
    return code in _BUSY_CODES


def unavailable(failure: Failure, attempt: str, *, write: bool) -> Unavailable:
    """The error to raise for a failure that has no specific type.

    `OutcomeUnknown` if a write may have been applied, else `Unavailable`.  This includes refusals
    that only the operator of the deployment can fix (permissions, a missing table or bucket): the
    caller of the API did nothing wrong.
    """
    text = f"{attempt}: code={failure.code or 'none'} status={failure.status} {failure.message}"
    if failure.fate is Fate.UNKNOWN and write:
        return OutcomeUnknown(text)
    return Unavailable(text)


def _answered(code: str, status: int) -> Fate:
    if code in _BUSY_CODES:
        return Fate.BUSY
    return Fate.REFUSED if 300 <= status < 500 else Fate.UNKNOWN


__all__ = [
    "FAILURES",
    "AwsSession",
    "AwsSettings",
    "CallPolicy",
    "Client",
    "Credentials",
    "Failure",
    "Fate",
    "failure_of",
    "failure_said",
    "is_busy",
    "unavailable",
]
