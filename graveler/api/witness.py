"""Makes the audit lines of requests.  Nothing else does.

    declared operation, caller, permissions, answer ──► witness ──► trail (audit/)

A request has a line if its operation is declared to change something (`Operation.audited`), or if
it was denied: 401, 403, or the 404 of a repository that the caller may not see.  Any other request
costs three comparisons.

What the service changes itself to identify a caller has lines of its own, whatever the request is:
a user that a token has made, and groups that it has changed (auth/principals.py).

The line is written before the answer is sent.  Its request id is the one in the answer.

Nobody can fill the trail.  In each process, unknown callers together have
`ServiceSettings.unknown_lines_max` lines a minute, and each known caller
`ServiceSettings.denied_lines_max` lines of denials; the next line tells how many requests have
none.  The resources that the lines of one request, and those of one caller in a minute, name are
bounded too; the line tells how many it leaves out.

Only the thread of the event loop calls this.  Used by dispatch.py and pages.py.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, Literal

from graveler import limits
from graveler.api.service import Call, Service
from graveler.audit import trail
from graveler.audit.trail import Line, Outcome
from graveler.auth import permissions
from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.auth.principals import Change
from graveler.errors import Code, GravelerError
from graveler.records import ABSENT, Absent

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
class Witness:
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
        user, uid = _who(trace)
        if not self._admits(user, denied=denied):
            self._unrecorded += 1
            return
        refused = trace.call.refused if trace.call is not ABSENT else []
        resources, left_out = self._fitted(user, _resources(trace, refused), denied=denied)
        if refused and not self._admits(user, denied=True):
            refused, left_out = [], left_out + len(refused)
        unrecorded, self._unrecorded = self._unrecorded, 0
        line = Line(
            time=self._moment(),
            request_id=self._request_id(scope),
            user=user,
            uid=uid,
            address=self.service.settings.front.client(scope),
            operation=operation,
            resources=resources,
            outcome=Outcome.DENIED if denied else _outcome(status, trace.code),
            status=status,
            code=trace.code,
            missing=_shown(trace.missing),
            unrecorded=unrecorded,
            left_out=left_out,
        )
        self.service.trail.write(line)
        if refused:
            self._record_refused(line, refused)

    def record_changes(
        self, scope: MutableMapping[str, Any], trace: RequestTrace, status: int
    ) -> None:
        """Write a line for each change that the service has made to identify the caller."""
        for each in trace.changes:
            line = Line(
                time=self._moment(),
                request_id=self._request_id(scope),
                user=each.user,
                uid=each.uid,
                address=self.service.settings.front.client(scope),
                operation=each.operation,
                resources=tuple(map(_shown, each.resources)),
                outcome=Outcome.DONE if each.done else Outcome.UNKNOWN,
                status=status,
            )
            self.service.trail.write(line)

    def _moment(self) -> str:
        return trail.moment(self.service.ports.clock.now_ns())

    def _request_id(self, scope: MutableMapping[str, Any]) -> str:
        """The id of the request, which its answer has as well."""
        id: str = scope.get("graveler.request_id") or self.service.ports.ids.stamp().hex()
        scope["graveler.request_id"] = id
        return id

    def _record_refused(self, line: Line, refused: list[Permission]) -> None:
        """The items of a batch that were denied, while others were not."""
        first = refused[0]
        resources, left_out = self._fitted(line.user, _named(refused), denied=True)
        self.service.trail.write(
            Line(
                line.time,
                line.request_id,
                line.user,
                line.uid,
                line.address,
                line.operation,
                resources,
                Outcome.DENIED,
                403,
                missing=_shown(f"{first.action} on {first.pattern}"),
                left_out=left_out,
            )
        )

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
        ends = list(accumulate(len(each.encode("utf-8", "replace")) for each in resources))
        count = max(min(1, len(ends)), bisect_right(ends, room))
        if count and not denied:
            share.resources_bytes += ends[count - 1]
        return resources[:count], len(resources) - count


def _who(trace: RequestTrace) -> tuple[str, str]:
    """The id and the uid of the caller, as far as the service has checked them."""
    if trace.account is not ABSENT:
        return trace.account.user, trace.account.record.uid
    return trace.acting or (trace.call.acting if trace.call is not ABSENT else ""), ""


def _outcome(status: int, code: str) -> Outcome:
    """A 503 that is not in doubt has changed nothing."""
    if 200 <= status < 400:
        return Outcome.DONE
    in_doubt = status == 500 or (status > 500 and code not in _NOTHING_APPLIED)
    return Outcome.UNKNOWN if status in (0, _GONE) or in_doubt else Outcome.FAILED


def _resources(trace: RequestTrace, refused: list[Permission]) -> tuple[str, ...]:
    """What the permissions name, but for refused items; else the repository of the path."""
    apart = frozenset(refused)
    # What an operation checks item by item has no permissions of the whole request.
    granted = trace.call.granted if trace.call is not ABSENT else []
    resources = _named(each for each in trace.needed or granted if each not in apart)
    repository = trace.arguments.get("repository", "")
    if resources or apart or not repository:
        return resources
    return (_shown(permissions.resource("fs", f"repository/{repository}")),)


def _named(permissions: Iterable[Permission]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_shown(each.pattern) for each in permissions))


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
