"""A server's HTTP API, for commands that work through it."""

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from graveler.errors import Conflict, GravelerError, Invalid, NotFound, Refused, Unavailable

URL_VARIABLE = "LAKECTL_SERVER_ENDPOINT_URL"
KEY_VARIABLE = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_VARIABLE = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
_BASE = "/api/v1"
_SECONDS = 60
_KINDS: dict[int, type[GravelerError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    409: Conflict,
}


class Server(NamedTuple):
    """Where the API is, and who asks."""

    url: str
    access_key_id: str
    secret_access_key: str

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What it answers, or the kind of error that its status means."""
        token = b64encode(f"{self.access_key_id}:{self.secret_access_key}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _error(error.code, error.read()) from error
        except OSError as error:
            raise Unavailable(f"the server does not answer: {error} url={self.url}") from error
        return json.loads(text) if text else {}


def server_of(variables: Mapping[str, str], url: str = "", access_key_id: str = "") -> Server:
    """What is given, and the rest as the environment has it.  Raises `Invalid`."""
    url = url or variables.get(URL_VARIABLE, "")
    key = access_key_id or variables.get(KEY_VARIABLE, "")
    secret = variables.get(SECRET_VARIABLE, "")
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"no server: give --server URL or set {URL_VARIABLE}")
    if not key or not secret:
        raise Invalid(f"no credentials: set {KEY_VARIABLE} and {SECRET_VARIABLE}")
    url = url.rstrip("/")
    return Server(url if url.endswith(_BASE) else url + _BASE, key, secret)


def _error(status: int, body: bytes) -> GravelerError:
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = "no reason given"
    return _KINDS.get(status, Unavailable)(f"{said}: {status=}")
