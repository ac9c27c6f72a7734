"""Who sent a request, what it may do, and the error for what it may not.

For authenticator.py, api/ and gateway/.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graveler.auth import arns, policies
from graveler.auth.entities import User
from graveler.auth.permissions import Permission
from graveler.auth.policies import Rights
from graveler.errors import Code, NotFound, Refused


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that sent a request, and its rights.  `address` returns the sender's address."""

    record: User
    rights: Rights
    address: Callable[[], str]

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
    return Permission("fs:ReadRepository", arns.resource("fs", f"repository/{repository}"))
