"""Converts events of API Gateway (HTTP API) to requests of the application.

- API Gateway passes the path decoded, and the adapter would decode it a second time.  This class
  prevents that.  Object paths are query parameters and not affected.
- The id of a request is that of API Gateway, so that its log and ours have the same.
- Each request knows how much of its time is left, less a reserve for the answer.
- An answer that is too large for Lambda, such as a page of the longest records, becomes a 400 that
  says what to ask for.
"""

import json
from typing import Any
from urllib.parse import quote

from mangum.handlers import HTTPGateway
from mangum.types import Response

_KEPT_BACK_SECONDS = 2.0
_ANSWER_BYTES_MAX = 6 * 1024 * 1024 - 64 * 1024  # Lambda takes 6 MB
_GROWTH_MAX = 6  # in JSON a character may become an escape of six characters
_PATH_SAFE = "/:@!$&'()*+,;=~-._"


class Gateway(HTTPGateway):
    """The adapter for payload format 2.0."""

    @property
    def scope(self) -> dict[str, Any]:
        scope: dict[str, Any] = super().scope
        path: str = self.event["rawPath"]
        scope["path"] = path
        scope["raw_path"] = quote(path, safe=_PATH_SAFE).encode()
        remaining = self.context.get_remaining_time_in_millis() / 1000
        scope["graveler.request_id"] = self.event["requestContext"].get("requestId", "")
        scope["graveler.seconds_left"] = max(remaining - _KEPT_BACK_SECONDS, 0.0)
        return scope

    def __call__(self, response: Response) -> dict[str, Any]:
        answer: dict[str, Any] = super().__call__(response)
        if len(answer["body"]) * _GROWTH_MAX <= _ANSWER_BYTES_MAX or _fits(answer):
            return answer
        message = "answer would be too large for this deployment: ask for less, by a smaller amount"
        return {
            **answer,
            "statusCode": 400,
            "headers": {"content-type": "application/json"},
            "body": json.dumps({"message": message}),
            "isBase64Encoded": False,
        }


def _fits(answer: dict[str, Any]) -> bool:
    return len(json.dumps(answer, ensure_ascii=False).encode()) <= _ANSWER_BYTES_MAX


def is_commit(event: dict[str, Any]) -> bool:
    """Whether the event is a request for a commit."""
    method: str = event["requestContext"]["http"]["method"]
    path: str = event["rawPath"]
    return method == "POST" and path.endswith("/commits")
