"""Event rules: which objects that arrive in a bucket a repository stages; expired confirmations.

A rule may not watch the namespace of a repository: it would stage what the repository itself
writes, or what another one may delete as garbage.  Deleting a rule keeps all that it staged.
"""

import hashlib
from math import inf
from typing import NamedTuple

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import Invalid, NotFound
from graveler.core.ids import parse_branch_id
from graveler.core.records import Repository
from graveler.engine import namespaces, protection
from graveler.engine.commits.heads import fresh
from graveler.engine.ports import OpenRepository, check_writable
from graveler.refs import arrivals, event_rules, keys
from graveler.refs.event_rules import EventRule

_ID_LENGTH = 16
_START_BYTES = 4


class NewRule(NamedTuple):
    """The fields that the author of a rule chooses; see `rules.EventRule`."""

    branch: str
    bucket: str
    prefix: str = ""
    suffix: str = ""
    path: str = "{key}"
    objects_max: int = 0
    seconds_max: int = 300
    marker: str = ""
    committer: str = ""


def create(repo: OpenRepository, new: NewRule) -> EventRule:
    """Create a rule; it watches its bucket from now on.

    Errors: `Invalid`, `NotFound` (no such branch), `Refused`, `AlreadyExists` (another rule of the
    repository stages the same objects at the same paths).

    Cost: 3 KV requests, a list of all rules, that of `namespaces.holders`, and one list of the
    bucket.
    """
    check_writable(repo.record, force=False)
    branch = parse_branch_id(new.branch)
    protection.check_staging(repo, branch)
    rule = EventRule(
        _id(repo.record, new),
        repo.id,
        repo.record.uid,
        branch,
        new.bucket,
        new.prefix,
        new.suffix,
        new.path,
        new.objects_max,
        new.seconds_max,
        new.marker,
        new.committer,
        repo.clock.now_ns(),
    )
    event_rules.check(rule)
    _check_apart(repo, rule)
    _check_readable(repo, rule)
    fresh(repo, branch)
    rules_max = repo.settings.event_rules_max
    if sum(1 for _ in event_rules.every(repo.kv)) >= rules_max:
        raise Invalid(f"too many rules: a deployment has at most {rules_max}")
    event_rules.put(repo.kv, repo.record, rule, repo.ids)
    return rule


def list_all(repo: OpenRepository) -> tuple[EventRule, ...]:
    """The rules of the repository, by id.  1 KV request."""
    return event_rules.of_repository(repo.kv, repo.record)


def get(repo: OpenRepository, rule: str) -> EventRule:
    """One rule.  Errors: `NotFound`.  Cost: 1 KV request."""
    return event_rules.get(repo.kv, repo.record, rule)


def delete(repo: OpenRepository, rule: str) -> None:
    """Delete a rule.  Errors: `NotFound`.  Cost: 2 KV requests."""
    event_rules.delete(repo.kv, repo.record, rule, repo.ids)


def _id(repo: Repository, new: NewRule) -> str:
    parts = (repo.uid, new.branch, new.bucket, new.prefix, new.suffix, new.path)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace"))
    return digest.hexdigest()[:_ID_LENGTH]


def _check_readable(repo: OpenRepository, rule: EventRule) -> None:
    """Raises `Invalid` if the bucket cannot be read, because staged entries would be unreadable."""
    scheme = repo.namespace.partition("://")[0]
    try:
        repo.blocks.list(f"{scheme}://{rule.bucket}/{rule.prefix}", "", 1)
    except NotFound as error:
        raise Invalid(f"bucket not found: bucket={rule.bucket}") from error


def _check_apart(repo: OpenRepository, rule: EventRule) -> None:
    """Raises `Invalid` if the rule watches the namespace of a repository, also of a deleted one
    that is not purged yet."""
    for other in namespaces.holders(repo):
        own = address.split_prefix(other.namespace.rstrip("/") + "/")
        if rule.watches(own.bucket, own.key):
            whose = (
                "the repository's own" if other.uid == repo.record.uid else "another repository's"
            )
            raise Invalid(
                f"rule would watch {whose} namespace: namespace={other.namespace} "
                f"prefix={rule.prefix}"
            )


def expire_confirmations(repo: OpenRepository, seconds: float = inf) -> int:
    """Remove part of the expired confirmations, within `seconds`; returns the number of rows.

    Each round begins at a random position, so that over time all rows are reached.  Deleted rules
    are included, because their rows still exist.  Cost: the rules; 2 KV requests for each of their
    64 partitions, 1 more for up to 1,000 rows that are removed.
    """
    end = repo.clock.steady_seconds() + seconds
    before_ns = repo.clock.now_ns() - limits.event_seconds * limits.SECOND_NS
    count, start = 0, repo.ids.stamp()[:_START_BYTES]
    for rule in event_rules.every_id(repo.kv, repo.record):
        for partition in keys.all_vouched(repo.record, rule):
            if repo.clock.steady_seconds() >= end:
                return count
            count += arrivals.forget_vouched(repo.kv, partition, start, before_ns)
    return count
