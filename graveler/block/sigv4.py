"""Makes presigned S3 URLs: AWS Signature Version 4 in the query, without botocore's models.

canonical request   method ‖ path ‖ query ‖ headers ‖ their names ‖ UNSIGNED-PAYLOAD, by lines
text to sign        AWS4-HMAC-SHA256 ‖ time ‖ scope ‖ SHA-256 of the canonical request
key                 HMAC of HMAC …: secret, day, region, service, "aws4_request"
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from graveler.aws import Credentials
from graveler.limits import SECOND_NS

_ALGORITHM = "AWS4-HMAC-SHA256"
_PATH_SAFE = "/-_.~"
_QUERY_SAFE = "-_.~"


class Signable(NamedTuple):
    """A request to sign.  `key` is not percent-encoded.  Names of `headers` are in lower case; the
    client must send these headers with exactly these values."""

    method: str
    origin: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Signature(NamedTuple):
    """The credentials, region, start time and validity of a signature."""

    credentials: Credentials
    region: str
    now_ns: int
    seconds: int


def presigned(request: Signable, signature: Signature) -> str:
    """The signed URL.  The request's `origin` is `scheme://host`, optionally with a first segment
    of the path."""
    moment = datetime.fromtimestamp(signature.now_ns // SECOND_NS, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{signature.region}/s3/aws4_request"
    scheme, _, rest = request.origin.partition("://")
    host, slash, stem = rest.partition("/")
    path = quote(f"{slash}{stem}/{request.key}", safe=_PATH_SAFE)
    headers = {"host": host, **request.headers}
    names = ";".join(sorted(headers))
    credentials = signature.credentials
    query = {
        **request.query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(signature.seconds),
        "X-Amz-SignedHeaders": names,
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    encoded = "&".join(
        sorted(
            f"{quote(n, safe=_QUERY_SAFE)}={quote(v, safe=_QUERY_SAFE)}" for n, v in query.items()
        )
    )
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    canonical = "\n".join((request.method, path, encoded, lines, names, "UNSIGNED-PAYLOAD"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((_ALGORITHM, moment, scope, digest))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, text.encode(), "sha256").hex()
    return f"{scheme}://{host}{path}?{encoded}&X-Amz-Signature={signed}"
