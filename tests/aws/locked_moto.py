"""moto on the port named, one request at a time: its tables have no locks of their own.

Run by the tools environment's interpreter, where moto is; never imported by the tests.
"""

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_INNER = DomainDispatcherApplication(create_backend_app)
_LOCK = threading.RLock()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The body is read before the lock is taken, so that a slow sender holds up nobody."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length:
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
    with _LOCK:
        return [b"".join(_INNER(environ, start_response))]


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
