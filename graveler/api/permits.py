"""Permissions that an endpoint itself checks, because only some requests of the operation need
them, or because each item of a batch has its own answer.

The declaration names those of the first kind (`conditional`), for readers; all others are declared
as `permissions`, and checked by `authorize` before the endpoint runs.  Used by dispatch.py, the
endpoints and the S3 gateway.
"""

from collections.abc import Sequence
from typing import Final

from graveler.api.service import Call, Service
from graveler.auth import permissions
from graveler.auth.access import Caller, refusal
from graveler.auth.permissions import Permission
from graveler.records import ABSENT

_DECISION_WEIGHT_MAX: Final = 5_000  # about two milliseconds on the event loop


async def authorize(
    service: Service, caller: Caller, needed: Sequence[Permission], repository: str = ""
) -> None:
    """Check permissions: on the event loop, unless the policies of the caller are such that it
    would keep others waiting.  `repository` and errors: as for `Authenticator.authorize`."""
    decide = service.auth.authorize
    if caller.rights.weight * len(needed) <= _DECISION_WEIGHT_MAX:
        decide(caller, needed, repository)
    else:
        await service.pools.writers.start(decide, caller, needed, repository)


def lacks(call: Call, action: str, path: str) -> bool:
    """Whether the caller lacks the permission for `action` on `path` of the repository.  The audit
    trail gets `path` as an item of a batch that was denied, or that was let through."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    permission = _permission(call, action, path)
    is_refused = bool(call.account.lacks((permission,)))
    (call.refused if is_refused else call.granted).append(permission)
    return is_refused


def require(call: Call, action: str, path: str = "") -> None:
    """Check the permission for `action` on the repository, or on `path` of it.  Raises `Refused`,
    and `NotFound` if the caller may not see the repository."""
    require_each(call, _permission(call, action, path))


def require_below(call: Call, action: str, path: str) -> None:
    """Check the permission for `action` on everything of the repository whose name begins with
    `path`.  Errors as for `require`."""
    require_each(call, _permission(call, action, path)._replace(below=True))


def require_each(call: Call, *needed: Permission) -> None:
    """Check permissions.  Errors as for `require`."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    call.service.auth.authorize(call.account, needed, call.arguments["repository"])


def refuse_denied_below(call: Call, action: str, resource: str) -> None:
    """Raises `Refused` if a deny concerns the action on anything whose name begins with
    `resource`, an ARN, whatever is allowed."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    permission = Permission(action, resource, below=True)
    if call.account.is_denied(permission):
        raise refusal(permission)


def _permission(call: Call, action: str, path: str) -> Permission:
    name = f"repository/{call.arguments['repository']}"
    return Permission(action, permissions.resource("fs", f"{name}/{path}" if path else name))
