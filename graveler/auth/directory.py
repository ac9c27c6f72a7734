"""Users, groups and policies: creation, deletion, links between them, and the indexes of links.

    auth/members/<uid of the group>     <user>                    the user may be a member
    auth/holders/<uid of the policy>    u/<user>, g/<group>       may have the policy attached

A link in the record of its holder is the truth (entities.py).  An index may have rows too many, for
example after a crash, but it lacks none.  Readers check each row against the record.

    addition    read the record ─► write the row with a fresh version ─► swap the record as read
                in each round of the swap
    removal     read the row ─► replace the record, without the link ─► remove the row as read

A row is written by a compare-and-swap from what was read.  So a late duplicate writes over no row
of a later version, and each version that a row has until it is removed is newer than the addition
that wrote it first.  A removal that takes this row has read one of these versions, after the
addition had read the record; and it replaces the record afterwards, even if it has no such link.
If that happens before the addition's swap, the swap fails, and its next round writes the row again.
If it happens after the swap, the link is gone.  So no row is removed under a link that stands or
that a swap may still make.  A holder that never had a record is not replaced: only the set-up of a
store makes records that have links at once, before anybody can remove them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from graveler.auth import credentials, entities, policies, principals
from graveler.auth.entities import (
    GROUPS,
    POLICIES,
    USERS,
    Entity,
    Group,
    Keeper,
    Link,
    Policy,
    Table,
    User,
    begun,
)
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid
from graveler.core.records import ABSENT, Absent
from graveler.kv.replace import Found, replace_row, replace_seen
from graveler.kv.store import Place, Row, Store

_VALUE: Final = b"\x01"
_PRUNED_AT_ONCE: Final = 200  # rows of an index


class Relation(NamedTuple):
    """A kind of link, from a holder to a target."""

    holders: Table[Any]
    targets: Table[Any]
    field: str  # of the holder's record
    partitions: str  # of the index, before the uid
    prefix: str  # of the keys of the index
    count_max: int

    def place(self, target: Entity | Link, holder: str) -> Place:
        """The row of the index."""
        return self.partition(target), f"{self.prefix}{holder}".encode()

    def partition(self, target: Entity | Link) -> bytes:
        return f"{self.partitions}/{target.uid}".encode()

    def links(self, holder: Any) -> tuple[Link, ...]:
        """The links of a holder, also such as lead nowhere."""
        links: tuple[Link, ...] = getattr(holder, self.field)
        return links


MEMBER: Final = Relation(USERS, GROUPS, "groups", "auth/members", "", limits.user_groups_count_max)
OF_USER: Final = Relation(
    USERS, POLICIES, "policies", "auth/holders", "u/", limits.attached_policies_count_max
)
OF_GROUP: Final = OF_USER._replace(holders=GROUPS, prefix="g/")


def add(keeper: Keeper, relation: Relation, holder: str, target: str) -> None:
    """Link the two.  Again is no error, and writes the row of the index if it is missing.  Raises
    `NotFound` for one that does not exist, `Invalid` if the holder has too many links, `Contended`,
    `OutcomeUnknown`.  4 requests; 2 if they are linked."""
    rows = keeper.kv.get_many([relation.targets.place(target), relation.holders.place(holder)])
    known = _live(relation.targets, target, rows)
    _live(relation.holders, holder, rows)
    link, place = Link(target, known.uid), relation.place(known, holder)

    def linked(record: Any) -> Any:
        links = entities.with_link(relation.field, relation.links(record), link, relation.count_max)
        if links == relation.links(record):
            replace_row(keeper.kv, place, keeper.ids, _missing)
            return record
        index(keeper, [place])
        return replace(record, **{relation.field: links})

    seen = rows[relation.holders.place(holder)]
    entities.update(keeper, relation.holders, holder, linked, seen)


def index(keeper: Keeper, places: Sequence[Place]) -> None:
    """Write rows of indexes, each with a fresh version.

    For a swap that adds these links to a record that was read before; the next round of the swap
    writes them again.  Raises `Contended`, `OutcomeUnknown`.  One request, and one for each row;
    none without places.
    """
    if places:
        _write_rows(keeper, places, keeper.kv.get_many(places))


def _write_rows(keeper: Keeper, places: Sequence[Place], rows: Mapping[Place, Row]) -> None:
    for place in places:
        replace_seen(keeper.kv, place, keeper.ids, _fresh, rows.get(place, ABSENT))


def _fresh(_row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
    return _VALUE


def _missing(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
    return _VALUE if row is ABSENT else ABSENT


def remove(keeper: Keeper, relation: Relation, holder: str, target: str) -> None:
    """Unlink the two.  A link that does not exist is no error.  Raises `NotFound` for a holder or a
    target that does not exist, `Contended`, `OutcomeUnknown`.  4 requests; 2 if they are not
    linked."""
    rows = keeper.kv.get_many([relation.targets.place(target), relation.holders.place(holder)])
    known = _live(relation.targets, target, rows)
    record = _live(relation.holders, holder, rows)
    place = relation.place(known, holder)
    row = keeper.kv.get(*place)
    if row is ABSENT and Link(target, known.uid) not in relation.links(record):
        return  # no swap that adds the link can succeed either: it would have its row
    _unlink(keeper, relation, holder, known, rows[relation.holders.place(holder)])
    if row is not ABSENT:
        with begun("removal of a link"):
            keeper.kv.delete(place[0], [place[1]], [row.version])


def targets(kv: Store, relation: Relation, holder: Any) -> list[Any]:
    """The groups or policies of a holder that exist, by id.  One request; none without links."""
    links = relation.links(holder)
    rows = kv.get_many([relation.targets.place(link.id) for link in links]) if links else {}
    return existing(relation, links, rows)


def existing(relation: Relation, links: tuple[Link, ...], rows: Mapping[Place, Row]) -> list[Any]:
    """What `links` lead to, among `rows`: a target with the uid of its link."""
    records = []
    for link in links:
        record = relation.targets.read(link.id, rows.get(relation.targets.place(link.id), ABSENT))
        if record is not ABSENT and record.uid == link.uid:
            records.append(record)
    return records


def members(kv: Store, group: str, prefix: str, after: str, amount: int) -> Iterator[User]:
    """The members of a group whose ids begin with `prefix` and sort after `after`, in order.

    Raises `NotFound`.  1 request, and then 2 for each page: `amount` members first, then 1,000.
    """
    known = entities.get(kv, GROUPS, group)
    return _members(kv, Link(group, known.uid), MEMBER.partition(known), (prefix, after), amount)


def _members(
    kv: Store, link: Link, partition: bytes, stretch: tuple[str, str], amount: int
) -> Iterator[User]:
    size = max(1, amount)
    index = entities.rows(kv, partition, *stretch, size)
    while names := [name for name, _row in islice(index, size)]:
        rows = kv.get_many([USERS.place(name) for name in names])
        for name in names:
            user = USERS.read(name, rows.get(USERS.place(name), ABSENT))
            if user is not ABSENT and link in user.groups:
                yield user
        size = limits.page_count_max


def set_groups(
    keeper: Keeper, user: User, groups: list[Group], at: int
) -> tuple[Link, ...] | Literal[Absent.ABSENT]:
    """Make a user a member of these groups alone, unless its groups are from `at` or later; `user`
    is the record as it was read.  The links to groups that it had before; `ABSENT` if they stay.

    Raises `NotFound`, `Contended`, `OutcomeUnknown`.  2 requests; if its groups change, one more,
    and one for each that is added or goes.
    """
    memberships = tuple(sorted(Link(group.id, group.uid) for group in groups))
    before: tuple[Link, ...] | Literal[Absent.ABSENT] = ABSENT
    stale: dict[Place, Found] = {}  # rows as first read: an earlier round's swap may be applied

    def change(record: User) -> User:
        nonlocal before
        before = ABSENT
        if record.uid != user.uid or record.groups_at >= at:
            return record
        before = record.groups
        fresh = [MEMBER.place(link, user.id) for link in memberships if link not in before]
        gone = [MEMBER.place(link, user.id) for link in before if link not in memberships]
        rows = keeper.kv.get_many([*fresh, *gone]) if fresh or gone else {}
        _write_rows(keeper, fresh, rows)
        for place in gone:
            stale.setdefault(place, rows.get(place, ABSENT))
        return replace(record, groups=memberships, groups_at=at)

    entities.update(keeper, USERS, user.id, change)
    if before is not ABSENT:
        with begun("change of groups"):
            _remove_rows(keeper, {place: row for place, row in stale.items() if row is not ABSENT})
    return before


# ---- deletions -----------------------------------------------------------------------------------


def delete_user(keeper: Keeper, id: str) -> None:
    """Delete a user: its links, keys and external principals, their rows, then its record.

    One swap ends all its rights, keys, principals and sessions.  A retry continues.  Raises
    `NotFound`, `Contended`, `OutcomeUnknown`.  At most 7 requests, and one for each group, policy
    and external principal.
    """
    user = entities.get(keeper.kv, USERS, id)
    rows = _rows_of(keeper, user)

    def ended(record: User) -> User:
        if record.uid != user.uid:
            raise USERS.not_found(id)
        return replace(record, groups=(), policies=(), keys=(), principals=())

    entities.update(keeper, USERS, id, ended, touch=bool(rows))
    with begun("deletion of a user"):
        _remove_rows(keeper, rows)
        credentials.erase(keeper, user.keys)
        principals.erase(keeper, user, rows)
        entities.delete(keeper, USERS, user)


def delete_group(keeper: Keeper, id: str) -> None:
    """Delete a group: its policies, the links of its members, its rows in the indexes, then its
    record.

    One swap ends all rights that it gives.  A retry continues.  Raises `NotFound`,
    `Contended`, `OutcomeUnknown`.  5 requests; 3 more for each member, and one for each 200 of
    them; with policies 2, and one for each.
    """
    group = entities.get(keeper.kv, GROUPS, id)
    rows = _index_rows(keeper, group, OF_GROUP)

    def ended(record: Group) -> Group:
        if record.uid != group.uid:
            raise GROUPS.not_found(id)
        return replace(record, policies=())

    entities.update(keeper, GROUPS, id, ended, touch=bool(rows))
    with begun("deletion of a group"):
        _prune(keeper, (MEMBER,), group)
        _remove_rows(keeper, rows)
        entities.delete(keeper, GROUPS, group)


def delete_policy(keeper: Keeper, id: str) -> None:
    """Delete a policy: the links of its holders, then its record.

    A retry continues.  Raises `NotFound`, `Contended`, `OutcomeUnknown`.  4 requests; 3 more for
    each holder, and one for each 200 of them.
    """
    policy = entities.get(keeper.kv, POLICIES, id)
    with begun("deletion of a policy"):
        _prune(keeper, (OF_USER, OF_GROUP), policy)
        entities.delete(keeper, POLICIES, policy)


def _prune(keeper: Keeper, relations: tuple[Relation, ...], target: Entity) -> None:
    """Remove all links to a target, and its index.  Each round reads the index from its start, and
    removes what it read, so it ends.  A row that an addition has written meanwhile stays for the
    next round: its link may be there again.  The rules of removals hold here too: the target lives
    on if the process ends before it is deleted."""
    partition = relations[0].partition(target)
    while rows := keeper.kv.scan(partition, b"", b"", _PRUNED_AT_ONCE).rows:
        for key, _row in rows:
            for relation in relations:
                name = key.decode()
                if name.startswith(relation.prefix):
                    holder = name.removeprefix(relation.prefix)
                    seen = keeper.kv.get(*relation.holders.place(holder))
                    _unlink(keeper, relation, holder, target, seen)
        versions = [row.version for _key, row in rows]
        keeper.kv.delete(partition, [key for key, _row in rows], versions)


def _rows_of(keeper: Keeper, user: User) -> Mapping[Place, Row]:
    """The rows that a user has in indexes, and those of its external principals.  One request; none
    without any."""
    places = [*_index_places(user, MEMBER, OF_USER), *principals.places(user)]
    return keeper.kv.get_many(places) if places else {}


def _index_rows(keeper: Keeper, holder: Any, *relations: Relation) -> Mapping[Place, Row]:
    """The rows that a holder has in indexes.  One request; none without links."""
    places = _index_places(holder, *relations)
    return keeper.kv.get_many(places) if places else {}


def _index_places(holder: Any, *relations: Relation) -> list[Place]:
    return [
        relation.place(link, holder.id) for relation in relations for link in relation.links(holder)
    ]


def _remove_rows(keeper: Keeper, rows: Mapping[Place, Row]) -> None:
    """Remove rows of indexes, as they were read before the swap that removed their links."""
    for (partition, key), row in rows.items():
        if partition != principals.PARTITION:
            keeper.kv.delete(partition, [key], [row.version])


def _unlink(keeper: Keeper, relation: Relation, holder: str, target: Entity, seen: Found) -> None:
    """Replace the row of the holder by one without the link, even if it has none, or was deleted:
    an addition that has read it may have written the row of the index that will be removed."""
    link = Link(target.id, target.uid)

    def unlinked(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        record = relation.holders.read(holder, row)
        if record is ABSENT:
            return ABSENT if row is ABSENT else row.value
        links = entities.without_link(relation.links(record), link)
        return relation.holders.encode(replace(record, **{relation.field: links}))

    replace_seen(keeper.kv, relation.holders.place(holder), keeper.ids, unlinked, seen)


def _live(table: Table[Any], id: str, rows: Mapping[Place, Row]) -> Any:
    record = table.read(id, rows.get(table.place(id), ABSENT))
    if record is ABSENT:
        raise table.not_found(id)
    return record


# ---- directory -----------------------------------------------------------------------------------

_ADMINS_AT_FIRST: Final = 10  # members that are read in the first request


def create_user(keeper: Keeper, id: str, email: str = "", friendly_name: str = "") -> User:
    """A user without groups, policies and keys.  Raises `AlreadyExists`, `Invalid`,
    `OutcomeUnknown`.  One request; two if a user with this id was deleted before."""
    _check_text("email", email)
    _check_text("friendly_name", friendly_name)
    now = keeper.clock.now_ns()
    user = User(id, keeper.ids.stamp().hex(), now, email, friendly_name)
    entities.create(keeper, USERS, user)
    return user


def disable_user(keeper: Keeper, id: str, by: str) -> None:
    """Refuse what proves the identity of a user from now on: its keys, its sessions, its external
    principals.  It keeps them.  `by`: the caller.

    Raises `NotFound`; `Conflict` for the caller itself, and for the last member of Admins that is
    not disabled; `Contended`, `OutcomeUnknown`.  3 requests; for a member of Admins 3 more, and 2
    for each thousand others that are disabled."""
    if id == by:
        raise Conflict(f"user cannot disable itself: {id=}: another administrator can")
    user = entities.get(keeper.kv, USERS, id)
    groups = [group.id for group in targets(keeper.kv, MEMBER, user)]
    if policies.ADMINS in groups:
        others = members(keeper.kv, policies.ADMINS, "", "", _ADMINS_AT_FIRST)
        if not any(other.id != id and not other.disabled for other in others):
            raise Conflict(f"user is the last member of {policies.ADMINS} who is enabled: {id=}")
    entities.update(keeper, USERS, id, lambda record: replace(record, disabled=True))


def enable_user(keeper: Keeper, id: str) -> None:
    """Accept again what proves the identity of a user.  Raises `NotFound`, `Contended`,
    `OutcomeUnknown`.  Two requests; one if it is not disabled."""
    entities.update(keeper, USERS, id, lambda record: replace(record, disabled=False))


def create_group(keeper: Keeper, id: str, description: str = "") -> Group:
    """A group without members and policies.  Errors and cost as for `create_user`."""
    _check_text("description", description)
    group = Group(id, keeper.ids.stamp().hex(), keeper.clock.now_ns(), description)
    entities.create(keeper, GROUPS, group)
    return group


def create_policy(keeper: Keeper, id: str, statement: list[Any]) -> Policy:
    """A policy that is attached to nobody.  Errors and cost as for `create_user`."""
    policies.check(statement)
    policy = Policy(id, keeper.ids.stamp().hex(), keeper.clock.now_ns(), statement)
    entities.create(keeper, POLICIES, policy)
    return policy


def update_policy(keeper: Keeper, id: str, statement: list[Any]) -> Policy:
    """Replace the statements of a policy, for all that it is attached to.  Raises `NotFound`,
    `Invalid`, `OutcomeUnknown`.  Two requests."""
    policies.check(statement)
    return entities.update(
        keeper, POLICIES, id, lambda policy: replace(policy, statement=statement)
    )


def _check_text(name: str, text: str) -> None:
    if len(text) > limits.entity_text_length_max or not (text.isprintable() or not text):
        raise Invalid(
            f"{name} invalid: it must have at most {limits.entity_text_length_max} printable "
            "characters"
        )
