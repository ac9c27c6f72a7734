"""Users that an identity provider knows: made at their first request, groups as their token says.

The subject of the token is an external principal (principals.py), so the name that the token gives
never decides who somebody is: it only names a user that is made.  A name that another user has is
refused.  For authenticator.py.
"""

from typing import Literal

from graveler.auth import entities, links, principals
from graveler.auth.changes import Change, created, regrouped, unless_done
from graveler.auth.entities import GROUPS, USERS, Link, Principal, User
from graveler.auth.keeper import Keeper
from graveler.auth.oidc import Claims
from graveler.auth.principals import Assignment
from graveler.errors import AlreadyExists, Invalid, Refused
from graveler.records import ABSENT, Absent


def user_of(keeper: Keeper, claims: Claims, changes: list[Change]) -> Assignment:
    """The user of a verified token.  What was changed for it, or may have been, is added to
    `changes`.

    A token that was issued before another one changes no groups, so an old token does not bring
    back what a newer one has taken.  Raises `Refused` if the name is not allowed or taken,
    `Contended`, `OutcomeUnknown`.  2 requests; 4 if the user is made.  For a newer token with a
    claim of groups also those of `links.set_groups`, and one if it names any.
    """
    known = principals.find(keeper.kv, [claims.principal])
    assignment = _made(keeper, claims, changes) if known is ABSENT else known
    _set_groups(keeper, assignment.user, claims, changes)
    return assignment


def _made(keeper: Keeper, claims: Claims, changes: list[Change]) -> Assignment:
    """A new user with its principal; or the one that an earlier attempt has made.  Of several
    attempts each one notes that has written something."""
    now = keeper.clock.now_ns()
    uid, epoch = keeper.ids.stamp().hex(), keeper.ids.stamp().hex()
    principal = Principal(claims.principal, epoch, now)
    user = User(claims.user, uid, now, claims.email, principals=(principal,))
    with unless_done(changes, [created(user.id, uid)]):
        is_new, user = _created(keeper, user, claims)
        principal = user.principal(claims.principal)
        try:
            principals.bind(keeper, user, principal)
        except AlreadyExists:  # another request of this caller was first
            is_bound = False
        else:
            is_bound = True
    if is_new or is_bound:
        changes.append(created(user.id, user.uid))
    return Assignment(principal, user, ())


def _created(keeper: Keeper, user: User, claims: Claims) -> tuple[bool, User]:
    """Whether the user is new, and its record.  Raises `Refused`."""
    try:
        principals.normal(claims.principal)
        entities.create(keeper, USERS, user)
    except Invalid as error:
        raise Refused(f"user of the token is not allowed: {error}") from error
    except AlreadyExists:
        known = entities.get(keeper.kv, USERS, claims.user)
        if _listed(known, claims.principal) is ABSENT:
            raise Refused("user of the token is not allowed: another user has this name") from None
        return False, known
    return True, user


def _listed(user: User, id: str) -> Principal | Literal[Absent.ABSENT]:
    return next((each for each in user.principals if each.id == id), ABSENT)


def _set_groups(keeper: Keeper, user: User, claims: Claims, changes: list[Change]) -> None:
    """Make the groups of the user those of the token, if it is a newer one.  Those of a user that
    is disabled stay."""
    if user.disabled or claims.groups is ABSENT or claims.issued <= user.groups_at:
        return
    places = [GROUPS.place(name) for name in claims.groups]
    rows = keeper.kv.get_many(places) if places else {}
    records = [GROUPS.read(name, rows.get(GROUPS.place(name), ABSENT)) for name in claims.groups]
    groups = [group for group in records if group is not ABSENT]
    names = [group.id for group in groups]
    with unless_done(changes, regrouped(user.id, user.uid, _names(user.groups), names)):
        before = links.set_groups(keeper, user, groups, claims.issued)
    if before is not ABSENT:
        changes += regrouped(user.id, user.uid, _names(before), names)


def _names(groups: tuple[Link, ...]) -> list[str]:
    return [link.id for link in groups]
