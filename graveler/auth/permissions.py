"""A permission: the right to do one action on one resource.  Pure.

The HTTP layer resolves the permissions that an operation declares; `Authenticator.authorize`
decides whether a caller has them.
"""

from typing import NamedTuple


class Permission(NamedTuple):
    """An action on a resource.

    - `action`: its name, such as `fs:ReadObject`.
    - `resource`: an ARN, such as `arn:lakefs:fs:::repository/lake/object/a/b`.  In the declaration
      of an operation it is a template (api/templates.py).
    - `below`: the action concerns every resource whose name begins with `resource`.
    """

    action: str
    resource: str
    below: bool = False

    @property
    def pattern(self) -> str:
        """The resource as a policy names it: with a star for what is below."""
        return f"{self.resource}*" if self.below else self.resource
