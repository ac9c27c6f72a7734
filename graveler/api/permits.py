"""Permissions that an endpoint itself checks, because only some requests of the operation need
them, or because each item of a batch has its own answer.

All others are declared with the operation, and dispatch checks them.  Used by the endpoints.
"""

from graveler.api.service import Call
from graveler.auth import arns
from graveler.auth.permissions import Permission
from graveler.records import ABSENT


def lacks(call: Call, action: str, path: str) -> bool:
    """Whether the caller lacks the permission for `action` on `path` of the repository."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    return bool(call.account.lacks((_permission(call, action, path),)))


def require(call: Call, action: str, path: str = "") -> None:
    """Check the permission for `action` on the repository, or on `path` of it.  Raises `Refused`,
    and `NotFound` if the caller may not see the repository."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    needed = (_permission(call, action, path),)
    call.service.auth.authorize(call.account, needed, call.arguments["repository"])


def _permission(call: Call, action: str, path: str) -> Permission:
    name = f"repository/{call.arguments['repository']}"
    return Permission(action, arns.resource("fs", f"{name}/{path}" if path else name))
