"""External principals: identities of other systems that stand for a user, such as an IAM role.

    auth/principals    <principal id> -> Pairs: user, uid, epoch, created_ns, settings

Two records name each other: the row names the user with its uid, and the record of the user lists
the principal with its epoch (entities.py).  A principal is valid only while both agree.  A creation
first lists it, then writes the row; a removal takes it off the record first, which also ends its
sessions, then removes the row by its version, if it has that epoch.  `normal` is the one form of an
id.

What a token changes when it identifies a caller (it makes a user, or sets its groups) is a
`Change`, with a line of its own in the audit trail.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple

from graveler.auth import entities, permissions
from graveler.auth.entities import USERS, Keeper, Principal, User, begun
from graveler.core import limits, wire
from graveler.core.errors import AlreadyExists, Code, Corrupt, Invalid, NotFound, Refused
from graveler.core.records import ABSENT, Absent
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import Place, Row, Store, WouldWait

PARTITION: Final = b"auth/principals"
_TAKEN: Final = Code.ENTITY_EXISTS
Settings = tuple[Mapping[str, str], ...]
_ROLE: Final = re.compile(r"arn:(aws[a-z-]{0,20}):iam::([0-9]{12}):role/(?:[!-~]*/)?([\w+=,.@-]+)")
_ID: Final = re.compile(r"[!-~]+")


class Assignment(NamedTuple):
    """A valid principal, the user for whom it stands, and what its creator noted with it."""

    principal: Principal
    user: User
    settings: Settings


class _Entry(NamedTuple):
    """A row."""

    user: str
    uid: str
    epoch: str
    created_ns: int
    settings: Settings


def normal(id: str) -> str:
    """The form in which a principal is stored and looked up.  Raises `Invalid`.  Pure.

    The ARN of an IAM role becomes the one under which a caller that has assumed it is known:
    `arn:aws:sts::<account>:assumed-role/<role>`.
    """
    if len(id) > limits.principal_id_length_max or not _ID.fullmatch(id):
        raise Invalid(
            f"principal id invalid: it must be 1 to {limits.principal_id_length_max} printable "
            "ASCII characters without spaces"
        )
    role = _ROLE.fullmatch(id)
    return f"arn:{role[1]}:sts::{role[2]}:assumed-role/{role[3]}" if role else id


def create(keeper: Keeper, user: str, id: str, settings: Sequence[Mapping[str, str]] = ()) -> None:
    """Let a principal stand for a user.  A retry continues.

    Raises `NotFound` for the user, `AlreadyExists` if the principal stands for a user, `Invalid`,
    `Contended`, `OutcomeUnknown`.  4 requests; 6 if it stands for another user.
    """
    key, noted = normal(id), _checked(settings)
    fresh = Principal(key, keeper.ids.stamp().hex(), keeper.clock.now_ns())
    # Once: an epoch that was stored may have ended since, and must not begin again.
    listing = partial(_listing, fresh=fresh)
    owner = entities.update(keeper, USERS, user, listing, once=True)
    listed = owner.principal(key)
    with begun("creation of an external principal"):
        bind(keeper, owner, listed, noted)


def bind(keeper: Keeper, owner: User, principal: Principal, settings: Settings = ()) -> None:
    """Write the row of a principal that the record of its user lists.

    If the principal stands for a user, it is taken off the record of `owner` again, unless that is
    the user.  Raises `AlreadyExists`, `Contended`, `OutcomeUnknown`.  2 requests; 4 if it stands
    for another user.
    """
    stored = _Entry(owner.id, owner.uid, principal.epoch, principal.created_ns, settings)

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        known = _read(row)
        if known is ABSENT:
            return _encode(stored)
        if known.epoch == stored.epoch:
            raise AlreadyExists(f"principal is the user's already: {principal.id=}", _TAKEN)
        holder = USERS.read(known.user, keeper.kv.get(*USERS.place(known.user)))
        if holder is ABSENT or not _agree(known, holder, principal.id):
            return _encode(stored)
        _remove(keeper, owner, principal)
        raise AlreadyExists(f"principal stands for a user already: {principal.id=}", _TAKEN)

    replace_row(keeper.kv, _place(principal.id), keeper.ids, change)


def get(kv: Store, id: str) -> Assignment:
    """The valid principal.  Raises `NotFound`, `Invalid`.  2 requests."""
    key = normal(id)
    assignment = find(kv, [key])
    if assignment is ABSENT:
        raise NotFound(f"external principal not found: id={key!r}", Code.PRINCIPAL_NOT_FOUND)
    return assignment


def find(kv: Store, ids: Sequence[str]) -> Assignment | Literal[Absent.ABSENT]:
    """The first of some principals that is valid; `ids` in normal form.  One request for the rows,
    and one for each row until one is valid."""
    rows = kv.get_many([_place(id) for id in ids])
    for id in ids:
        known = _read(rows.get(_place(id), ABSENT))
        if known is ABSENT:
            continue
        user = USERS.read(known.user, kv.get(*USERS.place(known.user)))
        if user is not ABSENT and _agree(known, user, id):
            return Assignment(user.principal(id), user, known.settings)
    return ABSENT


def of_user(kv: Store, user: User, prefix: str, after: str, amount: int) -> list[Assignment]:
    """The first `amount` valid principals of a user whose ids begin with `prefix` and sort after
    `after`, by id.  One request; none without principals."""
    listed = [each for each in user.principals if each.id.startswith(prefix) and each.id > after]
    rows = kv.get_many([_place(each.id) for each in listed]) if listed else {}
    mapped = []
    for each in listed:
        known = _read(rows.get(_place(each.id), ABSENT))
        if known is not ABSENT and _agree(known, user, each.id):
            mapped.append(Assignment(each, user, known.settings))
    return mapped[:amount]


def delete(keeper: Keeper, user: str, id: str) -> None:
    """End a principal of a user, and the sessions that began with it.  A retry after an unknown
    outcome raises `NotFound` if the first attempt was applied.

    Raises `NotFound` for the user or the principal, `Invalid`, `OutcomeUnknown`.  4 requests.
    """
    key = normal(id)
    rows = keeper.kv.get_many([USERS.place(user), _place(key)])
    owner = USERS.read(user, rows.get(USERS.place(user), ABSENT))
    if owner is ABSENT:
        raise USERS.not_found(user)
    principal = owner.principal(key)
    _remove(keeper, owner, principal)
    row = rows.get(_place(key), ABSENT)
    known = _read(row)
    if row is not ABSENT and known is not ABSENT and known.epoch == principal.epoch:
        with begun("deletion of an external principal"):
            erase(keeper, owner, {_place(key): row})


def places(user: User) -> list[Place]:
    """Where the rows of a user's principals are.  Pure."""
    return [_place(each.id) for each in user.principals]


def erase(keeper: Keeper, user: User, rows: Mapping[Place, Row]) -> None:
    """Remove those of `rows` that are principals of `user`.  The removal names versions: a late
    duplicate takes no row of a later creation.  One request for each."""
    known = {place: row for place, row in rows.items() if place[0] == PARTITION}
    own = [place for place, row in known.items() if _is_of(_read(row), user)]
    if own:
        versions = [known[place].version for place in own]
        keeper.kv.delete(PARTITION, [key for _, key in own], versions)


# ---- records -------------------------------------------------------------------------------------


def _listing(user: User, fresh: Principal) -> User:
    """The record of a user that lists the principal; as it is if it does."""
    if any(each.id == fresh.id for each in user.principals):
        return user
    if len(user.principals) >= limits.user_principals_count_max:
        raise Invalid(f"too many principals: a user has at most {limits.user_principals_count_max}")
    return replace(user, principals=tuple(sorted((*user.principals, fresh))))


def _remove(keeper: Keeper, owner: User, principal: Principal) -> None:
    """Take a principal off the record of its user, if that user still exists and lists it."""

    def without(record: User) -> User:
        others = tuple(each for each in record.principals if each != principal)
        return replace(record, principals=others) if record.uid == owner.uid else record

    entities.update(keeper, USERS, owner.id, without)


def _agree(stored: _Entry, user: User, id: str) -> bool:
    listed = Principal(id, stored.epoch, stored.created_ns)
    return stored.uid == user.uid and listed in user.principals


def _is_of(stored: _Entry | Literal[Absent.ABSENT], user: User) -> bool:
    return stored is not ABSENT and stored.uid == user.uid


# ---- the row -------------------------------------------------------------------------------------


def _place(id: str) -> Place:
    return PARTITION, id.encode()


def _read(row: Found) -> _Entry | Literal[Absent.ABSENT]:
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    try:
        noted = tuple(dict(each) for each in json.loads(pairs["settings"]))
        return _Entry(pairs["user"], pairs["uid"], pairs["epoch"], int(pairs["created_ns"]), noted)
    except (KeyError, ValueError, TypeError) as error:
        raise Corrupt("record of an external principal does not decode") from error


def _encode(stored: _Entry) -> bytes:
    return wire.encode_pairs(
        {
            "user": stored.user,
            "uid": stored.uid,
            "epoch": stored.epoch,
            "created_ns": str(stored.created_ns),
            "settings": json.dumps([dict(each) for each in stored.settings]),
        }
    )


def _checked(settings: Iterable[Mapping[str, str]]) -> Settings:
    noted = tuple(dict(each) for each in settings)
    if len(json.dumps(noted)) > limits.principal_settings_length_bytes_max:
        raise Invalid(
            "settings invalid: they must have at most "
            f"{limits.principal_settings_length_bytes_max} bytes of JSON"
        )
    return noted


# ---- changes -------------------------------------------------------------------------------------

CREATES_USER: Final = "tokenCreatesUser"
JOINS_GROUPS: Final = "tokenJoinsGroups"
LEAVES_GROUPS: Final = "tokenLeavesGroups"


class Change(NamedTuple):
    """What a token has changed: `operation` as the trail calls it, whose token it is, which
    resources.  `done`: it has happened; otherwise it may have."""

    operation: str
    user: str
    uid: str
    resources: tuple[str, ...]
    done: bool = True


def created(user: str, uid: str) -> Change:
    """A user was made.  Pure."""
    return Change(CREATES_USER, user, uid, (_user(user),))


def regrouped(user: str, uid: str, before: Iterable[str], after: Iterable[str]) -> list[Change]:
    """The groups of a user were set: one change for those that it joins, and one for those that it
    leaves.  Pure."""
    old, new = set(before), set(after)
    return [
        Change(operation, user, uid, (_user(user), *(_group(name) for name in sorted(names))))
        for operation, names in ((JOINS_GROUPS, new - old), (LEAVES_GROUPS, old - new))
        if names
    ]


@contextmanager
def unless_done(changes: list[Change], possible: list[Change]) -> Iterator[None]:
    """Notes that changes may have happened, if the block fails otherwise than by a refusal, or by
    the wish to be repeated in a thread."""
    try:
        yield
    except (Refused, WouldWait):
        raise
    except BaseException:
        changes += [each._replace(done=False) for each in possible]
        raise


def _user(id: str) -> str:
    return permissions.resource("auth", f"user/{id}")


def _group(id: str) -> str:
    return permissions.resource("auth", f"group/{id}")
