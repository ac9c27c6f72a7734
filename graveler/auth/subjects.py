"""Users that an identity provider knows: made at their first request, groups as their token says.

The subject of the token is an external principal (principals.py), so the name that the token gives
never decides who somebody is: it only names a user that is made.  A name that another user has is
refused.  For authenticator.py.
"""

from contextlib import suppress
from typing import Literal

from graveler.auth import entities, links, principals
from graveler.auth.entities import GROUPS, USERS, Principal, User
from graveler.auth.keeper import Keeper
from graveler.auth.oidc import Claims
from graveler.auth.principals import Assignment
from graveler.errors import AlreadyExists, Invalid, Refused
from graveler.records import ABSENT, Absent


def user_of(keeper: Keeper, claims: Claims) -> tuple[Assignment, bool]:
    """The user of a verified token, and whether anything was changed for it.

    A token that was issued before another one changes no groups, so an old token does not bring
    back what a newer one has taken.  Raises `Refused` if the name is not allowed or taken,
    `Contended`, `OutcomeUnknown`.  2 requests; 4 if the user is made.  For a newer token with a
    claim of groups also those of `links.set_groups`, and one if it names any.
    """
    known = principals.find(keeper.kv, [claims.principal])
    assignment = _made(keeper, claims) if known is ABSENT else known
    return assignment, _set_groups(keeper, assignment.user, claims) or known is ABSENT


def _made(keeper: Keeper, claims: Claims) -> Assignment:
    """A new user with its principal; or the one that an earlier attempt has made."""
    now = keeper.clock.now_ns()
    uid, epoch = keeper.ids.stamp().hex(), keeper.ids.stamp().hex()
    principal = Principal(claims.principal, epoch, now)
    user = User(claims.user, uid, now, claims.email, principals=(principal,))
    try:
        principals.normal(claims.principal)
        entities.create(keeper, USERS, user)
    except Invalid as error:
        raise Refused(f"user of the token is not allowed: {error}") from error
    except AlreadyExists:
        user = entities.get(keeper.kv, USERS, claims.user)
        if _listed(user, claims.principal) is ABSENT:
            raise Refused("user of the token is not allowed: another user has this name") from None
    principal = user.principal(claims.principal)
    with suppress(AlreadyExists):  # another request of this caller was first
        principals.bind(keeper, user, principal)
    return Assignment(principal, user, ())


def _listed(user: User, id: str) -> Principal | Literal[Absent.ABSENT]:
    return next((each for each in user.principals if each.id == id), ABSENT)


def _set_groups(keeper: Keeper, user: User, claims: Claims) -> bool:
    """Whether the groups of the user are new, as those of the token are."""
    if claims.groups is ABSENT or claims.issued <= user.groups_at:
        return False
    places = [GROUPS.place(name) for name in claims.groups]
    rows = keeper.kv.get_many(places) if places else {}
    records = [GROUPS.read(name, rows.get(GROUPS.place(name), ABSENT)) for name in claims.groups]
    groups = [group for group in records if group is not ABSENT]
    return links.set_groups(keeper, user, groups, claims.issued)
