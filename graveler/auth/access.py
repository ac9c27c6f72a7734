"""What a process knows about callers: their records and what their policies say together.

    user ──► groups ──► policies ──► rights       3 requests at first, then 1 for each refresh

A view is at most `limits.access_seconds_max` old.  A refresh reads in one request all rows that the
view was made from.  A change through this process discards views at once (`forget`); a view whose
reading began before the change is not kept.  Thread-safe: threads only replace whole values.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler.auth import directory, permissions, policies
from graveler.auth.directory import MEMBER, OF_GROUP, OF_USER
from graveler.auth.entities import GROUPS, POLICIES, USERS, Group, Link, Policy, User
from graveler.auth.permissions import Permission
from graveler.auth.policies import Rights
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Code, NotFound, Refused
from graveler.core.records import ABSENT, Absent
from graveler.kv.store import Place, Row, Store


class Caller(NamedTuple):
    """The user that sent a request, and its rights.  `address` returns the sender's address;
    `epoch`: that of the credential that it proved to have."""

    record: User
    rights: Rights
    address: Callable[[], str]
    epoch: str = ""

    @property
    def user(self) -> str:
        """The id of the user."""
        return self.record.id

    @property
    def email(self) -> str:
        return self.record.email

    @property
    def created_ns(self) -> int:
        return self.record.created_ns

    def lacks(self, needed: Sequence[Permission]) -> tuple[Permission, ...]:
        """The permissions of `needed` that the caller does not have.  No request."""
        return policies.missing(self.rights, needed, self._address())

    def may_some(self, permission: Permission) -> bool:
        """Whether the caller may have the permission for something below its resource.  No
        request."""
        return self.rights.allow_some(permission, self._address())

    def is_denied(self, permission: Permission) -> bool:
        """Whether a deny concerns the permission, whatever is allowed.  No request."""
        return self.rights.deny(permission, self._address())

    def _address(self) -> str:
        return self.address() if self.rights.conditional else ""


def denial(caller: Caller, missing: Permission, repository: str) -> NotFound | Refused:
    """The error for a caller that lacks a permission: that there is no such `repository`, if the
    request names one that the caller may not see.  No request."""
    if repository and caller.lacks((seeing(repository),)):
        return NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, missing=_text(missing))
    return refusal(missing)


def refusal(missing: Permission) -> Refused:
    """The error for a caller that lacks a permission, which its field `missing` names.  Pure."""
    return Refused(f"permission missing: {_text(missing)}", missing=_text(missing))


def _text(missing: Permission) -> str:
    return f"{missing.action} on {missing.pattern}"


def seeing(repository: str) -> Permission:
    """The permission without which a repository does not exist for a caller.  Pure."""
    return Permission("fs:ReadRepository", permissions.resource("fs", f"repository/{repository}"))


# ---- access --------------------------------------------------------------------------------------

_LOG: Final = logging.getLogger("graveler.auth")
_VIEWS_MAX: Final = 2_048
_AGAIN_SECONDS: Final = 1.0


class View(NamedTuple):
    """A user and its rights, as of `read_at` on the steady clock.  `rows`: what they come from."""

    user: User | Literal[Absent.ABSENT]
    rights: Rights
    rows: Mapping[Place, Row]
    places: Sequence[Place]
    read_at: float


class Access:
    """The views of callers."""

    def __init__(self, kv: Store, clock: Clock) -> None:
        self._kv = kv
        self._clock = clock
        self._views: dict[str, View] = {}
        self._renewed: dict[str, float] = {}
        self._lock = threading.Lock()

    def view(self, user: str) -> View:
        """The view of a user, which may not exist.  Raises `Corrupt`, `Unavailable`.  No request
        with a fresh view."""
        views = self._views
        known, now = views.get(user), self._clock.steady_seconds()
        if known is not None and now - known.read_at < limits.access_seconds_max:
            return known
        fresh = _read(self._kv, user, known, now)
        if fresh.user is not ABSENT and fresh.user.disabled:
            _LOG.warning("user is disabled, so its credentials are refused: user=%r", user)
        if len(views) >= _VIEWS_MAX:
            with self._lock:
                if views is self._views:
                    views = self._views = {}
        views[user] = fresh  # after `forget` these are no longer the views that count
        return fresh

    def forget(self, user: str = "") -> None:
        """Discard all views, because a user, a group or a policy has changed; or only the view of
        `user`, because nothing but its own record has."""
        with self._lock:
            self._drop(user)

    def renew(self, user: str) -> None:
        """Discard the view of a user that seems to lack a change, unless that was done within the
        last second.  So who repeats a key or a session that has ended costs others nothing."""
        now = self._clock.steady_seconds()
        with self._lock:
            if now - self._renewed.get(user, float("-inf")) < _AGAIN_SECONDS:
                return
            if len(self._renewed) >= _VIEWS_MAX:
                self._renewed = {}
            self._renewed[user] = now
            self._drop(user)

    def _drop(self, user: str) -> None:
        views = self._views.copy() if user else {}
        views.pop(user, None)
        self._views = views


def effective(kv: Store, user: User) -> list[Policy]:
    """The policies of a user and of its groups, by id.  At most 2 requests."""
    rows = _Rows(kv)
    return _effective(rows, user)


class _Rows:
    """Rows that were read.  `need` fetches those that are not here yet, in one request."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv
        self.rows: dict[Place, Row] = {}
        self.places: list[Place] = []
        self._asked: set[Place] = set()

    def need(self, places: Iterable[Place]) -> Mapping[Place, Row]:
        fresh = [place for place in dict.fromkeys(places) if place not in self._asked]
        if fresh:
            self.rows.update(self._kv.get_many(fresh))
            self.places += fresh
            self._asked.update(fresh)
        return self.rows


def _read(kv: Store, id: str, known: View | None, now: float) -> View:
    rows = _Rows(kv)
    place = USERS.place(id)
    rows.need([place, *(known.places if known else ())])
    user = USERS.read(id, rows.rows.get(place, ABSENT))
    if user is ABSENT:
        return View(ABSENT, Rights(), {}, (), now)
    attached_policies = _effective(rows, user)
    if known and known.rows == rows.rows:
        return View(known.user, known.rights, known.rows, known.places, now)
    rights = policies.rights(id, {policy.id: policy.statement for policy in attached_policies})
    return View(user, rights, rows.rows, tuple(rows.places), now)


def _effective(rows: _Rows, user: User) -> list[Policy]:
    rows.need([*map(_group, user.groups), *map(_policy, user.policies)])
    groups: list[Group] = directory.existing(MEMBER, user.groups, rows.rows)
    attached = [link for group in groups for link in group.policies]
    rows.need(map(_policy, attached))
    held = directory.existing(OF_USER, user.policies, rows.rows)
    held += directory.existing(OF_GROUP, tuple(attached), rows.rows)
    return sorted({policy.id: policy for policy in held}.values(), key=lambda each: each.id)


def _group(link: Link) -> Place:
    return GROUPS.place(link.id)


def _policy(link: Link) -> Place:
    return POLICIES.place(link.id)
