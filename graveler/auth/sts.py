"""Callers with an IAM identity of AWS: they prove it by a request to STS that they have signed.

    caller signs GetCallerIdentity ──► login ──► this service sends it to STS ──► ARN of the caller
    ended/signatures / <signature> -> Pairs: used, expires (seconds)

The service builds the request anew from the parts that it gets.  These always hold:

- The host is one of STS, by name; the scheme is https, the action GetCallerIdentity.
- The header `X-LakeFS-Server-ID` is signed, and the service sends its own name in it.  So a request
  that was signed for another service is refused by STS.
- The signature is at most 15 minutes old, and is accepted for `limits.signature_reuse_seconds` from
  its first use: the tasks of a job that sign in the same second make equal signatures.
- The account is one that the deployment allows.

Expired rows are deleted by DynamoDB, or by later logins among the rows that follow their own.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from graveler.auth.entities import Keeper
from graveler.core import limits, wire
from graveler.core.errors import Invalid, Refused, Unauthenticated, Unavailable
from graveler.core.records import ABSENT, without
from graveler.core.web import Outgoing, Reply, Sender
from graveler.kv.replace import Found
from graveler.kv.store import Declined, landed

SERVER_HEADER: Final = "X-LakeFS-Server-ID"
_REGIONS: Final = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "ca-west-1"),
    *("mx-central-1", "sa-east-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1"),
    *("eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "af-south-1", "il-central-1"),
    *("me-central-1", "me-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2"),
    *("ap-northeast-3", "ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2"),
    *("ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7"),
    *("us-gov-east-1", "us-gov-west-1"),
)
# Each host of STS, and the region for which requests to it are signed.
HOSTS: Final[Mapping[str, str]] = {
    "sts.amazonaws.com": "us-east-1",
    **{f"sts.{region}.amazonaws.com": region for region in _REGIONS},
    **{f"sts.{region}.amazonaws.com.cn": region for region in ("cn-north-1", "cn-northwest-1")},
}
_FIXED: Final = {
    "method": "POST",
    "action": "GetCallerIdentity",
    "version": "2011-06-15",
    "algorithm": "AWS4-HMAC-SHA256",
}
_SIGNED_HEADERS: Final = ["host", SERVER_HEADER.lower()]
_FIELDS: Final = {
    "date": re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII),
    "expiration_duration": re.compile(r"[1-9][0-9]{0,3}", re.ASCII),
    "access_key_id": re.compile(r"[A-Z0-9]{16,128}", re.ASCII),
    "signature": re.compile(r"[0-9a-f]{64}", re.ASCII),
    "security_token": re.compile(r"[A-Za-z0-9+/=]{0,8192}", re.ASCII),
}
_ACCOUNT: Final = re.compile(r"[0-9]{12}", re.ASCII)
_ARN: Final = re.compile(r"arn:(aws|aws-cn|aws-us-gov):(iam|sts)::([0-9]{12}):([!-~]{1,400})")
_SECONDS_AHEAD_MAX: Final = 300  # that the caller's clock may be ahead
_ANSWER_SECONDS: Final = 5.0
_MALFORMED: Final = (KeyError, TypeError, ValueError, RecursionError)


class SignedRequest(NamedTuple):
    """The parts of a signed request that differ between callers."""

    host: str
    date: str
    expiration_duration: str
    access_key_id: str
    signature: str
    security_token: str

    def __repr__(self) -> str:
        return without(self, "security_token")

    @property
    def signed_at(self) -> int:
        """The time of the signature, in seconds since 1970.  Raises `ValueError`."""
        moment = datetime.strptime(self.date, "%Y%m%dT%H%M%SZ")
        return int(moment.replace(tzinfo=UTC).timestamp())


class AwsCaller(NamedTuple):
    """A caller that STS has confirmed.

    `principals`: the ids that may stand for it, the narrowest first.  `signature` proved it until
    `expires`, in seconds since 1970.
    """

    arn: str
    principals: tuple[str, ...]
    signature: str
    expires: int


class AwsLogin(NamedTuple):
    """Asks STS whose identity signed a request.

    `hosts`: the names of this service, for one of which callers sign.  `accounts`: whose identities
    may log in.
    """

    sender: Sender
    hosts: frozenset[str]
    accounts: frozenset[str]

    def caller(self, token: str, host: str, now: int) -> AwsCaller:
        """The caller that signed the request in `token` for this service.

        `host`: the name by which the caller reaches the service; `now` in seconds since 1970.
        Raises `Invalid` for a request of another form, `Unauthenticated` for a signature that is
        too old or that STS refuses, `Refused` for an account or a name of the service that is not
        allowed, `Unavailable`.  One request to STS; none if the parts are wrong.
        """
        request = read(token)
        if host not in self.hosts:
            raise Refused(f"login is not allowed by this name of the service: host={host[:200]!r}")
        expires = _check_age(request, now)
        arn, account = _identity(self.sender.send(outgoing(request, host), _ANSWER_SECONDS))
        if account not in self.accounts:
            raise Refused(f"account is not allowed by the deployment: {account=}")
        return AwsCaller(arn, principals_of(arn), request.signature, expires)


def read(token: str) -> SignedRequest:
    """The signed request in an identity token: Base64 of a JSON object.  Raises `Invalid`."""
    try:
        fields = json.loads(base64.b64decode(token, validate=True))
    except (binascii.Error, *_MALFORMED) as error:
        raise Invalid("identity_token invalid: it must be Base64 of a JSON object") from error
    if not isinstance(fields, dict):
        raise Invalid("identity_token invalid: it must be Base64 of a JSON object")
    for name, value in _FIXED.items():
        if fields.get(name) != value:
            raise Invalid(f"identity_token invalid: {name} must be {value}")
    if fields.get("signed_headers") != _SIGNED_HEADERS:
        raise Invalid(f"identity_token invalid: signed_headers must be {_SIGNED_HEADERS}")
    host = fields.get("host")
    if not isinstance(host, str) or host not in HOSTS or fields.get("region") != HOSTS[host]:
        raise Invalid("identity_token invalid: host must be one of STS, with its region")
    return SignedRequest(host, *(_field(fields, name) for name in _FIELDS))


def outgoing(request: SignedRequest, host: str) -> Outgoing:
    """The request to STS.  `host`: the name of this service that the caller must have signed."""
    scope = f"{request.date[:8]}/{HOSTS[request.host]}/sts/aws4_request"
    query = {
        "Action": _FIXED["action"],
        "Version": _FIXED["version"],
        "X-Amz-Algorithm": _FIXED["algorithm"],
        "X-Amz-Credential": f"{request.access_key_id}/{scope}",
        "X-Amz-Date": request.date,
        "X-Amz-Expires": request.expiration_duration,
        "X-Amz-SignedHeaders": ";".join(_SIGNED_HEADERS),
        "X-Amz-Signature": request.signature,
    }
    if request.security_token:
        query["X-Amz-Security-Token"] = request.security_token
    url = f"https://{request.host}/?{urlencode(query, quote_via=quote, safe='')}"
    headers = {SERVER_HEADER: host, "Accept": "application/json"}
    return Outgoing(_FIXED["method"], url, headers, b"")


def principals_of(arn: str) -> tuple[str, ...]:
    """The external principals that may stand for a caller, the narrowest first: of a session of a
    role the session, then the role.  Pure."""
    head, _, rest = arn.partition(":assumed-role/")
    role, slash, _session = rest.partition("/")
    return (arn, f"{head}:assumed-role/{role}") if slash else (arn,)


def _field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None and name == "security_token":
        return ""
    if not isinstance(value, str) or not _FIELDS[name].fullmatch(value):
        raise Invalid(f"identity_token invalid: {name} is malformed")
    return value


def _check_age(request: SignedRequest, now: int) -> int:
    """When the signature expires.  Raises `Unauthenticated` if it is not valid now."""
    try:
        signed_at = request.signed_at
    except ValueError as error:
        raise Invalid("identity_token invalid: date is malformed") from error
    life = min(int(request.expiration_duration), limits.signed_identity_seconds_max)
    if not signed_at - _SECONDS_AHEAD_MAX <= now < signed_at + life:
        raise Unauthenticated("signature has expired, or is not yet valid")
    return signed_at + life


def _identity(reply: Reply) -> tuple[str, str]:
    """ARN and account in an answer of STS."""
    if reply.status in (400, 401, 403):
        raise Unauthenticated("STS does not accept the signature")
    if reply.status != 200:
        raise Unavailable(f"STS did not answer: status={reply.status}")
    try:
        answer = json.loads(reply.body)
        result = answer["GetCallerIdentityResponse"]["GetCallerIdentityResult"]
        arn, account = result["Arn"], result["Account"]
        match = _ARN.fullmatch(arn)
    except _MALFORMED as error:
        raise Unavailable("answer of STS is malformed") from error
    if match is None or match[3] != account:
        raise Unavailable("answer of STS is malformed")
    return arn, account


# ---- signatures ----------------------------------------------------------------------------------

PARTITION: Final = b"ended/signatures"


def spend(keeper: Keeper, signature: str, expires: int, now: int) -> None:
    """Record the use of a signature that STS has accepted; times are in seconds since 1970.

    Raises `Unauthenticated` if it was first used too long ago, `OutcomeUnknown`: its use may be
    recorded.  2 requests, 3 if there are expired rows to delete; 1 if it was used before.
    """
    raw = wire.encode_pairs({"used": str(now), "expires": str(expires)})
    stamp = keeper.ids.stamp()
    outcome = keeper.kv.set_if(PARTITION, signature.encode(), raw, stamp, ABSENT)
    if isinstance(outcome, Declined) and not landed(outcome, stamp):
        if now > _number(outcome.current, "used") + limits.signature_reuse_seconds:
            raise Unauthenticated("signature was used before")
        return
    rows = keeper.kv.scan(PARTITION, signature.encode(), b"", limits.kv_batch_count_max).rows
    expired = [key for key, row in rows if _number(row, "expires") <= now]
    if expired:
        keeper.kv.delete(PARTITION, expired)


def _number(row: Found, name: str) -> int:
    text = "" if row is ABSENT else wire.decode_pairs(row.value).get(name, "")
    return int(text) if text.isdecimal() else 0
