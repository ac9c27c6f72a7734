"""The records of users, groups and policies: how they are stored, found, created and replaced.

    auth/users      <id> -> Pairs: uid, created_ns, email, friendly_name, groups, policies, keys,
                            key_names, principals, groups_at, disabled
    auth/groups     <id> -> Pairs: uid, created_ns, description, policies
    auth/policies   <id> -> Pairs: uid, created_ns, statement

`uid` is fresh at each creation, and links name it: so what is created again under an old name has
nothing of the old one.  `groups`, `policies`, `keys` and `principals` are the truth about who has
what; the indexes (directory.py) only find the other direction.  One swap of one record decides each
change.  The record of a deleted entity stays, with `deleted_ns` alone (and `settled`, accounts.py),
so that a late duplicate of the creation cannot restore it.  Unknown pairs are kept.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from graveler.auth.keyrings import Keyring
from graveler.core import limits, wire
from graveler.core.clock import Clock, Ids
from graveler.core.errors import (
    AlreadyExists,
    Code,
    Corrupt,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.records import ABSENT, Absent
from graveler.core.streams import successor
from graveler.kv.replace import Found, replace_seen
from graveler.kv.store import Place, Row, Store, scan_pages


@dataclass(frozen=True, slots=True)
class Keeper:
    """Ports, and keys.

    `key` hashes secrets: derived for the purpose `credentials`.  `seals` encrypts them, and
    `sessions` signs the tokens of logins.  `earlier`: the key that hashed secrets before the
    store's secret was rotated, if it was; hashes under it are accepted.
    """

    kv: Store
    clock: Clock
    ids: Ids
    key: bytes = field(repr=False)
    seals: Keyring
    sessions: Keyring
    earlier: tuple[bytes, ...] = field(default=(), repr=False)


@contextmanager
def begun(change: str) -> Iterator[None]:
    """The rest of a change that has begun to take effect: a failure in here leaves it in between,
    or done, so it raises `OutcomeUnknown`."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except Unavailable as error:
        raise OutcomeUnknown(f"{change} has begun and did not end; repeat it") from error


# ---- entities ------------------------------------------------------------------------------------

_DELETED: Final = "deleted_ns"
SETTLED: Final = "settled"
_NAMES: Final = "key_names"
_DISABLED: Final = "disabled"
_YES: Final = "1"
_FORBIDDEN: Final = "*?${}:/"


class Link(NamedTuple):
    """A group of a user, or a policy of a user or a group."""

    id: str
    uid: str


class Key(NamedTuple):
    """An access key of a user.  `epoch` is fresh with each key; sessions name it.  `name`: what its
    owner calls it; may be empty."""

    id: str
    epoch: str
    created_ns: int
    name: str = ""


class Principal(NamedTuple):
    """An external principal of a user.  `epoch` is fresh with each one; sessions name it."""

    id: str
    epoch: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class User:
    """A user.  `settled`: the epoch of the administrator's record that it was made from.
    `disabled`: nothing that proves its identity is accepted."""

    id: str
    uid: str
    created_ns: int
    email: str = ""
    friendly_name: str = ""
    groups: tuple[Link, ...] = ()
    policies: tuple[Link, ...] = ()
    keys: tuple[Key, ...] = ()
    settled: str = ""
    principals: tuple[Principal, ...] = ()
    groups_at: int = 0  # when the token was issued that the groups come from; 0: from none
    disabled: bool = False
    rest: Mapping[str, str] = field(default_factory=dict)

    def admits(self, epoch: str) -> bool:
        """Whether a session with this epoch is valid: it began with a key or an external principal
        that the user still has, and the user is not disabled."""
        if self.disabled:
            return False
        for key in self.keys:  # every request asks; `any` of a generator takes four times as long
            if key.epoch == epoch:
                return True
        return any(principal.epoch == epoch for principal in self.principals)

    def principal(self, id: str) -> Principal:
        """The external principal of the user.  Raises `NotFound`."""
        for principal in self.principals:
            if principal.id == id:
                return principal
        raise NotFound(f"external principal not found: {id=}", Code.PRINCIPAL_NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of users."""

    id: str
    uid: str
    created_ns: int
    description: str = ""
    policies: tuple[Link, ...] = ()
    rest: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.  `statement`: its statements as JSON values, not yet read (policies.py)."""

    id: str
    uid: str
    created_ns: int
    statement: Any = ()
    rest: Mapping[str, str] = field(default_factory=dict)


Entity = User | Group | Policy
E = TypeVar("E", User, Group, Policy)


@dataclass(frozen=True, slots=True)
class Table(Generic[E]):
    """The records of one kind."""

    partition: bytes
    kind: str
    not_found: Callable[[str], NotFound]
    encode: Callable[[E], bytes]
    decode: Callable[[str, Mapping[str, str]], E]

    def place(self, id: str) -> Place:
        """Where the record of `id` is stored."""
        return self.partition, id.encode()

    def read(self, id: str, row: Found) -> E | Literal[Absent.ABSENT]:
        """The record in a row; `ABSENT` if there is none, or it was deleted.  Raises `Corrupt`."""
        pairs = {} if row is ABSENT else wire.decode_pairs(row.value)
        if row is ABSENT or _DELETED in pairs:
            return ABSENT
        try:
            return self.decode(id, pairs)
        except (KeyError, ValueError, TypeError) as error:
            raise Corrupt(f"{self.kind} record does not decode: {id=}") from error


# ---- verbs over one record -----------------------------------------------------------------------


def get(kv: Store, table: Table[E], id: str) -> E:
    """The record.  Raises `NotFound`.  One request."""
    record = table.read(id, kv.get(*table.place(id))) if _may_exist(id) else ABSENT
    if record is ABSENT:
        raise table.not_found(id)
    return record


def no_preparation() -> None:
    """What `create` does before an attempt, if its caller says nothing else."""


def create(
    keeper: Keeper, table: Table[E], record: E, prepare: Callable[[], None] = no_preparation
) -> None:
    """Store a new record.  Raises `AlreadyExists`, `Invalid`, `OutcomeUnknown`.  One request; two
    if a record with this id was deleted before.

    `prepare` is called before each attempt to store it, and after its place was read or is taken
    for empty.  If the record may have been stored and deleted since, it is not stored again: its
    uid and its epochs have ended.
    """
    check_id(table.kind, record.id)

    def change(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        known = table.read(record.id, row)
        if known is ABSENT:
            if lost:
                raise OutcomeUnknown(f"{table.kind} may have been deleted; repeat: {record.id=}")
            prepare()
            return wire.encode_pairs({**wire.decode_pairs(table.encode(record)), **_kept(row)})
        if known.uid == record.uid:
            return ABSENT  # an earlier request of this call created it
        raise AlreadyExists(f"{table.kind} already exists: id={record.id!r}", Code.ENTITY_EXISTS)

    replace_seen(keeper.kv, table.place(record.id), keeper.ids, change, ABSENT)


def update(
    keeper: Keeper,
    table: Table[E],
    id: str,
    change: Callable[[E], E],
    seen: Found | None = None,
    *,
    touch: bool = False,
    once: bool = False,
) -> E:
    """Replace the record by `change` of it, which may raise.  The result is the new record.

    - `seen`: the row, if it was read already.
    - `touch`: replace the row also if nothing changes, so that each swap that was prepared before
      fails.
    - `once`: raise `OutcomeUnknown` instead of another attempt after one that may have been stored
      and replaced since.

    Raises `NotFound`, `Contended`, `OutcomeUnknown` (also instead of what `change` raises, if an
    earlier attempt may have been stored).  Two requests; one with `seen`, and one less if nothing
    changes, without `touch`.
    """
    results: list[E] = []

    def changed(known: E | Literal[Absent.ABSENT]) -> E:
        if known is ABSENT:
            raise table.not_found(id)
        return change(known)

    def swap(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if lost and once:
            raise OutcomeUnknown(f"{table.kind} may have been changed; repeat: {id=}")
        known = table.read(id, row)
        try:
            results.append(changed(known))
        except Unavailable:
            raise
        except GravelerError as error:
            if lost:  # this call may have changed the record, and another one since
                raise OutcomeUnknown(f"{table.kind} may have been changed: {error}") from error
            raise
        is_same = results[-1] == known and not touch
        return ABSENT if is_same else table.encode(results[-1])

    place = table.place(id)
    row = keeper.kv.get(*place) if seen is None else seen
    replace_seen(keeper.kv, place, keeper.ids, swap, row)
    return results[-1]


def delete(keeper: Keeper, table: Table[E], record: E) -> None:
    """Delete the record; its place stays.  Does nothing if it is gone, or another has its id.
    Raises `Contended`, `OutcomeUnknown`.  Two requests."""

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        known = table.read(record.id, row)
        if known is ABSENT or known.uid != record.uid:
            return ABSENT
        return wire.encode_pairs({_DELETED: str(keeper.clock.now_ns()), **_kept(row)})

    place = table.place(record.id)
    replace_seen(keeper.kv, place, keeper.ids, change, keeper.kv.get(*place))


def listed(kv: Store, table: Table[E], prefix: str, after: str, first: int) -> Iterator[E]:
    """The records whose ids begin with `prefix` and sort after `after`, in order.  The first
    request asks for `first` rows, the others for a thousand."""
    for id, row in rows(kv, table.partition, prefix, after, first):
        record = table.read(id, row)
        if record is not ABSENT:
            yield record


def rows(
    kv: Store, partition: bytes, prefix: str, after: str, first: int
) -> Iterator[tuple[str, Row]]:
    """Keys as text, with their rows."""
    stem = prefix.encode()
    start = max(stem, after.encode() + b"\0") if after else stem
    end = successor(stem) if stem else b""
    size = min(first, limits.scan_page_count_max)
    for page in scan_pages(kv, partition, start, end, size, growth=limits.page_count_max):
        for key, row in page:
            yield key.decode(), row


def check_id(kind: str, id: str) -> None:
    """Raises `Invalid` for a name that cannot be the id of a user, a group or a policy."""
    if not 1 <= len(id) <= limits.entity_id_length_max or not id.isprintable() or id != id.strip():
        raise Invalid(
            f"{kind} id invalid: it must be 1 to {limits.entity_id_length_max} printable "
            "characters, without a space at its ends"
        )
    if set(id) & set(_FORBIDDEN):
        raise Invalid(f"{kind} id invalid: it must not contain any of {' '.join(_FORBIDDEN)}")


def _may_exist(id: str) -> bool:
    return 0 < len(id) <= limits.name_length_max and "\0" not in id


def with_link(kind: str, links: tuple[Link, ...], link: Link, count_max: int) -> tuple[Link, ...]:
    """`links` and `link`.  One with its id that leads nowhere any more is replaced.  Raises
    `Invalid` if there are too many."""
    others = tuple(each for each in links if each.id != link.id)
    if len(others) >= count_max:
        raise Invalid(f"too many {kind}: there can be at most {count_max}")
    return tuple(sorted((*others, link)))


def without_link(links: tuple[Link, ...], link: Link) -> tuple[Link, ...]:
    """`links` without `link`."""
    return tuple(each for each in links if each != link)


def _kept(row: Found) -> dict[str, str]:
    """What outlives an entity, for whoever has its id next: a late settling must not take the next
    user for the administrator."""
    settled = settled_of(row)
    return {SETTLED: settled} if settled else {}


def settled_of(row: Found) -> str:
    """The epoch that a user was made from, even of a deleted one; empty if there is none."""
    return "" if row is ABSENT else wire.decode_pairs(row.value).get(SETTLED, "")


# ---- encoding ------------------------------------------------------------------------------------


def _pairs(record: Any, fields: Mapping[str, str]) -> bytes:
    known = {"uid": record.uid, "created_ns": str(record.created_ns), **fields}
    return wire.encode_pairs({**record.rest, **known})


def _many(items: Iterable[tuple[Any, ...]]) -> str:
    return json.dumps([list(item) for item in items], separators=(",", ":"))


def _links(pairs: dict[str, str], name: str) -> tuple[Link, ...]:
    return tuple(Link(str(id), str(uid)) for id, uid in json.loads(pairs.pop(name)))


def _user_bytes(user: User) -> bytes:
    fields = {
        "email": user.email,
        "friendly_name": user.friendly_name,
        "groups": _many(user.groups),
        "policies": _many(user.policies),
        "keys": _many(key[:3] for key in user.keys),
        "principals": _many(user.principals),
        "groups_at": str(user.groups_at),
        SETTLED: user.settled,
    }
    if names := {key.id: key.name for key in user.keys if key.name}:
        fields[_NAMES] = json.dumps(names)
    if user.disabled:
        fields[_DISABLED] = _YES
    return _pairs(user, fields)


def _user(id: str, stored: Mapping[str, str]) -> User:
    pairs = dict(stored)
    names = dict(json.loads(pairs.pop(_NAMES, "{}")))  # apart: earlier releases read `keys`
    keys = tuple(
        Key(str(key), str(epoch), int(ns), str(names.get(key, "")))
        for key, epoch, ns in json.loads(pairs.pop("keys"))
    )
    principals = tuple(
        Principal(str(name), str(epoch), int(ns))
        for name, epoch, ns in json.loads(pairs.pop("principals", "[]"))
    )
    return User(
        id,
        pairs.pop("uid"),
        int(pairs.pop("created_ns")),
        pairs.pop("email"),
        pairs.pop("friendly_name"),
        _links(pairs, "groups"),
        _links(pairs, "policies"),
        keys,
        pairs.pop(SETTLED),
        principals,
        int(pairs.pop("groups_at", "0")),
        pairs.pop(_DISABLED, "") == _YES,
        pairs,
    )


def _group_bytes(group: Group) -> bytes:
    fields = {"description": group.description, "policies": _many(group.policies)}
    return _pairs(group, fields)


def _group(id: str, stored: Mapping[str, str]) -> Group:
    pairs = dict(stored)
    return Group(
        id,
        pairs.pop("uid"),
        int(pairs.pop("created_ns")),
        pairs.pop("description"),
        _links(pairs, "policies"),
        pairs,
    )


def _policy_bytes(policy: Policy) -> bytes:
    return _pairs(policy, {"statement": json.dumps(policy.statement)})


def _policy(id: str, stored: Mapping[str, str]) -> Policy:
    pairs = dict(stored)
    uid, created_ns = pairs.pop("uid"), int(pairs.pop("created_ns"))
    text = pairs.pop("statement")
    try:
        statement = json.loads(text)
    except (ValueError, RecursionError):
        statement = text  # it cannot be read, so it denies (policies.py)
    return Policy(id, uid, created_ns, statement, pairs)


def _no_user(id: str) -> NotFound:
    return NotFound(f"user not found: {id=}", Code.USER_NOT_FOUND)


def _no_group(id: str) -> NotFound:
    return NotFound(f"group not found: {id=}", Code.GROUP_NOT_FOUND)


def _no_policy(id: str) -> NotFound:
    return NotFound(f"policy not found: {id=}", Code.POLICY_NOT_FOUND)


USERS: Final = Table(b"auth/users", "user", _no_user, _user_bytes, _user)
GROUPS: Final = Table(b"auth/groups", "group", _no_group, _group_bytes, _group)
POLICIES: Final = Table(b"auth/policies", "policy", _no_policy, _policy_bytes, _policy)
