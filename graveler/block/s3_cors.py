"""Adds or removes Graveler's rule in the CORS configuration of an S3 bucket.

The page for browsers reads and writes large objects by signed URLs, which a bucket answers to pages
of another origin only under such a rule.  Its id names the origin; other rules do not change.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from graveler.block import s3_document
from graveler.core.aws import FAILURES, AwsSession, failure_of
from graveler.core.errors import Unsupported

ANY: Final = "*"
_METHODS: Final = ("GET", "HEAD", "PUT")
_EXPOSED: Final = ("ETag", "Content-Range")  # that the page reads
_AGE_SECONDS: Final = 600
_WHAT: Final = "CORS rules"
Rule = dict[str, Any]


def rule_for(origin: str = ANY) -> Rule:
    """The rule under which pages of an origin, or of any (`*`), may use signed URLs of a bucket."""
    return {
        "ID": f"graveler {origin}",
        "AllowedOrigins": [origin],
        "AllowedMethods": list(_METHODS),
        "AllowedHeaders": ["*"],
        "ExposeHeaders": list(_EXPOSED),
        "MaxAgeSeconds": _AGE_SECONDS,
    }


def with_rule(rules: Sequence[Rule], origin: str) -> list[Rule]:
    """The rules with Graveler's for an origin; the others stay as they are.

    S3 follows the first rule that fits a request.  So the rule for one origin comes first, and the
    rule for any origin last: it changes nothing for a page that has a rule of its own.
    """
    own, others = rule_for(origin), without_rule(rules, origin)
    return [*others, own] if origin == ANY else [own, *others]


def without_rule(rules: Sequence[Rule], origin: str) -> list[Rule]:
    """The rules without Graveler's for an origin."""
    id = rule_for(origin)["ID"]
    return [rule for rule in rules if rule.get("ID") != id]


def read(session: AwsSession, bucket: str) -> list[Rule]:
    """The CORS rules of a bucket; none if it has no configuration.  Errors: `NotFound` (no such
    bucket), `Unsupported` (a storage without CORS rules), `Unavailable`.  Cost: 1 request."""
    return _read(s3_document.client_of(session), bucket)


def replace(session: AwsSession, bucket: str, before: Sequence[Rule], rules: list[Rule]) -> bool:
    """Make these the rules of a bucket that had the rules `before`.  Returns False, without a
    request, if they are the same.

    Errors: as `read`, `Invalid` (S3 refuses the rules), `Conflict` (another client changed them at
    the same time: check them, and try again), `OutcomeUnknown`.  Cost: 2 requests.
    """
    if _same(rules, before):
        return False
    client = s3_document.client_of(session)

    def write() -> None:
        if rules:
            client.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
        else:
            client.delete_bucket_cors(Bucket=bucket)

    s3_document.replace(
        write,
        lambda: _read(client, bucket),
        lambda now: _same(now, rules) or _same(now, before),
        bucket,
        _WHAT,
    )
    return True


def _read(client: Any, bucket: str) -> list[Rule]:
    def rules() -> list[Rule]:
        try:
            found: list[Rule] = client.get_bucket_cors(Bucket=bucket)["CORSRules"]
        except FAILURES as error:
            code = failure_of(error).code
            if code == "NoSuchCORSConfiguration":
                return []
            if code in ("NotImplemented", "MethodNotAllowed"):
                raise Unsupported(
                    "the storage keeps no CORS rules for a bucket; set them for the whole storage: "
                    f"{bucket=}"
                ) from error
            raise
        return found

    return s3_document.read(rules, bucket, _WHAT)


def _same(rules: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two configurations are equivalent.  Services change the order within a rule."""
    return [_in_order(rule) for rule in rules] == [_in_order(rule) for rule in others]


def _in_order(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(value) if isinstance(value, list) else value for name, value in rule.items()
    }
