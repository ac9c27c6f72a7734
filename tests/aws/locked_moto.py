"""moto on the port named, one request at a time: its tables have no locks of their own.

Run by the tools environment's interpreter, where moto is; never imported by the tests.
"""

import argparse
import io
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.test import Client

_INNER = DomainDispatcherApplication(create_backend_app)
_LOCK = threading.RLock()
_SERVICES = {
    "dynamodb": "DynamoDB_20120810.ListTables",
    "kms": "TrentService.ListKeys",
    "secretsmanager": "secretsmanager.ListSecrets",
    "sqs": "AmazonSQS.ListQueues",
    "s3": "",
}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The body is read before the lock is taken, so that a slow sender holds up nobody."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length:
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
    with _LOCK:
        return [b"".join(_INNER(environ, start_response))]


def warm_up() -> None:
    """Ask each service once.  It loads its code then, which takes longer on a busy machine than a
    client waits."""
    client = Client(application)
    for service, target in _SERVICES.items():
        signed = f"AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/{service}/aws4_request"
        headers = {"Authorization": f"{signed}, SignedHeaders=host, Signature=a"}
        if target:
            headers |= {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
        answer = client.open(method="POST" if target else "GET", headers=headers, data="{}")
        assert answer.status_code == 200, f"{service}: {answer.status} {answer.data!r}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("port", type=int)
    port = parser.parse_args().port
    warm_up()
    run_simple("127.0.0.1", port, application, threaded=True)
