"""Lines of the audit trail: who changed what, and who was denied what.

The lines of one caller in a minute are bounded.
"""

import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from graveler.audit import trail
from graveler.audit.trail import Line, Outcome
from graveler.auth import permissions
from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.auth.principals import Change
from graveler.core import limits
from graveler.core.errors import Code, GravelerError
from graveler.core.records import ABSENT, Absent
from graveler.http.service import Call, Service

_NAMESPACE: Final = permissions.resource("fs", "namespace/")
_USERINFO: Final = re.compile(r"//[^/]*@")
_HIDDEN: Final = "…"
_DENIALS: Final = (401, 403)
_NOTHING_APPLIED: Final = (Code.UNAVAILABLE, Code.STORAGE_FULL, Code.UNSUPPORTED)
_GONE: Final = 499
_MINUTE_SECONDS: Final = 60.0
_OTHERS: Final = "*"  # no user has this name


@dataclass(slots=True)
class RequestTrace:
    """What is known of a request so far.

    `arguments`: the parameters of its path.  `needed`: the permissions that it needs.
    `acting`: the user that the service found out without an account.  `code`: of the error with
    which it failed; empty for any other failure.  `missing`: the permission whose lack is the
    error; empty if the error is another.  `changes`: what the service has changed to identify the
    caller.

    The error itself is not kept: it refers to the calls that it went through, and these to the
    trace.  Such a cycle would keep the whole request, with its body, until Python's collector
    comes.
    """

    account: Caller | Literal[Absent.ABSENT] = ABSENT
    arguments: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[Permission, ...] = ()
    call: Call | Literal[Absent.ABSENT] = ABSENT
    acting: str = ""
    code: str = ""
    missing: str = ""
    changes: list[Change] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        """Note why the request failed."""
        if isinstance(error, GravelerError):
            self.code, self.missing = str(error.code), error.fields.get("missing", "")
        else:
            self.code = self.missing = ""

    def denied(self, status: int) -> bool:
        """Whether the caller was refused: also where the answer tells of nothing but absence."""
        return status in _DENIALS or (status == 404 and bool(self.missing))


@dataclass(slots=True)
class _Share:
    """What a caller has written in this minute: lines that are bounded, and bytes of resources."""

    lines: int = 0
    resources_bytes: int = 0


@dataclass(slots=True)
class AuditLog:
    """Writes the lines of one process."""

    service: Service
    _minute: float = field(default=float("-inf"))
    _shares: dict[str, _Share] = field(default_factory=dict)  # by user, in this minute
    _unrecorded: int = 0

    def record(
        self, operation: str, scope: MutableMapping[str, Any], trace: RequestTrace, status: int
    ) -> None:
        """Write the line of a request.  `status` 0: the service stops before there is an
        answer."""
        denied = trace.denied(status)
        call, account = trace.call, trace.account
        user, uid = trace.acting or (call.acting if call is not ABSENT else ""), ""
        if account is not ABSENT:
            user, uid = account.user, account.record.uid
        if not self._admits(user, denied=denied):
            self._unrecorded += 1
            return
        refused = call.refused if call is not ABSENT else []
        resources, left_out = self._fitted(user, _resources(trace, refused), denied=denied)
        if refused and not self._admits(user, denied=True):
            refused, left_out = [], left_out + len(refused)
        unrecorded, self._unrecorded = self._unrecorded, 0
        outcome = Outcome.DENIED if denied else _outcome(status, trace.code)
        line = self._line(
            *(scope, user, uid, operation, resources, outcome, status),
            code=trace.code,
            missing=_shown(trace.missing),
            unrecorded=unrecorded,
            left_out=left_out,
        )
        self.service.trail.write(line)
        if refused:  # the items of a batch that were denied, while others were not
            resources, left_out = self._fitted(user, _named(refused), denied=True)
            missing = _shown(f"{refused[0].action} on {refused[0].pattern}")
            denial = Line(
                *(line.time, line.request_id, user, uid, line.address, operation, resources),
                *(Outcome.DENIED, 403),
                missing=missing,
                left_out=left_out,
            )
            self.service.trail.write(denial)

    def record_changes(
        self, scope: MutableMapping[str, Any], trace: RequestTrace, status: int
    ) -> None:
        """Write a line for each change that the service has made to identify the caller."""
        for change in trace.changes:
            resources = tuple(map(_shown, change.resources))
            outcome = Outcome.DONE if change.done else Outcome.UNKNOWN
            what = (change.user, change.uid, change.operation, resources, outcome, status)
            self.service.trail.write(self._line(scope, *what))

    def _line(
        self,
        scope: MutableMapping[str, Any],
        user: str,
        uid: str,
        operation: str,
        resources: tuple[str, ...],
        outcome: Outcome,
        status: int,
        **more: Any,
    ) -> Line:
        time = trail.moment(self.service.ports.clock.now_ns())
        address = self.service.settings.front.client(scope)
        request_id = scope["graveler.request_id"]
        what = (user, uid, address, operation, resources, outcome, status)
        return Line(time, request_id, *what, **more)

    def _share(self, user: str) -> _Share:
        """What a user has written in this minute.  Very many users share one."""
        now = self.service.ports.clock.steady_seconds()
        if now - self._minute >= _MINUTE_SECONDS:
            self._minute = now
            self._shares.clear()
        if user not in self._shares and len(self._shares) >= limits.audit_callers_max:
            user = _OTHERS
        return self._shares.setdefault(user, _Share())

    def _admits(self, user: str, *, denied: bool) -> bool:
        """Whether a line of this user may be written: that of a change always may."""
        if user and not denied:
            return True
        settings, share = self.service.settings, self._share(user)
        if share.lines >= (settings.denied_lines_max if user else settings.unknown_lines_max):
            return False
        share.lines += 1
        return True

    def _fitted(
        self, user: str, resources: tuple[str, ...], *, denied: bool
    ) -> tuple[tuple[str, ...], int]:
        """The resources that a line may name, at least one, and the number of the others."""
        share = self._share(user)
        room = limits.audit_denied_resources_bytes_max
        if not denied:
            left = limits.audit_caller_resources_bytes_max - share.resources_bytes
            room = min(limits.audit_request_resources_bytes_max, left)
        count = spent = 0
        for resource in resources:
            size = len(resource.encode("utf-8", "replace"))
            if count and spent + size > room:
                break
            count, spent = count + 1, spent + size
        if not denied:
            share.resources_bytes += spent
        return resources[:count], len(resources) - count


def _outcome(status: int, code: str) -> Outcome:
    """A 503 that is not in doubt has changed nothing."""
    if 200 <= status < 400:
        return Outcome.DONE
    in_doubt = status == 500 or (status > 500 and code not in _NOTHING_APPLIED)
    return Outcome.UNKNOWN if status in (0, _GONE) or in_doubt else Outcome.FAILED


def _resources(trace: RequestTrace, refused: list[Permission]) -> tuple[str, ...]:
    """What the permissions name, but for refused items; else the repository of the path."""
    # What an operation checks item by item has no permissions of the whole request.
    granted = trace.call.granted if trace.call is not ABSENT else []
    resources = _named(trace.needed or granted, frozenset(refused))
    repository = trace.arguments.get("repository", "")
    if resources or refused or not repository:
        return resources
    return (_shown(permissions.resource("fs", f"repository/{repository}")),)


def _named(
    permissions: Iterable[Permission], apart: frozenset[Permission] = frozenset()
) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for permission in permissions:
        if permission not in apart:
            names[_shown(permission.pattern)] = None
    return tuple(names)


def _shown(text: str) -> str:
    """A resource as lines have it.

    Addresses of objects lose what may be secret: a user and a password, a query, and the signature
    behind a comma.
    """
    if _NAMESPACE in text:
        text = _USERINFO.sub("//", text.partition("?")[0])
        text = re.sub(r",[^/]*$", "," + _HIDDEN, text)
    return text if len(text) <= limits.audit_resource_length_max else (
        text[: limits.audit_resource_length_max] + _HIDDEN
    )  # fmt: skip
