"""Events of an HTTP API as requests of the application.

API Gateway hands the path on decoded, and the adapter would decode it again: here it is taken as it
came, once.  (Paths of objects are query parameters, which nobody touches.)  Each request knows how
much of its time is left; a little is kept back for the answer.
"""

from typing import Any
from urllib.parse import quote

from mangum.handlers import HTTPGateway

_KEPT_BACK_SECONDS = 2.0
_PATH_SAFE = "/:@!$&'()*+,;=~-._"


class Gateway(HTTPGateway):
    """Payload format 2.0."""

    @property
    def scope(self) -> dict[str, Any]:
        scope: dict[str, Any] = super().scope
        path: str = self.event["rawPath"]
        scope["path"] = path
        scope["raw_path"] = quote(path, safe=_PATH_SAFE).encode()
        left = self.context.get_remaining_time_in_millis() / 1000
        scope["graveler.seconds_left"] = max(left - _KEPT_BACK_SECONDS, 0.0)
        return scope


def is_commit(event: dict[str, Any]) -> bool:
    """Whether the event is a request for a commit."""
    method: str = event["requestContext"]["http"]["method"]
    path: str = event["rawPath"]
    return method == "POST" and path.endswith("/commits")
