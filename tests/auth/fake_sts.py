"""STS in memory: it checks signatures as AWS documents them, and says who signed.

Requests are signed by the unmodified client `lakefs`, with botocore.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from graveler.core.web import Outgoing, Reply

ACCOUNT = "123456789012"
ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/engineers"
SESSION = ROLE + "/ann"
KEY, SECRET, TOKEN = "ASIAQQQQQQQQQQQQQQQQ", "secret" * 6, "dG9rZW4=" * 20
US = "us-east-1"
SERVER = "lake.example.com"


@cache
def signed_token(server: str = SERVER, region: str = US, seconds: int = 60) -> str:
    """As `identity_token`, but the same again for the same."""
    return identity_token(server, region, seconds)


def identity_token(
    server: str = SERVER, region: str = US, seconds: int = 60, headers: Any = None
) -> str:
    """What the client sends, signed now."""
    import boto3  # they take a second, and not every user of this module signs
    from lakefs.auth import _get_identity_token

    session = boto3.Session(KEY, SECRET, TOKEN, region_name=region)
    text: str = _get_identity_token(
        session, server, presign_expiry=seconds, additional_headers=headers
    )
    return text


def fields_of(token: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(base64.b64decode(token))
    return fields


def token_of(fields: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(fields).encode()).decode()


@dataclass
class FakeSts:
    """`arn`: whose key `KEY` is.  `reply`: another answer, whatever was asked."""

    arn: str = SESSION
    account: str = ACCOUNT
    reply: Reply | None = None
    requests: list[Outgoing] = field(default_factory=list)

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.requests.append(request)
        if self.reply is not None:
            return self.reply
        return self.answer(request)

    def answer(self, request: Outgoing) -> Reply:
        """The answer to a request, by its signature."""
        if not _is_signed(request):
            return Reply(403, b'{"Error":{"Code":"SignatureDoesNotMatch"}}')
        return Reply(200, self.body)

    @property
    def body(self) -> bytes:
        result = {"Account": self.account, "Arn": self.arn, "UserId": "AROAQ:ann"}
        answer = {"GetCallerIdentityResult": result, "ResponseMetadata": {"RequestId": "1"}}
        return json.dumps({"GetCallerIdentityResponse": answer}).encode()


def accepting(arn: str = SESSION) -> FakeSts:
    """One that knows the signer of everything."""
    return FakeSts(reply=Reply(200, FakeSts(arn).body))


def unsigned_token(now: int) -> str:
    """An identity token of `now`, in seconds since 1970, that nobody signed."""
    date = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return token_of(
        {
            **{"method": "POST", "action": "GetCallerIdentity", "version": "2011-06-15"},
            **{"algorithm": "AWS4-HMAC-SHA256", "host": "sts.amazonaws.com", "region": US},
            **{"date": date, "expiration_duration": "60", "access_key_id": KEY},
            **{"signature": "5" * 64, "security_token": None},
            "signed_headers": ["host", "x-lakefs-server-id"],
        }
    )


def _is_signed(request: Outgoing) -> bool:
    parts = urlsplit(request.url)
    query = dict(parse_qsl(parts.query, strict_parsing=True))
    signature = query.pop("X-Amz-Signature")
    key_id, *scope = query["X-Amz-Credential"].split("/")
    if key_id != KEY or query.get("X-Amz-Security-Token") != TOKEN:
        return False
    headers = {"host": parts.netloc} | {k.lower(): v for k, v in request.headers.items()}
    names = query["X-Amz-SignedHeaders"].split(";")
    lines = [f"{name}:{headers[name]}" for name in names]
    encoded = "&".join(sorted(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}"
                              for k, v in query.items()))  # fmt: skip
    payload = hashlib.sha256(request.body).hexdigest()
    canonical = [request.method, parts.path, encoded, *lines, "", ";".join(names), payload]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", query["X-Amz-Date"], "/".join(scope), digest))
    key = b"AWS4" + SECRET.encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex() == signature
