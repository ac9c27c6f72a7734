"""Event rules: which objects that arrive in a bucket are staged, on which branch and path.

    s3://landing/sales/2026/a.parquet ── prefix sales/, path raw/{rest} ──► main: raw/2026/a.parquet

The id of a rule is derived from what it stages where.  The record of an ended rule stays.  All
rules of a deployment are in one partition: a notification must find every rule of its bucket.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast

from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import AlreadyExists, Invalid, NotFound, OutcomeUnknown
from graveler.core.ids import BranchId, RepositoryId, RepositoryUid
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import Place, Row, Store
from graveler.refs import rows
from graveler.refs.keys import WATCH, watch_prefix

_ID: Final = re.compile(r"[0-9a-z]{1,64}", re.ASCII)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_FIELDS: Final = ("key", "rest", "bucket")


@dataclass(frozen=True, slots=True)
class EventRule:
    """One event rule.  A batch is committed when it has `objects_max` objects (0: no limit), when
    it is `seconds_max` seconds old, or when an object with the file name `marker` has arrived."""

    id: str
    repository: RepositoryId
    uid: RepositoryUid
    branch: BranchId
    bucket: str
    prefix: str = ""
    suffix: str = ""
    path: str = "{key}"
    objects_max: int = 0
    seconds_max: int = 300
    marker: str = ""
    committer: str = ""
    created_ns: int = 0

    def takes(self, bucket: str, key: str) -> bool:
        """Whether the rule takes in an object: it is in the bucket below `prefix`, and ends with
        `suffix` or is the marker."""
        if bucket != self.bucket or not key.startswith(self.prefix):
            return False
        return key.endswith(self.suffix) or self.marks(key)

    def watches(self, bucket: str, folder: str) -> bool:
        """Whether the rule may take in an object below `folder`, which is a key prefix."""
        return bucket == self.bucket and (
            folder.startswith(self.prefix) or self.prefix.startswith(folder)
        )

    def marks(self, key: str) -> bool:
        """Whether an object is the marker, which completes its batch."""
        return bool(self.marker) and key.rpartition("/")[2] == self.marker

    def path_of(self, key: str) -> str:
        """The path in the repository of an object that the rule takes in."""
        fields = {"key": key, "rest": key[len(self.prefix) :], "bucket": self.bucket}
        return _FIELD.sub(lambda match: fields[match[1]], self.path)


_ENDED: Final = wire.encode_pairs({})


def check(rule: EventRule) -> None:
    """Raises `Invalid` for a rule with an impossible or excessive value."""
    if not _BUCKET.fullmatch(rule.bucket):
        raise Invalid("bucket must have 3 to 63 characters of a-z, 0-9, '.' and '-'")
    for name in ("prefix", "suffix", "marker", "path"):
        text = getattr(rule, name)
        if len(text.encode(errors="replace")) > limits.path_length_bytes_max or "\0" in text:
            raise Invalid(f"{name} is too long or has a NUL character")
    if "/" in rule.marker:
        raise Invalid("marker must be the last part of a name, without a slash, such as _SUCCESS")
    for field in _FIELD.findall(rule.path):
        if field not in _FIELDS:
            raise Invalid(
                f"path has an unknown placeholder {{{field}}}: use {{key}}, {{rest}} or {{bucket}}"
            )
    if "{key}" not in rule.path and "{rest}" not in rule.path:
        raise Invalid(
            "path must have {key} or {rest}: without them all objects would have the same path"
        )
    if not 0 <= rule.objects_max <= limits.event_batch_objects_max:
        raise Invalid(f"objects must be 0 to {limits.event_batch_objects_max}")
    if not 0 < rule.seconds_max <= limits.event_batch_seconds_max:
        raise Invalid(f"seconds must be 1 to {limits.event_batch_seconds_max}")


def put(kv: Store, repository: Repository, rule: EventRule, ids: Ids) -> None:
    """Store a rule, which `check` has accepted.  Raises `AlreadyExists`, `OutcomeUnknown`.  Two
    requests."""

    def change(row: Found, lost: bool) -> bytes:
        if row is not ABSENT and _is_live(row):
            raise AlreadyExists(f"rule already exists: rule={rule.id}")
        if lost:
            raise OutcomeUnknown(f"rule may have been created and deleted: rule={rule.id}")
        return wire.encode_pairs({name: str(getattr(rule, name)) for name in _TEXTS + _NUMBERS})

    replace_row(kv, _place(repository, rule.id), ids, change)


def get(kv: Store, repository: Repository, id: str) -> EventRule:
    """The rule.  Raises `NotFound`.  At most one request."""
    row: Found = ABSENT
    if _ID.fullmatch(id):
        row = kv.get(*_place(repository, id))
    if row is ABSENT or not _is_live(row):
        raise NotFound("rule not found")
    return _decode(row.value)


def delete(kv: Store, repository: Repository, id: str, ids: Ids) -> None:
    """End a rule.  Raises `NotFound`, `OutcomeUnknown`.  Two requests."""
    if not _ID.fullmatch(id):
        raise NotFound("rule not found")

    def change(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if row is ABSENT or not _is_live(row):
            if lost:
                return ABSENT
            raise NotFound("rule not found")
        return _ENDED

    replace_row(kv, _place(repository, id), ids, change)


def _place(repository: Repository, id: str) -> Place:
    return WATCH, watch_prefix(repository) + id.encode()


def _is_live(row: Row) -> bool:
    return row.value != _ENDED


def of_repository(kv: Store, repository: Repository) -> tuple[EventRule, ...]:
    """The rules of a repository that are not ended, by id.  One request for each 1,000."""
    stretch = rows.Stretch(WATCH, watch_prefix(repository))
    return tuple(_decode(row.value) for _, row in rows.rows(kv, stretch) if _is_live(row))


def every_id(kv: Store, repository: Repository) -> Iterator[str]:
    """The ids of all rules of a repository, also of ended ones.  One request for each 1,000."""
    for name, _ in rows.rows(kv, rows.Stretch(WATCH, watch_prefix(repository))):
        yield name


def remove_all(kv: Store, repository: Repository) -> None:
    """Remove the records of all rules of a deleted repository.  Two requests for each 1,000."""
    keys = [watch_prefix(repository) + id.encode() for id in every_id(kv, repository)]
    if keys:
        kv.delete(WATCH, keys)


def every(kv: Store) -> Iterator[EventRule]:
    """All rules of the deployment that are not ended.  One request for each 1,000."""
    for _, row in rows.rows(kv, rows.Stretch(WATCH, b"")):
        if _is_live(row):
            yield _decode(row.value)


def _decode(raw: bytes) -> EventRule:
    pairs = wire.decode_pairs(raw)
    texts = {name: pairs[name] for name in _TEXTS}
    numbers = {name: int(pairs[name]) for name in _NUMBERS}
    return EventRule(**cast(dict[str, Any], {**texts, **numbers}))


_NUMBERS: Final = ("objects_max", "seconds_max", "created_ns")
_TEXTS: Final = tuple(each.name for each in fields(EventRule) if each.name not in _NUMBERS)
